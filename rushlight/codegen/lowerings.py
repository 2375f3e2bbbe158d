"""Ops that are more than one elementwise text, as loops: reductions, products, copies, fills.

A `lower` rule is a function (build, op, *args) that answers an expression, a tuple for several
results; `args` are the schema's in order, tensors as `Value`. It stands with its op, or is one of
the `METHODS` that kinds and ops name. `build` is all it needs to know of code generation. Rules
compute in the dtypes of the op's own kernel (halves in float32) and leave cases to it by
`build.refuse`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight.arrays.precision import HALVES
from rushlight.codegen.expressions import Expression, Inexpressible
from rushlight.codegen.extents import Extent
from rushlight.codegen.loops import Ints, restrided
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import BOOL, FLOAT, INTEGER, dtype

if TYPE_CHECKING:
    from rushlight.codegen.program import LoopProgram
    from rushlight.codegen.values import Value
    from rushlight.core.op import OpOverload

__all__ = ["METHODS", "Lowering"]


class Lowering:
    """What a rule builds with. `m` is the math namespace of expressions, `val` what the op answers:
    tensors without values."""

    __slots__ = ("m", "program", "val")

    def __init__(self, program: LoopProgram, val: Any) -> None:
        self.program = program
        self.m = program.m
        self.val = val

    def refuse(self, why: str) -> NoReturn:
        """Leave a case to the op's kernel."""
        raise Inexpressible(why)

    @property
    def shape(self) -> Ints:
        """The sizes of the one tensor that the op answers."""
        return self.program.sizes.read_all(self.val.shape)

    # -- operands ---------------------------------------------------------------------------------

    def working(self, dtype: dtype) -> dtype:
        """The dtype that kernels compute in."""
        if dtype.is_complex or dtype in dtypes.FLOAT8:
            self.refuse(f"{dtype}")
        return dtypes.float32 if dtype in HALVES else dtype

    def plain(self, value: Value) -> Expression:
        """A value's expression as it is."""
        found = value.expr
        if found is None:
            self.refuse(f"{value.dtype}")
        return found

    def widen(self, value: Value) -> Expression:
        """A value's expression in the dtype to compute in."""
        return self.cast(self.plain(value), self.working(value.dtype))

    def floating(self, value: Value) -> Expression:
        """A float operand that several passes read: computed once, if that is work at all."""
        if value.dtype.category != FLOAT:
            self.refuse(f"{value.dtype}")
        self.program.reused(value)
        return self.widen(value)

    def spread(self, value: Value, shape: Ints, dtype: dtype) -> Expression:
        """An operand over a shape that it broadcasts to."""
        return self.cast(self.program.expanded(value, shape), dtype)

    def reversed(self, expr: Expression, shape: Ints, axes: Ints) -> Expression:
        """An expression over a shape the other way round along some axes."""

        def change(strides: Ints, offset: int) -> tuple[Ints, int]:
            ends = sum([strides[axis] * (shape[axis] - 1) for axis in axes])
            steps = [-step if axis in axes else step for axis, step in enumerate(strides)]
            return tuple(steps), offset + ends

        return restrided(expr, change)

    def cast(self, expr: Expression, dtype: dtype) -> Expression:
        return self.m.cast(expr, dtype)

    def stored(self, expr: Expression, shape: Ints) -> Expression:
        """An expression that several passes read, computed once."""
        return self.program.stored(expr, shape)

    # -- folds ------------------------------------------------------------------------------------

    def axes(self, dim: int | Sequence[int] | None, ndim: int, empty_is_all: bool = True) -> Ints:
        """The axes of a `dim` argument: int, list or None."""
        if not ndim:
            return ()
        if dim is None or (type(dim) is not int and not dim and empty_is_all):
            return tuple(range(ndim))
        return geometry.wrap_dims((dim,) if isinstance(dim, int) else dim, ndim)

    def axis(self, value: Value, dim: int) -> Ints:
        """The one axis of a `dim` argument."""
        if not value.shape or 0 in value.shape:
            self.refuse("no axis")
        return (geometry.wrap_dim(dim, len(value.shape)),)

    def fold(self, name: str, expr: Expression, shape: Ints, axes: Ints) -> Expression:
        """A fold over `axes`, constant along them: sum, prod, max, min, any or all."""
        return self.program.fold(name, expr, shape, axes)

    def mean(self, expr: Expression, shape: Ints, axes: Ints) -> Expression:
        total = self.fold("sum", expr, shape, axes)
        count = math.prod([shape[axis] for axis in axes])
        return self.m.divide(total, count)

    def without(self, expr: Expression, axes: Ints, keepdim: bool = False) -> Expression:
        """An expression that is constant along `axes` without them."""
        if keepdim:
            return expr

        def change(strides: Ints, offset: int) -> tuple[Ints, int]:
            return tuple([step for dim, step in enumerate(strides) if dim not in axes]), offset

        return restrided(expr, change)

    # -- numbers ----------------------------------------------------------------------------------

    def filled(self, number: float, dtype: dtype) -> Expression:
        """A number that every element is."""
        if isinstance(number, Extent) and dtype in (dtypes.int64, dtypes.float32, dtypes.float64):
            return self.m.const(number, dtype)
        if dtype in HALVES or type(number) not in (bool, int, float):
            self.refuse(f"fill of {dtype}")
        if dtype.category == INTEGER and int(number) != number:
            self.refuse("a fraction")
        self.working(dtype)
        expr = self.m.const(number, dtype)
        if dtype.category == INTEGER and expr.payload != number:
            self.refuse("out of range")
        return expr


