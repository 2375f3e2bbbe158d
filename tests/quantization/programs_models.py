"""Models from floats to integers: watched, trained, converted. See `programs`."""

from __future__ import annotations

import copy
import io
import warnings
from pathlib import Path

import torch
import torch.ao.nn.intrinsic as nni
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as aq
from programs import q8, show
from torch import nn

warnings.simplefilter("ignore")
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def run(name):
    torch.manual_seed(0)
    return show(PROGRAMS[name]())


class Between(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.dequant(self.layers(self.quant(x)))


def converted(model, shape, config=None, fuse=None, batches=3):
    model = model.eval()
    if fuse:
        model = aq.fuse_modules(model, fuse)
    model.qconfig = config or aq.get_default_qconfig("x86")
    watched = aq.prepare(model)
    for _ in range(batches):
        watched(torch.randn(*shape))
    made = aq.convert(watched)
    return made, [repr(made), made(torch.randn(*shape)), state(made)]


def state(model):
    return {key: show(value) for key, value in model.state_dict().items()}


# -- static ----------------------------------------------------------------------------------------


@program
def static_linear():
    return converted(Between(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3)), (5, 9))[1]


@program
def static_linear_fused():
    model = Between(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3, bias=False))
    return converted(model, (5, 9), fuse=["layers.0", "layers.1"])[1]


@program
def static_by_tensor():
    model = Between(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3))
    return converted(model, (5, 9), config=aq.default_qconfig)[1]


@program
def static_qnnpack_configuration():
    model = Between(nn.Conv2d(3, 4, 3), nn.ReLU())
    return converted(model, (2, 3, 6, 6), config=aq.get_default_qconfig("qnnpack"))[1]


@program
def static_convolutions():
    model = Between(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 4, 3, groups=2, bias=False), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 5),
    )  # fmt: skip
    for p in model.layers[1].buffers():
        if p.is_floating_point():
            p.copy_(torch.rand_like(p) + 0.5)
    fuse = [["layers.0", "layers.1", "layers.2"], ["layers.4", "layers.5"]]
    return converted(model, (2, 3, 8, 8), fuse=fuse)[1]


@program
def static_conv1d():
    model = Between(nn.Conv1d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv1d(6, 2, 3, stride=2))
    return converted(model, (2, 3, 9), fuse=["layers.0", "layers.1"])[1]


@program
def static_conv3d():
    return converted(Between(nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3)), (2, 2, 4, 4, 4))[1]


@program
def static_reflected():
    return converted(Between(nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")), (2, 3, 6, 6))[
        1
    ]


@program
def static_transposed():
    config = aq.QConfig(
        aq.HistogramObserver.with_args(reduce_range=True), aq.default_weight_observer
    )
    model = Between(nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), nn.ReLU())
    return converted(model, (2, 3, 4, 4), config=config)[1]


@program
def static_activations():
    model = Between(
        nn.Linear(9, 8), nn.ReLU6(), nn.Linear(8, 8), nn.Hardswish(), nn.Linear(8, 8), nn.ELU(),
        nn.Linear(8, 8), nn.LeakyReLU(0.1), nn.Linear(8, 8), nn.Dropout(0.3), nn.Sigmoid(),
    )  # fmt: skip
    return converted(model, (5, 9))[1]


@program
def static_norms():
    model = Between(
        nn.Linear(9, 8), nn.LayerNorm(8), nn.Unflatten(1, (4, 2)),
        nn.InstanceNorm1d(4, affine=True), nn.GroupNorm(2, 4),
    )  # fmt: skip
    return converted(model, (5, 9))[1]


@program
def static_batch_norm_relu():
    model = Between(nn.BatchNorm2d(3), nn.ReLU())
    return converted(model, (2, 3, 4, 4), fuse=["layers.0", "layers.1"])[1]


