"""Tensors whose axes have labels: a dim for a first-class one, None for a positional one.

Positional axes are numbered by the order in which they stand, as a plain tensor's are. Dims are
compared by identity: their `==` makes tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rushlight.core.tensor import Tensor
from rushlight.func.errors import DimensionBindError

__all__ = ["Label", "Labelled", "axis_of", "expanded", "joined", "matched", "ordered", "plain"]


class Label:
    """A dim: a name, and a size once it is bound to one."""

    def __init__(self, name: str, s: int = -1) -> None:
        self._name = name
        self._size = s

    @property
    def is_bound(self) -> bool:
        """Whether this dim has a size."""
        return self._size != -1

    @property
    def size(self) -> int:
        """The size that it was bound to; setting it binds the dim, once."""
        if self._size == -1:
            raise ValueError(f"dimension {self._name} is unbound")
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        if self._size == -1:
            self._size = size
        elif self._size != size:
            raise DimensionBindError(
                f"Dim '{self._name}' previously bound to a dimension of size {self._size} cannot "
                f"bind to a dimension of size {size}"
            )

    def __repr__(self) -> str:
        return self._name


# What an axis is matched by: its dim, or its place among the positional ones from the right.
Key = Label | int


class Labelled(NamedTuple):
    """A plain tensor and a label for each of its axes."""

    value: Any
    labels: tuple[Label | None, ...]

    @property
    def dims(self) -> tuple[Label, ...]:
        return tuple([label for label in self.labels if label is not None])

    @property
    def keys(self) -> list[Key]:
        return keys_of(self.labels)

    @property
    def rank(self) -> int:
        """How many axes are positional."""
        return sum([label is None for label in self.labels])

    def shown_labels(self) -> tuple[Any, ...]:
        """Dims, and numbers for positional axes."""
        return tuple([k + self.rank if isinstance(k, int) else k for k in self.keys])


def plain(value: Tensor) -> Labelled:
    return Labelled(value, (None,) * value.dim())


def keys_of(labels: Sequence[Label | None]) -> list[Key]:
    left = sum([label is None for label in labels])
    found: list[Key] = []
    for label in labels:
        if label is None:
            found.append(-left)
            left -= 1
        else:
            found.append(label)
    return found


def place_of(key: Key, keys: Sequence[Any]) -> int:
    """Where a key stands; -1 where it does not."""
    for place, other in enumerate(keys):
        if other is key or (isinstance(key, int) and isinstance(other, int) and other == key):
            return place
    return -1


def holds(labels: Iterable[Label | None], dim: Label) -> bool:
    return any(label is dim for label in labels)


def axis_of(tensor: Labelled, dim: Any) -> int:
    """The axis of a dim or of a position; -1 where there is none."""
    if isinstance(dim, Label):
        return place_of(dim, tensor.labels)
    rank = tensor.rank
    return place_of(dim - rank if dim >= 0 else dim, tensor.keys)


def joined(tensors: Iterable[Labelled]) -> tuple[Label | None, ...]:
    """All labels that tensors have, those of the first in front."""
    found: list[Any] = []
    for tensor in tensors:
        for key in tensor.keys:
            if place_of(key, found) < 0:
                found.append(key)
    # Positional axes keep their order, whoever brought them.
    positions = iter(sorted([key for key in found if isinstance(key, int)]))
    ordered_keys = [next(positions) if isinstance(key, int) else key for key in found]
    return tuple([None if isinstance(key, int) else key for key in ordered_keys])


def matched(tensor: Labelled, labels: Sequence[Label | None]) -> Any:
    """The value with its axes as `labels` says: dims it lacks are expanded, positions are ones."""
    if tensor.labels == () and not labels:
        return tensor.value
    own, wanted = tensor.keys, keys_of(labels)
    places = [place_of(key, own) for key in wanted]
    kept = [place for place in places if place >= 0]
    if len(kept) != len(own):
        missing = [label for label, key in zip(tensor.shown_labels(), own, strict=True)
                   if place_of(key, wanted) < 0]  # fmt: skip
        raise ValueError(f"dimensions {tuple(missing)} have no place among {tuple(labels)}")
    value = tensor.value
    if kept != list(range(len(kept))):
        value = value.permute(kept)
    if len(kept) == len(places):
        return value
    value = value[tuple([None if place < 0 else slice(None) for place in places])]
    return value.expand(
        [-1 if label is None or place >= 0 else label.size for label, place in zip(labels, places)]
    )


def expanded(tensor: Labelled, dims: Sequence[Label]) -> Labelled:
    """The tensor with more dims, all along which it is the same."""
    labels: tuple[Label | None, ...] = tensor.labels
    for dim in reversed(dims):
        if holds(labels, dim):
            raise DimensionBindError(
                f"expanding dimension {dim} already exists in tensor with dims"
            )
        labels = (dim, *labels)
    return Labelled(matched(tensor, labels), labels)


def ordered(tensor: Labelled, groups: Sequence[Sequence[Any] | Any]) -> Labelled:
    """The tensor with dims made positional, in front of the positional ones that are left. Each
    entry is a dim, a position, or a sequence of them that becomes one."""
    taken: list[int] = []
    sizes: list[int] = []
    for group in groups:
        members = list(group) if isinstance(group, (tuple, list)) else [group]
        places = [taken_axis(tensor, dim, taken) for dim in members]
        sizes.append(math.prod([tensor.value.shape[place] for place in places]))
    left = [place for place in range(len(tensor.labels)) if place not in taken]
    labels = [tensor.labels[place] for place in left]
    front = next((k for k, label in enumerate(labels) if label is None), len(labels))
    value = tensor.value.permute(left[:front] + taken + left[front:])
    if len(sizes) != len(taken) or any(isinstance(group, (tuple, list)) for group in groups):
        shape = value.shape
        value = value.reshape([*shape[:front], *sizes, *shape[front + len(taken) :]])
    return Labelled(value, (*labels[:front], *[None] * len(sizes), *labels[front:]))


def taken_axis(tensor: Labelled, dim: Any, taken: list[int]) -> int:
    if not isinstance(dim, (Label, int)):
        raise ValueError("expected a Dim or int")
    place = axis_of(tensor, dim)
    if place < 0 or place in taken:
        if isinstance(dim, Label):
            raise ValueError(f"tensor does not contain dim {dim} or it was specified twice")
        raise ValueError(
            f"tensor has {tensor.rank} positional dimensions, but {dim} specified, or it was "
            "specified twice"
        )
    taken.append(place)
    return place
