"""Arguments that are one tensor, or share memory: what compilation makes of them.

Duplicates that the function writes become one argument. Tensors that overlap in memory, one of
which is written, become views of one argument, their base. Both are found on the arguments as
they are given, before anything is traced; disjoint parts of one storage stay apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rushlight.aot.metadata import Facts, InputFacts, OutputKind
from rushlight.aot.subclasses import flatten
from rushlight.aot.wrappers import Task, Wrapper, guard_failed
from rushlight.base.errors import error
from rushlight.core import geometry
from rushlight.core.extras import ViewInfo
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor, sizes_of, storage_of, strides_of
from rushlight.opset import functions
from rushlight.symbolic.queries import hint_int

__all__ = [
    "Bases",
    "Duplicates",
    "Member",
    "check_late_writes",
    "check_quiet_moves",
    "overlap",
    "strided_view",
    "take_geometry",
    "view_of",
    "views_stay_valid",
]


# -- duplicates ------------------------------------------------------------------------------------


@dataclass
class Duplicates(Wrapper):
    """Arguments that were one tensor, and written, when the function was compiled."""

    number: int
    # Of each argument, where it is among those that are kept.
    places: list[int]
    # The first argument with the same tensor as this one.
    firsts: list[int]

    @staticmethod
    def plan(task: Task) -> Duplicates | None:
        seen: dict[int, int] = {}
        firsts = [seen.setdefault(id(v), i) for i, v in enumerate(tensors_only(task.args))]
        late = task.facts.written_in_backward
        written = [
            entry.is_changed or entry.becomes_view or place in late
            for place, entry in enumerate(task.facts.inputs)
        ]
        if not any([first != i and written[i] for i, first in enumerate(firsts)]):
            return None
        refuse_subclasses(task, "duplicated")
        kept = [i for i, first in enumerate(firsts) if first == i]
        place = {i: where for where, i in enumerate(kept)}
        return Duplicates(task.number, [place[first] for first in firsts], firsts)

    @property
    def kept(self) -> list[int]:
        return [i for i, first in enumerate(self.firsts) if first == i]

    def rewrite(self, task: Task) -> Task:
        outer, places, kept = task.function, self.places, self.kept

        def inner(*given: Any) -> Any:
            return outer(*[given[place] for place in places])

        return task.with_facts(
            function=inner,
            args=[task.args[i] for i in kept],
            fakes=[task.fakes[i] for i in kept],
        )

    def before(self, args: list[Any]) -> tuple[list[Any], Any]:
        for place, first in enumerate(self.firsts):
            if args[place] is not args[first]:
                raise guard_failed(
                    self.number, f"input {place} would be a duplicate of input {first}"
                )
        return [args[i] for i in self.kept], None


def refuse_subclasses(task: Task, which: str) -> None:
    if task.facts.has_subclasses:
        # torch: the text.
        raise RuntimeError(
            f"Encountered {which} inputs that are mutated in the graph, but at least one "
            "input/output to the graph is a tensor subclass. This is not supported today. Please "
            "pass tensors that share no memory."
        )


def tensors_only(args: Sequence[Any]) -> list[Any]:
    """The arguments, with an object of its own in the place of anything but a tensor."""
    return [value if isinstance(value, Tensor) else object() for value in args]


# -- overlap ---------------------------------------------------------------------------------------


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors over one storage have an element in common."""
    first, second = stand_in(a), stand_in(b)
    if first is None or second is None:
        return False
    extent = max(high for _, high in (first[1], second[1]))
    if first[1][1] <= second[1][0] or second[1][1] <= first[1][0]:
        return False
    # Memory that nobody touches is not taken from the system.
    memory = np.empty(extent, np.bool_)
    one, other = [
        np.lib.stride_tricks.as_strided(memory[low:], shape, strides)
        for (shape, strides), (low, _) in (first, second)
    ]
    shares: Any = np.shares_memory
    try:
        return bool(shares(one, other, max_work=10_000_000))
    except np.exceptions.TooHardError:
        return True


def stand_in(tensor: Tensor) -> Any:
    """((sizes, strides in bytes), (first byte, byte after the last)); None for an empty tensor. The
    last dim is one of bytes."""
    width = tensor._dtype.itemsize
    shape = [hint_int(size, fallback=1) for size in sizes_of(tensor)]
    if 0 in shape:
        return None
    strides = [hint_int(step, fallback=1) * width for step in strides_of(tensor)]
    low = hint_int(tensor._offset, fallback=0) * width
    high = low + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) + width
    return ((*shape, width), (*strides, 1)), (low, high)


# -- bases -----------------------------------------------------------------------------------------


@dataclass
class Member:
    """An argument that is a view of a base."""

    place: int
    size: Any
    stride: Any
    offset: Any
    dtype: Any
    requires_grad: bool
    # Whether its numbers are conjugated, and negated, when they are read.
    conj: bool = False
    neg: bool = False


