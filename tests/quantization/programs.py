"""Programs with quantised numbers. Each gives what is compared: integers and scales exactly.

`show` makes plain data of tensors; the programs run where `torch` is PyTorch (to be recorded) and
where it is this package.
"""

from __future__ import annotations

import warnings

import torch
import torch.ao.quantization as aq

warnings.simplefilter("ignore")
quantized = torch.ops.quantized
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def show(value):
    if isinstance(value, torch.Tensor):
        if value.is_quantized:
            said = {"dtype": str(value.dtype), "ints": value.int_repr().tolist()}
            if "per_tensor" in str(value.qscheme()):
                said["scale"] = [value.q_scale(), value.q_zero_point()]
            else:
                scales, starts = value.q_per_channel_scales(), value.q_per_channel_zero_points()
                said["scale"] = [scales.tolist(), starts.tolist()]
            return said
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [show(each) for each in value]
    if isinstance(value, dict):
        return {str(key): show(each) for key, each in value.items()}
    return value if isinstance(value, (int, float, str, bool, type(None))) else repr(value)


def run(name):
    torch.manual_seed(0)
    return show(PROGRAMS[name]())


def q8(*shape, scale=0.05, zero_point=60, dtype=torch.quint8):
    return torch.quantize_per_tensor(torch.randn(*shape), scale, zero_point, dtype)


def weights(*shape, by_channel=True):
    w = torch.randn(*shape) * 0.3
    if not by_channel:
        return torch.quantize_per_tensor(w, 0.01, 0, torch.qint8)
    scales = torch.rand(shape[0]).double() * 0.01 + 0.004
    zeros = torch.zeros(shape[0], dtype=torch.long)
    return torch.quantize_per_channel(w, scales, zeros, 0, torch.qint8)


# -- tensors ---------------------------------------------------------------------------------------


@program
def rounding_of_ties():
    x = torch.tensor([0.25, 0.5, 0.75, 1.25, -0.25, -0.75, 2.5, 3.5, 1e9, -1e9])
    return [torch.quantize_per_tensor(x, 0.5, z, torch.quint8) for z in (0, 1, 2, 127, 255)]


@program
def add():
    a, b = q8(7, 33), q8(7, 33, scale=0.031, zero_point=100)
    return [
        quantized.add(a, b, 0.1, 30), quantized.add_relu(a, b, 0.043, 12),
        quantized.add(a, a, 0.05, 60), quantized.add(a, a, 0.1, 60),
    ]  # fmt: skip


@program
def add_scalar():
    a = q8(5, 9)
    return [
        quantized.add_scalar(a, s) for s in (0.5, -0.5, 7.0, -20.0, 0)
    ] + [quantized.add_scalar_relu(a, s) for s in (0.5, -0.5, 7.0, -20.0)]  # fmt: skip


@program
def mul():
    a, b = q8(7, 33), q8(7, 33, scale=0.031, zero_point=100)
    return [
        quantized.mul(a, b, 0.1, 30), quantized.mul_relu(a, b, 0.043, 12),
        quantized.mul(a, a, 0.05, 60),
    ]  # fmt: skip


@program
def mul_scalar():
    a = q8(5, 9)
    return [quantized.mul_scalar(a, s) for s in (0.5, -0.5, 3.0, 0)] + [
        quantized.mul_scalar_relu(a, s) for s in (0.5, -2.0)
    ]


@program
def other_forms():
    a = q8(5, 9)

    def empty():
        return torch._empty_affine_quantized([5, 9], scale=0.1, zero_point=30, dtype=torch.quint8)

    packed = quantized.linear_prepack(weights(4, 9), torch.ones(4))
    conv = quantized.conv2d_prepack(weights(6, 4, 3, 3), None, [1, 1], [1, 1], [1, 1], 1)
    image = q8(1, 4, 5, 5)
    x = torch.randn(3, 9)
    return [
        quantized.add_out(a, a, empty()), quantized.mul_out(a, a, empty()),
        quantized.add(0.5, a), quantized.mul(-2, a), quantized.add_relu(a, 0.25),
        quantized.cat_out([a[:2], a[2:]], 0, empty()),
        quantized.conv2d(image, conv, [1, 1], [1, 1], [1, 1], 1, 0.1, 60),
        quantized.linear_with_input_q_dq_qweight_dq_output_fp32(x, 0.04, 50, packed),
        quantized.linear_dynamic_fp16_unpacked_weight(x, torch.randn(4, 9), None),
    ]  # fmt: skip


