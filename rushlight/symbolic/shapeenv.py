"""ShapeEnv: makes symbols for sizes, answers questions about them, and remembers the answers.

A question that the ranges do not settle is answered with the example's values and becomes a guard.
Invariant: whatever was computed under the environment holds for every input that passes
`guards`, the symbols' ranges and, for values that depend on data, the run-time assertions.
"""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.symbolic import expressions as ex
from rushlight.symbolic import guards as guarding
from rushlight.symbolic.errors import ConstraintViolationError, data_dependent
from rushlight.symbolic.facts import Facts
from rushlight.symbolic.guards import RuntimeAssert, ShapeGuard
from rushlight.symbolic.node import SymNode
from rushlight.symbolic.numbers import (
    BoolLike,
    FloatLike,
    IntLike,
    SymBool,
    SymFloat,
    SymInt,
)
from rushlight.symbolic.ranges import ValueRanges, int_oo
from rushlight.symbolic.sources import (
    ConstantSource,
    SourceLike,
    TensorPropertySource,
    source_name,
)

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr, Symbol


class DimDynamic(enum.Enum):
    """How a size becomes a symbol."""

    DYNAMIC = 0  # a symbol of its own
    DUCK = 1  # sizes that are equal share a symbol
    STATIC = 2  # no symbol
    UNBACKED = 3  # a symbol without an example value
    INFER_STRIDE = 4  # for strides: from the sizes where they fit

    def __repr__(self) -> str:
        return f"DimDynamic.{self.name}"


class SymbolicContext:
    """Says how a tensor's sizes become symbols."""


class StatelessSymbolicContext(SymbolicContext):
    """How each size and stride becomes a symbol, and what is required of it."""

    def __init__(
        self,
        dynamic_sizes: Sequence[DimDynamic],
        dynamic_strides: Sequence[DimDynamic] | None = None,
        constraint_sizes: Sequence[object] | None = None,
        constraint_strides: Sequence[object] | None = None,
        view_base_context: SymbolicContext | None = None,
    ) -> None:
        count = len(dynamic_sizes)
        self.dynamic_sizes = list(dynamic_sizes)
        self.dynamic_strides = list(dynamic_strides or [DimDynamic.INFER_STRIDE] * count)
        self.constraint_sizes = list(constraint_sizes or [None] * count)
        self.constraint_strides = list(constraint_strides or [None] * count)
        self.view_base_context = view_base_context


class StatefulSymbolicContext(StatelessSymbolicContext):
    """Remembers the symbols made for a source, so that making a tensor again gives the same."""

    def __init__(
        self,
        dynamic_sizes: Sequence[DimDynamic],
        dynamic_strides: Sequence[DimDynamic] | None = None,
        constraint_sizes: Sequence[object] | None = None,
        constraint_strides: Sequence[object] | None = None,
        view_base_context: SymbolicContext | None = None,
        tensor_source: SourceLike | None = None,
        shape_env_to_source_to_symbol_cache: dict[int, dict[str, Expr]] | None = None,
    ) -> None:
        super().__init__(
            dynamic_sizes, dynamic_strides, constraint_sizes, constraint_strides, view_base_context
        )
        self.tensor_source = tensor_source
        self.shape_env_to_source_to_symbol_cache = shape_env_to_source_to_symbol_cache or {}