@dataclass
class Bases(Wrapper):
    """Arguments that overlap as views of bases, which lead the arguments."""

    groups: list[list[Member]]
    # Arguments that are the base of their group and lose elements: what is a view of such a base
    # has the history of what is left of it, so the function has the base itself.
    own: list[int]
    # The other arguments, in their order.
    alone: list[int]
    # Members whose geometry changes: their new forms are results behind the others.
    moved: list[int]
    # Of those, whether it changes without grad mode.
    quiet: list[bool]
    # Results that are members as they are: result -> argument.
    same: dict[int, int]
    # Results whose history is the one that their base has afterwards: arguments, views from before
    # a member's geometry changes, and views of other views of it.
    stale: list[int]

    @staticmethod
    def plan(task: Task) -> Bases | None:
        found = overlapping(task.args, task.facts)
        if not found:
            return None
        refuse_subclasses(task, "aliased")
        grouped = {place for group in found for place in group}
        facts = task.facts
        for place in grouped:
            view, entry = task.args[place], facts.inputs[place]
            if any(entry.quiet_moves) and entry.requires_grad and not entry.is_view:
                raise error("RL0631", shape=tuple(view.shape))
            if entry.sets_storage:
                raise error("RL0743")
            if view._base is not None and view.requires_grad and view.grad_fn is None:
                # Taken without grad mode: it has no part in its base's gradient.
                raise error("RL0621")
        own = [i for i in sorted(grouped) if loses_base(facts.inputs[i])]
        moved = [i for i in sorted(grouped) if facts.inputs[i].writes_geometry and i not in own]
        same = {
            place: entry.base
            for place, entry in enumerate(facts.outputs)
            if entry.kind is OutputKind.IS_INPUT and entry.base in grouped
        }
        groups = [[member_of(task.fakes[i], i) for i in group] for group in found]
        alone = [i for i in range(len(task.args)) if i not in grouped]
        quiet = [all(facts.inputs[i].quiet_moves) for i in moved]
        # Views of a base that changes have the history that it has afterwards.
        follow = {
            place
            for group in found
            if any([i in moved and not facts.inputs[i].is_view for i in group])
            for place in group
            if place not in moved
        }
        stale = [
            place
            for place, entry in enumerate(facts.outputs)
            if entry.kind is OutputKind.IS_INPUT
            or (entry.from_start and entry.base in moved)
            or (entry.kind is OutputKind.ALIAS_OF_INPUT and entry.base in follow)
        ]
        return Bases(groups, own, alone, moved, quiet, same, stale)

    def rewrite(self, task: Task) -> Task:
        outer = task.function
        count = len(task.args)

        def inner(*given: Any) -> Any:
            args: list[Any] = [None] * count
            for base, group in zip(given, self.groups):
                for member in group:
                    is_own = member.place in self.own
                    args[member.place] = base if is_own else view_of(base, member)
            for place, value in zip(self.alone, given[len(self.groups) :], strict=True):
                args[place] = value
            return [*outer(*args), *[args[place] for place in self.moved]]

        args, _ = self.before(list(task.args))
        fakes: list[Any] = []
        for base, group in zip(args, self.groups):
            first = task.fakes[group[0].place]
            fakes.append(first._base if first._base is not None else task.mode.from_tensor(base))
        fakes += [task.fakes[place] for place in self.alone]
        return task.with_facts(function=inner, args=args, fakes=fakes)

    def before(self, args: list[Any]) -> tuple[list[Any], Any]:
        bases = [base_of([args[member.place] for member in group]) for group in self.groups]
        kept = [args[place] for place in (*self.moved, *self.same.values())]
        return bases + [args[place] for place in self.alone], kept

    def after(self, results: list[Any], kept: list[Any]) -> list[Any]:
        count = len(self.moved)
        if count:
            results, forms = results[:-count], results[-count:]
            made = [
                value
                for place, value in enumerate(results)
                if place not in self.stale or (place not in self.same and is_never_stale(value))
            ]
            with views_stay_valid(made, kept):
                for target, form, quiet in zip(kept, forms, self.quiet):
                    take_geometry(target, form, quiet)
        for place, value in zip(self.same, kept[count:], strict=True):
            results[place] = value
        return results


def check_late_writes(task: Task) -> None:
    """Refuse two arguments that overlap, if the backward writes both."""
    late = task.facts.written_in_backward
    for first, second in combinations(late, 2):
        a, b = task.args[first], task.args[second]
        if a is not b and storage_of(a) is storage_of(b) and overlap(a, b):
            raise error("RL0634", first=first, second=second)


def check_quiet_moves(task: Task) -> None:
    """Refuse an argument whose history stays that of a geometry which it loses, where another has a
    gradient as a view of it: the history of that depends on when the function uses it."""
    used = [task.args[place] for place in task.facts.differentiated]
    for argument, entry in zip(task.args, task.facts.inputs, strict=True):
        if any(entry.quiet_moves) and any([view._base is argument for view in used]):
            raise error("RL0631", shape=tuple(argument.shape))


