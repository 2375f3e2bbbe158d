"""Tensors of quantised numbers: integers, and the scale and zero point that they are read by.

A `QuantizedTensor` holds its integers as an ordinary tensor would; `quantizer` says what they mean,
`x = (q - zero_point) * scale`, for the whole tensor or for each row along an axis. Views, copies
and what only orders numbers act on the integers; other ops that torch has for such tensors compute
in floats and quantise again. Ops without a rule are refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rushlight.base.errors import MissingFeature
from rushlight.core import dtype as dtypes
from rushlight.core import schemes
from rushlight.core.dispatch import overridable
from rushlight.core.format import body_str, with_suffixes
from rushlight.core.modes import DisableTorchFunctionSubclass
from rushlight.core.operators import name_of_called
from rushlight.core.tensor import Tensor, values_of, wrap
from rushlight.opset import functions
from rushlight.opset.other.quantization import quantizer_of
from rushlight.subclasses.nested import picks_elements

__all__ = [
    "QuantizedTensor", "Quantizer", "choose_qparams", "empty_quantized", "quantize_per_channel",
    "quantize_per_tensor", "quantize_per_tensor_dynamic",
]  # fmt: skip

QINT8, QUINT8, QINT32 = (dtypes.BY_NAME[name] for name in ("qint8", "quint8", "qint32"))
QUINT4X2 = dtypes.BY_NAME["quint4x2"]
# The integers that elements of a quantised dtype are, and the dtype of each.
INTEGERS = {QINT8: dtypes.int8, QUINT8: dtypes.uint8, QINT32: dtypes.int32}
QUANTIZED = {integer: dtype for dtype, integer in INTEGERS.items()}
# Numbers of four bits lie in a byte each; `int_repr` puts two into one.
INTEGERS[QUINT4X2] = dtypes.uint8
LIMITS = {
    QINT8: (-128, 127), QUINT8: (0, 255), QINT32: (-(2**31), 2**31 - 1), QUINT4X2: (0, 15),
}  # fmt: skip
# fbgemm: scales below this lose the numbers they stand for.
SMALLEST_SCALE = float(np.float32(6.1e-5))


class Quantizer(NamedTuple):
    """What integers stand for. Along an axis, scale and zero point are tensors."""

    dtype: Any
    scheme: Any
    scale: Any
    zero_point: Any
    axis: int | None = None

    def shaped(self, ndim: int) -> tuple[Any, Any]:
        """Scale and zero point as float32 arrays that broadcast."""
        if self.axis is None:
            return np.float32(self.scale), np.float32(self.zero_point)
        shape = [1] * ndim
        shape[self.axis] = -1
        parts = [values_of(part).astype(np.float32) for part in (self.scale, self.zero_point)]
        return parts[0].reshape(shape), parts[1].reshape(shape)

    def quantize(self, numbers: Any) -> Any:
        """The integers nearest to float32 numbers."""
        scale, zero_point = self.shaped(numbers.ndim)
        least, most = LIMITS[self.dtype]
        with np.errstate(all="ignore"):
            steps = np.rint(numbers * (np.float32(1) / scale) + zero_point).astype(np.float64)
        kept = np.where(np.isnan(steps), most, np.clip(steps, least, most))
        return kept.astype(INTEGERS[self.dtype].np)

    def dequantize(self, integers: Any) -> Any:
        scale, zero_point = self.shaped(integers.ndim)
        if self.scheme is schemes.per_channel_affine_float_qparams:
            return (integers.astype(np.float32) - zero_point) * scale
        return (integers.astype(np.int64) - zero_point.astype(np.int64)).astype(np.float32) * scale


class QuantizedTensor(Tensor):
    """Quantised numbers; made by `quantize_per_tensor` and its like."""

    quantizer: Quantizer

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        return self.quantizer.dtype

    is_quantized = property(lambda self: True)  # type: ignore[assignment]

    def is_floating_point(self) -> bool:
        return False

    def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if dtype is not None:
            raise unsupported("type")
        return f"torch.quantized.{self.dtype.scalar_type_name}Tensor"

    def dequantize(self) -> Any:
        return wrap(self.quantizer.dequantize(values_of(self)), dtypes.float32)

    def item(self) -> float:
        return float(self.dequantize().item())

    def tolist(self) -> Any:
        raise RuntimeError("load_scalar: invalid type")

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"Got unsupported ScalarType {self.dtype.scalar_type_name}")

    def __repr__(self, **options: Any) -> str:
        made = self.quantizer
        said = [f"size={tuple(self.shape)}", f"dtype={self.dtype}"]
        said += [f"quantization_scheme={made.scheme}", f"scale={made.scale}"]
        said.append(f"zero_point={made.zero_point}")
        if made.axis is not None:
            said.append(f"axis={made.axis}")
        opening = "tensor("
        body = body_str(self.dequantize(), len(opening))
        return with_suffixes(opening + body, said, len(opening), break_first=False)

    def __deepcopy__(self, memo: Any) -> Any:
        return memo.setdefault(id(self), self.clone())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return rebuilt, (integers_of(self), tuple(self.quantizer))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "namespace", "aten") != "aten":
            # Operators of other namespaces are written for tensors as they are.
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        name = name_of_called(func)
        rule = RULES.get(name)
        if rule is not None:
            return rule(*args, **kwargs)
        if name in OBJECT:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if name in ON_INTEGERS or picks_elements(name):
            return on_integers(name, func, args, kwargs)
        if name in ORDERING:
            return on_integers(name, func, args, kwargs, as_floats=True)
        if name in AVERAGING and args[0].quantizer.axis is None:
            return averaged(func, *args, **kwargs)
        if name in ON_FLOATS:
            source = args[0]
            return as_quantized(func(source.dequantize(), *args[1:], **kwargs), source.quantizer)
        if name in COMPARING:
            return func(*[plain(value) for value in args], **kwargs)
        raise unsupported(name or str(func))


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Geometry and copies: whatever stands where, its number stays.
ON_INTEGERS = names(
    "__getitem__ as_strided chunk clone contiguous detach expand expand_as flatten flip "
    "masked_select movedim narrow permute pixel_shuffle pixel_unshuffle repeat "
    "ravel reshape roll select split squeeze swapaxes swapdims t transpose unbind unflatten unfold "
    "unsqueeze view view_as channel_shuffle native_channel_shuffle"
)
# What tells only more from less; computed on floats, which hold such integers exactly.
ORDERING = names(
    "amax amin max min max_pool1d max_pool2d max_pool3d sort topk median upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d"
)
AVERAGING = names(
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d "
    "mean"
)
ON_FLOATS = names("interpolate leaky_relu std upsample_bilinear2d")
COMPARING = names("eq ne lt le gt ge allclose isclose")
# What concerns the tensor as an object and not its numbers.
OBJECT = names(
    "__format__ __get__ __set__ __len__ data_ptr dim element_size get_device is_contiguous "
    "is_pinned is_same_size ndimension nelement numel requires_grad_ size storage_offset stride "
    "cpu int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale "
    "q_zero_point qscheme"
)


def unsupported(name: str) -> MissingFeature:
    return MissingFeature(f"{name} on quantised tensors", "Call dequantize() first.", code="RL0012")


def integers_of(self: Any) -> Any:
    """The integers, as the ordinary tensor they lie in."""
    return self.as_subclass(Tensor)


def with_integers(integers: Any, quantizer: Quantizer) -> Any:
    integers.__class__ = QuantizedTensor
    integers.quantizer = quantizer
    return integers


def rebuilt(integers: Any, quantizer: Any) -> Any:
    return with_integers(integers.as_subclass(Tensor), Quantizer(*quantizer))


def as_quantized(numbers: Any, quantizer: Quantizer) -> Any:
    made = wrap(quantizer.quantize(values_of(numbers)), INTEGERS[quantizer.dtype])
    return with_integers(made, quantizer)


def plain(value: Any) -> Any:
    return value.dequantize() if isinstance(value, QuantizedTensor) else value


def on_integers(name: str, func: Any, args: Any, kwargs: Any, as_floats: bool = False) -> Any:
    source = args[0]
    made: Quantizer = source.quantizer
    if made.axis is not None:
        if name == "__getitem__" and isinstance(args[1], int) and made.axis == 0:
            made = Quantizer(
                made.dtype, schemes.per_tensor_affine, float(np.float32(made.scale[args[1]])),
                int(made.zero_point[args[1]]),
            )  # fmt: skip
        elif name not in ("clone", "contiguous", "detach"):
            raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    integer = INTEGERS[made.dtype]
    given = integers_of(source)
    if as_floats:
        given = given.to(dtypes.float32 if integer.itemsize == 1 else dtypes.float64)
    result = func(given, *[a for a in args[1:]], **kwargs)

    def back(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if as_floats:
            return with_integers(value.to(integer), made) if value.is_floating_point() else value
        return with_integers(value.as_subclass(Tensor), made)

    if isinstance(result, Tensor):
        return back(result)
    parts = [back(part) for part in result]
    return type(result)(parts)


def averaged(func: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
    """Means of integers, exactly, and then the nearest integers; of two, the even one."""
    made: Quantizer = source.quantizer
    steps = integers_of(source).to(dtypes.float64) - made.zero_point
    means = values_of(func(steps, *args, **kwargs)) + made.zero_point
    integer = INTEGERS[made.dtype]
    return with_integers(wrap(np.rint(means).astype(integer.np), integer), made)


# -- rules -----------------------------------------------------------------------------------------


def written(self: Any, integers: Any) -> Any:
    integers_of(self).copy_(integers)
    return self


def bounded(self: Any, least: Any, most: Any) -> Any:
    """The integers, between those that two numbers are quantised to."""
    made = self.quantizer
    numbers = values_of(self)
    if least is not None:
        numbers = np.maximum(numbers, made.quantize(np.float32([least])).reshape(()))
    if most is not None:
        numbers = np.minimum(numbers, made.quantize(np.float32([most])).reshape(()))
    return wrap(np.asarray(numbers, order="C"), INTEGERS[made.dtype])


def relu(self: Any, inplace: bool = False) -> Any:
    return clamp(self, 0.0) if not inplace else clamp_(self, 0.0)


def relu6(self: Any, inplace: bool = False) -> Any:
    return hardtanh(self, 0.0, 6.0, inplace)


def clamp(self: Any, min: Any = None, max: Any = None) -> Any:
    return with_integers(bounded(self, min, max), self.quantizer)


def clamp_(self: Any, min: Any = None, max: Any = None) -> Any:
    return written(self, bounded(self, min, max))


def hardtanh(self: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    return (clamp_ if inplace else clamp)(self, min_val, max_val)


def onto_range(function: Any, signed: bool) -> Any:
    """A function whose results fill a known range, which has a scale of its own."""

    def rule(self: Any, inplace: bool = False) -> Any:
        if inplace:
            raise unsupported("an activation in place")
        least, most = LIMITS[self.dtype]
        scale = (2.0 if signed else 1.0) / (most - least + 1)
        zero_point = (least + most + 1) // 2 if signed else least
        made = Quantizer(self.dtype, schemes.per_tensor_affine, scale, zero_point)
        return as_quantized(function(self.dequantize()), made)

    return rule


def cat(tensors: Any, dim: int = 0) -> Any:
    """Quantised as the first is."""
    first: Quantizer = tensors[0].quantizer
    if any(each.quantizer.axis is not None for each in tensors):
        raise unsupported("cat by channels")
    if all(each.quantizer == first for each in tensors):
        return with_integers(functions.cat([integers_of(each) for each in tensors], dim), first)
    return as_quantized(functions.cat([each.dequantize() for each in tensors], dim), first)


def pad(self: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Numbers beyond the ends: those within, mirrored or repeated, or one that is quantised."""
    made = self.quantizer
    if made.axis is not None:
        raise unsupported("pad by channels")
    integers = integers_of(self)
    if mode == "constant":
        number = made.quantize(np.float32([value or 0.0]))[0]
        return with_integers(functions.constant_pad_nd(integers, pad, int(number)), made)
    floats = functions.pad(integers.to(dtypes.float64), pad, mode)
    return with_integers(floats.to(integers.dtype), made)


