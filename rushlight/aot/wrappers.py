"""What a call passes on its way to the compiled graphs and back, as data.

A `Wrapper` was planned for the example arguments of one compilation: `before` turns a call's
arguments into those of the next wrapper and says what to keep, `after` turns results back with
that. `rewrite` tells compilation what the next wrapper sees. Nothing here refers to the traced
function, so that a chain can be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rushlight.aot.metadata import Facts, collect_facts
from rushlight.core.fake import FakeTensorMode
from rushlight.core.tensor import Tensor
from rushlight.higher_order.effects import new_token

__all__ = ["Chain", "GradGuard", "Task", "Tokens", "Wrapper", "guard_failed"]

Function = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Task:
    """What is to be compiled, as the wrappers so far leave it."""

    function: Function
    # Real where the caller gave real ones, for questions about memory.
    args: Sequence[Any]
    fakes: Sequence[Any]
    facts: Facts
    mode: FakeTensorMode
    number: int
    keep_writes: bool

    def with_facts(self, **changes: Any) -> Task:
        """The task with other arguments or another function, and facts found anew."""
        changed = replace(self, **changes)
        with self.mode:
            facts = collect_facts(changed.function, changed.fakes, self.keep_writes)
        return replace(changed, facts=facts)


class Wrapper:
    """One step of a call; see the module."""

    def rewrite(self, task: Task) -> Task:
        return task

    def before(self, args: list[Any]) -> tuple[list[Any], Any]:
        return args, None

    def after(self, results: list[Any], kept: Any) -> list[Any]:
        return results


@dataclass
class Chain:
    """A compiled function: its wrappers, the first one outermost, and what they lead to."""

    wrappers: list[Wrapper]
    core: Callable[[list[Any]], Sequence[Any]]

    def __call__(self, args: list[Any]) -> list[Any]:
        kept = []
        for wrapper in self.wrappers:
            given, own = wrapper.before(args)
            if given is not args:
                # What the next one has is freed as soon as it lets go.
                args.clear()
                args = given
            kept.append(own)
        results = list(self.core(args))
        for wrapper in reversed(self.wrappers):
            results = wrapper.after(results, kept.pop())
        return results


def guard_failed(number: int, assumption: str) -> AssertionError:
    # torch: the text.
    return AssertionError(
        f"At compilation time, graph {number} was compiled under the assumption that "
        f"{assumption}, but at runtime this was not the case.  This indicates a guard bug in "
        "AOTAutograd or Dynamo, please file a bug to PyTorch."
    )


@dataclass
class Tokens(Wrapper):
    """Gives a graph its tokens, which are empty, and takes those that it returns: first in a
    forward, last in a backward. Calls are in order because the graph is."""

    count: int
    last: bool = False

    def before(self, args: list[Any]) -> tuple[list[Any], Any]:
        tokens = [new_token() for _ in range(self.count)]
        return ([*args, *tokens] if self.last else [*tokens, *args]), None

    def after(self, results: list[Any], kept: Any) -> list[Any]:
        return results[: -self.count] if self.last else results[self.count :]

    def around(self, graph: Callable[[list[Any]], Sequence[Any]]) -> Callable[[list[Any]], Any]:
        """A compiled graph without its tokens."""
        return Chain([self], graph) if self.count else graph


@dataclass
class GradGuard(Wrapper):
    """Refuses inputs that require gradients where the compiled ones did not: they would lose
    theirs."""

    number: int
    plain: list[bool]

    @staticmethod
    def plan(number: int, args: Sequence[Any]) -> GradGuard:
        plain = [isinstance(value, Tensor) and not value.requires_grad for value in args]
        return GradGuard(number, plain)

    def before(self, args: list[Any]) -> tuple[list[Any], Any]:
        for place, value in enumerate(args):
            if self.plain[place] and isinstance(value, Tensor) and value.requires_grad:
                raise guard_failed(self.number, f"input {place} would not require grad")
        return args, None