@program
def static_prelu():
    model = Between(nn.Linear(9, 8), nn.PReLU())
    model.layers[1].qconfig = aq.default_quint8_weight_qconfig
    return converted(model, (5, 9))[1]


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.one, self.other = nn.Linear(6, 6), nn.Linear(6, 6)
        self.sum, self.product, self.both = [nnq.FloatFunctional() for _ in range(3)]

    def forward(self, x):
        x = self.quant(x)
        a, b = self.one(x), self.other(x)
        a = self.sum.add_relu(a, b)
        b = self.product.mul(a, b)
        b = self.product.add_scalar(b, 0.5)
        return self.dequant(self.both.cat([a, self.both.mul_scalar(b, 2.0)], dim=1))


@program
def static_sums_and_products():
    return converted(Joined(), (5, 6))[1]


@program
def static_wrapped():
    model = aq.QuantWrapper(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    model.qconfig = aq.default_qconfig
    made = aq.quantize(model, lambda m, d: m(d), [torch.randn(9, 4)])
    return [repr(made), made(torch.randn(2, 4))]


@program
def static_in_parts():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 2)).eval()
    model[1].qconfig = aq.default_qconfig
    model = aq.add_quant_dequant(model)
    watched = aq.prepare(model)
    watched(torch.randn(9, 4))
    made = aq.convert(watched)
    return [repr(made), made(torch.randn(2, 4))]


@program
def watched_models_print():
    model = Between(nn.Conv2d(3, 4, 3), nn.ReLU())
    model.qconfig = aq.get_default_qconfig("fbgemm")
    return [repr(aq.prepare(model.eval())), sorted(aq.prepare(model).state_dict())]


# -- fusing ----------------------------------------------------------------------------------------


@program
def fused_models():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Linear(4, 4), nn.BatchNorm1d(4),
        nn.Conv1d(2, 2, 1), nn.ReLU(), nn.ConvTranspose2d(2, 2, 2), nn.BatchNorm2d(2),
    )  # fmt: skip
    lists = [["0", "1", "2"], ["3", "4"], ["5", "6"], ["7", "8"]]
    fused = aq.fuse_modules(model.eval(), lists)
    out = [repr(fused), fused[0][0].weight, fused[3].bias, fused[7].weight]
    model.train()
    out.append(repr(aq.fuse_modules_qat(model, lists[:3])))
    return out


@program
def fused_hooks():
    seen = []
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    model[0].register_forward_pre_hook(lambda *given: seen.append("before"))
    model[1].register_forward_hook(lambda *given: seen.append("after"))
    fused = aq.fuse_modules(model, ["0", "1"])
    fused(torch.ones(1, 2))
    return [seen, type(fused[0]) is nni.LinearReLU]


# -- training --------------------------------------------------------------------------------------


def trained(model, shape, config=None, fuse=None, steps=6, freeze=False, x_of=torch.randn):
    model.train()
    if fuse:
        model = aq.fuse_modules_qat(model, fuse)
    model.qconfig = config or aq.get_default_qat_qconfig("x86")
    model = aq.prepare_qat(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = x_of(*shape)
    losses = []
    for step in range(steps):
        if freeze and step == 3:
            model.apply(aq.disable_observer)
            model.apply(torch.ao.nn.intrinsic.qat.freeze_bn_stats)
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    text = repr(model) if steps == 6 else ""
    made = aq.convert(model.eval())
    return [losses, text, repr(made), made(x)]


@program
def trained_linear():
    return trained(Between(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3)), (8, 9))


@program
def trained_linear_fused():
    model = Between(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3))
    return trained(model, (8, 9), fuse=["layers.0", "layers.1"], steps=8)


@program
def trained_by_the_older_configuration():
    model = Between(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3))
    return trained(model, (8, 9), config=aq.get_default_qat_qconfig("fbgemm", 0))


@program
def trained_convolutions():
    model = Between(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5),
    )  # fmt: skip
    fuse = [["layers.0", "layers.1", "layers.2"], ["layers.3", "layers.4"]]
    return trained(model, (4, 3, 8, 8), fuse=fuse)


@program
def trained_with_frozen_norms():
    model = Between(nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.Conv2d(6, 2, 3))
    return trained(model, (4, 3, 8, 8), fuse=["layers.0", "layers.1"], freeze=True, steps=5)


