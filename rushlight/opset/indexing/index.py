"""Reading by index: index, index_select, gather, take, masked_select, nonzero.

An index tensor that is a mask stands for the positions at which it is true. Positions are checked
before anything is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call, overridable
from rushlight.core.op import Tag
from rushlight.core.refusals import unknown_size
from rushlight.core.tensor import Tensor, storage_of, strides_of, wrap, wrap_strided
from rushlight.opset.exposure import attribute
from rushlight.opset.kinds import GATHER, Spec, is_lazy
from rushlight.opset.large import PickRule
from rushlight.opset.registry import composite, find, op
from rushlight.opset.results import lay_out, result_tensor
from rushlight.opset.rules import aten, late, linear_in, sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("nonzero",)

ndarray = np.ndarray
MASKS = (dtypes.bool_, dtypes.uint8)
INDEX_DTYPES = (dtypes.int64, dtypes.int32)


# -- index ------------------------------------------------------------------------------------


def check_index_dtypes(indices: Sequence[Any]) -> None:
    for index in indices:
        if index is None:
            continue
        dtype = index._dtype
        if dtype is dtypes.uint8:
            warnings.warn(
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
                "instead.",
                UserWarning,
                stacklevel=2,
            )
        elif dtype not in INDEX_DTYPES and dtype is not dtypes.bool_:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")


def expanded_indices(sizes: Any, indices: Sequence[Any]) -> list[Any]:
    """Index arrays for each dimension: a mask becomes the positions at which it is true."""
    result: list[Any] = []
    for index in indices:
        if index is None:
            result.append(None)
            continue
        array = index._array if isinstance(index, Tensor) else index
        if array.dtype == np.bool_ or array.dtype == np.uint8:
            start = len(result)
            for axis, size in enumerate(array.shape):
                if start + axis >= len(sizes) or size != sizes[start + axis]:
                    raise IndexError(
                        f"The shape of the mask {geometry.show(array.shape)} at index {axis} does "
                        f"not match the shape of the indexed tensor {geometry.show(sizes)} at "
                        f"index {start + axis}"
                    )
            result += array.nonzero()
        else:
            result.append(array)
    if len(result) > len(sizes):
        refuse_too_many(sizes, [None if index is None else index.shape for index in result])
    return result


def refuse_too_many(sizes: Any, shapes: Sequence[Any]) -> None:
    broadcast_indices(shapes)
    raise IndexError(f"too many indices for tensor of dimension {len(sizes)} (got {len(shapes)})")


def broadcast_indices(shapes: Sequence[Any]) -> tuple[Any, ...]:
    given = [tuple(shape) for shape in shapes if shape is not None]
    try:
        return tuple(geometry.broadcast_shapes(*given))
    except RuntimeError:
        shown = ", ".join(geometry.show(shape) for shape in given)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shown}"
        ) from None


def indexed_shape(sizes: Any, shapes: Sequence[Any]) -> tuple[tuple[Any, ...], int]:
    """(shape that `indices` broadcast to, the position of its first dimension in the result).

    `shapes` has a shape or None for each dimension. Index tensors that are not adjacent put
    theirs first.
    """
    places = [axis for axis, shape in enumerate(shapes) if shape is not None]
    common = broadcast_indices(shapes)
    adjacent = bool(places) and places[-1] - places[0] == len(places) - 1
    is_empty = geometry.is_size
    if any(is_empty(sizes[axis], 0) for axis in places) and not any(
        is_empty(size, 0) for size in common
    ):
        raise IndexError("index is out of bounds for dimension with size 0")
    return common, places[0] if adjacent else 0


def indexed_geometry(sizes: Any, strides: Any, entries: list[Any]) -> tuple[Any, Any]:
    """Sizes and strides of a read by index; `entries` holds (sizes, strides) or None.

    The result is laid out as an elementwise op of the index tensors and the tensor itself, whose
    indexed dimensions have stride 0, would be.
    """
    entries = entries + [None] * (len(sizes) - len(entries))
    common, before = indexed_shape(sizes, [e if e is None else e[0] for e in entries])
    places = [axis for axis, entry in enumerate(entries) if entry is not None]
    rest = [axis for axis, entry in enumerate(entries) if entry is None]
    head, tail = rest[:before], rest[before:]
    shape = (*[sizes[a] for a in head], *common, *[sizes[a] for a in tail])
    own = (*[strides[a] for a in head], *[0] * len(common), *[strides[a] for a in tail])
    operands = [(shape, own)]
    padded = (*[1] * len(head), *common, *[1] * len(tail))
    for axis in places:
        steps = geometry.broadcast_strides(common, *entries[axis])
        found = geometry.view_strides(common, steps, padded)
        operands.append((padded, geometry.contiguous_strides(padded) if found is None else found))
    return shape, geometry.elementwise_strides(shape, operands)


def element_strides(array: Any) -> tuple[int, ...]:
    width = array.dtype.itemsize
    return tuple([step // width for step in array.strides])


def refuse_out_of_range(sizes: Any, expanded: Sequence[Any]) -> None:
    """Name the first index without an element. torch: only indexed dimensions are numbered."""
    given = [(index, sizes[axis]) for axis, index in enumerate(expanded) if index is not None]
    common = np.broadcast_shapes(*[index.shape for index, _ in given])
    worst: tuple[int, int, int, int] | None = None
    for number, (index, size) in enumerate(given):
        flat = np.broadcast_to(index, common).reshape(-1)
        bad = np.flatnonzero((flat < -size) | (flat >= size))
        if bad.size and (worst is None or bad[0] < worst[0]):
            worst = (int(bad[0]), number, int(flat[bad[0]]), size)
    if worst is not None:
        _, number, value, size = worst
        raise IndexError(f"index {value} is out of bounds for dimension {number} with size {size}")


def read_at(array: Any, expanded: Sequence[Any]) -> Any:
    """NumPy's advanced indexing, faster for one index array."""
    places = [axis for axis, index in enumerate(expanded) if index is not None]
    try:
        if len(places) == 1 and array.flags.c_contiguous:
            return array.take(expanded[places[0]], axis=places[0])
        return array[tuple([slice(None) if index is None else index for index in expanded])]
    except IndexError:
        shapes = [None if index is None else index.shape for index in expanded]
        sizes = indexed_sizes(array.shape, shapes)
    if 0 in sizes:
        # torch: positions are looked at only where something is read.
        return np.empty(sizes, array.dtype)
    refuse_out_of_range(array.shape, expanded)
    return array[tuple([slice(None) if index is None else index for index in expanded])]


