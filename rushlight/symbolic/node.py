"""SymNode: an expression, the environment it lives in, and the value it has in the example.

Operations are computed once per environment and operands, then looked up. A result that is a
constant, or that the known ranges decide, is a plain number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from rushlight.symbolic import expressions as ex
from rushlight.symbolic.numbers import (
    Number,
    Observer,
    SymBool,
    SymFloat,
    SymInt,
    SymNumber,
    observed,
    sym_float,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sqrt,
)

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr, Head
    from rushlight.symbolic.shapeenv import ShapeEnv

    # (expression or plain integer, value in the example, Python type)
    Operand = tuple[Expr | int, float | None, type]

WRAPPERS: dict[type, Any] = {int: SymInt, float: SymFloat, bool: SymBool}
SYMBOLIC = frozenset(WRAPPERS.values())


def power(base: Expr, exponent: Expr) -> Expr:
    if exponent.is_Integer:
        return base**exponent
    return ex.PowByNatural(base, exponent)


def float_floor_divide(base: Expr, divisor: Expr) -> Expr:
    return ex.ToFloat(ex.FloorToInt(ex.FloatTrueDiv(base, divisor)))


def float_remainder(base: Expr, divisor: Expr) -> Expr:
    return base - divisor * float_floor_divide(base, divisor)


def relation(kind: Head) -> Callable[[Any, Any], Any]:
    def apply(left: Expr, right: Expr) -> Expr:
        return ex.relation(kind, left, right)

    return apply


# name: (function of Python numbers, of integer expressions, of float expressions)
BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "add": (operator.add, operator.add, operator.add),
    "sub": (operator.sub, operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul, operator.mul),
    "floordiv": (operator.floordiv, ex.FloorDiv, float_floor_divide),
    "mod": (operator.mod, ex.Mod, float_remainder),
    "truediv": (operator.truediv, ex.IntTrueDiv, ex.FloatTrueDiv),
    "pow": (operator.pow, power, ex.FloatPow),
    "max": (max, ex.Max, ex.Max),
    "min": (min, ex.Min, ex.Min),
    "eq": (operator.eq, relation(ex.Eq), relation(ex.Eq)),
    "ne": (operator.ne, relation(ex.Ne), relation(ex.Ne)),
    "lt": (operator.lt, relation(ex.Lt), relation(ex.Lt)),
    "le": (operator.le, relation(ex.Le), relation(ex.Le)),
    "gt": (operator.gt, relation(ex.Gt), relation(ex.Gt)),
    "ge": (operator.ge, relation(ex.Ge), relation(ex.Ge)),
}
# What a recorded computation calls; the function of Python numbers for those that are not here.
RECORDED: dict[str, Callable[..., Any]] = {
    "and": operator.and_,
    "or": operator.or_,
    "max": sym_max,
    "min": sym_min,
    "neg": operator.neg,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "float": sym_float,
    "sqrt": sym_sqrt,
    "not": sym_not,
}
RELATIONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))

# name: (function of an expression, type of the result or None for the operand's)
UNARY: dict[str, tuple[Callable[..., Any], type | None]] = {
    "neg": (operator.neg, None),
    "abs": (ex.sympy.Abs, None),
    "floor": (ex.FloorToInt, int),
    "ceil": (ex.CeilToInt, int),
    "trunc": (ex.TruncToInt, int),
    "round": (ex.RoundToInt, int),
    "float": (ex.ToFloat, float),
    "sqrt": (ex.OpaqueUnaryFn_sqrt, float),
    "not": (ex.negate, bool),
}


class SymNode:
    """The expression behind a SymInt, SymFloat or SymBool."""

    __slots__ = ("_expr", "_hint", "_version", "constant", "fx_node", "pytype", "shape_env")

    def __init__(
        self,
        expr: Expr,
        shape_env: ShapeEnv,
        pytype: type,
        hint: float | None = None,
        constant: float | None = None,
        fx_node: object = None,
    ) -> None:
        self._expr = expr
        self._version = shape_env.facts.version
        self.shape_env = shape_env
        self.pytype = pytype
        self._hint = hint
        self.constant = constant
        self.fx_node = fx_node

    # ------------------------------------------------------------ reading

    @property
    def expr(self) -> Expr:
        """The expression, in terms of what is known by now."""
        facts = self.shape_env.facts
        if self._version != facts.version:
            self._expr = facts.replace(self._expr)
            self._version = facts.version
        return self._expr

    @property
    def hint(self) -> float | None:
        """The value in the example, or None where it depends on data."""
        if self._hint is None:
            self._hint = self.shape_env.size_hint(self.expr, allow_none=True)
        return self._hint

    def has_hint(self) -> bool:
        return self.hint is not None

    def require_hint(self, fallback: float | None = None) -> float:
        hint = self.hint
        if hint is None:
            if fallback is not None:
                return fallback
            return cast(float, self.shape_env.size_hint(self.expr))
        return hint

    def maybe_as_int(self) -> int | None:
        expr = self.expr
        return expr.p if expr.is_Integer else None

    def maybe_as_float(self) -> float | None:
        return float(self.expr) if self.pytype is float and self.expr.is_number else None

    def maybe_as_bool(self) -> bool | None:
        return cast("bool | None", ex.plain(self.expr)) if self.pytype is bool else None

    def is_int(self) -> bool:
        return self.pytype is int

    def is_float(self) -> bool:
        return self.pytype is float

    def is_bool(self) -> bool:
        return self.pytype is bool

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return ex.plain(self.expr) is not None

    def is_nested_int(self) -> bool:
        return False

    def wrapped(self) -> Any:
        """The number that this is the node of."""
        return WRAPPERS[self.pytype](self)

    def settled(self) -> Any:
        """The plain number that a constant is."""
        plain = ex.plain(self.expr)
        return None if plain is None else self.pytype(plain)

    def __str__(self) -> str:
        return str(self.expr)

    def __repr__(self) -> str:
        return f"SymNode({self.expr}, {self.pytype.__name__}, hint={self.hint})"

    def __deepcopy__(self, memo: dict[int, Any]) -> SymNode:
        return self

    # ------------------------------------------------------------ deciding

    def guard_number(self) -> float:
        """The value, which becomes a guard: the expression is that value from now on."""
        return self.shape_env.evaluate_expr(self.expr, self._hint)

    def guard_int(self, file: str = "", line: int = 0) -> int:
        return int(self.guard_number())

    def guard_float(self, file: str = "", line: int = 0) -> float:
        return float(self.guard_number())

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        return bool(self.shape_env.evaluate_expr(self.expr, self._hint))

    def guard_size_oblivious(self, file: str = "", line: int = 0) -> bool:
        return bool(self.shape_env.evaluate_expr(self.expr, self._hint, size_oblivious=True))

    def expect_true(self, file: str = "", line: int = 0) -> bool:
        """Takes a boolean to be true: a guard where there is an example, else checked at run time.

        False where it is known to be false.
        """
        return bool(self.shape_env.guard_or_defer_runtime_assert(self.expr, f"{file}:{line}"))

    def expect_size(self, file: str = "", line: int = 0) -> bool:
        condition = self.compute("ge", 0)
        return condition if isinstance(condition, bool) else condition.node.expect_true(file, line)

    # ------------------------------------------------------------ computing

    def operand(self, other: Any) -> Operand | None:
        """(expression or plain integer, example value, type) of the other operand; None if it is no
        number."""
        cls = other.__class__
        if cls is int:
            return other, other, int
        if cls is SymInt or isinstance(other, SymNumber):
            node = other.node
            return node.expr, node.hint, node.pytype
        if cls is float:
            return ex.constant(other), other, float
        if cls is bool:
            if self.pytype is bool:
                return ex.constant(other), other, bool
            return int(other), int(other), int
        if isinstance(other, (int, float)):
            plain = int(other) if isinstance(other, int) else float(other)
            return ex.constant(plain), plain, type(plain)
        if cls.__module__ == "numpy" and hasattr(other, "item") and other.ndim == 0:
            return self.operand(other.item())
        return None

    def compute(self, name: str, other: object) -> Any:
        found = self.operand(other)
        if found is None:
            return NotImplemented
        if name == "mul" and self.is_unit(found):
            return WRAPPERS[self.pytype](self)
        result = self.apply(name, (self.expr, self.hint, self.pytype), found)
        if Observer.note is not None and result.__class__ in SYMBOLIC:
            Observer.note(recorded(name), (self, self.plainly(other)), result.node)
        return result

    def compute_reflected(self, name: str, other: object) -> Any:
        found = self.operand(other)
        if found is None:
            return NotImplemented
        if name == "mul" and self.is_unit(found):
            return WRAPPERS[self.pytype](self)
        result = self.apply(name, found, (self.expr, self.hint, self.pytype))
        if Observer.note is not None and result.__class__ in SYMBOLIC:
            Observer.note(recorded(name), (self.plainly(other), self), result.node)
        return result

    def is_unit(self, operand: Operand) -> bool:
        """Whether a product with this operand is the other factor."""
        expr = operand[0]
        is_one = expr == 1 if expr.__class__ is int else expr is ex.One
        return is_one and operand[2] is self.pytype

    def plainly(self, other: Any) -> Any:
        """The other operand as a graph has it: the node of a symbolic one; beside a float a plain
        number is one."""
        if other.__class__ is int and self.pytype is int:
            return other
        if isinstance(other, SymNumber):
            return other.node
        plain = other.item() if hasattr(other, "item") else other
        return float(plain) if self.pytype is float and type(plain) is int else plain

    def apply(self, name: str, a: Operand, b: Operand) -> Any:
        left, left_hint, left_type = a
        right, right_hint, right_type = b
        if left_type is bool or right_type is bool:
            return self.apply_boolean(name, a, b)
        env = self.shape_env
        if env.relations_kept and name in RELATIONS and left_type is int and right_type is int:
            relation = BINARY[name][1](ex.constant(left), ex.constant(right))
            return SymBool(SymNode(relation, env, bool))
        key = (name, left, right)
        found = env.operations.get(key)
        if found is None:
            found = env.operations[key] = operate(env, name, left, left_type, right, right_type)
        plain, expr, pytype = found
        if expr is None:
            return plain
        hint: Any = None
        if left_hint is not None and right_hint is not None:
            hint = BINARY[name][0](left_hint, right_hint)
        return WRAPPERS[pytype](SymNode(expr, env, pytype, hint))

    def apply_boolean(self, name: str, a: Operand, b: Operand) -> Any:
        if not (a[2] is bool and b[2] is bool):
            if name in ("and", "or"):
                return NotImplemented
            # torch: a boolean among numbers counts as 0 or 1.
            return self.apply(name, as_integer(a), as_integer(b))
        left, right = ex.constant(a[0]), ex.constant(b[0])
        if name == "and":
            expr = ex.conjunction(left, right)
        elif name == "or":
            expr = ex.disjunction(left, right)
        elif name in ("eq", "ne"):
            expr = ex.disjunction(
                ex.conjunction(left, right), ex.conjunction(ex.negate(left), ex.negate(right))
            )
            if name == "ne":
                expr = ex.negate(expr)
        else:
            return self.apply(name, as_integer(a), as_integer(b))
        return self.wrap(expr, bool)

    def wrap(self, expr: Expr, pytype: type) -> Any:
        """A value for `expr`: a plain number if it is one."""
        plain = ex.plain(expr)
        if plain is None and pytype is bool:
            plain = self.shape_env.facts.decide(expr)
        if plain is not None:
            return pytype(plain)
        return WRAPPERS[pytype](SymNode(expr, self.shape_env, pytype))

    def transform(self, name: str) -> Any:
        """A function of one operand."""
        symbolic, pytype = UNARY[name]
        expr = self.expr
        if name in ("floor", "ceil", "trunc", "round") and self.pytype is int:
            return WRAPPERS[int](self)
        if name == "sqrt" and self.pytype is int:
            expr = ex.ToFloat(expr)
        if name == "abs":
            range_ = self.shape_env.facts.bound(expr)
            if range_.lower >= 0:
                return WRAPPERS[self.pytype](self)
            if range_.upper <= 0:
                return self.transform("neg")
        return observed(RECORDED[name], (self,), self.wrap(symbolic(expr), pytype or self.pytype))

    def round(self, ndigits: int | None = None) -> Any:
        if ndigits is None:
            return self.transform("round")
        rounded = self.wrap(ex.RoundDecimal(self.expr, ex.constant(ndigits)), float)
        return observed(round, (self, ndigits), rounded)

    def choose(self, positive: Number, negative: Number) -> Any:
        """`positive` where this boolean holds, else `negative`."""
        known = self.shape_env.facts.decide(self.expr)
        if known is not None:
            return positive if known else negative
        left, right = self.operand(positive), self.operand(negative)
        if left is None or right is None:
            raise TypeError("sym_ite takes two numbers or two booleans to choose from")
        if left[2] is not right[2]:
            raise TypeError(
                f"sym_ite chooses between values of one type, "
                f"not {left[2].__name__} and {right[2].__name__}"
            )
        chosen = self.wrap(
            ex.where(self.expr, ex.constant(left[0]), ex.constant(right[0])), left[2]
        )
        return observed(sym_ite, (self, positive, negative), chosen)


def recorded(name: str) -> Callable[..., Any]:
    return RECORDED[name] if name in RECORDED else BINARY[name][0]


def as_integer(operand: Operand) -> Operand:
    expr, hint, pytype = operand
    if pytype is not bool:
        return operand
    number = ex.where(ex.constant(expr), ex.One, ex.Zero)
    return number, (None if hint is None else int(hint)), int


def operate(
    env: ShapeEnv, name: str, left: Expr | int, left_type: type, right: Expr | int, right_type: type
) -> tuple[Any, Any, Any]:
    """(plain result, None, None) or (None, expression, type)."""
    left, right = ex.constant(left), ex.constant(right)
    _, of_integers, of_floats = BINARY[name]
    if left_type is int and right_type is int:
        pytype: type = int
        function = of_integers
        if name == "truediv":
            pytype = float
        elif name == "pow" and env.facts.bound(right).lower < 0:
            if not right.is_number:
                raise TypeError(f"the exponent {right} of an integer power may be negative")
            left, right, pytype, function = ex.ToFloat(left), ex.ToFloat(right), float, of_floats
    else:
        left = ex.ToFloat(left) if left_type is int else left
        right = ex.ToFloat(right) if right_type is int else right
        pytype, function = float, of_floats
    expr = function(left, right)
    if name in RELATIONS:
        decided = env.facts.decide(expr)
        return (None, expr, bool) if decided is None else (decided, None, None)
    if name in ("max", "min") and expr.func in (ex.Max, ex.Min):
        expr = decide_extremum(env, name, left, right, expr)
    plain = ex.plain(expr)
    return (None, expr, pytype) if plain is None else (pytype(plain), None, None)


def decide_extremum(env: ShapeEnv, name: str, left: Expr, right: Expr, expr: Expr) -> Expr:
    """One of the operands where it is known which one it is."""
    for kind in (ex.Ge, ex.Gt):
        known = env.facts.decide(ex.relation(kind, left, right))
        if known is not None:
            return left if known == (name == "max") else right
    return expr