@program
def trained_linear_norm():
    model = Between(nn.Linear(9, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
    return trained(model, (8, 9), fuse=["layers.0", "layers.1"], steps=5)


@program
def trained_by_tensor():
    model = Between(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Sigmoid())
    return trained(model, (4, 3, 5, 5), config=aq.get_default_qat_qconfig("qnnpack"), steps=4)


@program
def trained_embeddings():
    model = nn.Sequential(nn.Embedding(10, 6)).train()
    model.qconfig = aq.default_embedding_qat_qconfig
    mapping = aq.get_embedding_qat_module_mappings()
    model = aq.prepare_qat(model, mapping=mapping)
    i = torch.tensor([1, 2, 5])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(i).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    made = aq.convert(model.eval(), mapping=aq.get_embedding_static_quant_module_mappings())
    return [losses, repr(made), made(i)]


@program
def trained_back_to_floats():
    import torch.ao.nn.intrinsic.qat as nniqat
    import torch.ao.nn.qat as nnqat

    config = aq.get_default_qat_qconfig("x86")
    conv = nniqat.ConvBnReLU2d(3, 4, 3, bias=True, qconfig=config)
    linear = nnqat.Linear(3, 2, qconfig=config)
    out = [repr(conv.to_float()), conv.to_float()[0].weight, repr(linear.to_float())]
    conv._enable_slow_path_for_better_numerical_stability = True
    return [*out, conv(torch.randn(2, 3, 5, 5)), conv.eval()(torch.randn(2, 3, 5, 5))]


# -- dynamic ---------------------------------------------------------------------------------------


def dynamically(model, *given, **options):
    made = aq.quantize_dynamic(model, **options)
    return [repr(made), made(*given)]


@program
def dynamic_linear():
    model = nn.Sequential(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3))
    x = torch.randn(5, 9)
    by_channel = {nn.Linear: aq.per_channel_dynamic_qconfig}
    return [
        dynamically(model, x), dynamically(model, x[None]),
        dynamically(model, x, dtype=torch.float16),
        dynamically(model, x, qconfig_spec=by_channel), dynamically(model, x, qconfig_spec={"0"}),
        state(aq.quantize_dynamic(model)),
    ]  # fmt: skip


@program
def dynamic_linear_fused():
    model = aq.fuse_modules(nn.Sequential(nn.Linear(9, 7), nn.ReLU()).eval(), ["0", "1"])
    return dynamically(model, torch.randn(5, 9), qconfig_spec={nni.LinearReLU})


@program
def dynamic_lstm():
    out = []
    for options in (
        {}, {"num_layers": 2, "batch_first": True}, {"bidirectional": True},
        {"num_layers": 2, "bidirectional": True},
    ):  # fmt: skip
        made = aq.quantize_dynamic(nn.Sequential(nn.LSTM(4, 3, **options)))
        x = torch.randn(5, 2, 4)
        out.append([repr(made), made(x)])
    layer = made[0]
    state = torch.randn(4, 2, 3), torch.randn(4, 2, 3)
    out.append(layer(x, state))
    return out


@program
def dynamic_gru():
    out = []
    for options in ({}, {"num_layers": 2, "batch_first": True}, {"bidirectional": True}):
        made = aq.quantize_dynamic(nn.Sequential(nn.GRU(4, 3, **options)))
        x = torch.randn(5, 2, 4)
        out.append([repr(made), made(x)])
    return [*out, made[0](x, torch.randn(2, 2, 3))]


@program
def dynamic_recurrent_fp16():
    out = []
    for layer in (nn.LSTM(4, 3), nn.GRU(4, 3, bidirectional=True)):
        made = aq.quantize_dynamic(nn.Sequential(layer), dtype=torch.float16)
        out.append([repr(made), made(torch.randn(5, 2, 4))])
    return out


@program
def dynamic_packed_sequences():
    out = []
    x = torch.randn(5, 3, 4)
    for layer in (nn.LSTM(4, 3), nn.GRU(4, 3, 2, bidirectional=True)):
        made = aq.quantize_dynamic(nn.Sequential(layer))[0]
        for lengths, ordered in (([5, 3, 2], True), ([2, 5, 3], False)):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=ordered)
            result, hidden = made(packed)
            out.append([result.data, result.batch_sizes, hidden])
    return out