@program
def signed_numbers():
    a, b = q8(40, dtype=torch.qint8, zero_point=-3), q8(40, dtype=torch.qint8, zero_point=5)
    return [quantized.add(a, b, 0.1, 1), quantized.mul(a, b, 0.1, 1), quantized.mul_scalar(a, -2)]


@program
def cat():
    a, b = q8(3, 5), q8(3, 5, scale=0.031, zero_point=100)
    return [
        quantized.cat([a, b], dim=1, scale=0.07, zero_point=44),
        quantized.cat_relu([a, b], dim=0, scale=0.07, zero_point=44),
        quantized.cat([a, b], 0, None, None), torch.cat([a, a]),
    ]  # fmt: skip


@program
def matmul():
    a, b = q8(2, 3, 4), q8(2, 4, 5, scale=0.031, zero_point=100)
    return quantized.matmul(a, b, 0.1, 90)


@program
def activations():
    a = q8(6, 40)
    return [
        quantized.relu6(a), quantized.leaky_relu(a, 0.1, False, 0.04, 20),
        quantized.elu(a, 0.04, 20), quantized.elu(a, 0.04, 20, 1.5),
        quantized.celu(a, 0.04, 20, 1.3), quantized.hardswish(a, 0.02, 9),
        quantized.sigmoid(a, 1 / 256, 0), quantized.sigmoid(a, 0.007, 3),
        quantized.threshold(a, 0.3, 0.1), quantized.clamp(a, -0.5, 1.2),
        quantized.softmax(a, 1, 1 / 256, 0), quantized.dropout(a, 0.1, 0),
    ]  # fmt: skip


@program
def aten_activations():
    a = q8(6, 40)
    b = q8(6, 40, dtype=torch.qint8, zero_point=2)
    out = []
    for x in (a, b):
        out += [
            torch.relu(x), torch.sigmoid(x), torch.tanh(x), torch.nn.functional.hardsigmoid(x),
            torch.nn.functional.hardtanh(x), torch.nn.functional.leaky_relu(x, 0.2),
            torch.clamp(x, -1, 1), torch.nn.functional.relu6(x),
        ]  # fmt: skip
    return out


@program
def prelu():
    a = q8(2, 3, 4)
    w = torch.quantize_per_tensor(torch.rand(3), 0.01, 0, torch.quint8)
    return quantized.prelu(a, w, 0.04, 33)


@program
def pooling():
    a = q8(2, 3, 8, 8)
    F = torch.nn.functional
    return [
        F.max_pool2d(a, 2), F.max_pool2d(a, 3, 2, 1), F.avg_pool2d(a, 2), F.avg_pool2d(a, 3, 2, 1),
        F.adaptive_avg_pool2d(a, 1), F.adaptive_avg_pool2d(a, (3, 2)), F.max_pool1d(a[0], 2),
        F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), F.adaptive_avg_pool2d(a, (8, 8)),
        quantized.max_pool2d(a, [2, 2], [2, 2], [0, 0], [1, 1], False),
    ]  # fmt: skip


@program
def pooling_in_three_dimensions():
    a = q8(2, 3, 4, 4, 4)
    F = torch.nn.functional
    return [F.avg_pool3d(a, 2), F.adaptive_avg_pool3d(a, 1)]


@program
def means():
    a = q8(2, 3, 8, 8)
    return [a.mean([2, 3]), a.mean([2, 3], keepdim=True), torch.mean(a), a.mean(1)]


@program
def interpolation():
    a = q8(1, 2, 4, 4)
    F = torch.nn.functional
    return [
        F.interpolate(a, scale_factor=2), F.interpolate(a, size=(6, 7), mode="bilinear"),
        F.interpolate(a, size=(7, 5), mode="bilinear", align_corners=True),
        F.interpolate(a, size=(3, 5), mode="nearest"),
    ]  # fmt: skip


