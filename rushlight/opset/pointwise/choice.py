"""Elementwise choice: the larger, the smaller, clamped, one or the other, and mixtures."""

from __future__ import annotations

from typing import Any, cast

from rushlight.arrays.casting import fill_number, held_number
from rushlight.arrays.precision import HALVES
from rushlight.core import dtype as dtypes
from rushlight.core.dtype import BOOL, COMPLEX, FLOAT, dtype, unsupported
from rushlight.core.op import Tag
from rushlight.core.promotion import result_dtype_scalar, scalar_dtype
from rushlight.core.tensor import Tensor
from rushlight.opset import functions
from rushlight.opset.elementwise import NARROW, PAIRS, refuse_complex
from rushlight.opset.exposure import method_alias
from rushlight.opset.pointwise.arithmetic import (
    is_inexact,
    is_number_type,
    is_real,
    sample_of,
    zeros_where,
)
from rushlight.opset.registry import alias, composite, pointwise
from rushlight.opset.rules import aten, conj
from rushlight.symbolic.numbers import SymFloat

# -- larger and smaller ---------------------------------------------------------------------------


def half_at_ties(grad: Any, self: Any, other: Any, lost: Any) -> Any:
    return zeros_where(lost, functions.where(self == other, grad / 2, grad))


maximum = pointwise(
    "maximum(Tensor self, Tensor other) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, dtype=dtypes.complex64), make(2)))],
    scalar=lambda m, x, y: m.maximum(x, y),
    numbers=False,
    inplace=False,
    dtypes=is_real,
    check=refuse_complex("maximum not implemented for complex tensors."),
    vjp={
        "self": lambda grad, self, other: half_at_ties(grad, self, other, self < other),
        "other": lambda grad, self, other: half_at_ties(grad, self, other, self > other),
    },
)
minimum = pointwise(
    "minimum(Tensor self, Tensor other) -> Tensor",
    scalar=lambda m, x, y: m.minimum(x, y),
    numbers=False,
    inplace=False,
    dtypes=is_real,
    check=refuse_complex("minimum not implemented for complex tensors."),
    vjp={
        "self": lambda grad, self, other: half_at_ties(grad, self, other, self > other),
        "other": lambda grad, self, other: half_at_ties(grad, self, other, self < other),
    },
)
fmax = pointwise(
    "fmax(Tensor self, Tensor other) -> Tensor",
    scalar=lambda m, x, y: m.fmax(x, y),
    numbers=False,
    inplace=False,
    dtypes=is_real,
    check=refuse_complex("fmax not implemented for complex tensors."),
    vjp={
        "self": lambda grad, self, other: zeros_where(
            ((self >= other) | other.isnan()).logical_not(), grad
        ),
        "other": lambda grad, self, other: zeros_where((self >= other) | other.isnan(), grad),
    },
)
fmin = pointwise(
    "fmin(Tensor self, Tensor other) -> Tensor",
    scalar=lambda m, x, y: m.fmin(x, y),
    numbers=False,
    inplace=False,
    dtypes=is_real,
    check=refuse_complex("fmin not implemented for complex tensors."),
    vjp={
        "self": lambda grad, self, other: zeros_where(
            ((self <= other) | other.isnan()).logical_not(), grad
        ),
        "other": lambda grad, self, other: zeros_where((self <= other) | other.isnan(), grad),
    },
)


def clamp_text(m: Any, x: Any, low: Any, high: Any) -> Any:
    # Where the bounds are in conflict the upper one wins; nan of any operand stays.
    if low is not None:
        x = m.maximum(x, low)
    return x if high is None else m.minimum(x, high)


def check_bound(common: dtype, args: tuple[Any, ...]) -> None:
    if common.category == COMPLEX:
        raise NotImplementedError("clamp is not supported for complex types")  # torch: the words.


