"""Ops that act on each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core.promotion import DIM, WRAPPED, ZERO_DIM, result_type
from rushlight.core.tensor import Tensor
from rushlight.onnx.building import (
    BOOL,
    INT32,
    INT64,
    Builder,
    Value,
    number_type,
    translates,
)

# ONNX's functions of floats, which aten has under the same names; integers are converted first.
FLOAT_FUNCTIONS = (
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Exp", "Log",
    "Reciprocal", "Sigmoid", "Sin", "Sinh", "Sqrt", "Tan", "Tanh",
)  # fmt: skip
ROUNDINGS = {"ceil": "Ceil", "floor": "Floor", "round": "Round"}
COMPARED = frozenset(("int32", "int64", "float16", "float32", "float64"))


def out_type(b: Builder) -> Any:
    """The dtype of the result of the node in hand."""
    return b.result.dtype


def register_tables() -> None:
    for op in FLOAT_FUNCTIONS:
        translates(f"{op.lower()}.default")(function_of_floats(op))
    for name, op in ROUNDINGS.items():
        translates(f"{name}.default")(rounding(op))
    for name, op in (("abs", "Abs"), ("neg", "Neg"), ("sign", "Sign")):
        translates(f"{name}.default")(function_of_numbers(op))
    for name, op in (("mul", "Mul"), ("maximum", "Max"), ("minimum", "Min"), ("pow", "Pow")):
        translates(name)(arithmetic(op))
    for name, (op, negated) in COMPARISONS.items():
        translates(name)(comparison(op, negated))
    for name, word in (("and", "And"), ("or", "Or"), ("xor", "Xor")):
        translates(f"logical_{name}")(logical(word))
        translates(f"bitwise_{name}", f"__{name}__")(bitwise(word))


def function_of_floats(op: str) -> Any:
    return lambda b, x: b.op(op, b.cast(x, out_type(b)))


def function_of_numbers(op: str) -> Any:
    def apply(b: Builder, x: Value) -> Value:
        return b.op(op, x)

    return apply


def rounding(op: str) -> Any:
    def apply(b: Builder, x: Value) -> Value:
        return b.op(op, x) if x.dtype.is_floating_point else b.op("Identity", x)

    return apply


def arithmetic(op: str) -> Any:
    def apply(b: Builder, x: Any, y: Any) -> Value:
        return b.op(op, b.number(x, out_type(b)), b.number(y, out_type(b)))

    return apply


# name: (op, whether its opposite is meant)
COMPARISONS = {
    "eq": ("Equal", False),
    "ne": ("Equal", True),
    "lt": ("Less", False),
    "le": ("LessOrEqual", False),
    "gt": ("Greater", False),
    "ge": ("GreaterOrEqual", False),
}


def common_type(*operands: Any) -> Any:
    """The dtype in which torch computes with some operands."""
    return result_type([described(operand) for operand in operands])


def described(operand: Any) -> tuple[Any, int]:
    if not is_tensor(operand):
        plain = operand.like if isinstance(operand, Value) else operand
        return number_type(plain), WRAPPED
    return operand.dtype, DIM if operand.rank else ZERO_DIM


def comparison(op: str, negated: bool) -> Any:
    def apply(b: Builder, x: Any, y: Any) -> Value:
        dtype = common_type(x, y)
        if dtype.name not in COMPARED and not (op == "Equal" and dtype is BOOL):
            dtype = INT32 if dtype.itemsize < 4 and not dtype.is_floating_point else INT64
        found = b.op(op, b.number(x, dtype), b.number(y, dtype), dtype=BOOL)
        return b.op("Not", found) if negated else found

    return apply


def logical(word: str) -> Any:
    def apply(b: Builder, x: Any, y: Any) -> Value:
        return b.op(word, truth(b, x), truth(b, y))

    return apply


def truth(b: Builder, x: Any) -> Value:
    return b.number(x, BOOL)


def bitwise(word: str) -> Any:
    def apply(b: Builder, x: Any, y: Any) -> Value:
        dtype = out_type(b)
        op = word if dtype is BOOL else f"Bitwise{word}"
        return b.op(op, b.number(x, dtype), b.number(y, dtype))

    return apply


register_tables()


# -- arithmetic ---------------------------------------------------------------------------------


def scaled(b: Builder, x: Value, factor: Any) -> Value:
    if not isinstance(factor, Value) and factor == 1:
        return x
    return b.op("Mul", x, b.number(factor, x.dtype))


@translates("add")
def add(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Value:
    dtype = out_type(b)
    if dtype is BOOL:
        return b.op("Or", truth(b, x), truth(b, y))
    return b.op("Add", b.number(x, dtype), scaled(b, b.number(y, dtype), alpha))


@translates("sub")
def sub(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Value:
    dtype = out_type(b)
    return b.op("Sub", b.number(x, dtype), scaled(b, b.number(y, dtype), alpha))


@translates("rsub")
def rsub(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Value:
    return sub(b, y, x, alpha)


@translates("div.Tensor", "div.Scalar", "true_divide")
def div(b: Builder, x: Any, y: Any) -> Value:
    dtype = out_type(b)
    return b.op("Div", b.number(x, dtype), b.number(y, dtype))


@translates("div.Tensor_mode", "div.Scalar_mode")
def div_mode(b: Builder, x: Any, y: Any, rounding_mode: str | None) -> Value:
    if rounding_mode == "floor":
        return floor_divide(b, x, y)
    dtype = out_type(b)
    quotient = b.op("Div", b.number(x, dtype), b.number(y, dtype))
    if rounding_mode is None or not dtype.is_floating_point:
        return quotient
    return trunc(b, quotient)


@translates("trunc.default", "fix.default")
def trunc(b: Builder, x: Value) -> Value:
    if not x.dtype.is_floating_point:
        return b.op("Identity", x)
    return b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x)))


@translates("floor_divide")
def floor_divide(b: Builder, x: Any, y: Any) -> Value:
    dtype = out_type(b)
    left, right = b.number(x, dtype), b.number(y, dtype)
    quotient = b.op("Div", left, right)
    if dtype.is_floating_point:
        return b.op("Floor", quotient)
    return floored(b, quotient, left, right)


def floored(b: Builder, quotient: Value, left: Value, right: Value) -> Value:
    """Division of integers rounds to zero in ONNX: one less where signs differ and it is not
    even."""
    zero = b.number(0, left.dtype)
    rest = b.op("Sub", left, b.op("Mul", quotient, right))
    uneven = b.op("Not", b.op("Equal", rest, zero, dtype=BOOL))
    negative = [b.op("Less", each, zero, dtype=BOOL) for each in (rest, right)]
    wrong = b.op("And", uneven, b.op("Xor", *negative))
    return b.op("Sub", quotient, b.cast(wrong, left.dtype))


@translates("remainder")
def remainder(b: Builder, x: Any, y: Any) -> Value:
    dtype = out_type(b)
    left, right = b.number(x, dtype), b.number(y, dtype)
    if not dtype.is_floating_point:
        return b.op("Mod", left, right)
    floor = b.op("Floor", b.op("Div", left, right))
    return b.op("Sub", left, b.op("Mul", floor, right))


@translates("fmod")
def fmod(b: Builder, x: Any, y: Any) -> Value:
    dtype = out_type(b)
    return b.op("Mod", b.number(x, dtype), b.number(y, dtype), fmod=1)


@translates("atan2")
def atan2(b: Builder, y: Value, x: Value) -> Value:
    dtype = out_type(b)
    y, x = b.cast(y, dtype), b.cast(x, dtype)
    zero, pi = b.number(0, dtype), b.number(math.pi, dtype)
    turn = chosen(b, b.op("Less", y, zero, dtype=BOOL), b.op("Neg", pi), pi)
    angle = b.op("Atan", b.op("Div", y, x))
    angle = chosen(b, b.op("Less", x, zero, dtype=BOOL), b.op("Add", angle, turn), angle)
    nowhere = [b.op("Equal", each, zero, dtype=BOOL) for each in (x, y)]
    return chosen(b, b.op("And", *nowhere), zero, angle)


@translates("addcmul")
def addcmul(b: Builder, x: Value, y: Value, z: Value, value: Any) -> Value:
    dtype = out_type(b)
    product = b.op("Mul", b.cast(y, dtype), b.cast(z, dtype))
    return b.op("Add", b.cast(x, dtype), scaled(b, product, value))


@translates("addcdiv")
def addcdiv(b: Builder, x: Value, y: Value, z: Value, value: Any) -> Value:
    dtype = out_type(b)
    quotient = b.op("Div", b.cast(y, dtype), b.cast(z, dtype))
    return b.op("Add", b.cast(x, dtype), scaled(b, quotient, value))


@translates("lerp")
def lerp(b: Builder, x: Value, y: Value, weight: Any) -> Value:
    step = b.op("Mul", b.op("Sub", y, x), b.number(weight, x.dtype))
    return b.op("Add", x, step)


# -- functions ----------------------------------------------------------------------------------


def shifted_log(b: Builder, x: Value, base: float | None) -> Value:
    found = b.op("Log", x)
    return found if base is None else b.op("Div", found, b.number(math.log(base), x.dtype))


@translates("log2.default")
def log2(b: Builder, x: Value) -> Value:
    return shifted_log(b, b.cast(x, out_type(b)), 2)


@translates("log10.default")
def log10(b: Builder, x: Value) -> Value:
    return shifted_log(b, b.cast(x, out_type(b)), 10)


@translates("log1p.default")
def log1p(b: Builder, x: Value) -> Value:
    x = b.cast(x, out_type(b))
    return b.op("Log", b.op("Add", x, b.number(1, x.dtype)))


@translates("expm1.default")
def expm1(b: Builder, x: Value) -> Value:
    x = b.cast(x, out_type(b))
    return b.op("Sub", b.op("Exp", x), b.number(1, x.dtype))


@translates("exp2.default")
def exp2(b: Builder, x: Value) -> Value:
    x = b.cast(x, out_type(b))
    return b.op("Pow", b.number(2, x.dtype), x)


@translates("rsqrt.default")
def rsqrt(b: Builder, x: Value) -> Value:
    return b.op("Reciprocal", b.op("Sqrt", b.cast(x, out_type(b))))


@translates("square.default")
def square(b: Builder, x: Value) -> Value:
    x = b.cast(x, out_type(b))
    return b.op("Mul", x, x)


@translates("frac.default")
def frac(b: Builder, x: Value) -> Value:
    return b.op("Sub", x, trunc(b, x))


@translates("isnan.default")
def isnan(b: Builder, x: Value) -> Value:
    return b.op("IsNaN", x, dtype=BOOL) if x.dtype.is_floating_point else never(b, x)


def never(b: Builder, x: Value) -> Value:
    """False for every element."""
    return b.op("Expand", b.number(False, BOOL), b.op("Shape", x, dtype=INT64))


@translates("isinf.default")
def isinf(b: Builder, x: Value) -> Value:
    return b.op("IsInf", x, dtype=BOOL) if x.dtype.is_floating_point else never(b, x)


@translates("isfinite.default")
def isfinite(b: Builder, x: Value) -> Value:
    return b.op("Not", b.op("Or", isnan(b, x), isinf(b, x)))


@translates("logical_not.default")
def logical_not(b: Builder, x: Value) -> Value:
    return b.op("Not", truth(b, x))


@translates("bitwise_not.default")
def bitwise_not(b: Builder, x: Value) -> Value:
    return b.op("Not" if x.dtype is BOOL else "BitwiseNot", x)


@translates("nan_to_num.default")
def nan_to_num(b: Builder, x: Value, nan: Any, posinf: Any, neginf: Any) -> Value:
    if not x.dtype.is_floating_point:
        return b.op("Identity", x)
    limits = np.finfo(x.dtype.np)
    zero = b.number(0, x.dtype)
    for low, high, value in (
        (0, 1, posinf if posinf is not None else float(limits.max)),
        (1, 0, neginf if neginf is not None else float(limits.min)),
    ):
        found = b.op("IsInf", x, dtype=BOOL, detect_negative=low, detect_positive=high)
        x = b.op("Where", found, b.number(value, x.dtype), x, dtype=x.dtype)
    missing = zero if nan is None else b.number(nan, x.dtype)
    return b.op("Where", b.op("IsNaN", x, dtype=BOOL), missing, x, dtype=x.dtype)


@translates("erfc.default", "special_erfc.default")
def erfc(b: Builder, x: Value) -> Value:
    x = b.cast(x, out_type(b))
    return b.op("Sub", b.number(1, x.dtype), b.op("Erf", x))


@translates("hypot.default")
def hypot(b: Builder, x: Value, y: Value) -> Value:
    dtype = out_type(b)
    squares = [b.op("Mul", each, each) for each in (b.cast(x, dtype), b.cast(y, dtype))]
    return b.op("Sqrt", b.op("Add", *squares))


@translates("fmax.default")
def fmax(b: Builder, x: Value, y: Value) -> Value:
    return known_extreme(b, "Max", x, y)


@translates("fmin.default")
def fmin(b: Builder, x: Value, y: Value) -> Value:
    return known_extreme(b, "Min", x, y)


def known_extreme(b: Builder, op: str, x: Value, y: Value) -> Value:
    """An extreme that passes over NaNs."""
    dtype = out_type(b)
    x, y = b.cast(x, dtype), b.cast(y, dtype)
    if not dtype.is_floating_point:
        return b.op(op, x, y)
    left = chosen(b, b.op("IsNaN", x, dtype=BOOL), y, x)
    right = chosen(b, b.op("IsNaN", y, dtype=BOOL), x, y)
    return b.op(op, left, right)


@translates("copysign")
def copysign(b: Builder, x: Any, y: Any) -> Value:
    size = b.op("Abs", b.number(x, out_type(b)))
    sign = b.number(y, out_type(b))
    is_negative = b.op("Less", sign, b.number(0, sign.dtype), dtype=BOOL)
    return chosen(b, is_negative, b.op("Neg", size), size)


@translates("signbit.default")
def signbit(b: Builder, x: Value) -> Value:
    if x.dtype is BOOL:
        return never(b, x)
    return b.op("Less", x, b.number(0, x.dtype), dtype=BOOL)


@translates("round.decimals")
def round_decimals(b: Builder, x: Value, decimals: int) -> Value:
    factor = b.number(10.0**decimals, x.dtype)
    return b.op("Div", b.op("Round", b.op("Mul", x, factor)), factor)


# -- choices ------------------------------------------------------------------------------------


def chosen(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """`x` where the condition holds, else `y`; Where takes no truth values."""
    if x.dtype is not BOOL:
        return b.op("Where", condition, x, y, dtype=x.dtype)
    refused = b.op("And", b.op("Not", condition), y)
    return b.op("Or", b.op("And", condition, x), refused)


@translates("where.self", "where.Scalar", "where.ScalarSelf", "where.ScalarOther")
def where(b: Builder, condition: Value, x: Any, y: Any) -> Value:
    dtype = out_type(b)
    return chosen(b, truth(b, condition), b.number(x, dtype), b.number(y, dtype))


@translates("masked_fill")
def masked_fill(b: Builder, x: Value, mask: Value, value: Any) -> Value:
    return where(b, mask, value, x)


@translates("clamp", "clamp_min", "clip")
def clamp(b: Builder, x: Value, low: Any = None, high: Any = None) -> Value:
    dtype = out_type(b)
    found = b.cast(x, dtype)
    if low is not None:
        found = b.op("Max", found, b.number(low, dtype))
    if high is not None:
        found = b.op("Min", found, b.number(high, dtype))
    return found if found.name != x.name else b.op("Identity", found)


@translates("clamp_max")
def clamp_max(b: Builder, x: Value, high: Any) -> Value:
    return clamp(b, x, None, high)


@translates("threshold.default")
def threshold(b: Builder, x: Value, limit: Any, value: Any) -> Value:
    above = b.op("Greater", x, b.number(limit, x.dtype), dtype=BOOL)
    return b.op("Where", above, x, b.number(value, x.dtype), dtype=x.dtype)


# -- activations --------------------------------------------------------------------------------


@translates("relu.default")
def relu(b: Builder, x: Value) -> Value:
    if x.dtype.is_floating_point:
        return b.op("Relu", x)
    return b.op("Max", x, b.number(0, x.dtype))


@translates("relu6.default")
def relu6(b: Builder, x: Value) -> Value:
    return clamp(b, x, 0, 6)


@translates("hardtanh.default")
def hardtanh(b: Builder, x: Value, low: Any, high: Any) -> Value:
    return clamp(b, x, low, high)


@translates("hardsigmoid.default")
def hardsigmoid(b: Builder, x: Value) -> Value:
    return b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@translates("hardswish.default")
def hardswish(b: Builder, x: Value) -> Value:
    return b.op("Mul", x, hardsigmoid(b, x))


@translates("leaky_relu.default")
def leaky_relu(b: Builder, x: Value, slope: Any) -> Value:
    return b.op("LeakyRelu", x, alpha=float(slope))


@translates("elu.default")
def elu(b: Builder, x: Value, alpha: Any, scale: Any, input_scale: Any) -> Value:
    grown = b.op("Elu", scaled(b, x, input_scale), alpha=float(alpha))
    if input_scale != 1:
        positive = b.op("Greater", x, b.number(0, x.dtype), dtype=BOOL)
        grown = b.op("Where", positive, x, grown, dtype=x.dtype)
    return scaled(b, grown, scale)


@translates("selu.default")
def selu(b: Builder, x: Value) -> Value:
    return b.op("Selu", x)


@translates("celu.default")
def celu(b: Builder, x: Value, alpha: Any) -> Value:
    return b.op("Celu", x, alpha=float(alpha))


@translates("softplus.default")
def softplus(b: Builder, x: Value, beta: Any = 1, limit: Any = 20) -> Value:
    wide = scaled(b, x, beta)
    grown = b.op("Softplus", wide)
    if beta != 1:
        grown = b.op("Div", grown, b.number(beta, x.dtype))
    # Above the limit it is the identity, which ONNX's comes as close to as floats do at 20.
    if limit >= 20:
        return grown
    return chosen(b, b.op("Greater", wide, b.number(limit, x.dtype), dtype=BOOL), x, grown)


@translates("mish.default")
def mish(b: Builder, x: Value) -> Value:
    return b.op("Mul", x, b.op("Tanh", b.op("Softplus", x)))


@translates("log_sigmoid.default")
def log_sigmoid(b: Builder, x: Value) -> Value:
    return b.op("Neg", b.op("Softplus", b.op("Neg", x)))


@translates("silu.default")
def silu(b: Builder, x: Value) -> Value:
    return b.op("Mul", x, b.op("Sigmoid", x))


@translates("gelu.default")
def gelu(b: Builder, x: Value, approximate: str = "none") -> Value:
    if approximate == "tanh":
        cube = b.op("Mul", b.op("Mul", x, x), x)
        inner = b.op("Add", x, b.op("Mul", cube, b.number(0.044715, x.dtype)))
        grown = b.op("Tanh", b.op("Mul", inner, b.number(math.sqrt(2 / math.pi), x.dtype)))
    else:
        grown = b.op("Erf", b.op("Mul", x, b.number(math.sqrt(0.5), x.dtype)))
    half = b.op("Mul", x, b.number(0.5, x.dtype))
    return b.op("Mul", half, b.op("Add", grown, b.number(1, x.dtype)))


@translates("prelu.default", "_prelu_kernel.default")
def prelu(b: Builder, x: Value, weight: Value) -> Value:
    if x.rank > 2 and weight.rank == 1 and weight.shape[0] != 1:
        weight = b.reshape(weight, [-1] + [1] * (x.rank - 2))
    return b.op("PRelu", x, weight)


@translates("glu.default")
def glu(b: Builder, x: Value, dim: int) -> Value:
    left, right = b.many("Split", [x], [x.dtype, x.dtype], axis=dim, num_outputs=2)
    return b.op("Mul", left, b.op("Sigmoid", right))


# -- copies and dtypes --------------------------------------------------------------------------


@translates(
    "alias.default", "clone.default", "contiguous.default", "detach.default", "dropout.default",
    "lift_fresh_copy.default", "lift_fresh.default", "detach_.default",
)  # fmt: skip
def same(b: Builder, x: Value, *options: Any) -> Value:
    return b.op("Identity", x)


@translates("_to_copy.default", "to.dtype", "to.device", "to.dtype_layout", "type_as.default")
def converted(b: Builder, x: Value, *options: Any) -> Value:
    found = b.cast(x, out_type(b))
    return found if found.name != x.name else b.op("Identity", x)


@translates("copy.default", "copy_.default")
def copy(b: Builder, x: Value, source: Value, non_blocking: bool = False) -> Value:
    found = b.cast(source, x.dtype)
    if list(map(str, source.shape)) == list(map(str, x.shape)):
        return found if found.name != source.name else b.op("Identity", found)
    return b.op("Expand", found, b.op("Shape", x, dtype=INT64))


@translates("fill")
def fill(b: Builder, x: Value, value: Any) -> Value:
    return b.op("Expand", b.number(value, x.dtype), b.op("Shape", x, dtype=INT64))


def is_tensor(value: Any) -> bool:
    return isinstance(value, Value) and isinstance(value.like, Tensor)