@program
def views():
    a = q8(4, 6)
    return [
        a[1], a[:, 2:4], a.t(), a.view(2, 12), a.reshape(-1), a.transpose(0, 1).contiguous(),
        a.unsqueeze(0), a.permute(1, 0), torch.flatten(a), a.chunk(2, 1), torch.split(a, 3, 1),
        a.clone(), a[..., ::2], a[a.dequantize()[:, 0] > 0],
    ]  # fmt: skip


@program
def comparing():
    a, b = q8(12), q8(12, scale=0.031, zero_point=100)
    return [
        a == b, a < b, a > 0, a.max(), a.min(), torch.equal(a, a.clone()), torch.equal(a, b),
        a.sort(), a.topk(3), torch.ne(a, b), a.max(0),
    ]  # fmt: skip


@program
def printing():
    a = q8(2, 3)
    return [repr(a), repr(weights(2, 3)), repr(a[0]), a.type(), str(a.qscheme()), repr(a[0, 0])]


@program
def copies():
    a = q8(2, 3)
    b = torch._empty_affine_quantized([2, 3], scale=0.1, zero_point=3, dtype=torch.quint8)
    b.copy_(a)
    c = torch._empty_affine_quantized([2, 3], scale=0.1, zero_point=3, dtype=torch.quint8)
    c.copy_(torch.ones(2, 3))
    return [b, c, a.detach(), a.element_size(), a.numel(), a.is_contiguous()]


# -- linear ----------------------------------------------------------------------------------------


def linear_with(by_channel, bias, n_in=37):
    w = weights(20, n_in, by_channel=by_channel)
    b = torch.randn(20) if bias else None
    packed = quantized.linear_prepack(w, b)
    x = q8(11, n_in)
    return [
        quantized.linear(x, packed, 0.12, 70), quantized.linear_relu(x, packed, 0.08, 3),
        quantized.linear_unpack(packed)[0],
    ]  # fmt: skip


@program
def linear_by_channel():
    return linear_with(True, True)


@program
def linear_by_tensor():
    return linear_with(False, True)


@program
def linear_without_bias():
    return linear_with(True, False) + linear_with(False, False)


@program
def linear_of_long_rows():
    return linear_with(True, True, n_in=700)[:2]


@program
def linear_dynamic():
    packed = quantized.linear_prepack(weights(20, 37), torch.randn(20))
    x = torch.randn(11, 37)
    return [
        quantized.linear_dynamic(x, packed), quantized.linear_dynamic(x, packed, True),
        quantized.linear_relu_dynamic(x, packed, True),
        quantized.linear_dynamic(x[None], packed, True),
    ]  # fmt: skip


@program
def linear_fp16():
    packed = quantized.linear_prepack_fp16(torch.randn(20, 37), torch.randn(20))
    return quantized.linear_dynamic_fp16(torch.randn(11, 37), packed)


# -- convolutions ----------------------------------------------------------------------------------