def check_held(common: dtype, args: tuple[Any, ...]) -> None:
    """Refuse numbers that the dtype does not hold."""
    for number in args[1:]:
        if isinstance(number, (int, float)):
            held_number(number, common)


def check_numbers(common: dtype, args: tuple[Any, ...]) -> None:
    check_bound(common, args)
    check_held(common, args)


def check_clamp(common: dtype, args: tuple[Any, ...]) -> None:
    if args[1] is None and args[2] is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    check_numbers(common, args)


def check_clamp_tensor(common: dtype, args: tuple[Any, ...]) -> None:
    if args[1] is None or args[2] is None:
        if common.category == COMPLEX:
            raise unsupported("maximum_cpu" if args[2] is None else "minimum_cpu", common)
    else:
        check_bound(common, args)
    if common.category == BOOL and args[1] is not None and args[2] is not None:
        raise unsupported("clamp_cpu", common)


def clamp_self_gradient(grad: Any, self: Any, min: Any, max: Any) -> Any:
    # torch: a bound itself passes the gradient on.
    if max is None:
        inside = self >= min
    elif min is None:
        inside = self <= max
    else:
        inside = (self >= min).logical_and(self <= max)
    return functions.where(inside, grad, 0)


clamp = pointwise(
    "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    scalar=clamp_text,
    promoted_scalars=(1, 2),
    dtypes=is_number_type,
    kernel_name="clamp_scalar_cpu",
    check=check_clamp,
    node_index=1,
    vjp=clamp_self_gradient,
    samples=lambda make: (
        (make(3, 4), -1, 1),
        sample_of(make.strided(3, 4), min=1),
        sample_of(make(3), max=1.5),
        (make(), 0.5, 1.5),
        (make(0), 0, 1),
    ),
    errors=lambda make: [
        (RuntimeError, (make(3),)),
        (RuntimeError, (make(2),)),
        (NotImplementedError, (make(2, dtype=dtypes.complex64), 0)),
    ],
)
pointwise(
    "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    scalar=clamp_text,
    numbers=False,
    dtypes=is_real,
    check=check_clamp_tensor,
    vjp={
        "self": clamp_self_gradient,
        "min": lambda grad, self, min, max: functions.where(
            self < min if max is None else (self < min).logical_and(min < max), grad, 0
        ),
        "max": lambda grad, self, min, max: functions.where(
            self > max if min is None else (self > max).logical_or(max < min), grad, 0
        ),
    },
    samples=lambda make: (
        (make(3, 4), make(3, 4), make(3, 4)),
        (make(3, 4), make(4), None),
        (make(3, 4), None, make(3, 1)),
    ),
)
clamp_min = pointwise(
    "clamp_min(Tensor self, Scalar min) -> Tensor",
    scalar=lambda m, x, y: m.maximum(x, y),
    promoted_scalars=(1,),
    dtypes=is_number_type,
    kernel_name="clamp_min_scalar_cpu",
    check=check_numbers,
    vjp=lambda grad, self, min: functions.where(self >= min, grad, 0),
    samples=lambda make: ((make(3, 4), 1), (make(), 0.5), (make(0), 1)),
)
pointwise(
    "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
    scalar=clamp_min.options["scalar"],
    numbers=False,
    dtypes=is_real,
    kernel_name="maximum_cpu",
    node_index=1,
    vjp={
        "self": lambda grad, self, min: functions.where(self >= min, grad, 0),
        "min": lambda grad, self, min: functions.where(self < min, grad, 0),
    },
)
clamp_max = pointwise(
    "clamp_max(Tensor self, Scalar max) -> Tensor",
    scalar=lambda m, x, y: m.minimum(x, y),
    promoted_scalars=(1,),
    dtypes=is_number_type,
    kernel_name="clamp_max_scalar_cpu",
    check=check_numbers,
    vjp=lambda grad, self, max: functions.where(self <= max, grad, 0),
    samples=lambda make: ((make(3, 4), 1), (make(), 0.5), (make(0), 1)),
)
pointwise(
    "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
    scalar=clamp_max.options["scalar"],
    numbers=False,
    dtypes=is_real,
    kernel_name="minimum_cpu",
    node_index=1,
    vjp={
        "self": lambda grad, self, max: functions.where(self <= max, grad, 0),
        "max": lambda grad, self, max: functions.where(self > max, grad, 0),
    },
)


