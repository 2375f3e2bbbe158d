"""Fusion: statements in program order become kernels.

A statement joins a kernel that already runs over the same space, where what it reads of that
kernel is complete by then: in the same loop if it reads the very element just written, in a
later loop of the same row otherwise. A reduction fixes the rows of its kernel, so that a
normalisation (reduce, then map the row again) stays in one kernel with the row in cache. Buffers
that nothing outside the kernel reads shrink to one row, or to a register.
"""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight.codegen.expressions import Expression, Inexpressible, rebuilt
from rushlight.codegen.loops import (
    Buffer,
    Ints,
    Kernel,
    Loop,
    Statement,
    loop_order,
    restrided,
)
from rushlight.core import geometry

__all__ = ["fuse", "shrink_buffers"]

# A kernel that walks more memory than this at once gains nothing from one statement more.
MOST_BUFFERS = 24
MOST_STATEMENTS = 48


def squeezed(statement: Statement) -> Statement:
    """Without the dims of size 1."""
    kept = [dim for dim, size in enumerate(statement.shape) if size != 1]
    if len(kept) == len(statement.shape):
        return statement
    return mapped(statement, tuple([statement.shape[dim] for dim in kept]), kept)


def pick(strides: Ints, dims: list[int]) -> Ints:
    return tuple([strides[dim] for dim in dims])


def mapped(statement: Statement, shape: Ints, kept: list[int]) -> Statement:
    value = restrided(statement.value, lambda strides, offset: (pick(strides, kept), offset))
    axes = tuple([at for at, dim in enumerate(kept) if dim in statement.axes])
    strides = pick(statement.strides, kept)
    kinds = (statement.fold, axes, statement.inner, statement.in_strips)
    return Statement(statement.target, shape, strides, value, *kinds)


def spread(statement: Statement, sizes: Ints, dims: list[int]) -> Statement:
    """A statement over some dims of a larger space."""

    def change(strides: Ints, offset: int) -> tuple[Ints, int]:
        found = [0] * len(sizes)
        for dim, step in zip(dims, strides):
            found[dim] = step
        return tuple(found), offset

    value = restrided(statement.value, change)
    return Statement(statement.target, sizes, change(statement.strides, 0)[0], value)


def reshaped(statement: Statement, sizes: Ints) -> Statement | None:
    """A statement without fold over another factorisation of its space."""

    def change(steps: Ints, offset: int) -> tuple[Ints, int]:
        found = geometry.view_strides(statement.shape, steps, sizes)
        if found is None:
            raise Inexpressible("steps that differ inside a dim")
        return found, offset

    try:
        strides, _ = change(statement.strides, 0)
        return Statement(statement.target, sizes, strides, restrided(statement.value, change))
    except Inexpressible:
        return None


def rows_of(statement: Statement) -> Ints:
    """The dims that a reduction's kernel runs outside: all kept ones, or, where elements fold
    into a vector, those outside every reduced dim."""
    kept = [dim for dim in range(len(statement.shape)) if dim not in statement.axes]
    if statement.inner:
        return tuple(kept)
    order = loop_order(statement.shape, [statement])
    first = min([order.index(axis) for axis in statement.axes])
    return tuple(sorted([dim for dim in order[:first] if dim in kept]))


def fitted(statement: Statement, kernel: Kernel) -> tuple[Statement, Ints] | None:
    """The statement over the kernel's space and the dims it runs over; None if it has no place."""
    sizes = kernel.sizes
    whole = tuple(range(len(sizes)))
    if statement.shape == sizes:
        return statement, whole
    if statement.fold:
        return None
    for other in kernel.statements():
        if other.fold:
            kept = [dim for dim in whole if dim not in other.axes]
            if pick(sizes, kept) == statement.shape:
                return spread(statement, sizes, kept), tuple(kept)
            if prod(pick(sizes, kept)) == prod(statement.shape) and kept:
                again = reshaped(statement, pick(sizes, kept))
                if again is not None:
                    return spread(again, sizes, kept), tuple(kept)
    if prod(statement.shape) == prod(sizes):
        again = reshaped(statement, sizes)
        if again is not None:
            return again, whole
    return None


def same_element(load: Expression, writer: Statement) -> bool:
    _, strides, offset = load.payload
    return offset == 0 and bool(strides == writer.strides)


def earliest_loop(kernel: Kernel, statement: Statement, dims: Ints, rows: Ints) -> int | None:
    """The first loop in which the statement may run; None where it cannot run in this kernel."""
    first = 0
    settled = kernel.rows is not None or bool(statement.fold)
    for load in statement.loads():
        buffer, strides, offset = load.payload
        for at, loop in enumerate(kernel.loops):
            for writer in loop.statements:
                if writer.target is not buffer:
                    continue
                if (
                    same_element(load, writer)
                    and not writer.fold
                    and set(dims) == loop_dims(kernel, loop, rows)
                ):
                    first = max(first, at)
                    continue
                if not settled and not same_element(load, writer):
                    return None
                if rows and not stays_in_row(strides, offset, writer, rows):
                    return None
                first = max(first, at + 1)
    return first


def loop_dims(kernel: Kernel, loop: Loop, rows: Ints) -> set[int]:
    return set(loop.dims) | set(rows if kernel.rows is None else kernel.rows)


def stays_in_row(strides: Ints, offset: int, writer: Statement, rows: Ints) -> bool:
    if offset:
        return False
    for dim, (step, written) in enumerate(zip(strides, writer.strides)):
        if step != written and (dim in rows or step != 0):
            return False
    return True