def take_geometry(target: Tensor, form: Tensor, quiet: bool) -> None:
    """Give a tensor the geometry of another over the same memory, as an in-place op does."""
    with changed(grad=LOCAL.state.grad and not quiet):
        target.as_strided_(sizes_of(form), strides_of(form), form.storage_offset())


@contextmanager
def views_stay_valid(results: Sequence[Any], targets: Sequence[Tensor]) -> Iterator[None]:
    """Inside, `targets` are written as the function wrote them. A result that is a view of one was
    valid when the function returned it, or else tracing had failed."""
    before = {id(t._counter): t._counter.value for t in targets if t._counter is not None}
    views = [
        (value._view, value._counter)
        for value in results
        if isinstance(value, Tensor) and value._view is not None and value._counter is not None
    ]
    valid = [(view, c) for view, c in views if before.get(id(c)) == view.version]
    yield
    for view, counter in valid:
        view.version = counter.value


def overlapping(args: Sequence[Any], facts: Facts) -> list[list[int]]:
    """Groups of arguments that overlap, directly or by way of others, and are written."""
    by_storage: dict[int, list[int]] = {}
    for place, value in enumerate(args):
        if isinstance(value, Tensor) and value.layout.name == "strided":
            by_storage.setdefault(id(storage_of(value)), []).append(place)
    groups: list[list[int]] = []
    for places in by_storage.values():
        parts: list[list[int]] = []
        for place in places:
            touching = [p for p in parts if any([overlap(args[place], args[i]) for i in p])]
            merged = sorted([place, *[i for part in touching for i in part]])
            parts = [part for part in parts if part not in touching] + [merged]
        written = [
            part
            for part in parts
            if any([facts.inputs[i].writes_data or loses_base(facts.inputs[i]) for i in part])
        ]
        if any([len(part) > 1 for part in written]):
            # What is written of a base is all of it: other writes to that memory are part of it.
            groups.append(sorted([place for part in written for place in part]))
    return sorted(groups)


def is_never_stale(value: object) -> bool:
    """Whether a result is a view whose history nothing but its own ops can give. Where its base
    changed after it was taken, the function has failed."""
    return (
        isinstance(value, Tensor)
        and value._view is not None
        and value._view.kind != ViewInfo.NORMAL
    )


def loses_base(entry: InputFacts) -> bool:
    """Whether an argument is no view, and has a history that its views lose elements by."""
    return entry.loses and entry.requires_grad and not (entry.is_view or any(entry.quiet_moves))


def member_of(fake: Tensor, place: int) -> Member:
    return Member(
        place, sizes_of(fake), strides_of(fake), fake._offset, fake._dtype, fake.requires_grad,
        fake.is_conj(), fake.is_neg(),
    )  # fmt: skip


def view_of(base: Tensor, member: Member) -> Any:
    made = strided_view(
        base, member.size, member.stride, member.offset, member.dtype, member.conj, member.neg
    )
    return made if made.requires_grad == member.requires_grad else made.detach()


def strided_view(
    base: Any, sizes: Any, strides: Any, offset: Any, dtype: Any, conj: bool, neg: bool
) -> Any:
    """A view by strides in elements of another dtype, whose numbers are read in another way."""
    if dtype is base._dtype:
        made = base.as_strided(sizes, strides, offset)
    elif dtype.is_complex and dtype.to_real() is base._dtype:
        pairs = base.as_strided((*sizes, 2), (*[2 * step for step in strides], 1), 2 * offset)
        made = functions.view_as_complex(pairs)
    elif base.is_complex() and base._dtype.to_real() is dtype:
        plain = functions.view_as_real(base.conj() if base.is_conj() else base)
        made = plain.as_strided(sizes, strides, offset)
    else:
        made = base.view(dtype).as_strided(sizes, strides, offset)
    part = next(iter(flatten(made)))
    if part.is_conj() is not conj:
        made = made.conj()
    return made if part.is_neg() is neg else made._neg_view()


def base_of(views: Sequence[Tensor]) -> Any:
    """What all the views are views of: as autograd knows it, or else all of their memory."""
    bases = [view._base for view in views if view._base is not None]
    if not bases:
        if any([view.requires_grad for view in views]):
            raise error("RL0621")
        return whole_storage(views[0])
    base = bases[0]
    if any([view._base is not base and view is not base for view in views]):
        raise error("RL0621")
    return base


def whole_storage(tensor: Tensor) -> Any:
    storage = tensor.untyped_storage()
    made = functions.empty((0,), dtype=tensor._dtype, device=tensor.device)
    count = storage.nbytes() // tensor._dtype.itemsize
    return made.set_(storage, 0, (count,), geometry.contiguous_strides((count,)))