def conv_with(dims, groups=1, stride=1, padding=0, dilation=1, bias=True, by_channel=True, c=4):
    w = weights(6, c // groups, *[3] * dims, by_channel=by_channel)
    b = torch.randn(6) if bias else None
    places = [[value] * dims for value in (stride, padding, dilation)]
    packed = getattr(quantized, f"conv{dims}d_prepack")(w, b, *places, groups)
    x = q8(2, c, *[7] * dims)
    return [
        getattr(quantized, f"conv{dims}d")(x, packed, 0.09, 64),
        getattr(quantized, f"conv{dims}d_relu")(x, packed, 0.05, 2),
    ]


@program
def conv1d():
    return conv_with(1, padding=1) + conv_with(1, stride=2, bias=False)


@program
def conv2d():
    return conv_with(2) + conv_with(2, padding=1, stride=2)


@program
def conv2d_groups():
    return conv_with(2, groups=2, padding=1) + conv_with(2, dilation=2, padding=2, bias=False)


@program
def conv2d_by_tensor():
    return conv_with(2, by_channel=False) + conv_with(2, by_channel=False, bias=False)


@program
def conv2d_of_many_channels():
    return conv_with(2, c=64)


@program
def conv3d():
    return conv_with(3, padding=1)


@program
def conv2d_depthwise():
    w = weights(4, 1, 3, 3)
    packed = quantized.conv2d_prepack(w, torch.randn(4), [1, 1], [1, 1], [1, 1], 4)
    return quantized.conv2d(q8(2, 4, 7, 7), packed, 0.09, 64)


@program
def conv_transpose():
    out = []
    for dims in (1, 2):
        w = weights(4, 5, *[3] * dims, by_channel=False)
        pack = getattr(quantized, f"conv_transpose{dims}d_prepack")
        places = [[2] * dims, [1] * dims, [1] * dims, [1] * dims]
        packed = pack(w, torch.randn(5), *places, 1)
        out.append(
            getattr(quantized, f"conv_transpose{dims}d")(q8(2, 4, *[5] * dims), packed, 0.09, 64)
        )
    return out


@program
def conv_dynamic():
    packed = quantized.conv2d_prepack(
        weights(6, 4, 3, 3), torch.randn(6), [1, 1], [1, 1], [1, 1], 1
    )
    return quantized.conv2d_dynamic(torch.randn(2, 4, 6, 6), packed, True)


@program
def conv_facts():
    packed = quantized.conv2d_prepack(weights(6, 4, 3, 3), None, [2, 1], [1, 0], [1, 2], 1)
    return [
        packed.stride(), packed.padding(), packed.dilation(), packed.groups(), packed.transpose(),
        quantized.conv2d_unpack(packed)[0], quantized.conv2d_stride(packed),
    ]  # fmt: skip


# -- norms -----------------------------------------------------------------------------------------


@program
def batch_norm():
    x = q8(2, 3, 5, 5)
    given = torch.rand(3), torch.randn(3), torch.randn(3) * 0.1, torch.rand(3) + 0.5, 1e-5
    return [
        quantized.batch_norm2d(x, *given, 0.06, 77),
        quantized.batch_norm2d_relu(x, *given, 0.06, 7),
        quantized.batch_norm3d(q8(2, 3, 3, 3, 3), *given, 0.06, 77),
    ]  # fmt: skip


@program
def layer_norm():
    x = q8(5, 33)
    return [
        quantized.layer_norm(x, [33], torch.randn(33), torch.randn(33), 1e-5, 0.05, 90),
        quantized.layer_norm(x, [33], None, None, 1e-5, 0.05, 90),
    ]


@program
def group_norm():
    x = q8(2, 6, 5, 5)
    return [
        quantized.group_norm(x, 3, torch.randn(6), torch.randn(6), 1e-5, 0.05, 90),
        quantized.instance_norm(x, torch.randn(6), torch.randn(6), 1e-5, 0.05, 90),
    ]


# -- embeddings ------------------------------------------------------------------------------------


def rows_of(dtype):
    w = torch.randn(10, 12)
    observer = aq.PerChannelMinMaxObserver(
        dtype=dtype, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0
    )
    observer(w)
    scale, zero_point = observer.calculate_qparams()
    return torch.quantize_per_channel(w, scale, zero_point, 0, dtype)


@program
def embedding_byte():
    packed = quantized.embedding_bag_prepack(rows_of(torch.quint8))
    i = torch.tensor([1, 3, 3, 9, 0])
    return [
        quantized.embedding_byte(packed, i),
        quantized.embedding_bag_byte(packed, i, torch.tensor([0, 2, 4])),
        quantized.embedding_bag_byte(packed, i.view(1, 5)),
    ]


@program
def embedding_4bit():
    packed = quantized.embedding_bag_prepack(rows_of(torch.quint4x2))
    i = torch.tensor([1, 3, 3, 9, 0])
    return [
        quantized.embedding_4bit(packed, i),
        quantized.embedding_bag_4bit(packed, i, torch.tensor([0, 2, 4])),
    ]


@program
def embedding_rows():
    packed = quantized.embedding_bag_byte_prepack(torch.randn(6, 8))
    return [
        packed, quantized.embedding_bag_byte_unpack(packed),
        quantized.embedding_bag_byte_rowwise_offsets(
            packed, torch.tensor([1, 2, 5]), torch.tensor([0, 1])
        ),
    ]  # fmt: skip


# -- observers -------------------------------------------------------------------------------------


@program
def observers():
    out = []
    for make in (
        aq.MinMaxObserver, aq.HistogramObserver, aq.MovingAverageMinMaxObserver,
        aq.PerChannelMinMaxObserver, aq.MovingAveragePerChannelMinMaxObserver,
        aq.default_histogram_observer, aq.default_weight_observer,
        aq.weight_observer_range_neg_127_to_127, aq.default_float_qparams_observer,
        aq.per_channel_weight_observer_range_neg_127_to_127,
        aq.HistogramObserver.with_args(reduce_range=True),
        aq.HistogramObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric),
        aq.HistogramObserver.with_args(bins=64),
        aq.default_fixed_qparams_range_0to1_observer,
    ):  # fmt: skip
        observer = make()
        for factor in (1.0, 0.5, 3.0, 2.0):
            observer(torch.randn(20, 30) * factor + factor)
        out.append(
            [type(observer).__name__, observer.calculate_qparams(), list(observer.state_dict())]
        )
    return out


