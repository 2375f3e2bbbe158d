"""Elementwise questions and bits: comparison, logic, bitwise operators, predicates."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import error
from rushlight.core.dtype import COMPLEX, FLOAT, bool_, complex64, float64, get_default_dtype
from rushlight.core.op import refuse
from rushlight.core.operators import BITWISE
from rushlight.core.tensor import Tensor
from rushlight.opset import functions
from rushlight.opset.elementwise import BOOL, NARROW, PAIRS, refuse_complex
from rushlight.opset.exposure import method_alias
from rushlight.opset.kinds import OPAQUE
from rushlight.opset.pointwise.arithmetic import (
    is_integer,
    is_integral,
    is_real,
    one_operand,
    swapped,
)
from rushlight.opset.registry import alias, composite, find, op, packet, pointwise

WHOLE_NUMBERS = refuse("integers have no derivative")


def no_gradient(grad: Any) -> Any:
    """Steps are flat wherever they have a slope."""
    return functions.zeros_like(grad)


def compare(name: str, text: Any, ordered: bool) -> None:
    """The Tensor and Scalar overloads of one comparison, and its operator."""
    options: dict[str, Any] = {"promote": BOOL, "scalar": text}
    if not ordered:
        options["narrow"] = NARROW
    else:
        options |= {"dtypes": is_real, "kernel_name": f"{name}_cpu"}
    pointwise(
        f"{name}.Tensor(Tensor self, Tensor other) -> Tensor",
        numbers=False,
        inplace_vjp={"self": no_gradient, "other": no_gradient},
        **options,
    )
    pointwise(
        f"{name}.Scalar(Tensor self, Scalar other) -> Tensor",
        promoted_scalars=(1,),
        inplace_vjp={"self": no_gradient},
        inplace_node_index=0,
        samples=lambda make: (
            (make(3, 4), 1),
            (make.strided(3, 4), 0.5),
            (make(), 2),
            (make(0), 1),
        ),
        **options,
    )
    method_alias(f"__{name}__", name)


compare("eq", lambda m, x, y: m.equal(x, y), ordered=False)
compare("ne", lambda m, x, y: m.not_equal(x, y), ordered=False)
compare("lt", lambda m, x, y: m.less(x, y), ordered=True)
compare("le", lambda m, x, y: m.less_equal(x, y), ordered=True)
compare("gt", lambda m, x, y: m.greater(x, y), ordered=True)
compare("ge", lambda m, x, y: m.greater_equal(x, y), ordered=True)
for second, first in (
    ("not_equal", "ne"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
):
    alias(second, first)
    method_alias(second + "_", first + "_")


# -- closeness ------------------------------------------------------------------------------------


@composite(
    "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, "
    "bool equal_nan=False) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(2), make(2), -1.0)),
        (RuntimeError, (make(2), make(2, dtype=float64))),
    ],
    out=False,
    samples=lambda make: (
        (make(3, 4), make(3, 4)),
        (make(3), make(3), 0.5, 0.5),
        (make.special(12), make.special(12), 0.1, 0.1, True),
    ),
)
def isclose(self: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    if self._dtype is not other._dtype:
        raise RuntimeError(
            f"{self._dtype.scalar_type_name} did not match {other._dtype.scalar_type_name}"
        )
    if rtol < 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol:g}")
    if atol < 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol:g}")
    close = self == other
    if equal_nan and self._dtype.category >= FLOAT:
        close = close.logical_or(self.isnan().logical_and(other.isnan()))
    if rtol == 0 and atol == 0:
        return close
    if self._dtype.category < FLOAT:
        self, other = self.to(get_default_dtype()), other.to(get_default_dtype())
    allowed = (rtol * other).abs() + atol
    error = (self - other).abs()
    return close.logical_or(error.isfinite().logical_and(error <= allowed))


equal = op(
    "equal(Tensor self, Tensor other) -> bool",
    errors=lambda make: [(TypeError, (make(2), 3))],
    batch="no_fallback",
    kind=OPAQUE,
    layout="value",
    tags=("data_dependent_output",),
    samples=lambda make: ((make(3), make(3)), (make(2, 3), make(3)), (make(0), make(0))),
)


@equal.shape
def _(self: Any, other: Any) -> Any:
    raise error("RL0403", NotImplementedError, what="equal() compares values")


@equal.kernel
def _(xp: Any, self: Any, other: Any) -> Any:
    return self.shape == other.shape and bool(xp.all(self == other))


@composite(
    "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, "
    "bool equal_nan=False) -> bool",
    errors=lambda make: [
        (RuntimeError, (make(2), make(2, dtype=float64))),
        (RuntimeError, (make(2), make(2), 1e-5, -1.0)),
    ],
    tags=("data_dependent_output",),
    samples=lambda make: ((make(3), make(3)), (make(3), make(3), 1.0, 10.0), (make(0), make(0))),
)
def allclose(self: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    return bool(functions.isclose(self, other, rtol, atol, equal_nan).all().item())


@allclose.batch
def _(level: Any, op: Any, *args: Any) -> Any:
    if not level.has_batched(args):
        return level.below(op, args)
    raise RuntimeError(
        "vmap over torch.allclose isn't supported yet. Please file an issue at "
        "https://github.com/pytorch/pytorch/issues if you need this feature."
    )


# -- logic and bits -------------------------------------------------------------------------------


def text_of(name: str) -> Any:
    """The text that is one call of the math namespace."""
    return lambda m, *operands: getattr(m, name)(*operands)


for name in ("logical_and", "logical_or", "logical_xor"):
    pointwise(
        f"{name}(Tensor self, Tensor other) -> Tensor",
        scalar=text_of(name),
        promote=BOOL,
        numbers=False,
    )
pointwise("logical_not(Tensor self) -> Tensor", scalar=text_of("logical_not"), promote=BOOL)


def bits(name: str, overload: str, text: Any, admits: Any) -> None:
    """The three overloads of a bitwise operator: a number may stand on either side."""
    kernel_name = {"bitwise_left_shift": "lshift_cpu", "bitwise_right_shift": "rshift_cpu"}.get(
        name, f"{name}_cpu"
    )
    options: dict[str, Any] = {
        "dtypes": admits,
        "kernel_name": kernel_name,
        "scalar": text,
        "vjp": WHOLE_NUMBERS,
    }
    pointwise(
        f"{name}.Tensor(Tensor self, Tensor other) -> Tensor",
        numbers=False,
        samples=lambda make: (
            (make(3, 4), make.positive(3, 4)),
            (make.strided(3, 4), make.positive(4)),
            (make(), make.positive()),
        ),
        **options,
    )
    pointwise(
        f"{name}.{overload}(Tensor self, Scalar other) -> Tensor",
        promoted_scalars=(1,),
        samples=lambda make: ((make(3, 4), 1), (make(), 2), (make(0), 1)),
        **options,
    )
    pointwise(
        f"{name}.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
        promoted_scalars=(0,),
        inplace=False,
        method=False,
        samples=lambda make: ((1, make.positive(3, 4)), (2, make.positive())),
        **options,
    )


bits("bitwise_and", "Scalar", text_of("bitwise_and"), is_integral)
bits("bitwise_or", "Scalar", text_of("bitwise_or"), is_integral)
bits("bitwise_xor", "Scalar", text_of("bitwise_xor"), is_integral)
bits("bitwise_left_shift", "Tensor_Scalar", text_of("left_shift"), is_integer)
bits("bitwise_right_shift", "Tensor_Scalar", text_of("right_shift"), is_integer)
pointwise(
    "bitwise_not(Tensor self) -> Tensor",
    errors=lambda make: [(NotImplementedError, (make(2),))],
    scalar=text_of("bitwise_not"),
    dtypes=is_integral,
    vjp=WHOLE_NUMBERS,
)


def operator_ops(symbol: str, name: str) -> None:
    """torch: the operators of bits are ops of their own, over the op that computes. Python's `&`
    takes the latter at once, unless a trace is to show it."""
    method_alias(f"__{symbol}__", name)
    method_alias(f"__i{symbol}__", f"{name}_")
    options: dict[str, Any] = {"method": False, "function": False, "out": False}
    options["vjp"] = WHOLE_NUMBERS

    def samples(make: Any) -> Any:
        return [(make.ints(3), make.ints(3, high=4))]

    def number_samples(make: Any) -> Any:
        return [(make.ints(3), 2)]

    def compute(self: Any, other: Any) -> Any:
        return packet(name)(self, other)

    def write(self: Any, other: Any) -> Any:
        return packet(f"{name}_")(self, other)

    for overload, kind, cases in (
        ("Tensor", "Tensor", samples),
        ("Scalar", "Scalar", number_samples),
    ):
        rest = f"{kind} other) -> Tensor"
        composite(f"__{symbol}__.{overload}(Tensor self, {rest}", samples=cases, **options)(compute)
        composite(
            f"__i{symbol}__.{overload}(Tensor(a!) self, {rest}(a!)",
            samples=cases,
            **options,
        )(write)


for _name, _op in BITWISE.items():
    operator_ops(_name, _op)
for _name in ("and", "or", "xor"):
    method_alias(f"__r{_name}__", BITWISE[_name])


def invert(self: Any) -> Any:
    if self._dtype.category >= FLOAT:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return functions.bitwise_not(self)


invert.__name__ = invert.__qualname__ = "__invert__"
Tensor.__invert__ = invert  # type: ignore[operator]
swapped("__rlshift__", lambda self, other: functions.bitwise_left_shift(other, self))
swapped("__rrshift__", lambda self, other: functions.bitwise_right_shift(other, self))


# -- predicates -----------------------------------------------------------------------------------


def predicate(name: str, text: Any, **options: Any) -> None:
    pointwise(f"{name}(Tensor self) -> Tensor", scalar=text, promote=BOOL, inplace=False, **options)


predicate("isnan", text_of("isnan"), out=False, narrow=NARROW, zero_preserving=True)
predicate("isinf", text_of("isinf"), out=False, narrow=PAIRS, zero_preserving=True)
predicate("isfinite", text_of("isfinite"), out=False, narrow=PAIRS)


predicate(
    "isposinf",
    lambda m, x: m.equal(x, float("inf")),
    dtypes=is_real,
    check=refuse_complex("isposinf does not support complex inputs."),
    zero_preserving=True,
    exact_out=True,
)
predicate(
    "isneginf",
    lambda m, x: m.equal(x, float("-inf")),
    dtypes=is_real,
    check=refuse_complex("isneginf does not support complex inputs."),
    zero_preserving=True,
    exact_out=True,
)
predicate(
    "signbit",
    text_of("signbit"),
    dtypes=is_real,
    check=refuse_complex("signbit is not implemented for complex tensors.", NotImplementedError),
    zero_preserving=True,
    exact_out=True,
)


@composite("isreal(Tensor self) -> Tensor", out=False, samples=one_operand)
def isreal(self: Any) -> Any:
    if self._dtype.category < COMPLEX:
        return functions.ones_like(self, dtype=bool_)
    return functions.imag(self) == 0


# -- wrong calls -----------------------------------------------------------------------------------

find("lt", "Tensor").errors = lambda make: [
    (NotImplementedError, (make(2, dtype=complex64), make(2)))
]
find("logical_and").errors = lambda make: [(RuntimeError, (make(2), make(3)))]
for name in ("bitwise_and", "bitwise_left_shift"):
    find(name, "Tensor").errors = lambda make: [(NotImplementedError, (make(2), make(2)))]