class ShapeEnv:
    """The symbols of one capture."""

    def __init__(
        self,
        *,
        tracked_fakes: list[Any] | None = None,
        specialize_zero_one: bool = True,
        duck_shape: bool = True,
        assume_static_by_default: bool = False,
        allow_scalar_outputs: bool = True,
        allow_dynamic_output_shape_ops: bool = True,
        prefer_deferred_runtime_asserts_over_guards: bool = False,
        refuse_open_sizes: bool = False,
        co_fields: Mapping[str, str] | None = None,
    ) -> None:
        self.tracked_fakes = tracked_fakes
        self.specialize_zero_one = specialize_zero_one
        self.duck_shape = duck_shape
        self.assume_static_by_default = assume_static_by_default
        self.allow_scalar_outputs = allow_scalar_outputs
        self.allow_dynamic_output_shape_ops = allow_dynamic_output_shape_ops
        self.prefer_deferred_runtime_asserts_over_guards = (
            prefer_deferred_runtime_asserts_over_guards
        )
        # Whether a number for a size that may be -1, which stands for "the rest", is refused.
        self.refuse_open_sizes = refuse_open_sizes
        self.co_fields = dict(co_fields or {})
        self.guards: list[ShapeGuard] = []
        self.var_to_val: dict[Expr, float] = {}
        self.var_to_sources: dict[Expr, list[SourceLike]] = {}
        self.val_to_var: dict[tuple[type, float], Symbol] = {}
        self.source_to_var: dict[str, Expr] = {}
        self.source_to_symbol = self.source_to_var
        self.var_to_stack: dict[Expr, list[guarding.Frame]] = {}
        self.var_to_constraint: dict[Expr, object] = {}
        self.unbacked_symbols: set[Symbol] = set()
        self.pending_fresh_unbacked_symbols: list[Symbol] = []
        self.deferred_runtime_asserts: dict[Symbol | None, list[RuntimeAssert]] = {}
        self.num_deferred_runtime_asserts = 0
        self.facts = Facts(self.rank, self.unbacked_symbols)
        self.operations: dict[tuple[str, Any, Any], tuple[Any, Any, Any]] = {}
        self.hints: dict[Expr, float] = {}
        self.answers: dict[Expr, float] = {}
        self.order: dict[Symbol, int] = {}
        # Symbols that rank as another does: names of sizes as the least size made from them.
        self.ranked_as: dict[Symbol, Symbol] = {}
        self.counts = {"s": 0, "u": 0, "zf": 0, "zuf": 0}
        self.frozen = False
        self.runtime_asserts_frozen = False
        self.guards_suppressed = 0
        self.relations_kept = 0
        self.fresh_symbols_ignored = 0
        self.unknown_tensors = 0

    # ------------------------------------------------------------ what is known

    @property
    def var_to_range(self) -> dict[Expr, ValueRanges]:
        return self.facts.ranges

    @property
    def replacements(self) -> dict[Expr, Expr]:
        return self.facts.replacements

    @property
    def divisible(self) -> set[Expr]:
        return self.facts.divisible

    @property
    def size_like(self) -> set[Expr]:
        return self.facts.size_like

    @property
    def backed_var_to_val(self) -> dict[Expr, float]:
        return self.var_to_val

    @property
    def runtime_asserts(self) -> list[RuntimeAssert]:
        """All run-time assertions, in the order of the symbols they hang on."""
        return [one for many in self.deferred_runtime_asserts.values() for one in many]

    def rank(self, symbol: Symbol) -> tuple[float, int]:
        """Of the symbols of an equality the one that ranks highest is replaced."""
        symbol = self.ranked_as.get(symbol, symbol)
        return self.var_to_val.get(symbol, sys.maxsize), self.order.get(symbol, -1)

    def replace(self, expr: Expr) -> Expr:
        return self.facts.replace(expr)

    def simplify(self, expr: Expr) -> Expr:
        """`expr` in terms of what is known by now."""
        return self.facts.replace(expr)

    def bound_sympy(self, expr: Expr, size_oblivious: bool = False) -> ValueRanges:
        return self.facts.bound(self.replace(expr), size_oblivious)

    def is_unbacked_symint(self, symbol: Symbol) -> bool:
        return symbol in self.unbacked_symbols

    def size_hint(self, expr: Expr | float, *, allow_none: bool = False) -> Any:
        """The value of `expr` in the example; for what depends on data None, or an error."""
        expr = ex.constant(expr)
        found = self.hints.get(expr)
        if found is not None:
            return found
        replaced = self.replace(expr)
        if self.unbacked_symbols and not self.unbacked_symbols.isdisjoint(replaced.free_symbols):
            if allow_none:
                return None
            raise data_dependent(self, replaced, expr, number=not ex.is_boolean(replaced))
        result = self.hints[expr] = ex.evaluate(replaced, self.var_to_val)
        return result

    # ------------------------------------------------------------ symbols

    def new_symbol(self, prefix: str, **assumptions: bool) -> Symbol:
        number = self.counts[prefix]
        self.counts[prefix] = number + 1
        symbol = ex.Symbol(f"{prefix}{number}", **assumptions)
        self.order[symbol] = len(self.order)
        return symbol

    def create_symbol(
        self,
        val: float,
        source: SourceLike,
        dynamic_dim: DimDynamic = DimDynamic.DUCK,
        constraint_dim: object = None,
        positive: bool | None = True,
        do_not_specialize_zero_one: bool = False,
        symbolic_context: SymbolicContext | None = None,
    ) -> Expr:
        """An expression for an input number whose value in the example is `val`."""
        name = source_name(source)
        range_ = getattr(constraint_dim, "vr", None)
        if range_ is not None and range_.is_singleton():
            dynamic_dim = DimDynamic.STATIC
        remembered: dict[str, Expr] = {}
        if isinstance(symbolic_context, StatefulSymbolicContext):
            remembered = symbolic_context.shape_env_to_source_to_symbol_cache.setdefault(
                id(self), {}
            )
            if name in remembered:
                return remembered[name]
        if dynamic_dim is DimDynamic.UNBACKED:
            unbacked = self.create_unbacked_symint(source).node.expr
            self.constrain_size(unbacked)
            remembered[name] = unbacked
            return unbacked
        if positive and val < 0:
            raise AssertionError(f"positive set for negative value: {val}")
        if constraint_dim is not None:
            dynamic_dim = DimDynamic.DYNAMIC
        specialised = self.specialize_zero_one and not do_not_specialize_zero_one
        if dynamic_dim is DimDynamic.STATIC or (specialised and val in (0, 1)):
            return ex.constant(val)
        duck = dynamic_dim is DimDynamic.DUCK and self.duck_shape
        key = (type(val), val)
        symbol = self.val_to_var.get(key) if duck else None
        if symbol is None:
            symbol = self.create_backed(val, positive, specialised, range_)
            self.source_to_var[name] = symbol
            self.var_to_stack[symbol] = guarding.user_stack()
            if duck:
                self.val_to_var[key] = symbol
        if constraint_dim is not None:
            self.var_to_constraint[symbol] = constraint_dim
        self.var_to_sources.setdefault(symbol, []).append(source)
        remembered[name] = symbol
        return symbol

    def create_backed(
        self, val: float, positive: bool | None, specialised: bool, range_: ValueRanges | None
    ) -> Symbol:
        """A new symbol with an example value."""
        if isinstance(val, float):
            symbol = self.new_symbol("zf", real=True)
            self.facts.ranges[symbol] = ValueRanges(-int_oo, int_oo, True)
        else:
            # A size that may be 0 is not positive.
            assumption = {"positive": True} if positive and specialised else {}
            if positive and not specialised:
                assumption = {"nonnegative": True}
            symbol = self.new_symbol("s", integer=True, **assumption)
            lower = (2 if specialised else 0) if positive else -int_oo
            known = ValueRanges(lower, int_oo)
            if range_ is not None:
                known = known & range_
            if val not in known:
                raise ConstraintViolationError(f"{val} not in range [{known.lower}, {known.upper}]")
            self.facts.ranges[symbol] = known
        self.var_to_val[symbol] = val
        return symbol

    def adopt_symbol(self, symbol: Symbol, range_: ValueRanges, hint: float | None) -> None:
        """Take in a symbol that was made elsewhere; without a hint it depends on data."""
        self.order[symbol] = len(self.order)
        self.facts.ranges[symbol] = range_
        if hint is None:
            self.unbacked_symbols.add(symbol)
        else:
            self.var_to_val[symbol] = hint

    def create_unspecified_symbol(
        self,
        val: float,
        source: SourceLike,
        dynamic_dim: DimDynamic = DimDynamic.DUCK,
        constraint_dim: object = None,
        symbolic_context: SymbolicContext | None = None,
    ) -> Expr:
        """A symbol for a number that need not be a size: of any sign, 0 and 1 included."""
        return self.create_symbol(
            val,
            source,
            dynamic_dim,
            constraint_dim,
            positive=None,
            do_not_specialize_zero_one=True,
            symbolic_context=symbolic_context,
        )

    def create_symintnode(
        self, sym: Expr, *, hint: float | None = None, source: SourceLike | None = None
    ) -> IntLike:
        """The number that `sym` is: plain where it is a constant."""
        expr = self.replace(sym)
        if expr.is_Integer:
            if hint is not None and expr.p != hint:
                raise AssertionError(f"{sym} is {expr}, not {hint}")
            return expr.p
        if not self.unbacked_symbols.isdisjoint(expr.free_symbols):
            hint = None
        return SymInt(SymNode(expr, self, int, hint))

    def create_symfloatnode(
        self, sym: Expr, *, hint: float | None = None, source: SourceLike | None = None
    ) -> FloatLike:
        expr = self.replace(sym)
        return float(expr) if expr.is_number else SymFloat(SymNode(expr, self, float, hint))

    def create_symboolnode(self, sym: Expr) -> BoolLike:
        expr = self.replace(sym)
        plain = ex.plain(expr)
        return SymBool(SymNode(expr, self, bool)) if plain is None else bool(plain)

    def create_unspecified_symint_and_symbol(
        self, value: int, source: SourceLike, dynamic_dim: DimDynamic
    ) -> IntLike:
        symbol = self.create_unspecified_symbol(value, source, dynamic_dim)
        return self.create_symintnode(symbol, hint=value, source=source)

    def create_unbacked(
        self, prefix: str, source: SourceLike | None, **assumptions: bool
    ) -> Symbol:
        symbol = self.new_symbol(prefix, **assumptions)
        self.unbacked_symbols.add(symbol)
        if not self.fresh_symbols_ignored:
            self.pending_fresh_unbacked_symbols.append(symbol)
        self.var_to_stack[symbol] = guarding.user_stack()
        if source is not None:
            self.var_to_sources.setdefault(symbol, []).append(source)
        return symbol

    def create_unbacked_symint(self, source: SourceLike | None = None) -> SymInt:
        """An integer that depends on data."""
        symbol = self.create_unbacked("u", source, integer=True)
        self.facts.ranges[symbol] = ValueRanges.unknown_int()
        return SymInt(SymNode(symbol, self, int))

    def create_unbacked_symfloat(self) -> SymFloat:
        symbol = self.create_unbacked("zuf", None, real=True)
        self.facts.ranges[symbol] = ValueRanges.unknown()
        return SymFloat(SymNode(symbol, self, float))

    def create_unbacked_symbool(self) -> SymBool:
        symbol = self.create_unbacked("u", None, integer=True)
        self.facts.ranges[symbol] = ValueRanges(0, 1)
        return SymBool(SymNode(ex.relation(ex.Eq, symbol, ex.One), self, bool))

    @contextlib.contextmanager
    def ignore_fresh_unbacked_symbols(self) -> Iterator[None]:
        """Within it, new unbacked symbols are not expected to be bound to a value of the graph."""
        self.fresh_symbols_ignored += 1
        try:
            yield
        finally:
            self.fresh_symbols_ignored -= 1

    # ------------------------------------------------------------ tensors

    def create_symbolic_sizes_strides_storage_offset(
        self,
        ex_size: Any,
        source: SourceLike | None,
        ex_stride: Sequence[int] | None = None,
        ex_storage_offset: int = 0,
        *,
        symbolic_context: StatelessSymbolicContext | None = None,
    ) -> tuple[tuple[IntLike, ...], tuple[IntLike, ...], IntLike]:
        """(sizes, strides, storage offset) of a tensor like the example, as symbols.

        The example is an object with size(), stride() and storage_offset(), or the sizes
        themselves, with strides and offset beside them; without strides it is contiguous. One
        without a source gets a name of its own.
        """
        if source is None:
            source = ConstantSource(f"__unknown_tensor{self.unknown_tensors}")
            self.unknown_tensors += 1
        if hasattr(ex_size, "storage_offset"):
            example = ex_size
            sizes, strides = tuple(example.size()), tuple(example.stride())
            ex_storage_offset = example.storage_offset()
        else:
            sizes = tuple(ex_size)
            strides = contiguous_strides(sizes) if ex_stride is None else tuple(ex_stride)
        if symbolic_context is None:
            static = self.assume_static_by_default
            kind = DimDynamic.STATIC if static else DimDynamic.DUCK
            symbolic_context = StatelessSymbolicContext([kind] * len(sizes))
        context = symbolic_context
        if len(context.dynamic_sizes) != len(sizes):
            raise AssertionError(
                f"the context describes {len(context.dynamic_sizes)} sizes; there are {len(sizes)}"
            )
        size_exprs = [
            self.create_symbol(
                size,
                TensorPropertySource(source, "size", dim),
                context.dynamic_sizes[dim],
                context.constraint_sizes[dim],
                do_not_specialize_zero_one=context.constraint_sizes[dim] is not None
                and not getattr(context.constraint_sizes[dim], "specialize_zero_one", True),
                symbolic_context=context,
            )
            for dim, size in enumerate(sizes)
        ]
        all_static = all(kind is DimDynamic.STATIC for kind in context.dynamic_sizes)
        stride_exprs = self.symbolic_strides(
            size_exprs, sizes, strides, source, context, all_static
        )
        offset_source = TensorPropertySource(source, "storage_offset")
        offset = self.create_symbol(
            ex_storage_offset,
            offset_source,
            DimDynamic.STATIC if all_static else DimDynamic.DUCK,
            symbolic_context=context,
        )
        return (
            tuple(self.number(expr, value) for expr, value in zip(size_exprs, sizes)),
            tuple(self.number(expr, value) for expr, value in zip(stride_exprs, strides)),
            self.number(offset, ex_storage_offset),
        )

    def number(self, expr: Expr, value: int) -> IntLike:
        return value if expr.is_Integer else self.create_symintnode(expr, hint=value)

    def symbolic_strides(
        self,
        size_exprs: Sequence[Expr],
        sizes: Sequence[int],
        strides: Sequence[int],
        source: SourceLike,
        context: StatelessSymbolicContext,
        all_static: bool,
    ) -> list[Expr]:
        """Strides as products of sizes where the example's numbers fit, else symbols.

        Small strides are settled first; size times stride of a settled dim is what a larger
        stride may be.
        """
        result: list[Any] = [None] * len(sizes)
        candidates: dict[int, Expr] = {}
        last = len(sizes) - 1
        for stride, negative in sorted((stride, -dim) for dim, stride in enumerate(strides)):
            dim = -negative
            follows = dim != last and stride == sizes[dim + 1] * strides[dim + 1]
            kind = context.dynamic_strides[dim]
            if stride in (0, 1) and not follows:
                expr = ex.Integer(stride)
            elif kind is DimDynamic.INFER_STRIDE and stride in candidates:
                expr = candidates[stride]
            else:
                if kind is DimDynamic.INFER_STRIDE:
                    kind = DimDynamic.STATIC if all_static else DimDynamic.DUCK
                expr = self.create_symbol(
                    stride,
                    TensorPropertySource(source, "stride", dim),
                    kind,
                    context.constraint_strides[dim],
                    symbolic_context=context,
                )
            result[dim] = expr
            candidates.setdefault(sizes[dim] * stride, size_exprs[dim] * expr)
        return result

    # ------------------------------------------------------------ questions

    def evaluate_expr(
        self,
        expr: Expr,
        hint: float | None = None,
        fx_node: object = None,
        size_oblivious: bool = False,
    ) -> float:
        """The value of `expr`, as a Python number or bool; a guard unless it is known anyway."""
        found = self.answers.get(expr)
        if found is not None:
            return found
        replaced = self.replace(expr)
        result = ex.plain(replaced)
        if result is None:
            if ex.is_boolean(replaced):
                result = self.facts.decide(replaced)
                if result is None and size_oblivious:
                    result = self.facts.decide(replaced, as_size=True)
                    if result is not None:
                        return result
            else:
                range_ = self.facts.bound(replaced)
                result = range_.lower if range_.is_singleton() else None
        if result is not None:
            self.answers[expr] = result
            return result
        if not self.unbacked_symbols.isdisjoint(replaced.free_symbols):
            raise data_dependent(self, replaced, expr, number=bool(replaced.is_integer))
        value = ex.evaluate(replaced, self.var_to_val) if hint is None else hint
        if self.guards_suppressed or self.frozen:
            return value
        if ex.is_boolean(replaced):
            guard = replaced if value else ex.negate(replaced)
        else:
            guard = ex.relation(ex.Eq, replaced, ex.constant(value))
        self.guards.append(ShapeGuard(guard, guarding.user_stack()))
        self.facts.learn(guard)
        self.answers[expr] = value
        return value

    def statically_known_true(self, expr: Expr) -> bool:
        return self.facts.decide(expr) is True

    def defer_runtime_assert(self, expr: Expr, msg: str = "", fx_node: object = None) -> bool:
        return self.guard_or_defer_runtime_assert(expr, msg, fx_node)

    def guard_or_defer_runtime_assert(
        self, expr: Expr, msg: str = "", fx_node: object = None
    ) -> bool:
        """Takes `expr` to be true: known, a guard, or an assertion for when the graph runs.

        False where it is known to be false.
        """
        known = self.facts.decide(expr)
        if known is not None:
            return known
        replaced = self.replace(expr)
        unbacked = replaced.free_symbols & self.unbacked_symbols
        if not unbacked and not self.prefer_deferred_runtime_asserts_over_guards:
            return bool(self.evaluate_expr(replaced))
        if self.guards_suppressed or self.runtime_asserts_frozen:
            return True
        stated = ex.canonical(replaced)
        newest = max(unbacked, key=self.order.__getitem__) if unbacked else None
        assertion = RuntimeAssert(stated, msg, guarding.user_stack(), replaced)
        self.deferred_runtime_asserts.setdefault(newest, []).append(assertion)
        self.num_deferred_runtime_asserts += 1
        self.facts.learn(replaced)
        return True

    def constrain_range(self, symbol: Expr, lower: float, upper: float) -> None:
        """Takes the range of an expression's value to be known, without checking it."""
        expr = self.replace(symbol)
        if expr.is_Symbol:
            self.facts.narrow(expr, ValueRanges(lower, upper))
            return
        if lower > -int_oo:
            self.facts.learn(ex.relation(ex.Ge, expr, ex.constant(lower)))
        if upper < int_oo:
            self.facts.learn(ex.relation(ex.Le, expr, ex.constant(upper)))

    def constrain_size(self, symbol: Expr, lower: float = 0, upper: float = int_oo) -> None:
        """Marks a symbol as a size: not negative, and reasoned about as neither 0 nor 1."""
        expr = self.replace(symbol)
        self.constrain_range(expr, max(lower, 0), upper)
        if expr.is_Symbol:
            self.facts.size_like.add(expr)
            self.facts.forget_undecided()

    def freeze(self) -> None:
        """From now on questions are answered and no guard is added."""
        self.frozen = True

    def freeze_runtime_asserts(self) -> None:
        self.runtime_asserts_frozen = True

    @contextlib.contextmanager
    def suppress_guards(self) -> Iterator[None]:
        """Within it questions are answered with the example's values, and not remembered."""
        self.guards_suppressed += 1
        try:
            yield
        finally:
            self.guards_suppressed -= 1

    @contextlib.contextmanager
    def keep_relations(self) -> Iterator[None]:
        """Within it a comparison is a symbolic boolean even where its outcome is known."""
        self.relations_kept += 1
        try:
            yield
        finally:
            self.relations_kept -= 1

    # ------------------------------------------------------------ guards

    def get_guards(self) -> list[Expr]:
        return [guard.expr for guard in self.guards]

    def get_nontrivial_guards(self) -> list[Expr]:
        """The guards that the symbols' ranges do not imply, in terms of what is known."""
        return guarding.nontrivial(self)

    def format_guards(self, verbose: bool = False) -> str:
        return guarding.format_guards(self.guards, verbose)

    def produce_guards(
        self,
        placeholders: Sequence[Any],
        sources: Sequence[SourceLike],
        source_ref: Callable[[SourceLike], str] = source_name,
        *,
        guards: Sequence[ShapeGuard] | None = None,
        ignore_static: bool = True,
        **_: Any,
    ) -> list[str]:
        """Python expressions over the sources, all true for the inputs the symbols stand for."""
        return guarding.produce(self, placeholders, sources, source_ref, guards, ignore_static)

    def produce_guards_expression(
        self,
        placeholders: Sequence[Any],
        *,
        guards: Sequence[ShapeGuard] | None = None,
        ignore_static: bool = True,
    ) -> str | None:
        """One expression over `L['t0']`, `L['t1']` ...; None where nothing needs a check."""
        names = [f"L['t{position}']" for position in range(len(placeholders))]
        produced = self.produce_guards(
            placeholders, names, guards=guards, ignore_static=ignore_static
        )
        return " and ".join(produced) if produced else None

    def evaluate_guards_expression(self, code: str, args: Sequence[Any]) -> bool:
        local = {f"t{position}": argument for position, argument in enumerate(args)}
        return bool(eval(code, guarding.NAMESPACE, {"L": local}))

    def evaluate_guards_for_args(
        self, placeholders: Sequence[Any], args: Sequence[Any], *, ignore_static: bool = True
    ) -> bool:
        """Whether the guards hold for other arguments."""
        code = self.produce_guards_expression(placeholders, ignore_static=ignore_static)
        return code is None or self.evaluate_guards_expression(code, args)

    def bind_symbols(self, placeholders: Sequence[Any], args: Sequence[Any]) -> dict[Expr, Any]:
        """The values that symbols of the placeholders have in the arguments."""
        return guarding.bind(placeholders, args)


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    strides = []
    stride = 1
    for size in reversed(sizes):
        strides.append(stride)
        stride *= max(size, 1)
    return tuple(reversed(strides))
