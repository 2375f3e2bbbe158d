"""Sizes and numbers that are known when a program runs, and statements about them."""

from __future__ import annotations

import math
import operator
from typing import Any

from rushlight.autograd.grad_mode import write_grad
from rushlight.onnx.building import BOOL, FLOAT, INT64, Builder, Value, number_type, translates
from rushlight.onnx.refusals import refuse
from rushlight.onnx.translations.pointwise import floored
from rushlight.symbolic import numbers
from rushlight.symbolic.expressions import build

__all__ = ["FUNCTIONS"]


@translates("sym_size.int")
def sym_size(b: Builder, x: Value, dim: int) -> Any:
    return b.size(x, dim)


@translates("sym_stride.int", "sym_storage_offset.default")
def symbolic(b: Builder, *args: Any) -> Any:
    """A number that is an expression of the inputs' sizes."""
    if isinstance(b.result, (int, float)):
        return b.result

    def leaf(symbol: Any) -> Any:
        if symbol not in b.symbols:
            raise refuse(f"the number {symbol}, which no size of an input is")
        return b.size(*b.symbols[symbol])

    def apply(function: Any, *operands: Any) -> Any:
        return FUNCTIONS[function](b, *operands)

    return build(b.result.node.expr, leaf, apply)


@translates("sym_numel.default")
def sym_numel(b: Builder, x: Value) -> Value:
    return b.op("Size", x, dtype=INT64)


@translates("item.default", "_local_scalar_dense.default")
def item(b: Builder, x: Value) -> Value:
    found = b.cast(x, number_type(b.result))
    return found if not x.rank else b.reshape(found, [])


@translates(
    "_assert_scalar", "_assert_async", "_assert_tensor_metadata", "sym_constrain_range",
    "sym_constrain_range_for_size", "_print",
)  # fmt: skip
def stated(b: Builder, *args: Any) -> None:
    """Statements are about what the program was exported for; ONNX has none."""


def kind_of(value: Any) -> Any:
    return value.dtype if isinstance(value, Value) else number_type(value)


def computed(op: str) -> Any:
    """Arithmetic of numbers, in floats if one of them is."""

    def apply(b: Builder, *values: Any) -> Value:
        dtype = FLOAT if any(kind_of(value) is FLOAT for value in values) else INT64
        return b.op(op, *[b.number(value, dtype) for value in values])

    return apply


def compared(op: str, negated: bool = False) -> Any:
    def apply(b: Builder, left: Any, right: Any) -> Value:
        dtype = FLOAT if FLOAT in (kind_of(left), kind_of(right)) else INT64
        found = b.op(op, b.number(left, dtype), b.number(right, dtype), dtype=BOOL)
        return b.op("Not", found) if negated else found

    return apply


def truths(op: str) -> Any:
    return lambda b, *values: b.op(op, *[b.number(value, BOOL) for value in values])


def floor_divided(b: Builder, left: Any, right: Any) -> Value:
    if FLOAT in (kind_of(left), kind_of(right)):
        return b.op("Floor", b.op("Div", b.number(left, FLOAT), b.number(right, FLOAT)))
    a, c = b.number(left, INT64), b.number(right, INT64)
    return floored(b, b.op("Div", a, c), a, c)


def modulo(b: Builder, left: Any, right: Any) -> Value:
    if FLOAT in (kind_of(left), kind_of(right)):
        raise refuse("a remainder of floats among sizes")
    return b.op("Mod", b.number(left, INT64), b.number(right, INT64))


def rounded(op: str) -> Any:
    return lambda b, value: b.cast(b.op(op, b.number(value, FLOAT)), INT64)


def truncated(b: Builder, value: Any) -> Value:
    return b.number(value, INT64) if kind_of(value) is INT64 else b.cast(value, INT64)


FUNCTIONS: dict[Any, Any] = {
    # Whether gradients are wanted is no matter where there are none.
    write_grad: stated,
    operator.add: computed("Add"),
    operator.sub: computed("Sub"),
    operator.mul: computed("Mul"),
    operator.pow: computed("Pow"),
    operator.neg: computed("Neg"),
    operator.abs: computed("Abs"),
    operator.pos: computed("Identity"),
    operator.floordiv: floor_divided,
    operator.mod: modulo,
    operator.truediv: lambda b, x, y: b.op("Div", b.number(x, FLOAT), b.number(y, FLOAT)),
    operator.eq: compared("Equal"),
    operator.ne: compared("Equal", True),
    operator.lt: compared("Less"),
    operator.le: compared("LessOrEqual"),
    operator.gt: compared("Greater"),
    operator.ge: compared("GreaterOrEqual"),
    operator.and_: truths("And"),
    operator.or_: truths("Or"),
    math.floor: rounded("Floor"),
    math.ceil: rounded("Ceil"),
    math.trunc: truncated,
    numbers.sym_int: truncated,
    numbers.sym_float: lambda b, value: b.number(value, FLOAT),
    numbers.sym_not: truths("Not"),
    numbers.sym_max: computed("Max"),
    numbers.sym_min: computed("Min"),
    numbers.sym_sqrt: lambda b, value: b.op("Sqrt", b.number(value, FLOAT)),
    numbers.sym_ite: lambda b, condition, x, y: b.op(
        "Where", b.number(condition, BOOL), b.number(x, kind_of(x)), b.number(y, kind_of(x)),
        dtype=kind_of(x),
    ),
}  # fmt: skip
