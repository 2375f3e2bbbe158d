"""Subscripts with dims: each axis is taken whole, cut, named, split into several dims, or indexed
by a tensor that may have dims itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rushlight.func.dim.labels import Label, Labelled, axis_of, joined, matched
from rushlight.func.errors import DimensionBindError
from rushlight.opset import functions

__all__ = ["KEEP", "assign", "flattened", "present_axis", "read", "read_axes"]

# An axis that a subscript does not speak of.
KEEP = slice(None)


class Selection(NamedTuple):
    """A tensor cut to what a subscript takes, and the index tensors that are left to apply."""

    tensor: Labelled
    # None for axes that are taken whole.
    indices: list[Any]
    # The labels of what the subscript takes.
    labels: tuple[Label | None, ...]


def read(tensor: Labelled, entries: Sequence[Any]) -> Labelled:
    """`tensor[entries]`. Entries are numbers, slices, None, dims, packs of dims (tuples) and index
    tensors (Labelled), for the positional axes from the left."""
    return taken(select(tensor, spread(tensor, entries)))


def read_axes(tensor: Labelled, axes: dict[int, Any]) -> Labelled:
    """The tensor with entries for some of its axes, first-class ones too."""
    entries = [
        axes.get(axis, KEEP if label is None else label) for axis, label in enumerate(tensor.labels)
    ]
    return taken(select(tensor, entries))


def taken(selection: Selection) -> Labelled:
    value = selection.tensor.value
    if any(index is not None for index in selection.indices):
        value = value[tuple([KEEP if index is None else index for index in selection.indices])]
    return Labelled(value, selection.labels)


def assign(tensor: Labelled, entries: Sequence[Any], value: Any) -> None:
    """`tensor[entries] = value`, where value is Labelled or a number."""
    selection = select(tensor, spread(tensor, entries))
    if isinstance(value, Labelled):
        for dim in value.dims:
            if not any(label is dim for label in selection.labels):
                shown = Labelled(None, selection.labels).shown_labels()
                raise DimensionBindError(
                    f"rhs of setitem contains dimension {dim} which is not in the dimension on the "
                    f"left ({shown})"
                )
        value = matched(value, selection.labels)
    target = selection.tensor.value
    target[tuple([KEEP if index is None else index for index in selection.indices])] = value


def spread(tensor: Labelled, entries: Sequence[Any]) -> list[Any]:
    """An entry for every axis, with None for new ones between them."""
    given = sum([entry is not None for entry in entries])
    if given > tensor.rank:
        raise ValueError(
            f"at least {given} indices were supplied but the tensor only has {tensor.rank} "
            "dimensions"
        )
    rest = list(entries)
    found: list[Any] = []
    for label in tensor.labels:
        if label is not None:
            found.append(label)
            continue
        while rest and rest[0] is None:
            found.append(rest.pop(0))
        found.append(rest.pop(0) if rest else KEEP)
    return found + rest


def select(tensor: Labelled, entries: list[Any]) -> Selection:
    value, entries = split_packs(tensor.value, entries)
    for axis, entry in enumerate(entries):
        if isinstance(entry, Label):
            entry.size = value.shape[axis]
    uses = count_uses(entries)
    # Numbers and slices first: what is left are whole axes, some of them to be indexed.
    value = value[tuple([entry if is_cut(entry) else KEEP for entry in entries])]
    left = [entry for entry in entries if not isinstance(entry, int)]
    indexed: list[Labelled | None] = [as_index(entry, uses) for entry in left]
    tensors = [entry for entry in indexed if entry is not None]
    labels = [
        entry if isinstance(entry, Label) else None
        for entry, index in zip(left, indexed, strict=True)
        if index is None
    ]
    if not tensors:
        return Selection(Labelled(value, tuple(labels)), [None] * len(left), tuple(labels))
    index_labels = joined(tensors)
    places = [place for place, entry in enumerate(indexed) if entry is not None]
    # As with plain tensors: the indexed axes stand where the first did, or in front if others
    # lie between them.
    adjacent = places == list(range(places[0], places[-1] + 1))
    front = places[0] if adjacent else 0
    return Selection(
        Labelled(value, tuple([None] * len(left))),
        [None if entry is None else matched(entry, index_labels) for entry in indexed],
        (*labels[:front], *index_labels, *labels[front:]),
    )


def is_cut(entry: Any) -> bool:
    return isinstance(entry, (int, slice))


def as_index(entry: Any, uses: dict[int, int]) -> Labelled | None:
    """The index tensor of an entry. A dim that is used twice takes the diagonal: it indexes."""
    if isinstance(entry, Labelled):
        return entry
    if isinstance(entry, Label) and uses[id(entry)] > 1:
        return Labelled(functions.arange(entry.size), (entry,))
    return None


def count_uses(entries: list[Any]) -> dict[int, int]:
    uses: dict[int, int] = {}
    for entry in entries:
        dims = entry.dims if isinstance(entry, Labelled) else (entry,)
        for dim in dims:
            if isinstance(dim, Label):
                uses[id(dim)] = uses.get(id(dim), 0) + 1
    return uses


def split_packs(value: Any, entries: list[Any]) -> tuple[Any, list[Any]]:
    """The value with new axes made, and axes split that a pack of dims names."""
    shape: list[int] = []
    found: list[Any] = []
    sizes = iter(value.shape)
    for entry in entries:
        if entry is None:
            shape.append(1)
            found.append(KEEP)
            continue
        size = next(sizes)
        if isinstance(entry, tuple) and not isinstance(entry, Labelled):
            bind_pack(entry, size)
            shape += [dim.size for dim in entry]
            found += entry
        else:
            shape.append(size)
            found.append(entry)
    return (value if len(shape) == value.dim() else value.reshape(shape)), found


def bind_pack(dims: tuple[Any, ...], size: int) -> None:
    """Bind dims that together make an axis; the size of one may follow from the others."""
    unbound = [dim for dim in dims if not dim.is_bound]
    if len(unbound) > 1:
        raise DimensionBindError(
            f"cannot infer the sizes of two dimensions at once {unbound[0]} and {unbound[1]}"
        )
    product = math.prod([dim.size for dim in dims if dim.is_bound])
    if unbound:
        if product == 0 or size % product:
            shown = tuple([dim.size if dim.is_bound else "?" for dim in dims])
            raise DimensionBindError(
                f"inferred dimension does not evenly fit into larger dimension: {size} vs {shown}"
            )
        unbound[0].size = size // product
    elif product != size:
        raise DimensionBindError(
            f"Dimension sizes to do not match ({size} != {product}) when matching dimension pack "
            f"{dims}"
        )


def flattened(tensor: Labelled, dims: Sequence[Label]) -> Labelled:
    """The tensor with the axes of several dims made one, which the first of them names."""
    if len(dims) == 1:
        return tensor
    axes = [present_axis(tensor, dim) for dim in dims]
    if len(set(axes)) != len(axes):
        raise TypeError(f"dimensions {tuple(dims)} are not different from each other")
    others = [axis for axis in range(len(tensor.labels)) if axis not in axes]
    front = sum([axis < axes[0] for axis in others])
    shape = [tensor.value.shape[axis] for axis in others]
    size = math.prod([tensor.value.shape[axis] for axis in axes])
    value = tensor.value.permute(others[:front] + axes + others[front:])
    value = value.reshape([*shape[:front], size, *shape[front:]])
    labels = [tensor.labels[axis] for axis in others]
    return Labelled(value, (*labels[:front], dims[0], *labels[front:]))


def present_axis(tensor: Labelled, dim: Any) -> int:
    if not isinstance(dim, (Label, int)):
        raise TypeError(f"expected a dimension specifyer but found {dim!r}")
    axis = axis_of(tensor, dim)
    if axis < 0:
        if isinstance(dim, Label):
            raise TypeError(f"dimension {dim} not in tensor")
        raise TypeError(f"dimension {dim} not in tensor of {tensor.rank} dimensions")
    return axis
