"""Elementwise arithmetic and the operators of Python that stand for it.

`scalar` is the one text of an op's arithmetic; broadcasting, promotion, strides, forward mode,
in-place and out= forms follow from the kind. Overloads that take a number where another takes a
tensor share its text, so that a call may run either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.arrays.numpy_ import MATH
from rushlight.base.errors import error
from rushlight.core import dtype as dtypes
from rushlight.core.dispatch import try_function_override
from rushlight.core.dtype import BOOL, COMPLEX, FLOAT, INTEGER, dtype, unsupported
from rushlight.core.operators import ARITHMETIC, UNARY
from rushlight.core.promotion import scalar_dtype
from rushlight.core.tensor import PLAIN, Tensor
from rushlight.opset import functions
from rushlight.opset.elementwise import INT_TO_FLOAT, NARROW, PAIRS
from rushlight.opset.exposure import method_alias
from rushlight.opset.large import remainders
from rushlight.opset.registry import alias, composite, pointwise
from rushlight.opset.rules import conj, late, sample
from rushlight.symbolic.numbers import SymFloat, SymInt

LN2 = math.log(2.0)


def is_real(dtype: dtype) -> bool:
    return dtype.category != COMPLEX


def is_number_type(dtype: dtype) -> bool:
    """Neither bool nor complex."""
    return dtype.category in (INTEGER, FLOAT)


def is_float(dtype: dtype) -> bool:
    return dtype.category == FLOAT


def is_integral(dtype: dtype) -> bool:
    return dtype.category <= INTEGER


def is_integer(dtype: dtype) -> bool:
    return dtype.category == INTEGER


def is_inexact(dtype: dtype) -> bool:
    return dtype.category >= FLOAT


def category_of(value: Any) -> int:
    """The category of a tensor or a number."""
    found = value._dtype if isinstance(value, Tensor) else scalar_dtype(value)
    return int(found.category)


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


# -- addition -------------------------------------------------------------------------------------


def check_alpha(common: dtype, alpha: Any) -> None:
    if type(alpha) is int:
        return
    if isinstance(alpha, bool) and common.category != BOOL:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and common.category < FLOAT:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if isinstance(alpha, complex) and common.category < COMPLEX:
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )


def check_add(common: dtype, args: tuple[Any, ...]) -> None:
    check_alpha(common, args[2])


def check_sub(common: dtype, args: tuple[Any, ...]) -> None:
    found = (category_of(args[0]), category_of(args[1]))
    if found == (BOOL, BOOL):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if BOOL in found:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    check_alpha(common, args[2])


def scaled(value: Any, alpha: Any) -> Any:
    """value * conj(alpha), left alone when alpha is 1."""
    is_known = type(alpha) is not bool and not isinstance(alpha, SymFloat)
    return value if is_known and alpha == 1 else value * conj(alpha)


def add_text(m: Any, x: Any, y: Any, alpha: Any) -> Any:
    return m.add(x, y if alpha == 1 else m.multiply(y, alpha))


def sub_text(m: Any, x: Any, y: Any, alpha: Any) -> Any:
    return m.subtract(x, y if alpha == 1 else m.multiply(y, alpha))


def rsub_text(m: Any, x: Any, y: Any, alpha: Any) -> Any:
    return m.subtract(y, x if alpha == 1 else m.multiply(x, alpha))


add = pointwise(
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    errors=lambda make: [(RuntimeError, sample(make.ints(2), make.ints(2), alpha=1.5))],
    sparse=late("sparse.math:add"),
    sparse_inplace=late("sparse.math:add_in_place"),
    former=(("self", "alpha", "other"),),
    scalar=add_text,
    factors=(2,),
    narrow=PAIRS,
    check=check_add,
    numbers="any",
    vjp={
        "self": lambda grad: grad,
        "other": lambda grad, alpha: scaled(grad, alpha),
    },
)
pointwise(
    "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    sparse=late("sparse.math:refuse_number"),
    scalar=add_text,
    factors=(2,),
    narrow=PAIRS,
    check=check_add,
    promoted_scalars=(1,),
    node_index=1,
    vjp=lambda grad: grad,
)
sub = pointwise(
    "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make.mask(2), make.mask(2)))],
    sparse=late("sparse.math:sub"),
    former=(("self", "alpha", "other"),),
    scalar=sub_text,
    factors=(2,),
    narrow=PAIRS,
    check=check_sub,
    numbers="any",
    vjp={
        "self": lambda grad: grad,
        "other": lambda grad, alpha: scaled(-grad, alpha),
    },
)
pointwise(
    "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    sparse=late("sparse.math:refuse_number"),
    scalar=sub_text,
    factors=(2,),
    narrow=PAIRS,
    check=check_sub,
    promoted_scalars=(1,),
    node_index=1,
    vjp=lambda grad: grad,
)
rsub = pointwise(
    "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    sparse=late("sparse.math:rsub"),
    scalar=rsub_text,
    factors=(2,),
    narrow=PAIRS,
    check=check_sub,
    numbers=False,
    swapped=True,
    inplace=False,
    method=False,
    vjp={
        "self": lambda grad, alpha: scaled(-grad, alpha),
        "other": lambda grad: grad,
    },
)
pointwise(
    "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    sparse=late("sparse.math:refuse_number"),
    scalar=rsub_text,
    factors=(2,),
    narrow=PAIRS,
    check=check_sub,
    promoted_scalars=(1,),
    inplace=False,
    method=False,
    node_index=1,
    vjp=lambda grad, alpha: scaled(-grad, alpha),
)


# -- multiplication and division ------------------------------------------------------------------

mul = pointwise(
    "mul.Tensor(Tensor self, Tensor other) -> Tensor",
    out_dtype=True,
    sparse=late("sparse.math:mul"),
    scalar=lambda m, x, y: m.multiply(x, y),
    numbers="any",
    narrow=NARROW,
    exact_scalars=True,
    vjp={
        "self": lambda grad, other: grad * conj(other),
        "other": lambda grad, self: grad * conj(self),
    },
)
pointwise(
    "mul.Scalar(Tensor self, Scalar other) -> Tensor",
    out_dtype=True,
    sparse=late("sparse.math:mul"),
    scalar=mul.options["scalar"],
    narrow=NARROW,
    exact_scalars=True,
    promoted_scalars=(1,),
    node_index=1,
    vjp=lambda grad, other: grad * conj(other),
)
div = pointwise(
    "div.Tensor(Tensor self, Tensor other) -> Tensor",
    out_dtype=True,
    sparse=late("sparse.math:div"),
    scalar=lambda m, x, y: m.divide(x, y),
    promote=INT_TO_FLOAT,
    numbers="any",
    exact_scalars=True,
    vjp={
        "self": lambda grad, other: grad / conj(other),
        "other": lambda grad, self, other: -grad * conj((self / other) / other),
    },
)
pointwise(
    "div.Scalar(Tensor self, Scalar other) -> Tensor",
    out_dtype=True,
    sparse=late("sparse.math:div"),
    scalar=div.options["scalar"],
    promote=INT_TO_FLOAT,
    exact_scalars=True,
    promoted_scalars=(1,),
    node_index=1,
    vjp=lambda grad, other: grad / conj(other),
)


def promote_quotient(common: dtype, args: tuple[Any, ...]) -> tuple[dtype, dtype]:
    """Rounded quotients of integers stay integers."""
    mode = args[2]
    if mode not in (None, "trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'"
        )
    if mode is None:
        common = dtypes.get_default_dtype() if common.category < FLOAT else common
    else:
        name = "div_floor_cpu" if mode == "floor" else "div_trunc_cpu"
        if common.category in (BOOL, COMPLEX):
            raise unsupported(name, common)
    return common, common


def is_wide(other: Any) -> bool:
    """Whether a divisor is more than one number, which alone has more than half precision."""
    return isinstance(other, Tensor) and other.dim() > 0


def rounds_on_the_way(args: tuple[Any, ...]) -> bool:
    return args[2] is not None and is_wide(args[1])


def by_remainders(name: str) -> Any:
    """The text of a division that is exact by its remainder."""

    def text(m: Any, x: Any, y: Any) -> Any:
        found = remainders(name, x, y) if m is MATH else None
        return getattr(m, name)(x, y) if found is None else found

    return text


floor_text = by_remainders("floor_divide")


def quotient_text(m: Any, x: Any, y: Any, rounding_mode: Any) -> Any:
    if rounding_mode is None:
        return m.divide(x, y)
    return floor_text(m, x, y) if rounding_mode == "floor" else m.trunc_divide(x, y)


pointwise(
    "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
    errors=lambda make: [
        (RuntimeError, sample(make(2), make(2), rounding_mode="up")),
        (
            NotImplementedError,
            sample(make(2, dtype=dtypes.complex64), make(2), rounding_mode="floor"),
        ),
    ],
    sparse=late("sparse.math:div"),
    scalar=quotient_text,
    exact_scalars=True,
    native_halves=rounds_on_the_way,
    promote=promote_quotient,
    numbers="any",
    node_index=2,
    vjp={
        "self": lambda grad, other, rounding_mode: (
            grad / conj(other) if rounding_mode is None else functions.zeros_like(grad)
        ),
        "other": lambda grad, self, other, rounding_mode: (
            -grad * conj((self / other) / other)
            if rounding_mode is None
            else functions.zeros_like(grad)
        ),
    },
    samples=lambda make: (
        sample_of(a, b, rounding_mode=mode)
        for mode in (None, "trunc", "floor")
        for a, b in (
            (make(3, 4), make.positive(3, 4)),
            (make(2, 3), make.positive(3)),
            (make(), make.positive()),
            (make(0, 3), make.positive(0, 3)),
        )
    ),
)
pointwise(
    "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
    exact_scalars=True,
    sparse=late("sparse.math:div"),
    scalar=quotient_text,
    promote=promote_quotient,
    promoted_scalars=(1,),
    node_index=3,
    vjp=lambda grad, other, rounding_mode: (
        grad / conj(other) if rounding_mode is None else functions.zeros_like(grad)
    ),
    samples=lambda make: (
        sample_of(make(3, 4), 2, rounding_mode=mode) for mode in (None, "trunc", "floor")
    ),
)


def underivable(name: str) -> Callable[[Any], Any]:
    # torch: a graph that leads through such an op fails in backward, not before.
    def refuse(grad: Any) -> Any:
        raise error("RL0611", name=name)

    return refuse


def sample_of(*args: Any, **kwargs: Any) -> Any:
    return sample(*args, **kwargs)


def one_operand(make: Any) -> Any:
    """Samples of a composite in one variable."""
    return ((make(3, 4),), (make.strided(3, 4),), (make(),), (make(0, 3),))


def divides_integers(first: Any, second: Any) -> bool:
    """Whether a call divides by integers, zero among them, or raises to powers of them."""
    if isinstance(second, Tensor):
        return second._dtype.category not in (dtypes.FLOAT, dtypes.COMPLEX)
    return isinstance(second, SymInt)


floor_divide = pointwise(
    "floor_divide(Tensor self, Tensor other) -> Tensor",
    sparse=late("sparse.math:floor_divide"),
    may_raise=divides_integers,
    scalar=floor_text,
    exact_scalars=True,
    native_halves=lambda args: is_wide(args[1]),
    numbers="any",
    dtypes=is_number_type,
    kernel_name="div_floor_cpu",
    node="torch::autograd::NotImplemented",
    vjp={name: underivable("aten::floor_divide") for name in ("self", "other")},
    samples=lambda make: (
        (make(3, 4), make.positive(3, 4)),
        (make.strided(3, 4), make.positive(4)),
        (make(), make.positive()),
        (make(3), 2),
    ),
    errors=lambda make: [
        (RuntimeError, (make.ints(2, low=1), make.ints(2, high=0))),
        (NotImplementedError, (make(2, dtype=dtypes.complex64), make(2))),
    ],
)
pointwise(
    "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor",
    sparse=late("sparse.math:floor_divide"),
    scalar=floor_divide.options["scalar"],
    exact_scalars=True,
    node="torch::autograd::NotImplemented",
    vjp={"self": underivable("aten::floor_divide.Scalar")},
    promoted_scalars=(1,),
    dtypes=is_number_type,
    kernel_name="div_floor_cpu",
)


remainder = pointwise(
    "remainder.Tensor(Tensor self, Tensor other) -> Tensor",
    may_raise=divides_integers,
    errors=lambda make: [(RuntimeError, (make.ints(2, low=1), make.ints(2, high=0)))],
    scalar=by_remainders("remainder"),
    numbers=False,
    dtypes=is_number_type,
    node_index=1,
    vjp={
        "self": lambda grad: grad,
        "other": lambda grad, self, other: -grad * self.div(other, rounding_mode="floor"),
    },
    samples=lambda make: (
        (make(3, 4), make.positive(3, 4)),
        (make.strided(3, 4), make.positive(4)),
        (make(), make.positive()),
    ),
)
pointwise(
    "remainder.Scalar(Tensor self, Scalar other) -> Tensor",
    scalar=remainder.options["scalar"],
    promoted_scalars=(1,),
    dtypes=is_number_type,
    vjp=lambda grad: grad,
    samples=lambda make: ((make(3, 4), 2), (make(), 3), (make(0), 2)),
)
pointwise(
    "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
    may_raise=divides_integers,
    scalar=remainder.options["scalar"],
    promoted_scalars=(0,),
    dtypes=is_number_type,
    inplace=False,
    method=False,
    samples=lambda make: ((5, make.positive(3, 4)), (3, make.positive())),
    node="torch::autograd::NotImplemented",
    vjp={"other": underivable("aten::remainder.Scalar_Tensor")},
)
fmod = pointwise(
    "fmod.Tensor(Tensor self, Tensor other) -> Tensor",
    may_raise=divides_integers,
    scalar=by_remainders("fmod"),
    numbers=False,
    dtypes=is_number_type,
    node_index=1,
    vjp={
        "self": lambda grad: grad,
        "other": lambda grad, self, other: -grad * self.div(other, rounding_mode="trunc"),
    },
    samples=remainder.rules["samples"],
)
pointwise(
    "fmod.Scalar(Tensor self, Scalar other) -> Tensor",
    scalar=fmod.options["scalar"],
    promoted_scalars=(1,),
    dtypes=is_number_type,
    vjp=lambda grad: grad,
    samples=lambda make: ((make(3, 4), 2), (make(), 3), (make(0), 2)),
)


# -- powers ---------------------------------------------------------------------------------------


def check_integer_power(common: dtype, args: tuple[Any, ...]) -> None:
    exponent = args[1]
    if common.category == INTEGER and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")


def zeros_where(condition: Any, value: Any) -> Any:
    """`value`, with 0 where the condition holds."""
    return value.masked_fill(condition, 0)


def pow_self_gradient(grad: Any, self: Any, exponent: Any) -> Any:
    if is_tensor(exponent):
        slope = exponent * self.pow(exponent - 1)
        return grad * conj(zeros_where(exponent == 0, slope))
    if exponent == 0:
        return functions.zeros_like(grad)
    return grad * conj(exponent * self.pow(exponent - 1))


def pow_exponent_gradient(grad: Any, self: Any, exponent: Any, result: Any) -> Any:
    if is_tensor(self):
        condition = (self == 0) & (
            exponent.real >= 0 if exponent._dtype.is_complex else exponent >= 0
        )
        # A real base may be negative: its logarithm is then only defined as the result's.
        keeps = self._dtype.category >= FLOAT and not result._dtype.is_complex
        base = self if keeps or self._dtype.is_complex else self.to(result._dtype)
        return grad * conj(zeros_where(condition, result * base.log()))
    if self == 0:
        if exponent._dtype.is_complex:
            exponent = exponent.real
        undefined = zeros_where(exponent >= 0, functions.full_like(result, -math.inf))
        return grad * conj(undefined)
    logarithm = math.log(self) if not isinstance(self, complex) and self > 0 else None
    if logarithm is None:
        logarithm = functions.scalar_tensor(self, dtype=result._dtype).log()
    return grad * conj(result * logarithm)


pow = pointwise(
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    may_raise=divides_integers,
    scalar=lambda m, x, y: m.power(x, y),
    numbers=False,
    weak_numbers=True,
    dtypes=lambda dtype: dtype.category != BOOL,
    kernel_name="pow",
    node_index=1,
    vjp={
        "self": pow_self_gradient,
        "exponent": pow_exponent_gradient,
    },
    samples=lambda make: (
        (make.positive(3, 4), make(3, 4)),
        (make.positive(2, 3), make(3)),
        (make.positive(), make()),
        (make.positive(0), make(0)),
    ),
)
pointwise(
    "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    bare_numbers=True,
    sparse=late("sparse.math:power"),
    scalar=pow.options["scalar"],
    promoted_scalars=(1,),
    dtypes=lambda dtype: dtype.category != BOOL,
    kernel_name="pow",
    check=check_integer_power,
    vjp=pow_self_gradient,
    samples=lambda make: (
        (make.positive(3, 4), 2),
        (make.positive(3), 3),
        (make.positive(2), 0),
        (make.positive(2), 2.5),
        (make.positive(2), 0.5),
        (make.positive(), 1),
    ),
    errors=lambda make: [(RuntimeError, (make.ints(2), -1))],
)
pointwise(
    "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
    may_raise=divides_integers,
    scalar=pow.options["scalar"],
    layout="contiguous",
    promoted_scalars=(0,),
    dtypes=lambda dtype: dtype.category != BOOL,
    kernel_name="pow",
    inplace=False,
    method=False,
    node_index=2,
    vjp=pow_exponent_gradient,
    samples=lambda make: ((2, make(3, 4)), (1.5, make()), (3, make(0))),
)


def float_power_dtype(*operands: Any) -> dtype:
    complexes = any(category_of(value) == COMPLEX for value in operands)
    return dtypes.complex128 if complexes else dtypes.float64


def raised(value: Any, dtype: dtype) -> Any:
    if is_tensor(value):
        return value.to(dtype)
    return complex(value) if dtype is dtypes.complex128 else float(value)


@composite(
    "float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    exact_out=True,
    samples=lambda make: (
        (make.positive(3, 4), make(3, 4)),
        (make.positive(2, 3), make(3)),
        (make.positive(), make()),
    ),
)
def float_power(self: Any, exponent: Any) -> Any:
    dtype = float_power_dtype(self, exponent)
    return functions.pow(raised(self, dtype), raised(exponent, dtype))


@composite(
    "float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    exact_out=True,
    samples=lambda make: ((make.positive(3, 4), 2), (make.positive(), 0.5), (make(0), 3)),
)
def float_power_scalar(self: Any, exponent: Any) -> Any:
    dtype = float_power_dtype(self, exponent)
    return functions.pow(raised(self, dtype), raised(exponent, dtype))


@composite(
    "float_power.Scalar(Scalar self, Tensor exponent) -> Tensor",
    exact_out=True,
    method=False,
    samples=lambda make: ((2, make(3, 4)), (1.5, make())),
)
def float_power_of_scalar(self: Any, exponent: Any) -> Any:
    dtype = float_power_dtype(self, exponent)
    return functions.pow(raised(self, dtype), raised(exponent, dtype))


def raise_in_place(self: Any, exponent: Any) -> Any:
    dtype = float_power_dtype(self, exponent)
    if self._dtype is not dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self._dtype.scalar_type_name} but the "
            f"operation's result requires dtype {dtype.scalar_type_name}"
        )
    return self.pow_(raised(exponent, dtype))


def wide_base(make: Any) -> Any:
    base = make.positive(3, 4, dtype=dtypes.complex128 if make.dtype.is_complex else dtypes.float64)
    return ((base, 2),)


float_power_scalar_ = composite(
    "float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)",
    function=False,
    samples=wide_base,
)(raise_in_place)
float_power_tensor_ = composite(
    "float_power_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)",
    function=False,
    samples=lambda make: ((wide_base(make)[0][0], make(3, 4)),),
)(raise_in_place)


@composite("square(Tensor self) -> Tensor", samples=one_operand)
def square(self: Any) -> Any:
    return self.pow(2)


@composite("square_(Tensor(a!) self) -> Tensor(a!)", samples=one_operand)
def square_(self: Any) -> Any:
    return self.pow_(2)


# -- sign and size --------------------------------------------------------------------------------


def check_neg(common: dtype, args: tuple[Any, ...]) -> None:
    if common.category == BOOL:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )


neg = pointwise(
    "neg(Tensor self) -> Tensor",
    errors=lambda make: [(RuntimeError, (make.mask(2),))],
    zero_preserving="linear",
    scalar=lambda m, x: m.negative(x),
    narrow=PAIRS,
    check=check_neg,
    vjp=lambda grad: -grad,
    on_lists=True,
)


@composite("positive(Tensor(a) self) -> Tensor(a)", out=False, samples=one_operand)
def positive(self: Any) -> Any:
    if self._dtype.category == BOOL:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


reciprocal = pointwise(
    "reciprocal(Tensor self) -> Tensor",
    scalar=lambda m, x: m.reciprocal(x),
    promote=INT_TO_FLOAT,
    vjp=lambda grad, result: -grad * conj(result * result),
    domain=(0.5, None),
    on_lists=True,
)


for second, first in (
    ("subtract", "sub"),
    ("multiply", "mul"),
    ("divide", "div"),
    ("true_divide", "div"),
    ("negative", "neg"),
):
    alias(second, first)
    method_alias(second + "_", first + "_")


# -- operators of Python --------------------------------------------------------------------------

for _name, _op in ARITHMETIC.items():
    method_alias(f"__{_name}__", _op)
    method_alias(f"__i{_name}__", f"{_op}_")
for _name, _op in (("radd", "add"), ("rmul", "mul"), ("rsub", "rsub")):
    method_alias(f"__{_name}__", _op)
for _name in ("neg", "pos", "abs"):
    method_alias(f"__{_name}__", UNARY[_name])


def swapped(name: str, body: Callable[[Any, Any], Any]) -> None:
    """A reflected operator: `body(self, other)` computes `other <op> self`."""

    def operator(self: Any, other: Any) -> Any:
        if type(self) not in PLAIN or (type(other) not in PLAIN and isinstance(other, Tensor)):
            handled, value = try_function_override(operator, (self, other), {})
            if handled:
                return value
        try:
            return body(self, other)
        except TypeError:
            return NotImplemented

    operator.__name__ = operator.__qualname__ = name
    setattr(Tensor, name, operator)


swapped("__rtruediv__", lambda self, other: self.reciprocal() * other)
swapped("__rdiv__", lambda self, other: self.reciprocal() * other)
swapped("__rfloordiv__", lambda self, other: functions.floor_divide(other, self))
swapped("__rmod__", lambda self, other: functions.remainder(other, self))
swapped("__rpow__", lambda self, other: functions.pow(other, self))
