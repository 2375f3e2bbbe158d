"""torch.ao.nn.quantized.functional: functions of quantised tensors that layers are made of."""

from __future__ import annotations

from typing import Any

from rushlight.nn import functional
from rushlight.nn.sizes import per_dim
from rushlight.opset import functions
from rushlight.quantization.observers import QUINT8
from rushlight.quantization.static import operator

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp",
    "conv1d", "conv2d", "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate",
    "leaky_relu", "linear", "max_pool1d", "max_pool2d", "threshold", "upsample",
    "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def check(name: str, input: Any) -> None:
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")


def with_check(name: str, function: Any) -> Any:
    """The function of floats, where quantised tensors have it too."""

    def checked(input: Any, *args: Any, **kwargs: Any) -> Any:
        check(name, input)
        return function(input, *args, **kwargs)

    checked.__name__ = checked.__qualname__ = name
    return checked


avg_pool2d = with_check("avg_pool2d", functional.avg_pool2d)
avg_pool3d = with_check("avg_pool3d", functional.avg_pool3d)
adaptive_avg_pool2d = with_check("adaptive_avg_pool2d", functional.adaptive_avg_pool2d)
adaptive_avg_pool3d = with_check("adaptive_avg_pool3d", functional.adaptive_avg_pool3d)
interpolate = with_check("interpolate", functional.interpolate)
upsample = with_check("upsample", functional.upsample)
upsample_bilinear = with_check("upsample_bilinear", functional.upsample_bilinear)
upsample_nearest = with_check("upsample_nearest", functional.upsample_nearest)
hardsigmoid = with_check("hardsigmoid", functional.hardsigmoid)


def conv(dims: int, input: Any, weight: Any, bias: Any, where: Any, mode: str, out: Any) -> Any:
    if mode != "zeros":
        # torch: the class of the error.
        raise NotImplementedError("Only zero-padding is supported!")
    scale, zero_point, dtype = out
    if dtype is not QUINT8 or input.dtype is not QUINT8:
        # torch: the class of the error.
        raise NotImplementedError("Only torch.quint8 is supported for activation tensor!")
    if input.dim() != dims + 2:
        raise ValueError(f"Input must have {dims + 2} dimensions")
    stride, padding, dilation, groups = where
    places = [per_dim(part, dims) for part in (stride, padding, dilation)]
    packed = operator(f"conv{dims}d_prepack")(weight, bias, *places, groups)
    return operator(f"conv{dims}d")(input, packed, scale, zero_point)


def conv1d(
    input: Any, weight: Any, bias: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0,
    dtype: Any = QUINT8,
) -> Any:  # fmt: skip
    where = stride, padding, dilation, groups
    return conv(1, input, weight, bias, where, padding_mode, (scale, zero_point, dtype))


def conv2d(
    input: Any, weight: Any, bias: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0,
    dtype: Any = QUINT8,
) -> Any:  # fmt: skip
    where = stride, padding, dilation, groups
    return conv(2, input, weight, bias, where, padding_mode, (scale, zero_point, dtype))


def conv3d(
    input: Any, weight: Any, bias: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0,
    dtype: Any = QUINT8,
) -> Any:  # fmt: skip
    where = stride, padding, dilation, groups
    return conv(3, input, weight, bias, where, padding_mode, (scale, zero_point, dtype))


def linear(
    input: Any, weight: Any, bias: Any = None, scale: Any = None, zero_point: Any = None
) -> Any:
    """A linear layer; without a scale the result has the input's."""
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    packed = operator("linear_prepack")(weight, bias)
    return operator("linear")(input, packed, scale, zero_point)


def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    if return_indices:
        # torch: the class of the error.
        raise NotImplementedError("return_indices is not yet implemented!")
    return functions.max_pool1d(input, kernel_size, stride or (), padding, dilation, ceil_mode)


def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    if return_indices:
        # torch: the class of the error.
        raise NotImplementedError("return_indices is not yet implemented!")
    return functions.max_pool2d(input, kernel_size, stride or (), padding, dilation, ceil_mode)


def celu(input: Any, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    check("celu", input)
    return operator("celu")(input, scale, zero_point, alpha)


def elu(input: Any, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    check("elu", input)
    return operator("elu")(input, scale, zero_point, alpha)


def leaky_relu(
    input: Any, negative_slope: float = 0.01, inplace: bool = False, scale: Any = None,
    zero_point: Any = None,
) -> Any:  # fmt: skip
    if scale is not None and zero_point is not None:
        return operator("leaky_relu")(input, negative_slope, inplace, scale, zero_point)
    return functional.leaky_relu(input, negative_slope, inplace)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    check("hardtanh", input)
    run = functions.hardtanh_ if inplace else functions.hardtanh
    return run(input, min_val, max_val)


def hardswish(input: Any, scale: float, zero_point: int) -> Any:
    check("hardswish", input)
    return operator("hardswish")(input, scale, zero_point)


def threshold(input: Any, threshold: float, value: float) -> Any:
    check("threshold", input)
    if threshold is None or value is None:
        raise ValueError("Input to 'threshold' must be specified!")
    return operator("threshold")(input, threshold, value)


def clamp(input: Any, min_: float, max_: float) -> Any:
    check("clamp", input)
    return functions.clamp(input, min_, max_)