# -- choosing and mixing --------------------------------------------------------------------------


def check_where(common: dtype, args: tuple[Any, ...]) -> None:
    found = args[0]._dtype
    if found not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{found.scalar_type_name}"
        )


def scalar_like(value: Any, other: Tensor) -> Tensor:
    """A number as a 0-dim tensor that promotes with `other` as the number does."""
    dtype = result_dtype_scalar(other._dtype, value)
    return cast(Tensor, functions.scalar_tensor(value, dtype=dtype, device=other.device))


where = pointwise(
    "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make.ints(2), make(2), make(2))),
        (RuntimeError, (make.mask(2), make(3), make(2))),
    ],
    exact_out=True,
    scalar=lambda m, condition, x, y: m.where(condition, x, y),
    numbers=False,
    inplace=False,
    method=False,
    unpromoted=(0,),
    narrow=NARROW,
    check=check_where,
    vjp={
        "self": lambda grad, condition: functions.where(condition, grad, 0),
        "other": lambda grad, condition: functions.where(condition, 0, grad),
    },
    samples=lambda make: (
        (make.mask(3, 4), make(3, 4), make(3, 4)),
        (make.mask(3, 1), make(4), make(3, 4)),
        (make.mask(), make(), make(2)),
        (make.mask(0), make(0), make(0)),
    ),
)


@composite(
    "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
    method=False,
    samples=lambda make: ((make.mask(3, 4), make(3, 4), 1), (make.mask(3), make(), 2.5)),
)
def where_scalar_other(condition: Any, self: Any, other: Any) -> Any:
    return where(condition, self, scalar_like(other, self))


@composite(
    "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
    method=False,
    samples=lambda make: ((make.mask(3, 4), 1, make(3, 4)), (make.mask(3), 2.5, make())),
)
def where_scalar_self(condition: Any, self: Any, other: Any) -> Any:
    return where(condition, scalar_like(self, other), other)


@composite(
    "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
    method=False,
    samples=lambda make: ((make.mask(3, 4), 1, 2), (make.mask(3), 1, 2.5), (make.mask(), True, 3)),
)
def where_scalars(condition: Any, self: Any, other: Any) -> Any:
    kinds = (scalar_dtype(self), scalar_dtype(other))
    dtype = kinds[0] if kinds[0].category >= kinds[1].category else kinds[1]
    device = condition.device
    return where(
        condition,
        functions.scalar_tensor(self, dtype=dtype, device=device),
        functions.scalar_tensor(other, dtype=dtype, device=device),
    )


@composite(
    "where(Tensor condition) -> Tensor[]",
    method=False,
    tags=(Tag.dynamic_output_shape,),
    samples=lambda make: ((make.mask(3, 4),), (make.ints(6, high=2),), (make.mask(),)),
)
def where_positions(condition: Any) -> Any:
    return aten.nonzero_numpy(condition)


def where_method(self: Any, condition: Any, other: Any) -> Any:
    """`x.where(condition, other)`: x where the condition holds."""
    return functions.where(condition, self, other)


where_method.__name__ = where_method.__qualname__ = "where"
Tensor.where = where_method  # type: ignore[attr-defined]


def lerp_text(m: Any, start: Any, end: Any, weight: Any) -> Any:
    # Of two forms that agree, the one exact at the nearer end.
    near = m.abs(weight) < 0.5
    gap = end - start
    return m.where(near, start + weight * gap, end - gap * (1 - weight))


