"""Layers: convolutions, pools, norms, resampling, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.onnx.building import BOOL, FLOAT, Builder, Value, translates
from rushlight.onnx.refusals import refuse
from rushlight.onnx.translations.pointwise import scaled
from rushlight.onnx.translations.reductions import variance


def spread(values: Any, count: int) -> list[int]:
    """One number for each dim of the picture."""
    numbers = [values] if isinstance(values, int) else list(values)
    return numbers * count if len(numbers) == 1 else numbers


def batched(b: Builder, x: Value, rank: int) -> tuple[Value, bool]:
    """A picture of floats with a batch dim; whether it had none."""
    if not x.dtype.is_floating_point:
        raise refuse(f"a layer over {x.dtype}")
    if x.rank == rank:
        return x, False
    return b.unsqueeze(x, 0), True


# -- convolutions -------------------------------------------------------------------------------


@translates("convolution.default")
def convolution(
    b: Builder, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    count = weight.rank - 2
    x, alone = batched(b, x, weight.rank)
    pads = spread(padding, count)
    options: dict[str, Any] = {
        "strides": spread(stride, count),
        "pads": pads * 2,
        "dilations": spread(dilation, count),
        "group": groups,
        "kernel_shape": list(weight.shape[2:]),
    }
    if transposed:
        options["output_padding"] = spread(output_padding, count)
    found = b.op("ConvTranspose" if transposed else "Conv", x, weight, bias, **options)
    return b.squeeze(found, 0) if alone else found


@translates("conv1d.default", "conv2d.default", "conv3d.default")
def conv(
    b: Builder, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Value:  # fmt: skip
    return convolution(b, x, weight, bias, stride, padding, dilation, False, 0, groups)


@translates("conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv_same(
    b: Builder, x: Value, weight: Value, bias: Value | None, stride: Any, padding: str,
    dilation: Any, groups: int,
) -> Value:  # fmt: skip
    if padding == "valid":
        return conv(b, x, weight, bias, stride, 0, dilation, groups)
    count = weight.rank - 2
    total = [d * (k - 1) for d, k in zip(spread(dilation, count), weight.shape[2:])]
    starts = [each // 2 for each in total]
    x, alone = batched(b, x, weight.rank)
    found = b.op(
        "Conv", x, weight, bias,
        strides=spread(stride, count),
        pads=[*starts, *[each - start for each, start in zip(total, starts)]],
        dilations=spread(dilation, count),
        group=groups,
        kernel_shape=list(weight.shape[2:]),
    )  # fmt: skip
    return b.squeeze(found, 0) if alone else found


@translates("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    b: Builder, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any,
    output_padding: Any, groups: int, dilation: Any,
) -> Value:  # fmt: skip
    return convolution(b, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


# -- pools --------------------------------------------------------------------------------------


def max_pool(count: int) -> Any:
    def apply(
        b: Builder, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
    ) -> Value:
        x, alone = batched(b, x, count + 2)
        found = b.op(
            "MaxPool", x,
            kernel_shape=spread(kernel, count),
            strides=spread(stride or kernel, count),
            pads=spread(padding, count) * 2,
            dilations=spread(dilation, count),
            ceil_mode=int(ceil),
        )  # fmt: skip
        return b.squeeze(found, 0) if alone else found

    return apply


def avg_pool(count: int) -> Any:
    def apply(
        b: Builder, x: Value, kernel: Any, stride: Any, padding: Any, ceil: bool, with_pads: bool,
        divisor: Any = None,
    ) -> Value:  # fmt: skip
        if divisor is not None:
            raise refuse("a mean pool with a divisor of its own")
        x, alone = batched(b, x, count + 2)
        found = b.op(
            "AveragePool", x,
            kernel_shape=spread(kernel, count),
            strides=spread(stride or kernel, count),
            pads=spread(padding, count) * 2,
            ceil_mode=int(ceil),
            count_include_pad=int(with_pads),
        )  # fmt: skip
        return b.squeeze(found, 0) if alone else found

    return apply


def adaptive_pool(count: int, op: str) -> Any:
    """Pools to a size: a mean over all, or a plain pool where the sizes divide."""

    def apply(b: Builder, x: Value, sizes: Any) -> Value:
        sizes = spread(sizes, count)
        if all(size == 1 for size in sizes):
            word = "ReduceMean" if op == "AveragePool" else "ReduceMax"
            return b.reduce(word, x, list(range(-count, 0)), True)
        have = x.shape[-count:]
        if not all(isinstance(n, int) and n % size == 0 for n, size in zip(have, sizes)):
            raise refuse(f"an adaptive pool from {tuple(have)} to {tuple(sizes)}")
        kernel = [n // size for n, size in zip(have, sizes)]
        x, alone = batched(b, x, count + 2)
        found = b.op(op, x, kernel_shape=kernel, strides=kernel)
        return b.squeeze(found, 0) if alone else found

    return apply


def with_places(pool: Any) -> Any:
    """A pool whose places are counted in another way: they are left out."""
    return lambda b, *args: [pool(b, *args), None]


for number in (1, 2, 3):
    translates(f"max_pool{number}d.default")(max_pool(number))
    translates(f"max_pool{number}d_with_indices.default")(with_places(max_pool(number)))
    translates(f"avg_pool{number}d.default")(avg_pool(number))
    average = adaptive_pool(number, "AveragePool")
    translates(f"adaptive_avg_pool{number}d", f"_adaptive_avg_pool{number}d")(average)
    translates(f"adaptive_max_pool{number}d")(with_places(adaptive_pool(number, "MaxPool")))


# -- norms --------------------------------------------------------------------------------------


@translates("native_layer_norm.default")
def native_layer_norm(
    b: Builder, x: Value, sizes: Sequence[Any], weight: Value | None, bias: Value | None, eps: float
) -> list[Value | None]:
    return [layer_norm(b, x, sizes, weight, bias, eps), None, None]


@translates("layer_norm.default")
def layer_norm(
    b: Builder, x: Value, sizes: Sequence[Any], weight: Value | None, bias: Value | None,
    eps: float, cudnn: bool = True,
) -> Value:  # fmt: skip
    if weight is None:
        if not all(isinstance(size, int) for size in sizes):
            raise refuse("a layer norm over sizes that are not known")
        weight = b.array(np.ones(tuple(sizes), x.dtype.np), x.dtype)
    return b.op("LayerNormalization", x, weight, bias, axis=-len(sizes), epsilon=float(eps))


@translates("rms_norm.default")
def rms_norm(
    b: Builder, x: Value, sizes: Sequence[Any], weight: Value | None, eps: float | None
) -> Value:
    least = float(np.finfo(x.dtype.np).eps) if eps is None else eps
    dims = list(range(-len(sizes), 0))
    mean = b.reduce("ReduceMean", b.op("Mul", x, x), dims, True)
    scale = b.op("Reciprocal", b.op("Sqrt", b.op("Add", mean, b.number(least, x.dtype))))
    found = b.op("Mul", x, scale)
    return found if weight is None else b.op("Mul", found, weight)


def along_channels(b: Builder, x: Value, values: Value | None, default: float) -> Value:
    """A number for each channel; the default where there is none."""
    if values is not None:
        return values
    channels = x.shape[1]
    if not isinstance(channels, int):
        raise refuse("a norm over channels whose number is not known")
    return b.array(np.full(channels, default, x.dtype.np), x.dtype)


def per_channel(b: Builder, x: Value, values: Value) -> Value:
    """A number for each channel, as it stands beside `x`."""
    return b.reshape(values, [-1] + [1] * (x.rank - 2))


@translates("_native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value,
    momentum: float, eps: float,
) -> list[Value | None]:  # fmt: skip
    scale = along_channels(b, x, weight, 1.0)
    shift = along_channels(b, x, bias, 0.0)
    found = b.op("BatchNormalization", x, scale, shift, mean, var, epsilon=float(eps))
    return [found, None, None]


@translates("batch_norm.default")
def batch_norm(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Value | None,
    var: Value | None, training: bool, momentum: float, eps: float, cudnn: bool = True,
) -> Value:  # fmt: skip
    if training or mean is None or var is None:
        return by_its_own_statistics(b, x, weight, bias, eps)
    found = batch_norm_inference(b, x, weight, bias, mean, var, momentum, eps)[0]
    assert found is not None
    return found


def by_its_own_statistics(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> Value:
    dims = [dim for dim in range(x.rank) if dim != 1]
    spread_of, mean = variance(b, x, dims, 0, True)
    scale = b.op("Sqrt", b.op("Add", spread_of, b.number(eps, x.dtype)))
    found = b.op("Div", b.op("Sub", x, mean), scale)
    if weight is not None:
        found = b.op("Mul", found, per_channel(b, x, weight))
    return found if bias is None else b.op("Add", found, per_channel(b, x, bias))


@translates("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, training: bool,
    momentum: float, eps: float,
) -> list[Value | None]:  # fmt: skip
    return [by_its_own_statistics(b, x, weight, bias, eps), None, None]


@translates("instance_norm.default")
def instance_norm(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Any, var: Any,
    use_input_stats: bool, momentum: float, eps: float, cudnn: bool = True,
) -> Value:  # fmt: skip
    if not use_input_stats:
        return batch_norm(b, x, weight, bias, mean, var, False, momentum, eps)
    scale = along_channels(b, x, weight, 1.0)
    shift = along_channels(b, x, bias, 0.0)
    return b.op("InstanceNormalization", x, scale, shift, epsilon=float(eps))


@translates("native_group_norm.default")
def native_group_norm(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, batch: Any, channels: Any,
    inner: Any, groups: int, eps: float,
) -> list[Value | None]:  # fmt: skip
    return [group_norm(b, x, groups, weight, bias, eps), None, None]


@translates("group_norm.default")
def group_norm(
    b: Builder, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float,
    cudnn: bool = True,
) -> Value:  # fmt: skip
    """Each group of a sample is one channel of a norm over itself."""
    shape = [b.size(x, dim) for dim in range(x.rank)]
    together = b.reshape(x, [shape[0], groups, -1])
    ones, zeros = [b.array(np.full(groups, v, x.dtype.np), x.dtype) for v in (1, 0)]
    found = b.op("InstanceNormalization", together, ones, zeros, epsilon=float(eps))
    found = b.reshape(found, shape)
    if weight is not None:
        found = b.op("Mul", found, per_channel(b, x, weight))
    return found if bias is None else b.op("Add", found, per_channel(b, x, bias))


# -- resampling ---------------------------------------------------------------------------------


def resized(
    b: Builder, x: Value, sizes: Sequence[Any] | None, factors: Sequence[float] | None, **how: Any
) -> Value:
    """Resize to sizes, or by factors."""
    if sizes is not None:
        whole = [b.size(x, 0), b.size(x, 1), *sizes]
        return b.op("Resize", x, None, None, b.ints(whole), **how)
    assert factors is not None
    scales = np.asarray([1.0, 1.0, *factors], np.float32)
    return b.op("Resize", x, None, b.array(scales, FLOAT), **how)


def nearest(b: Builder, x: Value, sizes: Any, *factors: Any) -> Value:
    return resized(
        b, x, sizes, factors_of(factors), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip


def factors_of(factors: Sequence[Any]) -> list[float] | None:
    """Factors as a list, or one after the other."""
    if len(factors) == 1 and isinstance(factors[0], (list, tuple)):
        return list(factors[0])
    found = [factor for factor in factors if factor is not None]
    return found or None


def smooth(mode: str) -> Any:
    def apply(b: Builder, x: Value, sizes: Any, corners: bool, *factors: Any) -> Value:
        where = "align_corners" if corners else "half_pixel"
        more = {"cubic_coeff_a": -0.75} if mode == "cubic" else {}
        scales = factors_of(factors)
        return resized(b, x, sizes, scales, mode=mode, coordinate_transformation_mode=where, **more)

    return apply


translates("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")(nearest)
for word in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"):
    translates(word)(smooth("linear"))
translates("upsample_bicubic2d")(smooth("cubic"))


@translates("grid_sampler_2d.default", "grid_sampler.default")
def grid_sampler(
    b: Builder, x: Value, grid: Value, mode: int, padding: int, corners: bool
) -> Value:
    modes = ("bilinear", "nearest", "bicubic")
    if b.opset >= 20:
        modes = ("linear", "nearest", "cubic")
    pads = ("zeros", "border", "reflection")
    return b.op(
        "GridSample", x, grid,
        mode=modes[mode], padding_mode=pads[padding], align_corners=int(corners),
    )  # fmt: skip


@translates("col2im.default")
def col2im(
    b: Builder, x: Value, sizes: Sequence[Any], kernel: Any, dilation: Any, padding: Any,
    stride: Any,
) -> Value:  # fmt: skip
    x, alone = batched(b, x, 3)
    found = b.op(
        "Col2Im", x, b.ints(sizes), b.ints(spread(kernel, 2)),
        dilations=spread(dilation, 2), pads=spread(padding, 2) * 2, strides=spread(stride, 2),
    )  # fmt: skip
    return b.squeeze(found, 0) if alone else found


# -- attention ----------------------------------------------------------------------------------


@translates("scaled_dot_product_attention.default")
def attention(
    b: Builder, query: Value, key: Value, value: Value, mask: Value | None, dropout: float,
    causal: bool, scale: float | None, grouped: bool = False,
) -> Value:  # fmt: skip
    if grouped:
        raise refuse("attention with grouped heads")
    width = query.shape[-1]
    if scale is None and not isinstance(width, int):
        raise refuse("attention over a width that is not known")
    factor = 1 / math.sqrt(width) if scale is None else scale
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = b.op("MatMul", scaled(b, query, factor), b.op("Transpose", key, perm=order))
    dtype = query.dtype
    if causal:
        ones = b.op(
            "Expand",
            b.number(1, FLOAT),
            b.ints([b.size(query, -2), b.size(key, -2)]),
        )
        allowed = b.cast(b.op("Trilu", ones, upper=0), BOOL)
        scores = b.op("Where", allowed, scores, b.number(-math.inf, dtype), dtype=dtype)
    if mask is not None and mask.dtype is BOOL:
        scores = b.op("Where", mask, scores, b.number(-math.inf, dtype), dtype=dtype)
    elif mask is not None:
        scores = b.op("Add", scores, b.cast(mask, dtype))
    return b.op("MatMul", b.op("Softmax", scores, axis=-1), value)