def join(kernel: Kernel, statement: Statement) -> bool:
    """Put the statement into the kernel if it fits."""
    found = fitted(statement, kernel)
    if found is None:
        return False
    statement, dims = found
    rows = kernel.rows
    if statement.fold:
        wanted = rows_of(statement)
        if rows is not None and rows != wanted:
            return False
        rows = wanted
        if kernel.rows is None and not all([set(rows) <= set(lp.dims) for lp in kernel.loops]):
            return False
    elif rows is None:
        rows = ()
    if not set(rows) <= set(dims):
        return False
    at = earliest_loop(kernel, statement, dims, rows)
    if at is None:
        return False
    if kernel.rows is None and statement.fold:
        for loop in kernel.loops:
            loop.dims = tuple([dim for dim in loop.dims if dim not in rows])
        kernel.rows = rows
    inside = tuple([dim for dim in dims if dim not in rows])
    for loop in kernel.loops[at:]:
        if loop.dims == inside and can_share(loop, statement):
            loop.statements.append(statement)
            return True
    if inside or at >= len(kernel.loops):
        kernel.loops.append(Loop(inside, [statement]))
    else:
        kernel.loops.insert(at, Loop(inside, [statement]))
    return True


def can_share(loop: Loop, statement: Statement) -> bool:
    """Folds into registers and folds into vectors want different innermost dims."""
    kinds = {s.inner for s in (*loop.statements, statement) if s.fold}
    return len(kinds) < 2


def new_kernel(statement: Statement) -> Kernel:
    whole = tuple(range(len(statement.shape)))
    rows = rows_of(statement) if statement.fold else None
    kernel = Kernel(statement.shape, rows)
    kernel.loops.append(Loop(tuple([d for d in whole if d not in (rows or ())]), [statement]))
    return kernel


def candidates(schedule: list[Any], start: int, reads: set[Buffer]) -> list[int]:
    """Kernels from `start` on whose memory traffic the statement would share: first those that
    make what it reads, then the latest."""
    found: list[tuple[int, int]] = []
    for at in range(start, len(schedule)):
        kernel = schedule[at]
        if not isinstance(kernel, Kernel) or len(kernel.statements()) >= MOST_STATEMENTS:
            continue
        made, read = kernel.writes(), kernel.reads()
        if not reads & (made | read) or len(made | read | reads) > MOST_BUFFERS:
            continue
        found.append((len(reads & made), at))
    return [at for _, at in sorted(found, reverse=True)]


def fuse(steps: list[Any]) -> list[Any]:
    """Statements and other steps (with `reads`, `writes` and `is_barrier`) as kernels and those
    steps, in an order that keeps every value before its uses."""
    schedule: list[Any] = []
    made_at: dict[Buffer, int] = {}
    floor = 0
    for step in steps:
        if not isinstance(step, Statement):
            schedule.append(step)
            for buffer in step.writes():
                made_at[buffer] = len(schedule) - 1
            if step.is_barrier:
                floor = len(schedule)
            continue
        statement = squeezed(step)
        reads = statement.reads()
        start = max([floor, *[made_at[b] for b in reads if b in made_at]])
        place = None
        for at in candidates(schedule, start, reads):
            if join(schedule[at], statement):
                place = at
                break
        if place is None:
            schedule.append(new_kernel(statement))
            place = len(schedule) - 1
        made_at[statement.target] = place
    for item in schedule:
        if isinstance(item, Kernel) and item.rows is None:
            item.rows = ()
    return schedule


# -- buffers that stay inside a kernel ------------------------------------------------------------


def shrink_buffers(schedule: list[Any]) -> None:
    """Let temporaries that one kernel alone touches live in a row's memory or in registers."""
    users: dict[Buffer, set[int]] = {}
    for at, item in enumerate(schedule):
        for buffer in item.reads() | item.writes():
            users.setdefault(buffer, set()).add(at)
    for item in schedule:
        if not isinstance(item, Kernel):
            continue
        for statement in item.statements():
            buffer = statement.target
            if buffer.role == "temporary" and len(users[buffer]) == 1:
                shrink(item, statement)


def shrink(kernel: Kernel, writer: Statement) -> None:
    buffer = writer.target
    home = next(at for at, loop in enumerate(kernel.loops) if writer in loop.statements)
    elsewhere = False
    moved = False
    for at, loop in enumerate(kernel.loops):
        for statement in loop.statements:
            for load in statement.loads():
                if load.payload[0] is buffer:
                    elsewhere = elsewhere or at != home
                    moved = moved or not same_element(load, writer)
    inside = [dim for dim in range(len(kernel.sizes)) if dim not in (kernel.rows or ())]
    moves = any([writer.strides[dim] for dim in inside])
    if not moves or not (elsewhere or moved):
        # One element for each row, or one that is used where it is made.
        buffer.role = "register"
        return
    buffer.role = "local"
    if not kernel.rows:
        return
    covered = [dim for dim in inside if writer.strides[dim]]
    shape = pick(kernel.sizes, covered)
    packed = dict(zip(covered, geometry.contiguous_strides(shape)))
    old = writer.strides

    def packed_strides(strides: Ints) -> Ints:
        return tuple(
            [packed.get(d, 0) if step and step == old[d] else 0 for d, step in enumerate(strides)]
        )

    def change(node: Expression) -> Expression:
        if node.op == "load" and node.payload[0] is buffer:
            return node.builder.load(buffer, packed_strides(node.payload[1]), 0, node.dtype)
        return node

    for statement in kernel.statements():
        statement.value = rebuilt(statement.value, change)
    writer.strides = packed_strides(old)
    buffer.shape, buffer.strides = shape, geometry.contiguous_strides(shape)