def check_lerp(common: dtype, args: tuple[Any, ...]) -> None:
    names = ("end", "weight")
    for name, value in zip(names, args[1:], strict=True):
        if isinstance(value, Tensor) and value._dtype is not args[0]._dtype:
            if name == "weight" and value.dim() == 0:
                continue
            raise RuntimeError(
                f"expected dtype {args[0]._dtype.scalar_type_name.lower()} for `{name}` but got "
                f"dtype {value._dtype.scalar_type_name.lower()}"
            )


pointwise(
    "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2), make(2, dtype=dtypes.float64), 0.5))],
    scalar=lerp_text,
    numbers=False,
    dtypes=is_inexact,
    kernel_name="lerp_kernel_scalar",
    check=check_lerp,
    vjp={
        "self": lambda grad, weight: grad * (1 - conj(weight)),
        "end": lambda grad, weight: grad * conj(weight),
    },
    samples=lambda make: (
        (make(3, 4), make(3, 4), 0.25),
        (make(3, 4), make(4), 0.75),
        (make(), make(), 0.5),
    ),
)
lerp = pointwise(
    "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
    scalar=lerp_text,
    numbers=False,
    dtypes=is_inexact,
    kernel_name="lerp_kernel_tensor",
    check=check_lerp,
    node_index=1,
    vjp={
        "self": lambda grad, weight: grad * conj(1 - weight),
        "end": lambda grad, weight: grad * conj(weight),
        "weight": lambda grad, self, end: grad * conj(end - self),
    },
)


def check_factor(common: dtype, args: tuple[Any, ...]) -> None:
    # A factor that the dtype does not hold is refused; a fraction is cut off. Capture has a symbol
    # stand for small ones only.
    if not isinstance(args[3], SymFloat):
        fill_number(args[3], dtypes.float32 if common in HALVES else common)


def check_addcdiv(common: dtype, args: tuple[Any, ...]) -> None:
    if args[1]._dtype.category < FLOAT and args[2]._dtype.category < FLOAT:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release "
            "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
            "behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2))."
            "to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for "
            "float inputs. The future addcdiv behavior is just the latter implementation: "
            "(input + value * tensor1 / tensor2), for all dtypes."
        )
    check_factor(common, args)


addcmul = pointwise(
    "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    former=(("self", "value", "tensor1", "tensor2"),),
    scalar=lambda m, x, a, b, value: m.add(x, value * a * b),
    numbers=False,
    dtypes=lambda dtype: dtype.category != BOOL,
    kernel_name="addcmul_cpu_out",
    check=check_factor,
    cast_scalars=(3,),
    narrow=PAIRS,
    vjp={
        "self": lambda grad: grad,
        "tensor1": lambda grad, tensor2, value: grad * conj(tensor2 * value),
        "tensor2": lambda grad, tensor1, value: grad * conj(tensor1 * value),
    },
    samples=lambda make: (
        (make(3, 4), make(3, 4), make(3, 4)),
        sample_of(make(3, 4), make(4), make(3, 1), value=2),
        (make(), make(), make()),
    ),
)
addcdiv = pointwise(
    "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    former=(("self", "value", "tensor1", "tensor2"),),
    scalar=lambda m, x, a, b, value: m.add(x, m.divide(value * a, b)),
    numbers=False,
    dtypes=is_inexact,
    kernel_name="addcdiv_cpu_out",
    check=check_addcdiv,
    cast_scalars=(3,),
    vjp={
        "self": lambda grad: grad,
        "tensor1": lambda grad, tensor2, value: grad * conj(value / tensor2),
        "tensor2": lambda grad, tensor1, tensor2, value: (
            -grad * conj(value * tensor1 / (tensor2 * tensor2))
        ),
    },
    samples=lambda make: (
        (make(3, 4), make(3, 4), make.positive(3, 4)),
        sample_of(make(3, 4), make(4), make.positive(3, 1), value=0.5),
        (make(), make(), make.positive()),
    ),
)


alias("clip", "clamp")
method_alias("clip_", "clamp_")
