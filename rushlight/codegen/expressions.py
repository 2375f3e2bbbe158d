"""Scalar expressions of loop bodies, and the math namespace that makes them of `scalar` texts.

An `Expression` is a node of a shared, immutable graph: equal expressions made by one `Builder` are
one object, so a body computes each value once. Its dtype is that of the register: halves exist only
between a load or conversion and the next one, arithmetic on them is refused. `Builder` offers the
names of `rushlight.arrays.numpy_.Math`; what it cannot say exactly raises `Inexpressible`, and
the op that asked for it runs its own kernel instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.arrays.precision import HALVES
from rushlight.codegen.vectormath import FUNCTIONS
from rushlight.core import dtype as dtypes
from rushlight.core.dtype import BOOL, FLOAT, INTEGER, dtype
from rushlight.symbolic.numbers import SymInt

if TYPE_CHECKING:
    from rushlight.codegen.loops import Buffer

__all__ = ["Builder", "Expression", "Inexpressible", "rebuilt"]

# Functions of floats that the printer knows, by number of operands.
BINARY_FUNCTIONS = frozenset(("pow", "atan2", "hypot", "fmod"))
UNARY_FUNCTIONS = frozenset([name for name, _ in FUNCTIONS]) - BINARY_FUNCTIONS
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


class Inexpressible(Exception):
    """The builder has no exact expression for what a text asks."""


class Expression:
    """One scalar value: an operation on others, a load, an index or a constant."""

    __slots__ = ("args", "builder", "dtype", "op", "payload", "walked")

    def __init__(
        self, builder: Builder, op: str, args: tuple[Expression, ...], dtype: dtype, payload: Any
    ) -> None:
        self.builder = builder
        self.op = op
        self.args = args
        self.dtype = dtype
        self.payload = payload
        # What `walk` found, once it was asked.
        self.walked: list[Expression] | None = None

    def __bool__(self) -> bool:
        raise Inexpressible("a branch on a value")

    def __repr__(self) -> str:
        return self.text(lambda load: f"{load.payload[0]}{list(load.payload[1])}")

    def text(
        self, show_load: Callable[[Expression], str], names: dict[Expression, str] | None = None
    ) -> str:
        """The expression as Python would write it; `names` stand for values already computed."""
        op = self.op
        if op == "load" or op == "index":
            return show_load(self)
        if op == "const" or op == "extent":
            return repr(self.payload)
        inside = [
            names[argument] if names and argument in names else argument.text(show_load, names)
            for argument in self.args
        ]
        if op in SYMBOLS:
            return f"({inside[0]} {SYMBOLS[op]} {inside[1]})"
        if op == "cast":
            return f"{self.dtype.name}({inside[0]})"
        if op == "select":
            return f"({inside[1]} if {inside[0]} else {inside[2]})"
        if op == "neg":
            return f"-{inside[0]}"
        return f"{op}({', '.join(inside)})"

    def __eq__(self, other: object) -> Any:
        # Keys of dicts are compared by identity; a text that compares with a number means values.
        if isinstance(other, (int, float)):
            return self.builder.equal(self, other)
        return self is other

    __hash__ = object.__hash__

    def __add__(self, other: Operand) -> Expression:
        return self.builder.add(self, other)

    def __radd__(self, other: Operand) -> Expression:
        return self.builder.add(other, self)

    def __sub__(self, other: Operand) -> Expression:
        return self.builder.subtract(self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return self.builder.subtract(other, self)

    def __mul__(self, other: Operand) -> Expression:
        return self.builder.multiply(self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return self.builder.multiply(other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return self.builder.divide(self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return self.builder.divide(other, self)

    def __neg__(self) -> Expression:
        return self.builder.negative(self)

    def __abs__(self) -> Any:
        return self.builder.abs(self)

    def __lt__(self, other: Operand) -> Expression:
        return self.builder.less(self, other)

    def __le__(self, other: Operand) -> Expression:
        return self.builder.less_equal(self, other)

    def __gt__(self, other: Operand) -> Expression:
        return self.builder.greater(self, other)

    def __ge__(self, other: Operand) -> Expression:
        return self.builder.greater_equal(self, other)

    def __and__(self, other: Operand) -> Expression:
        return self.builder.bitwise_and(self, other)

    def __or__(self, other: Operand) -> Expression:
        return self.builder.bitwise_or(self, other)

    def __invert__(self) -> Expression:
        return self.builder.bitwise_not(self)


class Factor(Expression):
    """A factor that is not known yet: texts multiply by it as by any number but 1."""

    def __init__(self, expr: Expression) -> None:
        super().__init__(expr.builder, expr.op, expr.args, expr.dtype, expr.payload)

    def __eq__(self, other: object) -> Any:
        return self is other

    __hash__ = object.__hash__


# What arithmetic takes: a value, or a Python number.
Operand = Expression | float


def rebuilt(root: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with `change` applied to its loads and indices."""
    done: dict[Expression, Expression] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
        elif node.op == "load" or node.op == "index":
            done[stack.pop()] = change(node)
        else:
            waiting = [argument for argument in node.args if argument not in done]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            args = tuple([done[argument] for argument in node.args])
            same = all([new is old for new, old in zip(args, node.args)])
            done[node] = (
                node if same else node.builder.make(node.op, args, node.dtype, node.payload)
            )
    return done[root]


