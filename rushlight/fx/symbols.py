"""Methods of symbolic numbers by torch's names, and functions of numbers that may be symbolic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, cast

from rushlight.base.errors import MissingFeature
from rushlight.core.tensor import Tensor
from rushlight.symbolic import expressions as ex
from rushlight.symbolic import numbers

__all__ = [
    "SymIntEqByExpr", "check_consistent", "create_contiguous", "is_symbol_binding_fx_node",
    "magic_methods", "method_to_operator", "sym_acos", "sym_asin", "sym_atan", "sym_cos",
    "sym_cosh", "sym_log2", "sym_sin", "sym_sinh", "sym_tan", "sym_tanh",
]  # fmt: skip

CURRENT_NODE_KEY = "current_node"
SHAPEENV_EVENT_KEY = "shapeenv_event"
# A size that is what the example has.
STATIC = None


def math_function(compute: Callable[[float], float]) -> Callable[[Any], Any]:
    name = compute.__name__

    def function(a: Any) -> Any:
        if isinstance(a, numbers.Arithmetic):
            if not a.node.is_constant():
                raise MissingFeature(f"sym_{name} of a symbol", code="RL0017")
            a = float(a)
        return compute(a)

    function.__name__ = function.__qualname__ = f"sym_{name}"
    function.__doc__ = f"`math.{name}` of a number."
    return function


sym_acos, sym_asin, sym_atan = map(math_function, (math.acos, math.asin, math.atan))
sym_cos, sym_cosh, sym_log2 = map(math_function, (math.cos, math.cosh, math.log2))
sym_sin, sym_sinh = map(math_function, (math.sin, math.sinh))
sym_tan, sym_tanh = map(math_function, (math.tan, math.tanh))

OPERATORS: dict[str, Any] = {
    "abs": operator.abs, "add": operator.add, "and": operator.and_, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "ceil": math.ceil, "eq": operator.eq,
    "float_pow": operator.pow, "float_truediv": operator.truediv, "floor": math.floor,
    "ge": operator.ge, "gt": operator.gt, "int_floordiv": operator.floordiv,
    "int_truediv": operator.truediv, "is_integer": lambda x: x.is_integer(), "le": operator.le,
    "lshift": operator.lshift, "lt": operator.lt, "mod": operator.mod, "mul": operator.mul,
    "ne": operator.ne, "neg": operator.neg, "or": operator.or_, "pos": operator.pos,
    "pow_by_natural": operator.pow, "round": round, "rshift": operator.rshift,
    "sub": operator.sub, "sym_acos": sym_acos, "sym_asin": sym_asin, "sym_atan": sym_atan,
    "sym_cos": sym_cos, "sym_cosh": sym_cosh, "sym_float": numbers.sym_float,
    "sym_ite": numbers.sym_ite, "sym_log2": sym_log2, "sym_max": numbers.sym_max,
    "sym_min": numbers.sym_min, "sym_not": numbers.sym_not, "sym_sin": sym_sin,
    "sym_sinh": sym_sinh, "sym_sqrt": numbers.sym_sqrt, "sym_tan": sym_tan, "sym_tanh": sym_tanh,
    "trunc": math.trunc,
}  # fmt: skip

magic_methods = frozenset(OPERATORS)


def method_to_operator(method: str) -> Any:
    """The function of numbers that a method of symbolic numbers is."""
    return OPERATORS[method]


class SymIntEqByExpr:
    """An integer that is equal to another where their expressions are the same; nothing is
    decided of the numbers."""

    def __init__(self, val: Any) -> None:
        self.val = val.node.expr if isinstance(val, numbers.SymInt) else ex.sympy.Integer(val)

    def __repr__(self) -> str:
        return repr(self.val)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SymIntEqByExpr):
            raise AssertionError(f"Expected SymIntEqByExpr, got {type(other)}")
        return bool(self.val == other.val)

    def __hash__(self) -> int:
        return hash(self.val)


def create_contiguous(shape: Any) -> list[Any]:
    """The strides of a contiguous tensor of a shape."""
    strides = [1]
    for size in reversed(shape[:-1]):
        strides.append(size * strides[-1])
    return strides[::-1]


def check_consistent(new: Any, old: Any) -> None:
    """Raises where a tensor has other sizes than before, or a number is another one."""
    if isinstance(new, Tensor):
        if not isinstance(old, Tensor):
            raise AssertionError(f"Expected Tensor, got {type(old)}")
        same = old.dim() == new.dim() and all(
            bool(one == other) for one, other in zip(old.shape, new.shape, strict=True)
        )
        if not same:
            raise RuntimeError(f"{old.shape} != {new.shape} (old != new)")
    elif is_number(new):
        if not is_number(old):
            raise AssertionError(f"{old} != {new}")
        if not bool(old == new):
            raise RuntimeError(f"{old} != {new} (old != new)")


def is_number(value: Any) -> bool:
    kinds = (numbers.SymInt, numbers.SymFloat, int, float)
    return isinstance(value, kinds) and not isinstance(value, bool)


def is_symbol_binding_fx_node(node: Any) -> Any:
    """The symbol that a node of a graph gives its value: an input, or one that data decides."""
    value = node.meta.get("val")
    if not isinstance(value, numbers.SymInt):
        return None
    expr = value.node.expr
    if not expr.is_Symbol:
        return None
    if node.op == "placeholder" or value.node.shape_env.is_unbacked_symint(cast("Any", expr)):
        return expr
    return None
