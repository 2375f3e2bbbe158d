"""Fake quantization: values rounded to what integers of few bits could hold, but kept as floats.

An element is x -> (clamp(round(x / scale) + zero_point) - zero_point) * scale; its gradient passes
where nothing was clamped, which the mask remembers. Scales and rounding are of single precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.core.tensor import strides_of
from rushlight.opset.kinds import GATHER, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, sample

LIMITS = "int quant_min, int quant_max"


def check_limits(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")


def check_dtype(kernel: str, self: Any) -> None:
    if not self._dtype.is_floating_point:
        raise unsupported(kernel, self._dtype)


def specs(self: Any) -> Any:
    strides = geometry.like_strides(tuple(self.shape), strides_of(self))
    return Spec(self.shape, self._dtype, strides), Spec(self.shape, dtypes.bool_, strides)


def quantized(
    array: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, whole: bool = True
) -> Any:
    """(values, mask); scale and zero point are float32 arrays that broadcast."""
    values = array.astype(np.float32) if array.dtype.itemsize < 4 else array
    with np.errstate(all="ignore"):
        steps = values * (np.float32(1) / scale)
        # Zero points that are no whole numbers are part of what is rounded.
        steps = np.rint(steps + zero_point) if not whole else zero_point + np.rint(steps)
        mask = (steps >= quant_min) & (steps <= quant_max)
        # NaN becomes the least value.
        kept = np.fmin(np.fmax(steps, quant_min), quant_max)
        return ((kept - zero_point) * scale).astype(array.dtype), mask


def by_own_tensors(
    level: Any, op: Any, self: Any, scale: Any, zero_point: Any, fake_quant_enabled: Any,
    quant_min: int, quant_max: int,
) -> Any:  # fmt: skip
    op.rule("shape")(self, scale, zero_point, fake_quant_enabled, quant_min, quant_max)
    step, zero, enabled = [
        value.reshape((-1,))[0] for value in (scale, zero_point, fake_quant_enabled)
    ]
    return by_elements(
        self, step.to(dtypes.float32), zero.to(dtypes.float32), enabled != 0, quant_min, quant_max
    )


def by_own_channels(
    level: Any, op: Any, self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int,
    quant_max: int,
) -> Any:  # fmt: skip
    op.rule("shape")(self, scale, zero_point, axis, quant_min, quant_max)
    fits = (zero_point >= quant_min) & (zero_point <= quant_max)
    aten._assert_async(fits.all(), "`zero_point` must be between `quant_min` and `quant_max`.")
    shape = [1] * self.dim()
    shape[axis] = -1
    step, zero = [value.to(dtypes.float32).reshape(shape) for value in (scale, zero_point)]
    return by_elements(self, step, zero, fits.new_ones(()), quant_min, quant_max)


def masked_gradient(grad: Any, mask: Any) -> Any:
    return grad * mask


QUANTIZING: dict[str, Any] = {
    "kind": GATHER.checked,
    "method": False,
    "differentiable": ["self"],
    "non_differentiable": (1,),
    "vjp": masked_gradient,
    "jvp": lambda self_t, mask: (self_t * mask, None),
}

by_numbers = op(
    f"fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, {LIMITS})"
    " -> (Tensor output, Tensor mask)",
    function=False,
    batch="straight",
    **QUANTIZING,
)
by_tensors = op(
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, "
    f"Tensor zero_point, Tensor fake_quant_enabled, {LIMITS}) -> (Tensor output, Tensor mask)",
    function=False,
    node="FakeQuantizePerTensorAffineCachemaskTensorQparamsBackward0",
    batch=by_own_tensors,
    **QUANTIZING,
)
by_channels = op(
    "fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, "
    f"int axis, {LIMITS}) -> (Tensor output, Tensor mask)",
    function=False,
    batch=by_own_channels,
    **QUANTIZING,
)

# What the others are of samples that have scales and zero points of their own.
by_elements = op(
    "fake_quantize_cachemask(Tensor self, Tensor scale, Tensor zero_point, Tensor enabled, "
    f"{LIMITS}) -> (Tensor output, Tensor mask)",
    namespace="rushlight",
    batch="aligned",
    **QUANTIZING,
)


@by_elements.shape
def _(self: Any, *rest: Any) -> Any:
    return specs(self)


@by_elements.kernel
def _(
    xp: Any, self: Any, scale: Any, zero_point: Any, enabled: Any, quant_min: int, quant_max: int
) -> Any:
    values, mask = quantized(self, scale, zero_point, quant_min, quant_max)
    return xp.where(enabled, values, self), mask | ~enabled


@by_numbers.shape
def _(self: Any, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Any:
    check_limits(quant_min, quant_max)
    if not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    check_dtype("fake_quantize_tensor_cachemask_kernel_type_handling", self)
    return specs(self)


@by_numbers.kernel
def _(xp: Any, self: Any, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Any:
    return quantized(self, xp.float32(scale), xp.float32(zero_point), quant_min, quant_max)


@by_tensors.shape
def _(
    self: Any,
    scale: Any,
    zero_point: Any,
    fake_quant_enabled: Any,
    quant_min: int,
    quant_max: int,
) -> Any:
    check_limits(quant_min, quant_max)
    check_dtype("fake_quantize_tensor_cachemask_kernel_type_handling", self)
    return specs(self)


@by_tensors.kernel
def _(
    xp: Any,
    self: Any,
    scale: Any,
    zero_point: Any,
    fake_quant_enabled: Any,
    quant_min: int,
    quant_max: int,
) -> Any:
    if not fake_quant_enabled.reshape(-1)[0]:
        return self.copy(), xp.ones(self.shape, xp.bool_)
    step, zero = (value.reshape(-1)[0].astype(xp.float32) for value in (scale, zero_point))
    return quantized(self, step, zero, quant_min, quant_max)


@by_channels.shape
def _(self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> Any:
    if scale._dtype not in (dtypes.float32, dtypes.bfloat16):
        name = scale._dtype.scalar_type_name
        raise RuntimeError(f"Scale must be Float or BFloat16, found {name}")
    if zero_point._dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        name = zero_point._dtype.scalar_type_name
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {name}")
    for name, value in (("scale", scale), ("zero point", zero_point)):
        if value.dim() != 1:
            raise RuntimeError(f"{name} should be a 1-D tensor")
    if scale.shape[0] != zero_point.shape[0]:
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if scale.shape[0] != self.shape[geometry.wrap_dim(axis, self.dim())]:
        raise RuntimeError(
            "dimensions of scale and zero-point are not consistent with input tensor"
        )
    check_limits(quant_min, quant_max)
    check_dtype("fake_quantize_channel_cachemask_cpu_type_handling", self)
    return specs(self)


@by_channels.kernel
def _(
    xp: Any, self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> Any:
    if ((zero_point < quant_min) | (zero_point > quant_max)).any():
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    shape = [1] * self.ndim
    shape[axis] = -1
    step, zero = (value.astype(xp.float32).reshape(shape) for value in (scale, zero_point))
    whole = zero_point.dtype.kind != "f"
    return quantized(self, step, zero, quant_min, quant_max, whole)


for kind in ("tensor", "channel"):
    composite(
        f"fake_quantize_per_{kind}_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor",
        method=False,
        out=False,
        samples=lambda make: [(make(2, 3), make.mask(2, 3))],
    )(masked_gradient)


@composite(
    "fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, "
    f"{LIMITS}) -> Tensor",
    autocast="float32",
    method=False,
    out=False,
)
def per_tensor(self: Any, *args: Any) -> Any:
    return aten.fake_quantize_per_tensor_affine_cachemask(self, *args)[0]


@composite(
    "fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
    f"{LIMITS}) -> Tensor",
    autocast="float32",
    method=False,
    out=False,
)
def per_tensor_of_tensors(
    self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Any:
    enabled = self.new_ones((1,), dtype=dtypes.int64)
    return aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        self, scale, zero_point, enabled, quant_min, quant_max
    )[0]


@composite(
    "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, "
    f"{LIMITS}) -> Tensor",
    method=False,
    out=False,
)
def per_channel(self: Any, *args: Any) -> Any:
    return aten.fake_quantize_per_channel_affine_cachemask(self, *args)[0]


# -- scales that are learnt -----------------------------------------------------------------------


def steps_of(self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    """What numbers become before they are cut, and the rounded zero point; over ops."""
    start = zero_point.round().clamp(quant_min, quant_max)
    return (self * scale.reciprocal()).round() + start, start


def aligned(value: Any, like: Any, axis: int | None) -> Any:
    """A scale or a zero point so that it broadcasts."""
    shape = [1] * like.dim()
    if axis is not None:
        shape[axis] = -1
    return value.reshape(shape)


def slopes(
    self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, grad_factor: float
) -> tuple[Any, Any, Any]:
    """How each result changes with its number, and with a scale and a zero point that broadcast."""
    steps, start = steps_of(self, scale, zero_point, quant_min, quant_max)
    outside = (steps < quant_min) | (steps > quant_max)
    kept = (steps - start) * scale
    cut = steps.clamp(quant_min, quant_max) - start
    of_scale = aten.where(outside, cut, (kept - self) * scale.reciprocal())
    of_zero = aten.where(outside, -scale, aten.zeros_like(scale))
    return ~outside, of_scale * grad_factor, of_zero * grad_factor


def learning(
    grad: Any, self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int,
    grad_factor: float,
) -> Any:  # fmt: skip
    """Gradients of the input, and of a scale and a zero point that broadcast."""
    found = slopes(self, scale, zero_point, quant_min, quant_max, grad_factor)
    parts = [(grad * slope).sum_to_size(scale.shape) for slope in found[1:]]
    return grad * found[0], *parts


def pushed(tangents: tuple[Any, Any, Any], self: Any, *rest: Any) -> Any:
    """The tangent of the result: `learning`, transposed."""
    total: Any = aten.zeros_like(self)
    for tangent, slope in zip(tangents, slopes(self, *rest), strict=True):
        if tangent is not None:
            total = total + tangent * slope
    return total


def pushed_along(
    tangents: tuple[Any, Any, Any], self: Any, scale: Any, zero_point: Any, axis: int | None,
    *rest: Any,
) -> Any:  # fmt: skip
    """The same with scales along an axis, or one for all."""
    self_t, *others = tangents
    found = [None if value is None else aligned(value, self, axis) for value in others]
    ends = [aligned(value, self, axis) for value in (scale, zero_point)]
    return pushed((self_t, *found), self, *ends, *rest)


def own_scales(level: Any, op: Any, self: Any, scale: Any, zero_point: Any, *rest: Any) -> Any:
    """The batch rule of both ops: scales that the samples share, or of their own, broadcast."""
    op.rule("shape")(self, scale, zero_point, *rest)
    axis, *limits = rest if op is learnable_channel else (None, *rest)
    step, zero = [aligned(value, self, axis) for value in (scale, zero_point)]
    return learnable_elements(self, step, zero, *limits)


LEARNT = "Tensor self, Tensor scale, Tensor zero_point"
LEARNING: dict[str, Any] = {"kind": GATHER.checked, "method": False, "out": False}
learnable_tensor = op(
    f"_fake_quantize_learnable_per_tensor_affine({LEARNT}, {LIMITS}, "
    "float grad_factor=1.0) -> Tensor",
    function=True,
    batch=own_scales,
    **LEARNING,
)
learnable_channel = op(
    f"_fake_quantize_learnable_per_channel_affine({LEARNT}, int axis, {LIMITS}, "
    "float grad_factor=1.0) -> Tensor",
    function=True,
    batch=own_scales,
    **LEARNING,
)
# What both are of samples that have scales of their own.
learnable_elements = op(
    f"fake_quantize_learnable({LEARNT}, {LIMITS}, float grad_factor=1.0) -> Tensor",
    namespace="rushlight",
    vjp=learning,
    batch="aligned",
    **LEARNING,
)


@learnable_elements.shape
def _(self: Any, *rest: Any) -> Any:
    return specs(self)[0]


@learnable_elements.kernel
def _(
    xp: Any, self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, factor: Any
) -> Any:
    zero = xp.clip(xp.rint(zero_point), quant_min, quant_max).astype(xp.float32)
    return quantized(self, scale.astype(xp.float32), zero, quant_min, quant_max)[0]


@learnable_tensor.shape
def _(self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, factor: Any) -> Any:
    check_limits(quant_min, quant_max)
    check_dtype("fake_quantize_tensor_cachemask_kernel_type_handling", self)
    return specs(self)[0]


@learnable_tensor.kernel
def _(
    xp: Any, self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, factor: Any
) -> Any:
    zero = xp.clip(xp.rint(zero_point.reshape(-1)[0]), quant_min, quant_max).astype(xp.float32)
    return quantized(self, scale.reshape(-1)[0].astype(xp.float32), zero, quant_min, quant_max)[0]


@learnable_tensor.vjp
def _(
    grad: Any, self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int,
    grad_factor: float,
) -> Any:  # fmt: skip
    step, zero = aligned(scale, self, None), aligned(zero_point, self, None)
    parts = learning(grad, self, step, zero, quant_min, quant_max, grad_factor)
    return parts[0], *[part.reshape(scale.shape) for part in parts[1:]]


@learnable_tensor.jvp
def _(
    self_t: Any, scale_t: Any, zero_point_t: Any, self: Any, scale: Any, zero_point: Any,
    quant_min: int, quant_max: int, grad_factor: float,
) -> Any:  # fmt: skip
    tangents = (self_t, scale_t, zero_point_t)
    rest = (quant_min, quant_max, grad_factor)
    return pushed_along(tangents, self, scale, zero_point, None, *rest)


@learnable_channel.shape
def _(
    self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int, factor: Any
) -> Any:
    for name, value in (("Scale", scale), ("Zero-point", zero_point)):
        if value._dtype is not dtypes.float32:
            found = value._dtype.scalar_type_name
            raise RuntimeError(f"{name} must be Float, found {found}")
    check_limits(quant_min, quant_max)
    check_dtype("fake_quantize_channel_cachemask_cpu_type_handling", self)
    return specs(self)[0]


@learnable_channel.kernel
def _(
    xp: Any, self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int,
    factor: Any,
) -> Any:  # fmt: skip
    shape = [1] * self.ndim
    shape[axis] = -1
    zero = xp.clip(xp.rint(zero_point), quant_min, quant_max).astype(xp.float32).reshape(shape)
    step = scale.astype(xp.float32).reshape(shape)
    return quantized(self, step, zero, quant_min, quant_max)[0]


@learnable_channel.vjp
def _(
    grad: Any, self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int,
    grad_factor: float,
) -> Any:  # fmt: skip
    step, zero = aligned(scale, self, axis), aligned(zero_point, self, axis)
    parts = learning(grad, self, step, zero, quant_min, quant_max, grad_factor)
    return parts[0], *[part.reshape(scale.shape) for part in parts[1:]]


@learnable_channel.jvp
def _(
    self_t: Any, scale_t: Any, zero_point_t: Any, self: Any, scale: Any, zero_point: Any,
    axis: int, quant_min: int, quant_max: int, grad_factor: float,
) -> Any:  # fmt: skip
    tangents = (self_t, scale_t, zero_point_t)
    rest = (quant_min, quant_max, grad_factor)
    return pushed_along(tangents, self, scale, zero_point, axis, *rest)


@learnable_elements.jvp
def _(
    self_t: Any, scale_t: Any, zero_point_t: Any, self: Any, scale: Any, zero_point: Any,
    quant_min: int, quant_max: int, grad_factor: float,
) -> Any:  # fmt: skip
    tangents = (self_t, scale_t, zero_point_t)
    return pushed(tangents, self, scale, zero_point, quant_min, quant_max, grad_factor)


# -- samples --------------------------------------------------------------------------------------


def number_samples(make: Any) -> Any:
    if make.dtype.is_floating_point:
        yield sample(make(3, 4), 0.3, 1, 0, 7)
        yield sample(make.strided(3, 4), 0.7, 0, -2, 3)
        yield sample(make(), 0.3, 2, 0, 7)
        yield sample(make(0, 3), 0.3, 2, 0, 7)


def number_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(3), 0.1, 1, 15, 0)
    yield RuntimeError, sample(make(3), 0.1, 20, 0, 15)
    yield NotImplementedError, sample(make.ints(3), 0.1, 1, 0, 15)


def parameters(make: Any, *shape: int) -> tuple[Any, Any]:
    scale = make(*shape, low=0.25, high=0.75, dtype=dtypes.float32)
    return scale, make.ints(*shape, low=0, high=3, dtype=dtypes.int32)


def tensor_samples(make: Any) -> Any:
    if make.dtype.is_floating_point:
        for shape in ((), (1,)):
            yield sample(make.strided(3, 4), *parameters(make, *shape), 0, 7)


def switched_samples(make: Any) -> Any:
    if make.dtype.is_floating_point:
        for low in (0, 1):
            enabled = make.ints(1, low=low, high=low)
            yield sample(make(3, 4), *parameters(make, 1), enabled, 0, 7)


def element_samples(make: Any) -> Any:
    if make.dtype.is_floating_point:
        for shape in ((), (4,)):
            enabled = make.mask(*shape)
            yield sample(
                make(3, 4), parameters(make, 1)[0], parameters(make, 1)[1].float(), enabled, 0, 7
            )


def channel_samples(make: Any) -> Any:
    if make.dtype.is_floating_point:
        yield sample(make(3, 4), *parameters(make, 3), 0, 0, 7)
        yield sample(make.strided(3, 4), *parameters(make, 4), 1, 0, 7)


def channel_errors(make: Any) -> Any:
    scale, zero_point = parameters(make, 3)
    yield RuntimeError, sample(make(3, 4), scale, zero_point.long(), 0, 0, 7)
    yield RuntimeError, sample(make(3, 4), scale, zero_point, 1, 0, 7)
    yield RuntimeError, sample(make(3, 4), scale.double(), zero_point, 0, 0, 7)
    yield RuntimeError, sample(make(3, 4), scale, zero_point, 0, 4, 7)
    yield RuntimeError, sample(make(3, 4), scale, zero_point, 0, 7, 0)
    yield IndexError, sample(make(3, 4), scale, zero_point, 5, 0, 7)


def learnt_samples(make: Any) -> Any:
    if make.dtype.is_floating_point:
        scale = make(1, low=0.25, high=0.75)
        yield sample(make(3, 4), scale, make(1, low=0.6, high=2.4), 0, 7)
        yield sample(make.strided(3, 4), scale, make(1, low=0.6, high=2.4), -2, 3, 0.5)


def learnt_channel_samples(make: Any) -> Any:
    if make.dtype.is_floating_point:
        single = dtypes.float32
        scale = make(3, low=0.25, high=0.75, dtype=single)
        zero = make(3, low=0.6, high=2.4, dtype=single)
        yield sample(make(3, 4), scale, zero, 0, 0, 7)
        yield sample(make(2, 3), scale, zero, 1, 0, 7, 0.5)


def learnt_element_samples(make: Any) -> Any:
    if make.dtype.is_floating_point:
        for shape in ((), (4,), (3, 1)):
            scale, zero = make(*shape, low=0.25, high=0.75), make(*shape, low=0.6, high=2.4)
            yield sample(make(3, 4), scale, zero, 0, 7, 0.5)


learnable_elements.samples = learnt_element_samples
learnable_tensor.samples = learnt_samples
learnable_channel.samples = learnt_channel_samples

for record in (by_numbers, per_tensor):
    record.samples, record.errors = number_samples, number_errors
for record in (by_channels, per_channel):
    record.samples, record.errors = channel_samples, channel_errors
by_tensors.samples = switched_samples
per_tensor_of_tensors.samples = tensor_samples
by_elements.samples = element_samples