def walk(root: Expression) -> list[Expression]:
    """Every node once, operands before what uses them."""
    if root.walked is not None:
        return root.walked
    found: list[Expression] = []
    seen: set[Expression] = set()
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(argument, False) for argument in reversed(node.args)]
    root.walked = found
    return found


def shared(root: Expression) -> list[Expression]:
    """Computed values that an expression uses more than once, operands first."""
    uses: dict[Expression, int] = {}
    nodes = walk(root)
    for node in nodes:
        for argument in node.args:
            uses[argument] = uses.get(argument, 0) + 1
    return [node for node in nodes if node.args and uses.get(node, 0) > 1]


def number_of(dtype: dtype, value: complex) -> float:
    """A Python number as a constant of `dtype`, wrapped and rounded as a conversion would."""
    if isinstance(value, complex):
        raise Inexpressible("a complex number")
    if dtype.category == BOOL:
        return bool(value)
    if dtype.category == INTEGER:
        if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
            raise Inexpressible("no integer")
        bits = dtype.itemsize * 8
        number = int(value) & ((1 << bits) - 1)
        return number - (1 << bits) if dtype.is_signed and number >> (bits - 1) else number
    return float(dtype.np.type(value))


class Builder:
    """The math namespace of expressions."""

    def __init__(self, converts_half: bool = True) -> None:
        self.table: dict[Any, Expression] = {}
        # Whether the machine converts float16 itself.
        self.converts_half = converts_half

    # -- making ----------------------------------------------------------------------------------

    def make(
        self, op: str, args: tuple[Expression, ...], dtype: dtype, payload: Any = None
    ) -> Expression:
        shown = repr(payload) if op == "const" else payload
        key = (op, args, dtype, shown)
        found = self.table.get(key)
        if found is None:
            found = self.table[key] = Expression(self, op, args, dtype, payload)
        return found

    def const(self, value: complex | SymInt, dtype: dtype) -> Expression:
        if isinstance(value, SymInt):
            # A size that a call tells.
            return self.cast(self.make("extent", (), dtypes.int64, value), dtype)
        return self.make("const", (), dtype, number_of(dtype, value))

    def load(
        self, buffer: Buffer, strides: tuple[int, ...], offset: int, dtype: dtype | None = None
    ) -> Expression:
        return self.make("load", (), dtype or buffer.dtype, (buffer, strides, offset))

    def index(self, strides: tuple[int, ...], offset: int) -> Expression:
        """offset + the dot product of the loop's indices with `strides`, as int64."""
        return self.make("index", (), dtypes.int64, (strides, offset))

    def cast(self, x: Expression, dtype: dtype) -> Expression:
        """The value in another dtype, as a C conversion makes it."""
        if x.dtype is dtype:
            return x
        if x.dtype.is_complex or dtype.is_complex or dtype in dtypes.FLOAT8:
            raise Inexpressible(f"conversion to {dtype}")
        if x.dtype in dtypes.FLOAT8:
            raise Inexpressible(f"conversion from {x.dtype}")
        if not self.converts_half and dtypes.float16 in (dtype, x.dtype):
            raise Inexpressible("conversion of float16")
        if x.op == "const" and dtype not in HALVES and x.dtype not in HALVES:
            return self.const(x.payload, dtype)
        source = x.dtype
        if source in HALVES and dtype is not dtypes.float32:
            return self.cast(self.cast(x, dtypes.float32), dtype)
        if dtype in HALVES and source is not dtypes.float32:
            if source is dtypes.float64 or source.itemsize > 2:
                # Rounding twice is not rounding once.
                raise Inexpressible(f"conversion from {source} to {dtype}")
            return self.cast(self.cast(x, dtypes.float32), dtype)
        if dtype in (dtypes.uint32, dtypes.uint64) and source.category == FLOAT:
            # What lies outside the range has no single meaning there.
            raise Inexpressible(f"conversion from float to {dtype}")
        return self.make("cast", (x,), dtype)

    def pair(self, x: Operand, y: Operand) -> tuple[Expression, Expression]:
        """Two operands of one dtype; a Python number takes the other's."""
        if not isinstance(x, Expression):
            if not isinstance(y, Expression):
                raise Inexpressible("no operand")
            return self.like(x, y), y
        if not isinstance(y, Expression):
            return x, self.like(y, x)
        if x.dtype is not y.dtype:
            raise Inexpressible(f"{x.dtype} with {y.dtype}")
        self.check(x)
        return x, y

    def check(self, x: Expression) -> None:
        if x.dtype in HALVES or x.dtype.is_complex or x.dtype in dtypes.FLOAT8:
            raise Inexpressible(f"arithmetic in {x.dtype}")

    def like(self, value: float, other: Expression) -> Expression:
        """A Python number as NumPy takes it beside an array."""
        self.check(other)
        dtype = other.dtype
        if isinstance(value, SymInt):
            if dtype.category != FLOAT and dtype is not dtypes.int64:
                raise Inexpressible(f"a number that may be out of range of {dtype}")
            return self.const(value, dtype)
        if type(value) not in (bool, int, float):
            raise Inexpressible(f"a {type(value).__name__}")
        if dtype.category < FLOAT and type(value) is float:
            raise Inexpressible("a float beside integers")
        if dtype.category == BOOL and type(value) is not bool:
            raise Inexpressible("an integer beside bools")
        if dtype.category == INTEGER and number_of(dtype, value) != value:
            raise Inexpressible("a number out of range")
        return self.const(value, dtype)

    def real(self, x: Expression) -> Expression:
        if x.dtype.is_complex:
            raise Inexpressible("complex")
        return x

    conj = real

    def binary(self, op: str, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        return self.make(op, (x, y), dtypes.bool_ if op in COMPARISONS else x.dtype)

    def function(self, name: str, *args: Any) -> Expression:
        x, y = (args[0], args[0]) if len(args) == 1 else self.pair(*args)
        self.check(x)
        if x.dtype.category != FLOAT:
            raise Inexpressible(f"{name} of {x.dtype}")
        return self.make(name, (x,) if len(args) == 1 else (x, y), x.dtype)

    def __getattr__(self, name: str) -> Any:
        if name in UNARY_FUNCTIONS or name in BINARY_FUNCTIONS:
            return lambda *args: self.function(name, *args)
        raise Inexpressible(name)

    # -- arithmetic ------------------------------------------------------------------------------

    def add(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        return self.binary("or" if x.dtype.category == BOOL else "add", x, y)

    def subtract(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        if x.dtype.category == BOOL:
            raise Inexpressible("a difference of bools")
        return self.binary("sub", x, y)

    def multiply(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        return self.binary("and" if x.dtype.category == BOOL else "mul", x, y)

    def divide(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        if x.dtype.category != FLOAT:
            raise Inexpressible("a quotient of integers")
        return self.binary("div", x, y)

    def whole_divisor(self, x: Operand, y: Operand) -> tuple[Expression, Expression]:
        """Operands of an integer division that cannot fail."""
        x, y = self.pair(x, y)
        if x.dtype.category == BOOL:
            raise Inexpressible("division of bools")
        if x.dtype.category == INTEGER and (y.op != "const" or y.payload in (0, -1)):
            raise Inexpressible("division by what may be zero")
        return x, y

    def floor_divide(self, x: Operand, y: Operand) -> Expression:
        x, y = self.whole_divisor(x, y)
        if x.dtype.category == FLOAT:
            # NumPy's is exact, from the remainder.
            raise Inexpressible("floor division of floats")
        return self.binary("idiv_floor", x, y)

    def trunc_divide(self, x: Operand, y: Operand) -> Expression:
        x, y = self.whole_divisor(x, y)
        if x.dtype.category == FLOAT:
            return self.trunc(self.divide(x, y))
        return self.binary("idiv", x, y)

    def fmod(self, x: Operand, y: Operand) -> Expression:
        x, y = self.whole_divisor(x, y)
        return self.binary("fmod" if x.dtype.category == FLOAT else "irem", x, y)

    def remainder(self, x: Operand, y: Operand) -> Expression:
        x, y = self.whole_divisor(x, y)
        if x.dtype.category != FLOAT:
            return self.binary("irem_floor", x, y)
        rest = self.binary("fmod", x, y)
        zero = self.const(0, x.dtype)
        other_side = self.binary("ne", self.binary("lt", rest, zero), self.binary("lt", y, zero))
        off = self.binary("and", self.binary("ne", rest, zero), other_side)
        return self.where(off, self.add(rest, y), rest)

    def negative(self, x: Expression) -> Expression:
        self.check(x)
        if x.dtype.category == BOOL:
            raise Inexpressible("minus a bool")
        return self.make("neg", (x,), x.dtype)

    def positive(self, x: Expression) -> Expression:
        return x

    def reciprocal(self, x: Operand) -> Expression:
        return self.divide(1.0, x)

    def power(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        number = y.payload if y.op == "const" else None
        if number == 2 and x.dtype.category != BOOL:
            return self.multiply(x, x)
        if x.dtype.category != FLOAT:
            if x.dtype.category == INTEGER and number in (0, 1, 3, 4):
                return self.whole_power(x, number)
            raise Inexpressible("an integer power")
        if number == 1:
            return x
        if number == 0.5:
            return self.sqrt(x)
        if number == -1:
            return self.reciprocal(x)
        if number == 3:
            return self.multiply(self.multiply(x, x), x)
        return self.function("pow", x, y)

    def whole_power(self, x: Expression, count: int) -> Expression:
        found = self.const(1, x.dtype)
        for _ in range(count):
            found = self.multiply(found, x)
        return found

    def maximum(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        return self.binary("or" if x.dtype.category == BOOL else "max", x, y)

    def minimum(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        return self.binary("and" if x.dtype.category == BOOL else "min", x, y)

    def fmax(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        if x.dtype.category != FLOAT:
            return self.maximum(x, y)
        return self.where(self.isnan(x), y, self.where(self.isnan(y), x, self.maximum(x, y)))

    def fmin(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        if x.dtype.category != FLOAT:
            return self.minimum(x, y)
        return self.where(self.isnan(x), y, self.where(self.isnan(y), x, self.minimum(x, y)))

    def copysign(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        return self.function("copysign", x, y)

    def atan2(self, x: Operand, y: Operand) -> Expression:
        return self.function("atan2", x, y)

    def logaddexp(self, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        if x.dtype.category != FLOAT:
            raise Inexpressible("logaddexp of integers")
        gap = self.negative(self.abs(self.subtract(x, y)))
        found = self.add(self.maximum(x, y), self.log1p(self.exp(gap)))
        # Equal infinities have no difference.
        return self.where(self.equal(x, y), self.add(x, self.const(math.log(2.0), x.dtype)), found)

    def heaviside(self, x: Operand, values: Operand) -> Expression:
        x, values = self.pair(x, values)
        one, zero = self.const(1, x.dtype), self.const(0, x.dtype)
        found = self.where(self.equal(x, zero), values, self.where(x > zero, one, zero))
        return found

    # -- comparison and logic ------------------------------------------------------------------

    def equal(self, x: Operand, y: Operand) -> Expression:
        return self.binary("eq", x, y)

    def not_equal(self, x: Operand, y: Operand) -> Expression:
        return self.binary("ne", x, y)

    def less(self, x: Operand, y: Operand) -> Expression:
        return self.binary("lt", x, y)

    def less_equal(self, x: Operand, y: Operand) -> Expression:
        return self.binary("le", x, y)

    def greater(self, x: Operand, y: Operand) -> Expression:
        return self.binary("gt", x, y)

    def greater_equal(self, x: Operand, y: Operand) -> Expression:
        return self.binary("ge", x, y)

    def truth(self, x: Operand) -> Expression:
        if not isinstance(x, Expression):
            return self.const(bool(x), dtypes.bool_)
        return x if x.dtype is dtypes.bool_ else self.make("cast", (x,), dtypes.bool_)

    def logical_and(self, x: Operand, y: Operand) -> Expression:
        return self.binary("and", self.truth(x), self.truth(y))

    def logical_or(self, x: Operand, y: Operand) -> Expression:
        return self.binary("or", self.truth(x), self.truth(y))

    def logical_xor(self, x: Operand, y: Operand) -> Expression:
        return self.binary("xor", self.truth(x), self.truth(y))

    def logical_not(self, x: Operand) -> Expression:
        return self.binary("xor", self.truth(x), self.const(True, dtypes.bool_))

    def bits(self, op: str, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        if x.dtype.category == FLOAT:
            raise Inexpressible("bits of a float")
        return self.binary(op, x, y)

    def bitwise_and(self, x: Operand, y: Operand) -> Expression:
        return self.bits("and", x, y)

    def bitwise_or(self, x: Operand, y: Operand) -> Expression:
        return self.bits("or", x, y)

    def bitwise_xor(self, x: Operand, y: Operand) -> Expression:
        return self.bits("xor", x, y)

    def bitwise_not(self, x: Expression) -> Expression:
        if x.dtype.category == INTEGER:
            ones = -1 if x.dtype.is_signed else (1 << x.dtype.itemsize * 8) - 1
            return self.bits("xor", x, self.const(ones, x.dtype))
        return self.bits("xor", x, self.const(True, x.dtype))

    def shifted(self, op: str, x: Operand, y: Operand) -> Expression:
        x, y = self.pair(x, y)
        if x.dtype.category != INTEGER:
            raise Inexpressible("a shift of no integer")
        if y.op != "const" or not 0 <= y.payload < x.dtype.itemsize * 8:
            raise Inexpressible("a shift by what may be too far")
        return self.binary(op, x, y)

    def left_shift(self, x: Operand, y: Operand) -> Expression:
        return self.shifted("shl", x, y)

    def right_shift(self, x: Operand, y: Operand) -> Expression:
        return self.shifted("shr", x, y)

    def where(self, condition: Operand, x: Operand, y: Operand) -> Expression:
        condition = self.truth(condition)
        if isinstance(x, Expression) and isinstance(y, Expression) and x.dtype is y.dtype:
            return self.make("select", (condition, x, y), x.dtype)
        x, y = self.pair(x, y)
        return self.make("select", (condition, x, y), x.dtype)

    def zero_where(self, mask: Operand, x: Expression) -> Expression:
        return self.where(mask, self.const(0, x.dtype), x)

    # -- one operand -------------------------------------------------------------------------------

    def abs(self, x: Operand) -> Any:
        if not isinstance(x, Expression):
            return x if x >= 0 else -x
        self.check(x)
        if x.dtype.category == BOOL or (x.dtype.category == INTEGER and not x.dtype.is_signed):
            return x
        return self.make("abs", (x,), x.dtype)

    def sign(self, x: Expression) -> Expression:
        self.check(x)
        if x.dtype.category == BOOL:
            return x
        up = self.cast(self.greater(x, self.const(0, x.dtype)), x.dtype)
        return self.subtract(up, self.cast(self.less(x, self.const(0, x.dtype)), x.dtype))

    def signbit(self, x: Expression) -> Expression:
        self.check(x)
        if x.dtype.category == FLOAT:
            one = self.const(1.0, x.dtype)
            return self.less(self.function("copysign", one, x), self.const(0.0, x.dtype))
        if x.dtype.category == BOOL or not x.dtype.is_signed:
            return self.const(False, dtypes.bool_)
        return self.less(x, 0)

    def isnan(self, x: Expression) -> Expression:
        if x.dtype.category != FLOAT:
            return self.const(False, dtypes.bool_)
        self.check(x)
        return self.make("isnan", (x,), dtypes.bool_)

    def isinf(self, x: Expression) -> Expression:
        if x.dtype.category != FLOAT:
            return self.const(False, dtypes.bool_)
        return self.equal(self.abs(x), self.const(math.inf, x.dtype))

    def isfinite(self, x: Expression) -> Expression:
        if x.dtype.category != FLOAT:
            return self.const(True, dtypes.bool_)
        return self.less(self.abs(x), self.const(math.inf, x.dtype))

    def rounded(self, name: str, x: Expression) -> Expression:
        self.check(x)
        return x if x.dtype.category != FLOAT else self.make(name, (x,), x.dtype)

    def floor(self, x: Expression) -> Expression:
        return self.rounded("floor", x)

    def ceil(self, x: Expression) -> Expression:
        return self.rounded("ceil", x)

    def trunc(self, x: Expression) -> Expression:
        return self.rounded("trunc", x)

    def round(self, x: Expression) -> Expression:
        return self.rounded("rint", x)

    def sqrt(self, x: Expression) -> Expression:
        return self.function("sqrt", x)
