"""SymInt, SymFloat, SymBool: numbers that may stand for an expression over symbols.

The classes are thin: `node` does the work. Functions here take plain numbers as well, and give
plain numbers for them. Importing this module does not import sympy; a value of these classes
exists only once something symbolic does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.symbolic.node import SymNode


class SymNumber:
    """What the three kinds share: everything is asked of the node."""

    __slots__ = ("__weakref__", "node")

    def __init__(self, node: SymNode) -> None:
        self.node = node

    def __eq__(self, other: object) -> Any:
        return self.node.compute("eq", other)

    def __ne__(self, other: object) -> Any:
        return self.node.compute("ne", other)

    def __lt__(self, other: Number) -> Any:
        return self.node.compute("lt", other)

    def __le__(self, other: Number) -> Any:
        return self.node.compute("le", other)

    def __gt__(self, other: Number) -> Any:
        return self.node.compute("gt", other)

    def __ge__(self, other: Number) -> Any:
        return self.node.compute("ge", other)

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: {type(self).__name__}")

    def __repr__(self) -> str:
        return str(self.node)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # The node belongs to a shape environment; a copy would be a stranger there.
        return self


class Arithmetic(SymNumber):
    """Operators that SymInt and SymFloat share."""

    __slots__ = ()

    def __add__(self, other: Number) -> Any:
        return self.node.compute("add", other)

    def __radd__(self, other: Number) -> Any:
        return self.node.compute_reflected("add", other)

    def __sub__(self, other: Number) -> Any:
        return self.node.compute("sub", other)

    def __rsub__(self, other: Number) -> Any:
        return self.node.compute_reflected("sub", other)

    def __mul__(self, other: Number) -> Any:
        return self.node.compute("mul", other)

    def __rmul__(self, other: Number) -> Any:
        return self.node.compute_reflected("mul", other)

    def __truediv__(self, other: Number) -> Any:
        return self.node.compute("truediv", other)

    def __rtruediv__(self, other: Number) -> Any:
        return self.node.compute_reflected("truediv", other)

    def __floordiv__(self, other: Number) -> Any:
        return self.node.compute("floordiv", other)

    def __rfloordiv__(self, other: Number) -> Any:
        return self.node.compute_reflected("floordiv", other)

    def __mod__(self, other: Number) -> Any:
        return self.node.compute("mod", other)

    def __rmod__(self, other: Number) -> Any:
        return self.node.compute_reflected("mod", other)

    def __divmod__(self, other: Number) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Number) -> Any:
        return other // self, other % self

    def __pow__(self, other: Number) -> Any:
        return self.node.compute("pow", other)

    def __rpow__(self, other: Number) -> Any:
        return self.node.compute_reflected("pow", other)

    def __neg__(self) -> Any:
        return self.node.transform("neg")

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.node.transform("abs")

    def __floor__(self) -> Any:
        return self.node.transform("floor")

    def __ceil__(self) -> Any:
        return self.node.transform("ceil")

    def __trunc__(self) -> Any:
        return self.node.transform("trunc")

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __int__(self) -> int:
        return int(self.node.guard_number())

    def __float__(self) -> float:
        return float(self.node.guard_number())

    def __complex__(self) -> complex:
        return complex(self.node.guard_number())


class SymInt(Arithmetic):
    """An integer that may be an expression over symbols."""

    __slots__ = ()

    def __index__(self) -> int:
        return int(self.node.guard_number())

    def __hash__(self) -> int:
        raise TypeError("unhashable type: non-nested SymInt")

    def __round__(self, ndigits: int | None = None) -> Any:
        return self

    def __lshift__(self, other: IntLike) -> Any:
        return self * 2**other

    def __rshift__(self, other: IntLike) -> Any:
        return self // 2**other

    def as_integer_ratio(self) -> tuple[Any, int]:
        return self, 1

    def is_integer(self) -> bool:
        return True

    def has_hint(self) -> bool:
        return bool(self.node.has_hint())


class SymFloat(Arithmetic):
    """A float that may be an expression over symbols."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(float(self))

    def __round__(self, ndigits: int | None = None) -> Any:
        return self.node.round(ndigits)

    def is_integer(self) -> Any:
        return self == self.__floor__()

    def has_hint(self) -> bool:
        return bool(self.node.has_hint())

    def conjugate(self) -> SymFloat:
        return self

    def hex(self) -> str:
        return float(self).hex()