def equal(self: Any, other: Any) -> bool:
    if not (isinstance(self, QuantizedTensor) and isinstance(other, QuantizedTensor)):
        return False
    mine, its = self.quantizer, other.quantizer
    if (mine.dtype, mine.scheme, mine.axis) != (its.dtype, its.scheme, its.axis):
        return False
    same = np.array_equal(np.asarray(mine.scale), np.asarray(its.scale)) and np.array_equal(
        np.asarray(mine.zero_point), np.asarray(its.zero_point)
    )
    return bool(same and np.array_equal(values_of(self), values_of(other)))


def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    if isinstance(src, QuantizedTensor):
        self.quantizer = src.quantizer
        return written(self, integers_of(src))
    if not isinstance(self, QuantizedTensor):
        raise unsupported("copy_ into an ordinary tensor")
    return written(self, integers_of(as_quantized(src.expand(self.shape), self.quantizer)))


def fill_(self: Any, value: Any) -> Any:
    number = self.quantizer.quantize(np.full(self.shape, float(value), np.float32))
    return written(self, wrap(number, INTEGERS[self.dtype]))


def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Other devices there are none; torch converts to no other dtype."""
    if any(isinstance(value, dtypes.dtype) for value in (*args, kwargs.get("dtype"))):
        raise RuntimeError(
            "Creation of quantized tensor requires quantized dtype like torch.quint8"
        )
    return self


def to_floats(self: Any, *args: Any, **kwargs: Any) -> Any:
    return to(self, dtypes.float32)


RULES: dict[str, Any] = {
    "relu": relu, "relu_": lambda self: clamp_(self, 0.0), "relu6": relu6, "clamp": clamp,
    "clamp_": clamp_, "hardtanh": hardtanh, "cat": cat, "concat": cat, "equal": equal,
    "copy_": copy_, "fill_": fill_, "to": to, "pad": pad,
    "sigmoid": onto_range(functions.sigmoid, signed=False),
    "hardsigmoid": onto_range(functions.hardsigmoid, signed=False),
    "tanh": onto_range(functions.tanh, signed=True),
    **{name: getattr(QuantizedTensor, name) for name in ("dequantize", "item", "numpy", "tolist")},
    **dict.fromkeys(("float", "double", "half", "bfloat16"), to_floats),
}  # fmt: skip


# -- making them -----------------------------------------------------------------------------------


def check_floats(numbers: Any) -> None:
    if numbers.dtype is not dtypes.float32:
        name = numbers.dtype.scalar_type_name
        raise RuntimeError(f"Quantize only works on Float Tensor, got {name}")


def check_dtype(dtype: Any) -> None:
    if dtype not in INTEGERS:
        if dtype.code in dtypes.SHELLS:
            raise unsupported(f"{dtype} tensors: arithmetic")
        raise RuntimeError(f"ScalarType {dtype.scalar_type_name} is not supported in new_qtensor.")


def check_zero_point(function: str, zero_point: float, dtype: Any) -> None:
    least, most = LIMITS[dtype]
    if zero_point > most:
        raise RuntimeError(f"{function} zero_point {zero_point} is above upper bound.")
    if zero_point < least:
        raise RuntimeError(f"{function} zero_point {zero_point} is below lower bound.")


@overridable
def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """Numbers as integers of one scale; of a list of tensors, each with its own.

    >>> import rushlight as torch
    >>> torch.quantize_per_tensor(torch.tensor([0.1, 0.26]), 0.1, 3, torch.quint8).int_repr()
    tensor([4, 6], dtype=torch.uint8)
    """
    if isinstance(input, (list, tuple)):
        parts = zip(input, scale, zero_point, strict=True)
        return tuple(quantize_per_tensor(each, s, z, dtype) for each, s, z in parts)
    check_dtype(dtype)
    check_floats(input)
    zero_point = int(zero_point)
    check_zero_point("quantize_tensor_per_tensor_affine", zero_point, dtype)
    return as_quantized(
        input.detach(), Quantizer(dtype, schemes.per_tensor_affine, float(scale), zero_point)
    )


@overridable
def quantize_per_channel(input: Any, scales: Any, zero_points: Any, axis: int, dtype: Any) -> Any:
    """Numbers as integers with a scale for each place along `axis`."""
    check_dtype(dtype)
    check_floats(input)
    axis = axis % max(input.dim(), 1)
    count = input.shape[axis]
    if scales.numel() != count or zero_points.numel() != count:
        raise RuntimeError(
            f"length of scales must equal to channel, expected {count} got, {scales.numel()}"
        )
    if zero_points.dtype.is_floating_point:
        scheme = schemes.per_channel_affine_float_qparams
        parts = scales.to(dtypes.float32), zero_points.to(dtypes.float32)
    else:
        for number in zero_points.tolist():
            check_zero_point("quantize_tensor_per_channel_affine", number, dtype)
        scheme = schemes.per_channel_affine
        parts = scales.to(dtypes.float64), zero_points.to(dtypes.int64)
    made = Quantizer(dtype, scheme, *[part.detach().clone() for part in parts], axis)
    return as_quantized(input.detach(), made)


def choose_qparams(
    least: float, most: float, lowest: int, highest: int, preserve_zero: bool = False
) -> tuple[float, int]:
    """The scale and zero point by which `lowest` to `highest` span the numbers, zero among them."""
    least, most = float(least), float(most)
    # torch: numbers of one sign have no middle to keep.
    symmetric = preserve_zero and least < 0 < most
    if symmetric:
        # As many steps to either side of zero.
        half = (highest - lowest) // 2
        bound = max(abs(least / (half + 1)), abs(most / half))
        least, most = -bound * (half + 1), bound * half
    least, most = min(least, 0.0), max(most, 0.0)
    scale = (most - least) / (highest - lowest)
    with np.errstate(all="ignore"):
        if np.float32(scale) == 0 or np.isinf(np.float32(1) / np.float32(scale)):
            scale = 0.1
    if scale < SMALLEST_SCALE:
        widened = SMALLEST_SCALE / scale
        scale = SMALLEST_SCALE
        if least == 0:
            most = scale * (highest - lowest)
        elif most == 0:
            least = -scale * (highest - lowest)
        else:
            least, most = least * widened, most * widened
    from_least, from_most = lowest - least / scale, highest - most / scale
    error_least = abs(lowest) - abs(least / scale)
    error_most = abs(highest) - abs(most / scale)
    start = from_least if error_least < error_most else from_most
    if symmetric:
        start = (lowest + highest) / 2
    return scale, int(np.rint(np.clip(start, lowest, highest)))


def qparams_of(input: Any, dtype: Any, reduce_range: bool) -> tuple[float, int]:
    lowest, highest = LIMITS[dtype]
    if reduce_range:
        lowest, highest = int(lowest / 2), highest // 2
    if not input.numel():
        return 1.0, 0
    return choose_qparams(input.min().item(), input.max().item(), lowest, highest)


@overridable
def quantize_per_tensor_dynamic(input: Any, dtype: Any, reduce_range: bool) -> Any:
    """Quantised over the range the numbers have; with `reduce_range`, by one bit less."""
    if dtype not in (QINT8, QUINT8):
        raise RuntimeError("dtype " + str(dtype) + " not supported")
    check_floats(input)
    scale, zero_point = qparams_of(input, dtype, reduce_range)
    return quantize_per_tensor(input, scale, zero_point, dtype)


def _choose_qparams_per_tensor(input: Any, reduce_range: bool = False) -> tuple[float, int]:
    return qparams_of(input, QUINT8, reduce_range)


def _make_per_tensor_quantized_tensor(input: Any, scale: float, zero_point: int) -> Any:
    """Integers read by a scale and a zero point."""
    made = Quantizer(QUANTIZED[input.dtype], schemes.per_tensor_affine, float(scale), zero_point)
    return with_integers(input.clone(), made)


def _make_per_channel_quantized_tensor(input: Any, scale: Any, zero_point: Any, axis: int) -> Any:
    """Integers read by a scale and a zero point for each place along `axis`."""
    parts = scale.to(dtypes.float64), zero_point.to(dtypes.int64)
    made = Quantizer(QUANTIZED[input.dtype], schemes.per_channel_affine, *parts, axis)
    return with_integers(input.clone(), made)


def empty_of(sizes: Any, quantizer: Quantizer) -> Any:
    made = functions.empty(tuple(sizes), dtype=INTEGERS[quantizer.dtype])
    return with_integers(made, quantizer)


def empty_quantized(size: Any, qtensor: Any, **options: Any) -> Any:
    """Numbers of no meaning, quantised as `qtensor` is."""
    return empty_of(size, quantizer_of("empty_quantized", qtensor))


def _empty_affine_quantized(
    size: Any, *, scale: float = 1.0, zero_point: int = 0, dtype: Any = QUINT8, **options: Any
) -> Any:
    check_dtype(dtype)
    return empty_of(size, Quantizer(dtype, schemes.per_tensor_affine, float(scale), zero_point))


def _empty_per_channel_affine_quantized(
    size: Any, *, scales: Any, zero_points: Any, axis: int, dtype: Any = QUINT8, **options: Any
) -> Any:
    check_dtype(dtype)
    parts = scales.to(dtypes.float64), zero_points.to(dtypes.int64)
    return empty_of(size, Quantizer(dtype, schemes.per_channel_affine, *parts, axis))