METHODS: dict[str, Callable[..., Any]] = {}


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let ops name a function as their `lower` rule."""
    METHODS[function.__name__] = function
    return function


# -- reductions -----------------------------------------------------------------------------------


@method
def folded(build: Lowering, op: OpOverload, *args: Any) -> Expression:
    """A reduction; option `fold` says which: sum, prod, mean, max, min, any, all or count."""
    given = dict(zip(op.argument_names, args, strict=True))
    value, keepdim = args[0], given.get("keepdim", False)
    empty_is_all = op.options.get("empty_dims_are_all", True)
    axes = build.axes(given.get("dim"), len(value.shape), empty_is_all)
    name = op.options["fold"]
    found = FOLDS[name](build, name, value, axes, given.get("dtype"))
    return build.without(found, axes, keepdim)


def accumulate(
    build: Lowering, name: str, value: Value, axes: Ints, given: dtype | None
) -> Expression:
    dtype = given
    if dtype is None:
        dtype = dtypes.int64 if value.dtype.category <= INTEGER else value.dtype
    if dtype.category == BOOL:
        build.refuse(f"{name} in {dtype}")
    expr = build.cast(build.widen(value), build.working(dtype))
    return build.cast(build.fold(name, expr, value.shape, axes), dtype)


def average(
    build: Lowering, name: str, value: Value, axes: Ints, given: dtype | None
) -> Expression:
    dtype = given or value.dtype
    if dtype.category != FLOAT:
        build.refuse(f"mean in {dtype}")
    expr = build.cast(build.widen(value), build.working(dtype))
    total = build.fold("sum", expr, value.shape, axes)
    count = build.m.const(math.prod([value.shape[axis] for axis in axes]), build.working(dtype))
    return build.cast(build.m.divide(total, count), dtype)


def extreme(
    build: Lowering, name: str, value: Value, axes: Ints, given: dtype | None
) -> Expression:
    if not all([value.shape[axis] >= 1 for axis in axes]):
        build.refuse("an extreme of nothing")
    expr = build.widen(value)
    if expr.dtype.category == BOOL:
        name = "any" if name == "max" else "all"
    return build.cast(build.fold(name, expr, value.shape, axes), value.dtype)


def truth(build: Lowering, name: str, value: Value, axes: Ints, given: dtype | None) -> Expression:
    expr = build.m.truth(build.widen(value))
    return build.cast(build.fold(name, expr, value.shape, axes), build.val.dtype)


def count(build: Lowering, name: str, value: Value, axes: Ints, given: dtype | None) -> Expression:
    expr = build.cast(build.m.truth(build.widen(value)), dtypes.int64)
    return build.fold("sum", expr, value.shape, axes)


FOLDS: dict[str, Callable[..., Expression]] = {
    "sum": accumulate,
    "prod": accumulate,
    "mean": average,
    "max": extreme,
    "min": extreme,
    "any": truth,
    "all": truth,
    "count": count,
}


# -- products -------------------------------------------------------------------------------------


@method
def multiplied(build: Lowering, op: OpOverload, left: Value, right: Value) -> Expression:
    return build.program.product(left, right, build.shape)


@method
def multiplied_and_added(
    build: Lowering,
    op: OpOverload,
    self: Value,
    left: Value,
    right: Value,
    beta: float,
    alpha: float,
) -> Expression:
    """beta * self + alpha * (left @ right)"""
    m = build.m
    if self.dtype is not left.dtype or self.expr is None:
        build.refuse("mixed operands")
    found: Expression = multiplied(build, op, left, right)
    if alpha != 1:
        found = m.multiply(found, m.const(alpha, found.dtype))
    if beta == 0:
        return found
    added = build.spread(self, build.shape, self.dtype)
    found = m.add(found, added if beta == 1 else m.multiply(added, m.const(beta, found.dtype)))
    return found


# -- copies and fills -----------------------------------------------------------------------------


@method
def copied(build: Lowering, op: OpOverload, *args: Any) -> Expression:
    """The last tensor's elements, broadcast and converted to what the op answers."""
    given = dict(zip(op.argument_names, args, strict=True))
    layout = given.get("layout")
    if layout is not None and layout.name != "strided":
        build.refuse("a copy to elsewhere")
    source = args[op.tensor_positions[-1]]
    return build.spread(source, build.shape, build.val.dtype)


@method
def filled(build: Lowering, op: OpOverload, *args: Any) -> Expression:
    """A new tensor; option `fill` is the number that its elements are, or names the argument."""
    number = op.options["fill"]
    if isinstance(number, str):
        number = args[op.argument_names.index(number)]
    return build.filled(number, build.val.dtype)
