"""Writes to inputs where their new values are computed, in place of a copy at the end.

A graph that writes ends with `copy_(input, value)`. Where the loop that makes the value is the last
to read the input, and reads the very element that it then writes, the value's memory can be the
input's own.
"""

from __future__ import annotations

from typing import Any

from rushlight.codegen.fusion import same_element
from rushlight.codegen.loops import Buffer, Kernel, Statement
from rushlight.codegen.program import LoopProgram
from rushlight.codegen.values import Call, Name

__all__ = ["Touch", "place_writes"]


class Touch:
    """A step that tells autograd of a write to an input."""

    __slots__ = ("target",)

    is_barrier = False

    def __init__(self, target: Buffer) -> None:
        self.target = target

    def reads(self) -> set[Buffer]:
        return set()

    def writes(self) -> set[Buffer]:
        return set()

    def __str__(self) -> str:
        return f"touch({self.target})"


def place_writes(program: LoopProgram, schedule: list[Any]) -> list[Any]:
    """The schedule with copies to inputs left out where values can be made in their place."""
    if program.inputs_share:
        return schedule
    inputs = {name for name, value in program.inputs if value is not None}
    written = [pair[0] for item in schedule if (pair := copied(program, item)) is not None]
    found: list[Any] = []
    for at, item in enumerate(schedule):
        pair = copied(program, item)
        if pair is not None and pair[0].name in inputs and written.count(pair[0]) == 1:
            target, value = pair
            home = maker(schedule[:at], value)
            if home is not None and may_replace(program, schedule, at, home, target, value):
                value.role, value.home = "placed", target
                item = Touch(target)
        found.append(item)
    return found


def copied(program: LoopProgram, item: Any) -> tuple[Buffer, Buffer] | None:
    """The memory that a call copies to and from, if that is what it does."""
    if not isinstance(item, Call) or str(item.op) != "aten.copy_.default" or item.kwargs:
        return None
    target, source = item.args[:2]
    if not isinstance(target, Name) or not isinstance(source, Name):
        return None
    made = {
        value.buffer.name: value.buffer for value in program.tensors if value.buffer is not None
    }
    there, here = program.given.get(target.name), made.get(source.name)
    return None if there is None or here is None else (there, here)


def maker(schedule: list[Any], value: Buffer) -> tuple[int, Kernel, Statement] | None:
    """Where a loop makes a value, element by element."""
    for at, item in enumerate(schedule):
        if isinstance(item, Kernel):
            for statement in item.statements():
                if statement.target is value:
                    return None if statement.fold else (at, item, statement)
    return None


def may_replace(
    program: LoopProgram,
    schedule: list[Any],
    copy_at: int,
    home: tuple[int, Kernel, Statement],
    target: Buffer,
    value: Buffer,
) -> bool:
    place, kernel, statement = home
    alike = (value.shape, value.strides, value.dtype) == (
        target.shape,
        target.strides,
        target.dtype,
    )
    if not alike or value.role != "result" or 0 in value.strides:
        return False
    copy = schedule[copy_at]
    names = names_in([program.outputs])
    for at, item in enumerate(schedule):
        if at == copy_at:
            continue
        if not item.reads().isdisjoint(copy.made):
            # What the copy answers is asked for.
            return False
        if isinstance(item, Call):
            names |= names_in([*item.args, *item.kwargs.values()])
            if at > place and not item.views and copied(program, item) is None:
                # It may raise, and then nothing is written.
                return False
        if at > place and target in item.reads():
            return False
    is_named = not names.isdisjoint([value.name, *[name for name in copy.results if name]])
    return not is_named and reads_in_step(kernel, statement, target)


def names_in(values: Any) -> set[str]:
    """The variables that arguments or results mention."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, Name):
            found.add(value.name)
        elif isinstance(value, dict):
            found |= names_in(value.values())
        elif isinstance(value, (list, tuple)):
            found |= names_in(value)
    return found


def reads_in_step(kernel: Kernel, writer: Statement, target: Buffer) -> bool:
    """Whether a kernel reads the target only at the element that is then written, in the same turn
    of the same loop."""
    is_over = False
    for loop in kernel.loops:
        for statement in loop.statements:
            for load in statement.loads():
                if load.payload[0] is not target:
                    continue
                if is_over or not same_element(load, writer) or writer not in loop.statements:
                    return False
            is_over = is_over or statement is writer
    return True