def read_index(self: Any, indices: Any, record: Any = None) -> Any:
    """The kernel of aten::index, whose result's strides follow from those of all operands."""
    array = self._array
    plain = self._is_contiguous and self._unusual is None
    for index in indices:
        if index is not None:
            plain = plain and index._is_contiguous and index._unusual is None
            if index._array is None:
                array = None
    if not plain and (array is None or any(map(is_lazy, (self, *indices)))):
        return GATHER.unusual(record or index_tensor, (self, indices))
    check_index_dtypes(indices)
    if len(indices) == 1 and indices[0] is not None:
        mask = indices[0]._array
        if mask.dtype == np.bool_ and mask.shape == array.shape and array.ndim:
            return wrap(array[mask], self._dtype)
    sizes = tuple(self.shape)
    if not indices:
        raise IndexError("at least one index must be provided")
    expanded = expanded_indices(sizes, indices)
    padded = expanded + [None] * (len(sizes) - len(expanded))
    indexed_shape(sizes, [None if index is None else index.shape for index in padded])
    result = read_at(array, expanded)
    if plain and result.size:
        return result_tensor(result)
    entries = [
        None if index is None else (index.shape, element_strides(index)) for index in expanded
    ]
    _, strides = indexed_geometry(sizes, strides_of(self), entries)
    return lay_out(result, tuple(strides), self._dtype)


