"""Compares what tracing found of sizes with what was declared, and finds declarations that fit.

Conditions that tracing relied on are equalities (they became replacements of symbols), conditions
on one symbol, or others. The values of a symbol are narrowed to a progression; what no dim can say
makes sizes constant, or stays a condition for run time. Invariant: every value of the declaration
that results satisfies every condition, and the example is one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rushlight.symbolic import expressions as ex
from rushlight.symbolic.constraints import Declaration, Role, Solution
from rushlight.symbolic.facts import Facts, unscaled
from rushlight.symbolic.guards import RuntimeAssert, ShapeGuard
from rushlight.symbolic.integersets import IntegerSet, period_of, polynomial_of
from rushlight.symbolic.ranges import ValueRanges, int_oo

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr, Symbol
    from rushlight.symbolic.shapeenv import ShapeEnv


@dataclass(frozen=True)
class Affine:
    """`factor * symbol + offset`; without a symbol a constant."""

    symbol: Symbol | None
    factor: int
    offset: int


def affine(expr: Expr) -> Affine | None:
    """The rising linear form of one symbol that `expr` is; None for others."""
    if expr.is_Integer:
        return Affine(None, 0, expr.p)
    offset, terms = expr.as_coeff_Add()
    coefficient, symbol = terms.as_coeff_Mul()
    if symbol.is_Symbol and coefficient.is_Integer and coefficient.p > 0 and offset.is_Integer:
        return Affine(symbol, coefficient.p, offset.p)  # type: ignore[arg-type]
    return None


def conditions_of(env: ShapeEnv) -> list[ShapeGuard]:
    """The guards in terms of what symbols were replaced by, without those that are settled.

    Equalities that became replacements are settled by them; remainders and quotients that are
    known otherwise stay as they are, for the inputs' sizes decide them.
    """
    replacements = env.facts.replacements
    result: dict[Expr, ShapeGuard] = {}
    for guard in env.guards:
        expr = rewritten(guard.expr, replacements)
        if expr is not ex.true:
            result.setdefault(ex.canonical(expr), guard)
    return [ShapeGuard(expr, guard.stack) for expr, guard in result.items()]


def traced(env: ShapeEnv, expr: Expr) -> Expr:
    """`expr` in terms of the symbols that tracing left; one replacement may lead to the next."""
    replacements = env.facts.replacements
    following = expr.xreplace(replacements)
    while following != expr:
        expr, following = following, following.xreplace(replacements)
    return expr


def rewritten(expr: Expr, values: dict[Expr, Expr]) -> Expr:
    """A condition with other terms for its symbols; true or false where that settles it."""
    if expr.func in ex.NEGATIONS:
        left, right = (side.xreplace(values) for side in expr.args)
        difference = left - right
        if difference.is_number:
            return ex.true if ex.RELATIONS[expr.func](difference, 0) else ex.false
        return ex.relation(expr.func, left, right)
    if expr.func in (ex.And, ex.Or):
        joined = rewritten(expr.args[0], values)
        for part in expr.args[1:]:
            join = ex.conjunction if expr.func is ex.And else ex.disjunction
            joined = join(joined, rewritten(part, values))
        return joined
    if expr.func is ex.Not:
        return ex.negate(rewritten(expr.args[0], values))
    return expr.xreplace(values)


class Solver:
    """One comparison. `run` fills in what messages are made of."""

    def __init__(
        self, env: ShapeEnv, declaration: Declaration, keep_conditions: bool, force_constants: bool
    ) -> None:
        self.env = env
        self.declaration = declaration
        # What no dim can say stays a condition, and makes nothing constant.
        self.keep_conditions = keep_conditions
        # What no dim can say makes sizes constant.
        self.force_constants = force_constants
        self.guards = conditions_of(env)
        # Symbols that dims of the inputs are made of; a parameter has a value of its own.
        self.values: dict[Expr, Expr] = {}
        self.domains: dict[Expr, ValueRanges] = {}
        self.initial: dict[Expr, ValueRanges] = {}
        self.hints: dict[Expr, int] = {}
        self.owners: dict[Expr, str] = {}
        self.new_roots: dict[Expr, str] = {}
        self.specialised: dict[str, int] = {}
        self.violated: dict[Expr, str] = {}
        # Equalities of two roots that neither can say of the other.
        self.shared: dict[Expr, str] = {}
        self.conditions: list[RuntimeAssert] = []

    # ------------------------------------------------------------ what tracing found

    def found(self, expr: Expr) -> Expr:
        """What the symbol of a dim became: replaced by tracing, then by solving."""
        return traced(self.env, expr).xreplace(self.values)

    def run(self) -> None:
        self.collect_parameters()
        self.join_domains()
        for guard in self.guards:
            self.settle_equality(guard)
        for name in self.declaration.roots:
            self.settle_root(name)
        for guard in self.guards:
            self.settle_divisors(guard)
        known = None
        while known != (self.values, self.domains):
            known = dict(self.values), dict(self.domains)
            roots = len(self.new_roots)
            for symbol in list(self.domains):
                self.settle_parameter(symbol)
            if len(self.new_roots) > roots:
                # A quotient of a size that is limited to a remainder is none any more.
                for guard in self.guards:
                    self.settle_equality(guard)
            if self.domains != self.initial:
                self.settle_consequences()
        self.keep_others()

    def collect_parameters(self) -> None:
        """The symbols that are left, each with its range before tracing and its example."""
        declaration = self.declaration
        for name, root in declaration.roots.items():
            if root.expr.is_Symbol and root.expr not in self.env.facts.replacements:
                self.owners[root.expr] = name
                self.add_parameter(root.expr, declaration.domains[root.expr], root.value)
        for dim in declaration.dims:
            for symbol in sorted(self.found(dim.expr).free_symbols, key=self.rank):
                if symbol not in self.domains:
                    hint = int(self.env.var_to_val[symbol])
                    known = declaration.domains.get(symbol, ValueRanges(2, int_oo))
                    self.add_parameter(symbol, known, hint)

    def add_parameter(self, symbol: Expr, domain: ValueRanges, hint: int) -> None:
        self.domains[symbol] = self.initial[symbol] = domain
        self.hints[symbol] = hint

    def join_domains(self) -> None:
        """What was declared of a root that turned out to follow from another holds for that."""
        for root in self.declaration.roots.values():
            form = affine(self.found(root.expr))
            if form is not None and form.symbol is not None and form.symbol != root.expr:
                self.narrow(form, self.declaration.domains[root.expr])

    def narrow(self, form: Affine, range_: ValueRanges) -> None:
        assert form.symbol is not None
        self.domains[form.symbol] &= unscaled(range_, form.factor, form.offset)

    def rank(self, symbol: Expr) -> tuple[float, int]:
        return self.env.rank(symbol)  # type: ignore[arg-type]

    def is_named(self, symbol: Expr) -> bool:
        return symbol in self.owners or symbol in self.new_roots

    # ------------------------------------------------------------ making constant

    def specialise(self, symbol: Expr) -> None:
        """Takes a parameter to be its example."""
        value = self.hints[symbol]
        self.substitute(symbol, ex.Integer(value))
        if symbol in self.owners:
            self.specialised[self.owners[symbol]] = value

    def substitute(self, symbol: Expr, value: Expr) -> None:
        rule = {symbol: value}
        self.values = {other: term.xreplace(rule) for other, term in self.values.items()}
        self.values[symbol] = value
        del self.domains[symbol]

    def specialise_all(self, expr: Expr) -> None:
        for symbol in sorted(expr.free_symbols, key=self.rank):
            if symbol in self.domains and self.is_named(symbol):
                self.specialise(symbol)

    def may_specialise(self) -> bool:
        return self.force_constants and not self.keep_conditions

    # ------------------------------------------------------------ equalities

    def settle_equality(self, guard: ShapeGuard) -> None:
        """An equality of several symbols: two that rise together follow from a new root."""
        expr = rewritten(guard.expr, self.values)
        if expr.func is not ex.Eq or len(expr.free_symbols) < 2:
            return
        if not all(self.is_named(symbol) for symbol in expr.free_symbols):
            self.follow_named(guard, expr)
            return
        if self.share_root(expr) or self.follow_quotient(expr) or not self.may_specialise():
            return
        if not expr.has(ex.Mod) and not expr.has(ex.FloorDiv):
            self.specialise_all(expr)

    def follow_named(self, guard: ShapeGuard, expr: Expr) -> None:
        """A size without a name takes what an equality makes of it. The program keeps its symbol,
        so the equality is checked when it is called."""
        left, right = expr.args
        for symbol in sorted(expr.free_symbols, key=self.rank, reverse=True):
            value = None if self.is_named(symbol) else self.env.facts.solve(left - right, symbol)
            if value is not None and symbol in self.domains:
                self.keep(guard, expr)
                self.substitute(symbol, value)
                return

    def share_root(self, expr: Expr) -> bool:
        """`a*x + c == b*y` as `x = b*t + d`, `y = a*t + e` over a new root t."""
        left, right = expr.args
        difference = left - right
        _, terms = difference.as_coeff_Add()
        parts = [term.as_coeff_Mul() for term in ex.Add.make_args(terms)]
        if len(parts) != 2 or not all(part.is_Symbol and c.is_Integer for c, part in parts):
            return False
        (a, x), (b, y) = parts
        if a.p * b.p >= 0:
            return False
        divisor = math.gcd(a.p, b.p)
        step_x, step_y = abs(b.p) // divisor, abs(a.p) // divisor
        first = min((x, y), key=self.rank)
        second = y if first is x else x
        step, other_step = (step_x, step_y) if first is x else (step_y, step_x)
        self.shared[ex.canonical(expr)] = self.name_of(second)
        base = first
        if step > 1:
            base = self.introduce(first, step, -(-self.hints[first] % step))
        start = self.hints[second] - other_step * self.hints[base]
        form = Affine(base, other_step, start)  # type: ignore[arg-type]
        self.narrow(form, self.domains[second])
        self.substitute(second, other_step * base + start)
        return True

    def follow_quotient(self, expr: Expr) -> bool:
        """`y == (x + a) // b` as `x = b*t + c`, `y = t + d` over a new root t."""
        left, right = expr.args
        for symbol in sorted(expr.free_symbols, key=self.rank, reverse=True):
            value = self.env.facts.solve(left - right, symbol)
            if value is None or not self.is_affine_on_class(value):
                continue
            self.shared[ex.canonical(expr)] = self.name_of(symbol)
            value = value.xreplace(self.values)
            form = affine(value)
            assert form is not None
            self.narrow(form, self.domains[symbol])
            self.substitute(symbol, value)
            return True
        return False

    def introduce(self, symbol: Expr, step: int, start: int) -> Expr:
        """A new root for the numbers `step * _ + start` that a parameter is limited to."""
        taken = {*self.declaration.roots, *self.new_roots.values()}
        name = "_" + self.name_of(symbol)
        while name in taken:
            name = "_" + name
        new = ex.Symbol(name, integer=True)
        self.new_roots[new] = name
        self.env.order.setdefault(new, len(self.env.order))
        self.hints[new] = (self.hints[symbol] - start) // step
        self.domains[new] = unscaled(self.domains[symbol], step, start)
        self.initial[new] = ValueRanges.unknown_int()
        self.substitute(symbol, step * new + start)
        return new

    def name_of(self, symbol: Expr) -> str:
        return self.owners.get(symbol) or self.new_roots[symbol]

    def settle_root(self, name: str) -> None:
        """A root that became something no dim can say makes all it is made of constant."""
        root = self.declaration.roots[name]
        expr = self.found(root.expr)
        if affine(expr) is not None:
            if expr.is_Integer and any(dim.name != name for dim in self.declaration.dims_of(name)):
                self.specialised[name] = root.value
            return
        if not all(self.is_named(symbol) for symbol in expr.free_symbols):
            return
        if self.is_affine_on_class(expr):
            self.shared[ex.relation(ex.Eq, root.expr, traced(self.env, root.expr))] = name
        elif self.may_specialise():
            self.specialise_all(expr)
            self.specialised[name] = root.value

    def is_affine_on_class(self, expr: Expr) -> bool:
        """A quotient of one symbol is a dim where the symbol is limited to its remainder."""
        if len(expr.free_symbols) != 1:
            return False
        (symbol,) = expr.free_symbols
        period = period_of(expr)
        if period is None:
            return False
        remainder = self.hints[symbol] % period
        line = polynomial_of(expr, symbol, (remainder, period))
        if line is None or len(line) != 2 or line[1] < 0:
            return False
        if period > 1:
            self.introduce(symbol, period, -(-remainder % period))
        return True

    def settle_divisors(self, guard: ShapeGuard) -> None:
        """Divisors that vary, in an equality, are made constant."""
        expr = rewritten(guard.expr, self.values)
        if expr.func is not ex.Eq or len(expr.free_symbols) < 2 or not self.may_specialise():
            return
        for divisor in divisors_in(expr):
            self.specialise_all(divisor)

    # ------------------------------------------------------------ one symbol

    def settle_parameter(self, symbol: Expr) -> None:
        """Narrows a parameter to values for which all that is asked of it alone holds."""
        if symbol not in self.domains or not self.is_named(symbol):
            return
        if self.domains[symbol].is_singleton() and not self.initial[symbol].is_singleton():
            self.specialise(symbol)
            return
        asked = [guard for guard in self.guards if self.asks_only(guard, symbol)]
        open_, complex_ = [], []
        for guard in asked:
            condition = rewritten(guard.expr, self.values)
            alone = IntegerSet.of([condition], symbol, self.domains[symbol])  # type: ignore[arg-type]
            if alone is None:
                complex_.append(guard)
            elif self.keep_conditions and condition.has(ex.Ne):
                self.keep(guard, condition)
            elif not alone.is_whole():
                open_.append(guard)
        if complex_ and self.is_too_complex(symbol, complex_):
            return
        for guard in open_:
            self.violated.setdefault(guard.expr, self.name_of(symbol))
        self.restrict(symbol, [rewritten(guard.expr, self.values) for guard in open_])

    def settle_consequences(self) -> None:
        """What the conditions say once the domains are as narrow as they are now: tracing again
        would find it."""
        facts = self.facts()
        for guard in self.guards:
            condition = rewritten(guard.expr, self.values)
            if condition.free_symbols <= self.domains.keys() and facts.decide(condition) is None:
                facts.learn(condition)
        for symbol in [symbol for symbol in self.domains if symbol in facts.replacements]:
            value = facts.replace(symbol).xreplace(self.values)
            if symbol not in self.domains or not self.is_named(symbol):
                continue
            form = affine(value)
            if form is not None and form.symbol in self.domains and self.is_named(form.symbol):
                self.narrow(form, self.domains[symbol])
                self.substitute(symbol, value)
            elif self.may_specialise():
                self.specialise_all(value)
                self.specialise(symbol)

    def asks_only(self, guard: ShapeGuard, symbol: Expr) -> bool:
        return rewritten(guard.expr, self.values).free_symbols == {symbol}

    def is_too_complex(self, symbol: Expr, guards: list[ShapeGuard]) -> bool:
        """Conditions that cannot be solved: true where they made the symbol constant."""
        facts = self.facts()
        left = [
            (guard, expr)
            for guard in guards
            for expr in (rewritten(guard.expr, self.values),)
            if facts.decide(expr) is None
        ]
        if any(expr.func is ex.Eq for _, expr in left) and self.may_specialise():
            self.specialise(symbol)
            return True
        for guard, expr in left:
            self.keep(guard, expr)
        return False

    def restrict(self, symbol: Expr, conditions: list[Expr]) -> None:
        domain = self.domains[symbol]
        if self.hints[symbol] not in domain:
            return
        found = IntegerSet.of(conditions, symbol, domain)  # type: ignore[arg-type]
        if found is None:
            # Each has an answer; together they repeat too late. The example is one.
            self.specialise(symbol)
            return
        values = found.around(self.hints[symbol])
        if values.is_single() and not domain.is_singleton():
            self.specialise(symbol)
            return
        self.domains[symbol] = ValueRanges(values.lower, values.upper)
        if values.modulus > 1:
            start = -(-values.remainder % values.modulus)
            self.introduce(symbol, values.modulus, start)

    # ------------------------------------------------------------ the rest

    def facts(self) -> Facts:
        """What the domains alone say."""
        facts = Facts(self.env.rank, self.env.unbacked_symbols)
        facts.ranges.update(self.domains)
        return facts

    def keep(self, guard: ShapeGuard, condition: Expr) -> None:
        if all(condition != kept.expr for kept in self.conditions):
            self.conditions.append(RuntimeAssert(condition, stack=guard.stack))

    def keep_others(self) -> None:
        """Conditions that the domains do not imply, of several symbols or of unnamed ones."""
        facts = self.facts()
        for guard in self.guards:
            condition = rewritten(guard.expr, self.values)
            symbols = condition.free_symbols
            if not symbols or not symbols <= self.domains.keys():
                continue
            if len(symbols) == 1 and self.is_named(next(iter(symbols))):
                continue
            if facts.decide(condition) is None and not self.is_range(condition):
                self.keep(guard, ex.canonical(condition))

    def is_range(self, condition: Expr) -> bool:
        """A bound on one symbol: the range of the symbol has it."""
        if condition.func in (ex.Eq, ex.Ne) or condition.func not in ex.NEGATIONS:
            return False
        left, right = condition.args
        offset, terms = (left - right).as_coeff_Add()
        return bool(terms.as_coeff_Mul()[1].is_Symbol and offset.is_Integer)

    # ------------------------------------------------------------ results

    def ranges(self) -> dict[Expr, ValueRanges]:
        """The values of each dimension's expression: those declared, or those inferred."""
        result: dict[Expr, ValueRanges] = {}
        symbols: dict[Expr, None] = {}
        for dim in self.declaration.dims:
            expr = traced(self.env, dim.expr)
            if expr.is_number:
                continue
            stated = ValueRanges(dim.lower, dim.upper)
            if dim.role is not Role.NAMED:
                stated = stated & self.env.facts.bound(expr)
            result[expr] = result[expr] & stated if expr in result else stated
            symbols.update(dict.fromkeys(sorted(expr.free_symbols, key=self.rank)))
        for symbol in symbols:
            if symbol not in result:
                result[symbol] = self.range_of(symbol)
        return result

    def range_of(self, symbol: Expr) -> ValueRanges:
        for root in self.declaration.roots.values():
            if root.expr == symbol:
                return ValueRanges(root.lower, root.upper)
        return self.env.facts.ranges[symbol]


def divisors_in(expr: Expr) -> Iterable[Expr]:
    if isinstance(expr, (ex.Mod, ex.FloorDiv)) and expr.args[1].free_symbols:
        yield expr.args[1]
    for argument in expr.args:
        yield from divisors_in(argument)


def solve(
    env: ShapeEnv,
    declaration: Declaration,
    *,
    keep_conditions: bool = False,
    force_constants: bool = True,
) -> Solution:
    """The ranges of the inputs' sizes, or a ConstraintViolationError that says what does not fit.

    `keep_conditions` leaves what no dim can say to run time; without `force_constants` no size has
    to be constant for it.
    """
    from rushlight.symbolic.violations import raise_violations

    solver = Solver(env, declaration, keep_conditions, force_constants)
    solver.run()
    raise_violations(solver)
    return Solution(solver.ranges(), solver.conditions)