@program
def dynamic_cells():
    out = []
    x, h, c = torch.randn(2, 4), torch.randn(2, 3), torch.randn(2, 3)
    for cell in (
        nn.LSTMCell(4, 3),
        nn.GRUCell(4, 3),
        nn.RNNCell(4, 3),
        nn.RNNCell(4, 3, nonlinearity="relu"),
    ):
        made = aq.quantize_dynamic(nn.Sequential(cell))
        state = (h, c) if isinstance(cell, nn.LSTMCell) else h
        out.append([repr(made), made[0](x), made[0](x, state)])
    return out


@program
def dynamic_embeddings():
    i = torch.tensor([1, 3, 3, 9, 0])
    model = nn.Sequential(nn.Embedding(10, 6))
    made = aq.quantize_dynamic(model, dtype=torch.quint8)
    bag = nn.EmbeddingBag(10, 6, mode="sum", include_last_offset=True)
    whole = nn.Sequential(bag)
    offsets = torch.tensor([0, 2, 5])
    out = [repr(made), made(i), state(made)]
    for dtype in (torch.quint8, torch.quint4x2):
        quantised = aq.quantize_dynamic(whole, dtype=dtype)
        out += [repr(quantised), quantised[0](i, offsets)]
        out.append(quantised[0](i, offsets, per_sample_weights=torch.rand(5)))
    return out


@program
def dynamic_transformer():
    # torch's shorter way asks weights for their devices, and these have none.
    torch.backends.mha.set_fastpath_enabled(False)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    made = aq.quantize_dynamic(nn.Sequential(layer), {nn.Linear})
    return [repr(made), made(torch.randn(2, 5, 8))]


# -- states and files ------------------------------------------------------------------------------


@program
def states_go_over():
    model, _ = converted(
        Between(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2)), (2, 3, 6, 6)
    )
    other, _ = converted(
        Between(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2)), (2, 3, 6, 6)
    )
    x = torch.randn(2, 3, 6, 6)
    before = other(x)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    said = other.load_state_dict(torch.load(file, weights_only=False))
    return [str(said), torch.equal(model(x), other(x)), torch.equal(before, other(x))]


def kept_models():
    """Models that files were written of."""
    torch.manual_seed(4)
    x = torch.randn(2, 3, 6, 6)
    static = Between(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2)).eval()
    static.qconfig = aq.get_default_qconfig("x86")
    watched = aq.prepare(static)
    watched(x)
    dynamic = aq.quantize_dynamic(nn.Sequential(nn.Linear(4, 3), nn.LSTM(3, 2, 2)))
    rows = aq.quantize_dynamic(nn.Sequential(nn.Embedding(10, 6)), dtype=torch.quint8)
    return {"watched": watched, "static": aq.convert(watched), "dynamic": dynamic, "rows": rows}


def write(path):
    """Done once, by PyTorch: what `files_of_torch` reads."""
    torch.save({name: model.state_dict() for name, model in kept_models().items()}, path)


@program
def files_of_torch():
    states = torch.load(Path(__file__).parent / "recorded" / "states.pt", weights_only=False)
    models = kept_models()
    given = {"dynamic": torch.randn(5, 2, 4), "rows": torch.tensor([1, 4, 4])}
    out = []
    for name, model in models.items():
        with torch.no_grad():
            for part in (*model.parameters(), *model.buffers()):
                part.zero_()
        said = model.load_state_dict(states[name])
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        model.load_state_dict(torch.load(file, weights_only=False))
        x = given.get(name, torch.ones(2, 3, 6, 6))
        out.append([str(said), model(x), sorted(model.state_dict())])
    return out