def read_positions(self: Any, indices: Any) -> Any:
    """The same for indices that are ints only."""
    refuse_masks(indices)
    return read_index(self, indices, unsafe_index)


def refuse_masks(indices: Any) -> None:
    for index in indices:
        if index is not None and index._dtype not in INDEX_DTYPES:
            raise RuntimeError(
                f"_unsafe_index found unexpected index type {index._dtype.scalar_type_name}"
            )


def index_entries(self: Any, indices: Any) -> list[Any]:
    """(sizes, strides) of the index tensors, None for a whole dimension; masks as positions."""
    check_index_dtypes(indices)
    if not indices:
        raise IndexError("at least one index must be provided")
    sizes = tuple(self.shape)
    entries: list[Any] = []
    for index in indices:
        if index is not None and index._dtype in MASKS:
            if index._array is None:
                count = unknown_size(
                    index_tensor, "the number of elements that a mask selects", index.numel()
                )
                entries += [((count,), (1,))] * index.dim()
                continue
            whole = [None] * len(entries)
            columns = expanded_indices(sizes, [*whole, index])[len(entries) :]
            entries += [(column.shape, element_strides(column)) for column in columns]
        else:
            entries.append(None if index is None else (tuple(index.shape), strides_of(index)))
    if len(entries) > len(sizes):
        refuse_too_many(sizes, [None if entry is None else entry[0] for entry in entries])
    return entries


def index_shape(self: Any, indices: Any) -> Any:
    entries = index_entries(self, indices)
    shape, strides = indexed_geometry(tuple(self.shape), strides_of(self), entries)
    return Spec(shape, self._dtype, strides)


