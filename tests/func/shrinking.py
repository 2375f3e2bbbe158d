"""Smaller programs that fail as a larger one does, so that a report can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.func.compositions import Case, Program, Step, Verdict, judge


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less."""
    first = program.inputs + program.captured
    for at in range(first, program.output):
        yield prune(replace(program, output=at))
    for i, step in enumerate(program.steps):
        for other in sorted({*step.args, *range(first + i)}):
            yield drop(program, i, other)
        if step.body is None:
            continue
        yield inline(program, i)
        for body in smaller(step.body):
            yield with_step(program, i, replace(step, body=body))


def with_step(program: Program, at: int, step: Step) -> Program:
    return replace(program, steps=(*program.steps[:at], step, *program.steps[at + 1 :]))


def renumber(step: Step, number: Callable[[int], int]) -> Step:
    return replace(
        step,
        args=tuple(number(i) for i in step.args),
        captures=tuple(number(i) for i in step.captures),
    )


def drop(program: Program, at: int, other: int) -> Program:
    """Without a step; what used its result uses another register."""
    gone = program.inputs + program.captured + at

    def number(i: int) -> int:
        return other if i == gone else i - (i > gone)

    steps = [*program.steps[:at], *[renumber(step, number) for step in program.steps[at + 1 :]]]
    return replace(program, steps=tuple(steps), output=number(program.output))


def prune(program: Program) -> Program:
    """Without the steps after the output."""
    keep = max(program.output - program.inputs - program.captured + 1, 0)
    return replace(program, steps=program.steps[:keep])


def inline(program: Program, at: int) -> Program:
    """The body of a transform in its place."""
    step = program.steps[at]
    body = step.body
    assert body is not None
    start = program.inputs + program.captured + at
    outer = (*step.args, *step.captures)

    def inner(i: int) -> int:
        return outer[i] if i < len(outer) else start + i - len(outer)

    def later(i: int) -> int:
        return inner(body.output) if i == start else i + (len(body.steps) - 1) * (i > start)

    steps = [
        *program.steps[:at],
        *[renumber(one, inner) for one in body.steps],
        *[renumber(one, later) for one in program.steps[at + 1 :]],
    ]
    return replace(program, steps=tuple(steps), output=later(program.output))


def shrink(case: Case, T: Any) -> Case:
    """A smaller case that fails in the same way."""
    state = judge(case, T)
    seen = 0
    while seen < 2000:
        for candidate in candidates(case):
            seen += 1
            if fails_alike(candidate, T, state):
                case = candidate
                break
        else:
            return case
    return case


def candidates(case: Case) -> Iterator[Case]:
    if case.outside != "plain":
        yield replace(case, outside="plain")
    for program in smaller(case.program):
        yield replace(case, program=program)


def fails_alike(case: Case, T: Any, first: Verdict) -> bool:
    try:
        found = judge(case, T)
    except Exception:  # The oracle cannot run what is left: no program any more.
        return False
    if found.state != first.state:
        return False
    return found.state != "raised" or found.words[:40] == first.words[:40]
