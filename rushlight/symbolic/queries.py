"""Questions about numbers that may be symbols. Plain numbers are answered without sympy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rushlight.symbolic.numbers import (
    BoolLike,
    IntLike,
    Number,
    SymBool,
    SymFloat,
    SymInt,
    SymNumber,
)
from rushlight.symbolic.ranges import int_oo

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr, Symbol


def is_symbolic(value: object) -> bool:
    """Whether `value` is a number whose value is not settled."""
    return isinstance(value, SymNumber) and not value.node.is_constant()


def is_concrete_int(a: Number) -> bool:
    """Whether an integer's value is settled. Decides nothing."""
    return not isinstance(a, SymInt) or a.node.expr.is_Integer


def is_concrete_float(a: Number) -> bool:
    return not isinstance(a, SymFloat) or bool(a.node.expr.is_number)


def is_concrete_bool(a: Number) -> bool:
    return not isinstance(a, SymBool) or a.node.is_constant()


def has_hint(a: Number) -> bool:
    """Whether the value in the example is known."""
    return a.node.has_hint() if isinstance(a, SymNumber) else True


def hint_int(a: Number, fallback: int | None = None) -> int:
    """The value in the example; `fallback` for what depends on data. Decides nothing."""
    return int(a.node.require_hint(fallback)) if isinstance(a, SymNumber) else int(a)


def size_hint(a: Number, fallback: int | None = None) -> int:
    return hint_int(a, fallback)


def guard_int(a: Number) -> int:
    """The value, which the graph is then special to."""
    return a.node.guard_int() if isinstance(a, SymNumber) else int(a)


def guard_float(a: Number) -> float:
    return a.node.guard_float() if isinstance(a, SymNumber) else float(a)


def guard_bool(a: BoolLike) -> bool:
    return bool(a)


def guard_scalar(a: Number) -> float:
    """The value of a number of any kind, which the graph is then special to."""
    if isinstance(a, SymBool):
        return bool(a)
    return a.node.guard_number() if isinstance(a, SymNumber) else a


def statically_known_true(x: BoolLike) -> bool:
    """Whether `x` holds for all values of the symbols. Adds no guard and never raises."""
    if isinstance(x, SymBool):
        return bool(x.node.shape_env.statically_known_true(x.node.expr))
    return bool(x)


def statically_known_false(x: BoolLike) -> bool:
    if isinstance(x, SymBool):
        return x.node.shape_env.facts.decide(x.node.expr) is False
    return not x


def guard_or(x: BoolLike, fallback: bool) -> bool:
    if isinstance(x, SymBool):
        node = x.node
        known: bool | None = node.shape_env.facts.decide(node.expr)
        if known is not None:
            return known
        if not node.has_hint():
            return fallback
    return bool(x)


def guard_or_false(a: BoolLike) -> bool:
    """The value where it can be had, with a guard; False for what depends on data."""
    return guard_or(a, False)


def guard_or_true(a: BoolLike) -> bool:
    return guard_or(a, True)


def definitely_true(a: BoolLike) -> bool:
    """True only where that is known or can be a guard; False for what depends on data."""
    return guard_or(a, False)


def definitely_false(a: BoolLike) -> bool:
    return not guard_or(a, True)


def guard_size_oblivious(expr: BoolLike) -> bool:
    """The value of a test of framework code, for sizes that are taken to be neither 0 nor 1."""
    return expr.node.guard_size_oblivious() if isinstance(expr, SymBool) else bool(expr)


def guard_as_size_or(test: BoolLike, fallback: bool) -> bool:
    """As `guard_size_oblivious`, with `fallback` for what only data tells."""
    if isinstance(test, SymBool):
        node = test.node
        facts = node.shape_env.facts
        for as_size in (False, True):
            known: bool | None = facts.decide(node.expr, as_size)
            if known is not None:
                return known
        if not node.has_hint():
            return fallback
    return bool(test)


def expect_true(a: BoolLike, skip: int = 0) -> bool:
    """Takes `a` to be true; checked when the graph runs where it depends on data."""
    return bool(a.node.expect_true()) if isinstance(a, SymBool) else bool(a)