def indexed_sizes(sizes: Any, shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape of a read by index tensors of these shapes."""
    shapes = [*shapes, *[None] * (len(sizes) - len(shapes))]
    common, before = indexed_shape(sizes, shapes)
    rest = [size for size, shape in zip(sizes, shapes, strict=True) if shape is None]
    return (*rest[:before], *common, *rest[before:])


def index_backward(grad: Any, self_shape: Any, indices: Any) -> Any:
    zeros = grad.new_zeros(self_shape)
    return aten.index_put(zeros, list(indices), grad, True)


def index_samples(make: Any) -> Any:
    yield make(3, 4), [make.index(2, below=3)]
    yield make(3, 4), [None, make.index(2, 3, below=4)]
    yield make.strided(3, 4), [make.index(5, below=3), make.index(5, below=4)]
    yield make(2, 3, 4), [make.index(2, below=2), None, make.index(2, below=4)]
    yield make(2, 3, 4), [None, make.index(2, 1, below=3), make.index(3, below=4)]
    yield make(3, 4), [make.mask(3, 4)]
    yield make(3, 4), [None, make.mask(4)]
    yield make(3, 0), [make.index(2, below=3)]
    yield make.expanded(3, 4), [make.index(0, below=3)]


def index_errors(make: Any) -> Any:
    yield IndexError, sample(make(3, 4), [make.index(2, below=3) + 5])
    yield IndexError, sample(make(3, 4), [make(2, dtype=dtypes.float32)])
    yield IndexError, sample(make(3, 4), [make.index(2, below=3), make.index(3, below=3)])
    yield IndexError, sample(make(3, 4), [make.mask(2)])
    yield IndexError, sample(make(3), [make.index(2, below=3)] * 2)


index_tensor = op(
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    recompute=True,
    batch=late("indexing.subscripts:read_samples"),
    kind=GATHER,
    takes_tensors=True,
    method=False,
    function=False,
    tags=(Tag.dynamic_output_shape,),
    shape=index_shape,
    kernel=read_index,
    vjp={"self": index_backward},
    jvp=linear_in("self"),
    samples=index_samples,
    errors=index_errors,
)
unsafe_index = op(
    "_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    batch=late("indexing.subscripts:read_samples"),
    kind=GATHER,
    takes_tensors=True,
    method=False,
    shape=index_shape,
    kernel=read_positions,
    vjp={
        "self": lambda grad, self_shape, indices: aten._unsafe_index_put(
            grad.new_zeros(self_shape), list(indices), grad, True
        )
    },
    jvp=linear_in("self"),
    samples=lambda make: list(index_samples(make))[:4],
)


# -- along one dimension ----------------------------------------------------------------------


UNSIGNED = {np.dtype(np.int64): np.uint64, np.dtype(np.int32): np.uint32}


def check_bounds(index: Any, size: int, error: type[Exception], text: str) -> None:
    """Refuse positions outside [0, size); the text shows `{index}` and `{size}`."""
    if not index.size:
        return
    unsigned = UNSIGNED.get(index.dtype)
    # Read without a sign, a negative number is large.
    greatest = index.max() if unsigned is None else index.view(unsigned).max()
    if greatest >= size or (unsigned is None and index.min() < 0):
        flat = index.reshape(-1)
        bad = flat[(flat < 0) | (flat >= size)][0]
        raise error(text.format(index=int(bad), size=size))


index_select = op(
    "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    out_apart=slice(None),
    out_seen_first=True,
    sparse=late("sparse.shape:index_selected"),
    kind=GATHER.checked,
    picks="row",
    jvp=linear_in("self"),
)


@index_select.batch
def _(level: Any, op: Any, self: Any, dim: int, index: Any) -> Any:
    if op.out_positions or (self.dim() and index.dim() != 1):
        return level.loop(op, (self, dim, index))
    if self.dim() == 0:
        # One number is a row of one.
        rows = self.unsqueeze(0).index_select(0, index.reshape((-1,)))
        return rows.reshape(())
    moved = level.shift(dim, self.dim())
    if not level.holds(index):
        return level.wrap(level.below(op, (level.front(self), moved, index)))
    axis, rows = moved - 1, level.front(index)

    def select() -> Any:
        if not level.holds(self):
            flat = self.index_select(axis, rows.reshape(-1))
            return flat.unflatten(axis, (level.size, rows.shape[1])).movedim(axis, 0)
        value = level.front(self)
        shape = [1] * value.dim()
        shape[0], shape[axis + 1] = rows.shape
        sizes = list(value.shape)
        sizes[axis + 1] = rows.shape[1]
        return value.gather(axis + 1, rows.reshape(shape).expand(sizes))

    return level.wrap(level.run(select))


@index_select.requires
def _(self: Any, dim: int, index: Any) -> None:
    geometry.wrap_dim(dim, self.dim())
    if index.dim() > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index._dtype not in INDEX_DTYPES:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    count = index.numel()
    if not self.dim() and count != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {count} value(s)"
        )


def rows_picked(self: Any, dim: int, index: Any) -> Any:
    sizes = tuple(self.shape)
    dim = geometry.wrap_dim(dim, len(sizes))
    (count,) = index.shape
    before, behind = sizes[:dim], sizes[dim + 1 :]
    return (*before, count, *behind), (prod(before), sizes[dim], count, prod(behind))


pick_rows = PickRule(index_select, True, rows_picked)


@index_select.kernel
def _(xp: Any, self: Any, dim: int, index: Any) -> Any:
    found = pick_rows(self, dim, index)
    return select_rows(self, dim, index) if found is None else found


def select_rows(array: Any, dim: int, index: Any) -> Any:
    """The parts of an array at positions of one axis, as a fresh contiguous array."""
    scalar = array.ndim == 0
    if scalar:
        array = array.reshape(1)
    index = index.reshape(-1)
    size = array.shape[dim]
    if size == 0 and index.size:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    check_bounds(index, size, IndexError, "index out of range in self")
    if not array.flags.c_contiguous:
        array = array[(slice(None),) * (dim % array.ndim) + (index,)]
    else:
        array = array.take(index, axis=dim)
    return array.reshape(()) if scalar else np.ascontiguousarray(array)


@index_select.vjp
def _(grad: Any, self_shape: Any, dim: int, index: Any) -> Any:
    return aten.index_select_backward(grad, self_shape, dim, index)


index_select.options["differentiable"] = ["self"]


@composite(
    "index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor",
    method=False,
)
def index_select_backward(grad: Any, self_sizes: Any, dim: int, index: Any) -> Any:
    return grad.new_zeros(self_sizes).index_add(dim, index, grad)


@index_select.samples
def _(make: Any) -> Any:
    yield make(3, 4), 0, make.index(5, below=3)
    yield make.strided(3, 4), -1, make.index(2, below=4)
    yield make(2, 3, 2), 1, make.index(0, below=3)
    yield make(), 0, make.index(1, below=1)
    yield make(3), 0, make.ints(2, high=3, dtype=dtypes.int32)


@index_select.errors
def _(make: Any) -> Any:
    yield IndexError, sample(make(3), 0, make.ints(2, low=3, high=6))
    yield RuntimeError, sample(make(3), 0, make(2, dtype=dtypes.float32))
    yield IndexError, sample(make(3), 0, make.index(2, 2, below=3))
    yield IndexError, sample(make(3), 1, make.index(2, below=3))


def check_positions(array: Any, dim: int, index: Any) -> None:
    """gather's and scatter's words for a position that the dimension does not have."""
    size = array.shape[dim] if array.ndim else 1
    text = f"index {{index}} is out of bounds for dimension {dim} with size {{size}}"
    check_bounds(index, size, RuntimeError, text)


def grid(shape: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """`index` along `dim` joined by every other coordinate, for NumPy's advanced indexing."""
    parts: list[Any] = []
    for axis, size in enumerate(shape):
        if axis == dim:
            parts.append(index)
        else:
            parts.append(np.arange(size).reshape((-1,) + (1,) * (len(shape) - axis - 1)))
    return tuple(parts)


def flat_positions(array: Any, dim: int, index: Any) -> Any:
    """`grid` as positions in a contiguous array's flat view, where NumPy is faster."""
    steps = element_strides(array)
    found = index.astype(np.int64, copy=False)
    if steps[dim] != 1:
        found = found * steps[dim]
    for axis, size in enumerate(index.shape):
        if axis != dim and size > 1:
            rest = (1,) * (index.ndim - axis - 1)
            found = found + (np.arange(size) * steps[axis]).reshape(-1, *rest)
    return found


def check_gather_index(name: str, self: Any, dim: int, index: Any) -> int:
    sizes, wanted = tuple(self.shape), tuple(index.shape)
    dim = geometry.wrap_dim(dim, len(sizes))
    if geometry.is_size(index.numel(), 0):
        return int(dim)
    if index._dtype not in INDEX_DTYPES:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if max(len(sizes), 1) != max(len(wanted), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for axis, size in enumerate(wanted):
        if axis != dim and geometry.decided(size > sizes[axis]):
            raise RuntimeError(
                f"Size does not match at dimension {axis} expected index {geometry.show(wanted)} "
                f"to be no larger than self {geometry.show(sizes)} apart from dimension {dim}"
            )
    return int(dim)


gather = op(
    "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    out_apart=slice(1),
    out_in_order=True,
    kind=GATHER.checked,
    picks="element",
    requires=lambda self, dim, index: check_gather_index("gather", self, dim, index),
    jvp=linear_in("self"),
    batch="gathered",
)


def elements_picked(self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    sizes, wanted = list(self.shape), list(index.shape)
    dim = geometry.wrap_dim(dim, len(sizes))
    length, count = sizes.pop(dim), wanted.pop(dim)
    if not geometry.same_sizes(sizes, wanted):
        raise ValueError("an index of a part")
    return tuple(index.shape), (prod(sizes[:dim]), length, count, prod(sizes[dim:]))


pick_elements = PickRule(gather, False, elements_picked)


@gather.kernel
def _(xp: Any, self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    found = pick_elements(self, dim, index, sparse_grad)
    if found is not None:
        return found
    if index.size == 0:
        return xp.empty(index.shape, self.dtype)
    if self.ndim == 0 or index.ndim == 0:
        self, index, shape = self.reshape(-1), index.reshape(-1), index.shape
        check_positions(self, 0, index)
        return self[index].reshape(shape)
    dim %= self.ndim
    check_positions(self, dim, index)
    if self.flags.c_contiguous:
        return self.reshape(-1).take(flat_positions(self, dim, index))
    return self[grid(index.shape, dim, index)]


@gather.vjp
def _(grad: Any, self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    return aten.gather_backward(grad, self, dim, index, sparse_grad)


gather.options["differentiable"] = ["self"]


@composite(
    "gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor",
    method=False,
)
def gather_backward(grad: Any, self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    if sparse_grad:
        return aten._gather_sparse_backward(self, dim, index, grad)
    return grad.new_zeros(self.shape).scatter_add(dim, index, grad)


@gather.samples
def _(make: Any) -> Any:
    yield make(3, 4), 0, make.index(2, 4, below=3)
    yield make.strided(3, 4), 1, make.index(3, 2, below=4)
    yield make(3, 4), -1, make.index(2, 6, below=4)
    yield make(), 0, make.index(below=1)
    yield make(2, 3, 2), 1, make.index(1, 2, 2, below=3)
    yield make(3), 0, make.index(0, below=3)


@gather.errors
def _(make: Any) -> Any:
    yield RuntimeError, sample(make(3), 0, make.ints(2, low=3, high=6))
    yield RuntimeError, sample(make(3, 4), 0, make.index(2, below=3))
    yield RuntimeError, sample(make(3, 4), 0, make.index(2, 5, below=3))
    yield RuntimeError, sample(make(3), 0, make(2, dtype=dtypes.float32))


@composite("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", exact_out=True)
def take_along_dim(self: Any, indices: Any, dim: Any = None) -> Any:
    if indices._dtype is not dtypes.int64:
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{indices._dtype.scalar_type_name}"
        )
    if dim is None:
        return self.reshape((-1,)).gather(0, indices.reshape((-1,)))
    ndim = self.dim()
    if ndim != indices.dim():
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {ndim} dimensions for input, and {indices.dim()} dimensions for indices"
        )
    dim = geometry.wrap_dim(dim, ndim)
    sizes, wanted = list(self.shape), list(indices.shape)
    sizes[dim], own = wanted[dim], sizes[dim]
    common = list(geometry.broadcast_shapes(tuple(sizes), tuple(wanted)))
    indices = indices.expand(common)
    common[dim] = own
    # torch: where a dim is named, places outside it are taken from the other end.
    return self.expand(common).gather(dim, indices.remainder(own))


# -- from the flattened tensor ----------------------------------------------------------------

take = op(
    "take(Tensor self, Tensor index) -> Tensor",
    batch=late("indexing.batched:take"),
    out_apart=slice(None),
    out_seen_first=True,
    kind=GATHER.checked,
    picks="element",
    requires=lambda index: check_long_index("take", index),
    jvp=linear_in("self"),
)


def check_long_index(name: str, index: Any) -> None:
    if index._dtype is not dtypes.int64:
        raise RuntimeError(
            f"{name}(): Expected a long tensor for index, but got {index._dtype.scalar_type_name}"
        )


@take.kernel
def _(xp: Any, self: Any, index: Any) -> Any:
    if self.size == 0 and index.size:
        raise IndexError("take(): tried to take from an empty tensor")
    refuse_flat_positions(self, index)
    return self.reshape(-1).take(index)


def refuse_flat_positions(array: Any, index: Any) -> None:
    size = array.size
    if index.size and (int(index.min()) < -size or int(index.max()) >= size):
        flat = index.reshape(-1)
        bad = int(flat[(flat < -size) | (flat >= size)][0])
        raise IndexError(
            f"out of range: tried to access index {bad} on a tensor of {size} elements."
        )


take.options["differentiable"] = ["self"]


@take.vjp
def _(grad: Any, self_shape: Any, index: Any) -> Any:
    return grad.new_zeros(self_shape).put(index, grad, True)


@take.samples
def _(make: Any) -> Any:
    yield make(3, 4), make.index(2, 3, below=12)
    yield make.strided(3, 4), make.index(5, below=24, low=-12) % 12
    yield make(), make.index(2, below=1)
    yield make(3), make.index(0, below=3)


@take.errors
def _(make: Any) -> Any:
    yield IndexError, sample(make(3), make.ints(2, low=3, high=6))
    yield RuntimeError, sample(make(3), make(2, dtype=dtypes.float32))


# -- by mask ----------------------------------------------------------------------------------

masked_select = op(
    "masked_select(Tensor self, Tensor mask) -> Tensor",
    out_apart=slice(None),
    out_seen_first=True,
    kind=GATHER,
    jvp=linear_in("self"),
    tags=(Tag.dynamic_output_shape,),
)


@masked_select.batch
def _(level: Any, op: Any, self: Any, mask: Any) -> Any:
    if level.holds(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot "
            "support this because for each batch this would return a differently shaped Tensor. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this "
            "feature."
        )
    return level.loop(op, (self, mask))


@masked_select.shape
def _(self: Any, mask: Any) -> Any:
    check_select_mask(mask._dtype)
    if self._array is None or mask._array is None:
        most = geometry.numel(geometry.broadcast_shapes(tuple(self.shape), tuple(mask.shape)))
        count = unknown_size(masked_select, "the number of elements", most)
        return Spec((count,), self._dtype)
    selected = np.broadcast_arrays(self._array, mask._array)[1]
    return Spec((int(np.count_nonzero(selected)),), self._dtype)


def check_select_mask(dtype: Any) -> None:
    if dtype is not dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")


@masked_select.kernel
def _(xp: Any, self: Any, mask: Any) -> Any:
    check_select_mask(dtypes.from_numpy(mask.dtype))
    shape = geometry.broadcast_shapes(mask.shape, self.shape)
    return xp.broadcast_to(self, shape)[xp.broadcast_to(mask, shape)]


masked_select.options["differentiable"] = ["self"]


@masked_select.vjp
def _(grad: Any, self: Any, mask: Any) -> Any:
    return aten.masked_select_backward(grad, self, mask)


@composite("masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor", method=False)
def masked_select_backward(grad: Any, input: Any, mask: Any) -> Any:
    shape = geometry.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return grad.new_zeros(shape).masked_scatter(mask, grad)


@masked_select.samples
def _(make: Any) -> Any:
    yield make(3, 4), make.mask(3, 4)
    yield make.strided(3, 4), make.mask(4)
    yield make(4), make.mask(3, 1)
    yield make(), make.mask(2)
    yield make(0, 3), make.mask(3)


@masked_select.errors
def _(make: Any) -> Any:
    yield RuntimeError, sample(make(3), make.index(3, below=2))
    yield RuntimeError, sample(make(3), make.mask(4))


nonzero_rows = op(
    "nonzero(Tensor self) -> Tensor",
    out_seen_first=True,
    kind=GATHER,
    layout="value",
    function=None,
    tags=(Tag.dynamic_output_shape,),
)


@nonzero_rows.shape
def _(self: Any) -> Any:
    if self._array is None:
        count = unknown_size(nonzero_rows, "the number of results", self.numel())
    else:
        count = int(np.count_nonzero(self._array))
    ndim = self.dim()
    return Spec((count, ndim), dtypes.int64, (1, count))


@nonzero_rows.kernel
def _(xp: Any, self: Any) -> Any:
    return positions(self)


def positions(array: Any) -> Any:
    """Coordinates of the true elements, one column for each axis (columns lie together)."""
    if array.ndim == 0:
        return np.empty((int(bool(array)), 0), np.int64)
    return np.array(array.nonzero(), np.int64).T


def nonzero_backend(self: Any) -> Any:
    if is_lazy(self):
        return GATHER.unusual(nonzero_rows, (self,))
    columns = positions(self._array).T
    count = columns.shape[1]
    base = wrap(columns, dtypes.int64)
    if not columns.size:
        return lay_out(columns.T, (1, count), dtypes.int64)
    return wrap_strided(columns.T, dtypes.int64, storage_of(base))


nonzero_rows.__dict__["backend"] = nonzero_backend


@composite(
    "nonzero_numpy(Tensor self) -> Tensor[]",
    method=False,
    function=False,
    tags=(Tag.dynamic_output_shape,),
)
def nonzero_numpy(self: Any) -> Any:
    if self.dim() == 0:
        return aten.nonzero_numpy(self.unsqueeze(0))
    return list(call(nonzero_rows, (self,)).unbind(1))


@composite("argwhere(Tensor self) -> Tensor", tags=(Tag.dynamic_output_shape,))
def argwhere(self: Any) -> Any:
    return call(nonzero_rows, (self,))


def nonzero_of(input: Any, *, out: Any = None, as_tuple: bool = False) -> Any:
    """Coordinates of the nonzero elements, as rows of one tensor or as one tensor per dimension."""
    if not isinstance(input, Tensor):
        class_name = type(input).__name__
        raise TypeError(
            f"nonzero(): argument 'input' (position 1) must be Tensor, not {class_name}"
        )
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        return tuple(aten.nonzero_numpy(input))
    if out is not None:
        return find("nonzero", "out")(input, out=out)
    return call(nonzero_rows, (input,))


nonzero, nonzero_method = overridable(nonzero_of), overridable(nonzero_of)
for function in (nonzero, nonzero_method):
    function.__name__ = function.__qualname__ = "nonzero"
attribute("nonzero", nonzero_method)

nonzero_static = op(
    "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
    kind=GATHER.checked,
    batch=late("indexing.batched:nonzero_static"),
)


@nonzero_static.shape
def _(self: Any, size: Any, fill_value: int) -> Any:
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    return Spec((size, self.dim()), dtypes.int64)


@nonzero_static.kernel
def _(xp: Any, self: Any, size: int, fill_value: int) -> Any:
    result = xp.full((size, self.ndim), fill_value, xp.int64)
    found = positions(self)[:size]
    result[: len(found)] = found
    return result


def lone_samples(make: Any) -> Any:
    yield (make.mask(3, 4),)
    yield (make.ints(6, high=2),)
    yield (make.strided(2, 3),)
    yield (make.mask(),)
    yield (make(0, 3),)


for coordinates in (nonzero_rows, nonzero_numpy, argwhere):
    coordinates.samples = lone_samples


@nonzero_static.samples
def _(make: Any) -> Any:
    yield sample(make.mask(3, 4), size=5)
    yield sample(make.ints(6, high=2), size=9, fill_value=-2)


@take_along_dim.samples
def _(make: Any) -> Any:
    yield make(3, 4), make.index(5, below=12)
    yield make(3, 4), make.index(1, 2, below=4), 1
    yield make.strided(3, 4), make.index(2, 1, below=3), 0


@index_select_backward.samples
def _(make: Any) -> Any:
    yield make(2, 4), (3, 4), 0, make.index(2, below=3)


@gather_backward.samples
def _(make: Any) -> Any:
    yield make(2, 4), make(3, 4), 0, make.index(2, 4, below=3), False


@masked_select_backward.samples
def _(make: Any) -> Any:
    mask = make.mask(3, 4)
    yield make(int(mask.sum().item())), make(3, 4), mask
