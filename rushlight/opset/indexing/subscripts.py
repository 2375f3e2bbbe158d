"""Index tensors on batches of samples: the batch rules of `index` and `index_put`."""

from __future__ import annotations

from typing import Any

from rushlight.core.dtype import bool_, uint8
from rushlight.opset import functions as aten
from rushlight.opset.registry import find

__all__ = ["read_samples", "write_samples"]


class Subscripts:
    """Index tensors of one sample, as index tensors of all samples."""

    def __init__(self, level: Any, indices: Any) -> None:
        given = [i for i, entry in enumerate(indices) if entry is not None]
        hidden = [i for i in given if level.holds(indices[i])]
        self.first = given[0]
        self.adjacent = given == list(range(given[0], given[-1] + 1))
        masks = [i for i in given if indices[i].dtype in (bool_, uint8)]
        if set(masks) & set(hidden):
            raise RuntimeError(
                "vmap: We do not support batching operators that can support dynamic shape. "
                "Attempting to batch over indexing with a boolean mask."
            )
        ranks = [1 if i in masks else indices[i].dim() for i in given]
        self.rank = max(ranks)
        self.batched = bool(hidden)
        self.simple = not masks
        if not hidden:
            self.entries = [None, *indices]
            return
        moved = [None if e is None else level.front(e, self.rank) for e in indices]

        def samples() -> Any:
            numbers = aten.arange(level.size)
            return numbers.reshape((level.size,) + (1,) * self.rank)

        self.entries = [level.run(samples), *moved]

    def axis(self) -> int:
        """Where the batch axis is in what `index` gives."""
        return 0 if self.batched or self.adjacent else self.rank


def read_samples(level: Any, op: Any, self: Any, indices: Any) -> Any:
    if all([entry is None for entry in indices]):
        return level.wrap(level.below(find("alias"), (level.front(self),)))
    parts = Subscripts(level, indices)
    if not parts.batched:
        found = level.below(op, (level.front(self), parts.entries))
        return level.wrap(found, parts.axis())
    if not level.holds(self) and parts.simple:
        # Only the subscripts vary: their batch axis leads the dims they give.
        moved = [None if e is None else level.front(e, parts.rank) for e in indices]
        found = level.below(op, (self, moved))
        return level.wrap(found, parts.first if parts.adjacent else 0)
    found = level.below(op, (level.full(self), parts.entries))
    if parts.adjacent and parts.first:
        before = tuple(range(1, 1 + parts.rank))
        after = tuple([dim + parts.first for dim in before])
        found = level.run(found.movedim, before, after)
    return level.wrap(found)


def covered_dims(entry: Any) -> int:
    """How many dims of the indexed tensor a subscript stands for."""
    return entry.dim() if entry.dtype in (bool_, uint8) else 1


def with_rank(values: Any, rank: int) -> Any:
    return values.reshape((1,) * (rank - values.dim()) + tuple(values.shape))


def after_indices(values: Any, parts: Subscripts, rank: int, is_held: bool) -> Any:
    """The batch axis behind the dims that the subscripts give."""
    if is_held:
        return values.movedim(0, parts.rank)
    return with_rank(values, rank).unsqueeze(parts.rank)


def indices_first(values: Any, parts: Subscripts, rank: int, is_held: bool) -> Any:
    """The dims that the subscripts give in front of those before them."""
    first = 1 if is_held else 0
    values = values if is_held else with_rank(values, rank)
    given = range(parts.rank)
    return values.movedim(
        [first + parts.first + dim for dim in given], [first + dim for dim in given]
    )


def write_samples(
    level: Any, op: Any, self: Any, indices: Any, values: Any, accumulate: bool
) -> Any:
    if all([entry is None for entry in indices]):
        return level.loop(op, (self, indices, values, accumulate))
    parts = Subscripts(level, indices)
    covered = sum([covered_dims(entry) for entry in indices if entry is not None])
    rank = self.dim() - covered + parts.rank
    is_held = level.holds(values)
    values = level.front(values, rank) if is_held else values
    # Values must broadcast against the dims in the order that indexing gives them.
    if parts.axis():
        values = level.run(after_indices, values, parts, rank, is_held)
    elif parts.batched and parts.adjacent and parts.first:
        values = level.run(indices_first, values, parts, rank, is_held)
    moved = (level.full(self), parts.entries, values, accumulate)
    return level.finish(op, level.below(op, moved))