def constrain_range(a: IntLike, *, min: int | None = None, max: int | None = None) -> None:
    """Takes an integer to lie between `min` and `max`; a plain one is checked."""
    lower = -int_oo if min is None else min
    upper = int_oo if max is None else max
    if upper < lower:
        raise ValueError(
            f"Maximum value to constrain_as_size can't be less than the specified min value, "
            f"received min={min} and max={max}"
        )
    if isinstance(a, SymInt):
        a.node.shape_env.constrain_range(a.node.expr, lower, upper)
    elif not lower <= a <= upper:
        raise ValueError(f"Invalid value {a} for range [{lower}:{upper}]")


def constrain_range_for_size(a: IntLike, min: int | None = None, max: int | None = None) -> None:
    """As `constrain_range`, for an integer that is used as a size."""
    if isinstance(a, SymInt):
        upper = int_oo if max is None else max
        a.node.shape_env.constrain_size(a.node.expr, 0 if min is None else min, upper)
    else:
        constrain_range(a, min=0 if min is None else min, max=max)


def expressions_in(value: Any) -> Iterable[Expr]:
    """The expressions in a number, a tensor, an expression, or a collection of them."""
    if isinstance(value, SymNumber):
        yield value.node.expr
    elif value is None or isinstance(value, (int, float, str)):
        return
    elif isinstance(value, dict):
        for part in value.values():
            yield from expressions_in(part)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for part in value:
            yield from expressions_in(part)
    elif hasattr(value, "storage_offset"):
        yield from expressions_in(tuple(value.size()))
        yield from expressions_in(tuple(value.stride()))
        yield from expressions_in(value.storage_offset())
    elif hasattr(value, "free_symbols"):
        yield value


def free_symbols(val: object) -> set[Symbol]:
    """The symbols a value depends on."""
    result: set[Symbol] = set()
    for expr in expressions_in(val):
        result |= expr.free_symbols
    return result


def has_free_symbols(val: object) -> bool:
    return any(not expr.is_number for expr in expressions_in(val) if expr.free_symbols)


def free_unbacked_symbols(x: object) -> set[Symbol]:
    """The symbols a value depends on that stand for data."""
    return {symbol for symbol in free_symbols(x) if symbol.name.startswith(("u", "zuf"))}


def has_free_unbacked_symbols(x: object) -> bool:
    return bool(free_unbacked_symbols(x))


def sym_and(x: BoolLike, *others: BoolLike) -> BoolLike:
    """Whether all hold, without asking for the value of any."""
    for other in others:
        x = x & other
    return x


def sym_or(x: BoolLike, *others: BoolLike) -> BoolLike:
    """Whether any holds, without asking for the value of any."""
    for other in others:
        x = x | other
    return x


def sym_eq(x: Any, y: Any) -> BoolLike:
    """Whether numbers, or lists of them, are equal, without asking for the value of any."""
    if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        if len(x) != len(y):
            return False
        return sym_and(True, *map(sym_eq, x, y))
    if isinstance(x, (int, SymInt)) and isinstance(y, (int, SymInt)):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def has_static_value(a: Number) -> bool:
    """Whether the value is one and the same for all values of the symbols."""
    return not isinstance(a, SymNumber) or a.node.is_constant() or not free_symbols(a)


def guarding_hint_or_throw(a: Any) -> float:
    """The value in the example, to be guarded on; an error where there is none."""
    return a if isinstance(a, (bool, int)) else guard_scalar(a)


def optimization_hint(a: Any, fallback: int | None = None) -> int:
    """The value in the example, which decides nothing but speed; `fallback` where there is none."""
    if not isinstance(a, SymNumber):
        return int(a)
    if a.node.has_hint():
        return int(hint_int(a))
    if fallback is None:
        raise ValueError(f"{a} has no value in the example; give a fallback")
    return fallback


def has_symbolic_sizes_strides(elem: Any) -> bool:
    """Whether a size or a stride of a tensor is a symbol."""
    numbers = [*elem.shape, *elem.stride(), elem.storage_offset()]
    return any([isinstance(each, SymInt) for each in numbers])


def is_nested_int(s: Any) -> bool:
    """Whether a number stands for the sizes of a jagged tensor: none does."""
    return False