@program
def histogram_state():
    observer = aq.HistogramObserver(bins=32)
    for factor in (1.0, 0.5, 3.0):
        observer(torch.randn(20, 30) * factor)
    return [observer.histogram, observer.min_val, observer.max_val]


@program
def fake_quantize_modules():
    out = []
    for make in (
        aq.default_fake_quant, aq.default_weight_fake_quant,
        aq.default_per_channel_weight_fake_quant,
        aq.default_fused_act_fake_quant, aq.default_fused_wt_fake_quant,
        aq.default_fused_per_channel_wt_fake_quant, aq.default_histogram_fake_quant,
        aq.default_fixed_qparams_range_0to1_fake_quant, aq.default_embedding_fake_quant,
        aq.fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    ):  # fmt: skip
        module = make()
        x = (torch.randn(6, 7) * 2).requires_grad_()
        for _ in range(3):
            y = module(x)
        y.square().sum().backward()
        out.append([y, x.grad, module.scale, module.zero_point, list(module.state_dict())])
        module.disable_fake_quant()
        out.append(module(x.detach() * 2))
        module.apply(aq.disable_observer)
        module.apply(aq.enable_fake_quant)
        out.append(module(x.detach() * 3))
    return out


@program
def learnt_scales():
    from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize as Learnable

    out = []
    for observer, extra in (
        (aq.MovingAverageMinMaxObserver, {}),
        (aq.MovingAveragePerChannelMinMaxObserver, {"channel_len": 6, "ch_axis": 0}),
    ):
        module = Learnable(observer, 0, 255, 0.1, 3.0, use_grad_scaling=True, **extra)
        x = torch.randn(6, 7).requires_grad_()
        out.append(module(x))
        module.enable_param_learning()
        with torch.no_grad():
            module.scale.mul_(0.4)
        y = module(x)
        y.square().sum().backward()
        out += [y, x.grad, module.scale.grad, module.zero_point.grad, module.calculate_qparams()]
    return out


# -- configurations --------------------------------------------------------------------------------


@program
def configurations():
    out = []
    for backend in ("x86", "fbgemm", "qnnpack"):
        config = aq.get_default_qconfig(backend)
        act, weight = config.activation(), config.weight()
        out.append(
            [backend, type(act).__name__, act.reduce_range, str(weight.qscheme), act.quant_max]
        )
        for version in (0, 1):
            config = aq.get_default_qat_qconfig(backend, version)
            act, weight = config.activation(), config.weight()
            out.append(
                [type(act).__name__, act.quant_max, type(weight).__name__, str(weight.qscheme)]
            )
    mapping = aq.get_default_qconfig_mapping("x86")
    out.append([len(mapping.object_type_qconfigs), sorted(mapping.to_dict())])
    out.append(aq.qconfig_equals(aq.get_default_qconfig("x86"), aq.get_default_qconfig("fbgemm")))
    out.append(aq.qconfig_equals(aq.default_qconfig, aq.default_per_channel_qconfig))
    own = aq.QConfigMapping().set_global(None).set_module_name("a", aq.default_qconfig)
    out.append([own.module_name_qconfigs["a"] is aq.default_qconfig, len(own.to_dict())])
    return out
