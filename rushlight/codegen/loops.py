"""Loop IR: buffers, statements over an iteration space, and kernels that nest them.

A statement assigns, for every point of its space, an expression to an element of its target, or
folds the expression into it (a reduction: the target does not move along the reduced axes). All
accesses are strided: an address is an offset plus the dot product of indices and strides, so a
view costs nothing; sizes and strides may be `Extent`s. Every buffer is written by one statement. A
kernel runs its `rows` as outer loops and inside them its loops in order; `print(kernel)` shows it
as Python.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from rushlight.codegen.expressions import Expression, rebuilt, shared, walk
from rushlight.codegen.extents import hint_of
from rushlight.core import geometry
from rushlight.core.dtype import dtype
from rushlight.core.op import OpOverload

__all__ = ["Buffer", "Kernel", "Loop", "Statement", "accesses", "restrided"]

# Longer names of kernels are cut.
LONGEST = 64

Ints = tuple[int, ...]
# Strides and offset of an access to those of another.
Restride = Callable[[Ints, int], tuple[Ints, int]]


class Buffer:
    """Memory for one value. `role`: "given" (held by a tensor), "result" (made for a tensor),
    "temporary" (between kernels), "local" (between loops of one kernel), "register", or "placed"
    (in the memory of another, its `home`)."""

    __slots__ = ("dtype", "home", "name", "origins", "role", "shape", "strides")

    def __init__(self, name: str, dtype: dtype, shape: Ints, strides: Ints, role: str) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.role = role
        self.home: Buffer | None = None
        # The nodes of the graph that its elements are computed by.
        self.origins: tuple[Any, ...] = ()

    @property
    def memory(self) -> Buffer:
        """The buffer whose memory it uses."""
        return self.home or self

    @property
    def extent(self) -> Any:
        """How many elements its memory holds; an `Extent` where only a call tells."""
        return 0 if 0 in self.shape else geometry.storage_extent(self.shape, self.strides)

    @property
    def nbytes(self) -> Any:
        return self.extent * self.dtype.itemsize

    def __repr__(self) -> str:
        return self.name


class Statement:
    """target[strides · i] = value, or target[...] = fold(target[...], value) over `axes`."""

    __slots__ = ("axes", "fold", "in_strips", "inner", "shape", "strides", "target", "value")

    def __init__(
        self,
        target: Buffer,
        shape: Ints,
        strides: Ints,
        value: Expression,
        fold: str | None = None,
        axes: Ints = (),
        inner: bool = True,
        in_strips: bool = False,
    ) -> None:
        self.target = target
        self.shape = shape
        self.strides = strides
        self.value = value
        self.fold = fold
        self.axes = axes
        # Whether a fold runs along the innermost axis, so that one register accumulates it.
        self.inner = inner
        # Whether a sum in double may add stretches of its float32 elements in float32 first.
        self.in_strips = in_strips

    def loads(self) -> list[Expression]:
        return [node for node in walk(self.value) if node.op == "load"]

    def reads(self) -> set[Buffer]:
        return {load.payload[0] for load in self.loads()}


class Loop:
    """Statements that run together for every point of some dims (beyond the kernel's rows)."""

    __slots__ = ("dims", "statements")

    def __init__(self, dims: Ints, statements: list[Statement]) -> None:
        self.dims = dims
        self.statements = statements


class Kernel:
    """A nest: `sizes` of its dims, those that are `rows`, and the loops inside them."""

    __slots__ = ("loops", "rows", "sizes")

    def __init__(self, sizes: Ints, rows: Ints | None) -> None:
        self.sizes = sizes
        # None while no reduction has decided.
        self.rows = rows
        self.loops: list[Loop] = []

    def statements(self) -> list[Statement]:
        return [statement for loop in self.loops for statement in loop.statements]

    def buffers(self) -> list[Buffer]:
        """Buffers in memory, in order of first use."""
        found: dict[Buffer, None] = {}
        for statement in self.statements():
            for load in statement.loads():
                found.setdefault(load.payload[0].memory)
            found.setdefault(statement.target.memory)
        return [buffer for buffer in found if buffer.role != "register"]

    def nodes(self) -> list[Any]:
        """The nodes of the graph that it computes, in order."""
        found = [node for s in self.statements() for node in s.target.origins]
        return list(dict.fromkeys(found))

    @property
    def label(self) -> str:
        """Its name for people: of what it fuses."""
        targets = [node.target for node in self.nodes()]
        words = [call_name(target) for target in targets if not is_selection(target)]
        if not words:
            return "kernel"
        name = f"fused_{'_'.join(dict.fromkeys(words))}"
        return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"

    def reads(self) -> set[Buffer]:
        return set().union(*[s.reads() for s in self.statements()])

    def writes(self) -> set[Buffer]:
        return {s.target for s in self.statements()}

    def __str__(self) -> str:
        return show_kernel(self)


def is_selection(target: Any) -> bool:
    """Whether a call computes nothing."""
    is_view = isinstance(target, OpOverload) and target.rule("lower") == "view"
    return is_view or target is operator.getitem


def call_name(target: Any) -> str:
    """What a node calls, in a word."""
    name = target.base_name if isinstance(target, OpOverload) else target.__name__
    return str(name).strip("_")


def restrided(value: Expression, change: Restride) -> Expression:
    """The expression with the geometry (strides, offset) of every access changed."""

    def changed(node: Expression) -> Expression:
        if node.op == "index":
            return node.builder.index(*change(node.payload[0], node.payload[1]))
        buffer, strides, offset = node.payload
        steps, start = change(strides, offset)
        return node.builder.load(buffer, steps, start, node.dtype)

    return rebuilt(value, changed)


def accesses(statement: Statement) -> Iterable[Ints]:
    """The strides of every access of a statement to memory, its target's first."""
    yield statement.strides
    for node in walk(statement.value):
        if node.op == "load":
            yield node.payload[1]


def loop_order(sizes: Ints, statements: list[Statement]) -> list[int]:
    """Dims from the outermost loop to the innermost: as the largest access walks memory."""
    best: Ints = ()
    reach = -1
    for statement in statements:
        for strides in accesses(statement):
            covered = prod([hint_of(size) for size, step in zip(sizes, strides) if step])
            if covered > reach:
                best, reach = strides, covered
    return sorted(range(len(sizes)), key=lambda dim: -abs(hint_of(best[dim])) or -(1 << 62))


# -- text -----------------------------------------------------------------------------------------

IDENTITIES = {"sum": "0", "prod": "1", "max": "-inf", "min": "inf", "any": "False", "all": "True"}
FOLDS = {"sum": "{0} + {1}", "prod": "{0} * {1}", "any": "{0} or {1}", "all": "{0} and {1}"}


def show_index(strides: Ints, offset: int) -> str:
    parts = []
    for dim, step in enumerate(strides):
        if step:
            parts.append(f"i{dim}" if step == 1 else f"i{dim} * {step}")
    if offset or not parts:
        parts.append(str(offset))
    return " + ".join(parts)


def show_access(node: Expression) -> str:
    if node.op == "index":
        return f"({show_index(*node.payload)})"
    buffer, strides, offset = node.payload
    return f"{buffer.name}[{show_index(strides, offset)}]"


def show_kernel(kernel: Kernel) -> str:
    lines: list[str] = []
    depth = 1

    def put(text: str, indent: int) -> None:
        lines.append("    " * indent + text)

    given = ", ".join([f"{b.name}: {b.dtype.abbr}" for b in kernel.buffers()])
    put(f"def {kernel.label}({given}):", 0)
    order = loop_order(kernel.sizes, kernel.statements())
    rows = kernel.rows or ()
    for dim in [dim for dim in order if dim in rows]:
        put(f"for i{dim} in range({kernel.sizes[dim]}):", depth)
        depth += 1
    for loop in kernel.loops:
        for s in loop.statements:
            if s.fold:
                kept = [d for d in order if d in loop.dims and s.strides[d]]
                for level, dim in enumerate(kept):
                    put(f"for i{dim} in range({kernel.sizes[dim]}):", depth + level)
                place = f"{s.target.name}[{show_index(s.strides, 0)}]"
                put(f"{place} = {IDENTITIES[s.fold]}", depth + len(kept))
        inner = depth
        for dim in [dim for dim in order if dim in loop.dims]:
            put(f"for i{dim} in range({kernel.sizes[dim]}):", inner)
            inner += 1
        for s in loop.statements:
            place = f"{s.target.name}[{show_index(s.strides, 0)}]"
            names: dict[Expression, str] = {}
            for node in shared(s.value):
                text = node.text(show_access, names)
                names[node] = f"v{len(names)}"
                put(f"{names[node]} = {text}", inner)
            text = s.value.text(show_access, names)
            if s.fold:
                form = FOLDS.get(s.fold, f"{s.fold}({{0}}, {{1}})")
                text = form.format(place, text)
            put(f"{place} = {text}", inner)
    return "\n".join(lines)