@program
def four_bits_are_saved():
    rows = torch.quantize_per_channel(
        torch.randn(3, 5), torch.rand(3) + 0.1, torch.rand(3) * 9, 0, torch.quint4x2
    )
    file = io.BytesIO()
    torch.save({"rows": rows}, file)
    file.seek(0)
    again = torch.load(file)["rows"]
    return [rows, again, str(again.dtype), torch.equal(rows.int_repr(), again.int_repr())]


@program
def whole_models_are_saved():
    model, _ = converted(Between(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2)), (2, 3, 6, 6))
    x = torch.randn(2, 3, 6, 6)
    again = copy.deepcopy(model)
    return [torch.equal(model(x), again(x)), repr(model) == repr(again)]


@program
def older_names():
    import torch.nn.intrinsic
    import torch.nn.quantized.dynamic
    import torch.quantization
    from torch.ao.quantization.fuse_modules import fuse_known_modules
    from torch.ao.quantization.quantize import convert
    from torch.quantization.observer import MinMaxObserver

    return [
        torch.quantization.quantize_dynamic is aq.quantize_dynamic,
        MinMaxObserver is aq.MinMaxObserver,
        torch.nn.quantized.dynamic.Linear is torch.ao.nn.quantized.dynamic.Linear,
        torch.nn.intrinsic.ConvReLU2d is nni.ConvReLU2d, convert is aq.convert,
        callable(aq.fuse_modules), callable(aq.quantize), fuse_known_modules.__name__,
    ]  # fmt: skip


@program
def homes_of_classes():
    import torch.ao.nn.intrinsic.qat as nniqat
    import torch.ao.nn.intrinsic.quantized as nniq
    import torch.ao.nn.qat as nnqat
    import torch.ao.nn.qat.dynamic as nnqatd
    import torch.ao.nn.quantized.dynamic as nnqd

    classes = [
        nnq.Linear, nnq.Conv2d, nnq.Quantize, nnq.QFunctional, nnq.LayerNorm, nnq.Embedding,
        nnqd.Linear, nnqd.LSTM, nnqd.GRUCell, nnqat.Linear, nnqat.Conv2d, nnqat.Embedding,
        nniqat.ConvBnReLU2d, nniqat.LinearReLU, nniq.ConvReLU2d, nniq.LinearReLU, nniq.BNReLU2d,
        nni.ConvBn2d, nni.LinearReLU, aq.MinMaxObserver, aq.FakeQuantize, aq.QConfig, aq.QuantStub,
        aq.QConfigMapping, aq.prepare, aq.fuse_modules, nnqatd.Linear,
        nnq.Linear(2, 2)._packed_params.__class__,
    ]  # fmt: skip
    return [f"{each.__module__}.{each.__qualname__}" for each in classes]


@program
def quantised_modules_by_hand():
    out = []
    linear = nnq.Linear(4, 3)
    linear.set_weight_bias(
        torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8), torch.ones(3)
    )
    linear.scale, linear.zero_point = 0.2, 50
    out += [repr(linear), linear(q8(2, 4)), linear.weight(), linear.bias()]
    conv = nnq.Conv2d(2, 3, 3, padding=1)
    out += [repr(conv), sorted(conv.state_dict())]
    F = torch.ao.nn.quantized.functional
    a = q8(1, 2, 4, 4)
    w = torch.quantize_per_tensor(torch.randn(3, 2, 3, 3), 0.05, 0, torch.qint8)
    out += [
        F.conv2d(a, w, torch.ones(3), padding=1, scale=0.2, zero_point=90), F.max_pool2d(a, 2),
        F.avg_pool2d(a, 2), F.interpolate(a, scale_factor=2), F.hardtanh(a, -1, 1),
        F.clamp(a, 0, 1),
        F.linear(q8(2, 4), linear.weight(), scale=0.2, zero_point=50), F.elu(a, 0.1, 30),
        F.hardswish(a, 0.05, 20), F.leaky_relu(a, 0.1, scale=0.1, zero_point=30),
    ]  # fmt: skip
    return out