class SymBool(SymNumber):
    """A boolean that may be a relation between expressions."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return bool(self.node.guard_bool("", 0))

    def __int__(self) -> int:
        return int(bool(self))

    def __and__(self, other: BoolLike) -> Any:
        return self.node.compute("and", other)

    def __or__(self, other: BoolLike) -> Any:
        return self.node.compute("or", other)

    __rand__ = __and__
    __ror__ = __or__

    def __hash__(self) -> int:
        known = self.node.maybe_as_bool()
        if known is None:
            raise TypeError("unhashable type: SymBool")
        return hash(known)


NUMBERS = (SymInt, SymFloat, SymBool)


class Observer:
    """Who is told of computations with symbols, as they happen: the function, its operands (nodes
    and plain numbers) and the node of the result. Recording fills it in."""

    note: Callable[[Callable[..., Any], tuple[Any, ...], SymNode], None] | None = None


def observed(function: Callable[..., Any], operands: tuple[Any, ...], result: Any) -> Any:
    """`result`, told to the observer where it is symbolic and none of the operands."""
    if Observer.note is not None and isinstance(result, SymNumber):
        parts = tuple([part.node if isinstance(part, SymNumber) else part for part in operands])
        if not any(part is result.node for part in parts):
            Observer.note(function, parts, result.node)
    return result


# Python numbers and those that may be symbols.
IntLike = int | SymInt
FloatLike = float | SymFloat
BoolLike = bool | SymBool
Real = float | SymInt | SymFloat
Number = float | SymNumber


def sym_not(a: BoolLike) -> Any:
    """The opposite of a boolean, without deciding it."""
    return a.node.transform("not") if isinstance(a, SymNumber) else not a


def sym_float(a: Real) -> Any:
    """`float(a)`, without deciding what `a` is."""
    if isinstance(a, SymFloat):
        return a
    return a.node.transform("float") if isinstance(a, SymInt) else float(a)


def sym_int(a: Real) -> Any:
    """`int(a)`, without deciding what `a` is."""
    if isinstance(a, SymInt):
        return a
    return a.node.transform("trunc") if isinstance(a, SymFloat) else int(a)


def sym_max(a: Real, b: Real) -> Any:
    """`max(a, b)`, without deciding which. torch: a float argument makes the result a float."""
    return extremum("max", a, b)


def sym_min(a: Real, b: Real) -> Any:
    """`min(a, b)`, without deciding which. torch: a float argument makes the result a float."""
    return extremum("min", a, b)


def extremum(name: str, a: Real, b: Real) -> Any:
    for first, second in ((a, b), (b, a)):
        if isinstance(first, Arithmetic):
            result = first.node.compute(name, second)
            if result is NotImplemented:
                raise TypeError(f"sym_{name} takes numbers, not {type(second).__name__}")
            return result
    result = max(a, b) if name == "max" else min(a, b)
    return float(result) if isinstance(a, float) or isinstance(b, float) else result


def sym_sqrt(a: Real) -> Any:
    """The square root, without deciding what `a` is."""
    return a.node.transform("sqrt") if isinstance(a, Arithmetic) else math.sqrt(a)


def sym_ite(b: BoolLike, t: Number, f: Number) -> Any:
    """`t if b else f`, without deciding `b`."""
    return b.node.choose(t, f) if isinstance(b, SymBool) else (t if b else f)


def sym_sum(args: Iterable[Number]) -> Any:
    """The sum of many numbers."""
    total: Any = 0
    for value in args:
        total = total + value
    return total
