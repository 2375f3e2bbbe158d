"""Writing by index: index_put, index_add, index_copy, index_fill, masked_fill, masked_scatter, put.

Each op's shape rule checks its arguments and its kernel writes into its first array, so that one
text serves the functional form (on a copy) and the in-place form (on the tensor itself).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.casting import held_number, narrow_pair, widen_pair
from rushlight.arrays.numpy_ import is_narrow
from rushlight.base.errors import error
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.determinism import refuse_nondeterministic
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.opset.derived import (
    inplace_record,
)
from rushlight.opset.indexing.index import (
    INDEX_DTYPES,
    check_bounds,
    check_index_dtypes,
    check_long_index,
    check_positions,
    expanded_indices,
    index_entries,
    indexed_sizes,
    refuse_flat_positions,
    refuse_out_of_range,
)
from rushlight.opset.kinds import SCATTER, Spec
from rushlight.opset.large import LARGE, native_loop
from rushlight.opset.pointwise.arithmetic import scaled
from rushlight.opset.registry import composite, find, op, register
from rushlight.opset.rules import aten, late, linear_in, sample

ndarray = np.ndarray


def writing(schema: str, **options: Any) -> OpOverload:
    """Register a functional op and its in-place form; both run the same kernel."""
    record = op(schema, kind=SCATTER, writes=True, **options)
    inplace = inplace_record(record)
    for name in ("method", "function"):
        if name in options:
            inplace.options[name] = options[name]
    register(inplace)
    return record


def refuse_gradient(name: str) -> Any:
    def formula(grad: Any) -> Any:
        raise error("RL0611", name=name)

    return formula


# -- accumulation -----------------------------------------------------------------------------


# How many elements one step of an accumulation by rows names.
STEP = 1 << 20
# From this width on it pays to find out whether all rows differ.
WIDE = 8


def accumulate(ufunc: Any, target: Any, places: tuple[Any, ...], values: Any) -> None:
    """`target[places] = ufunc(target[places], values)` for every occurrence of a place.

    Elements are named by their position in a flat array: there NumPy's `at` takes one or two
    nanoseconds for each, ten times less than by row or by several index arrays.
    """
    shape = np.broadcast_shapes(*[np.shape(place) for place in places])
    if 0 in shape or target.size == 0:
        return
    if 0 in target.strides and geometry.is_overlapping(target.shape, target.strides):
        # Repeated elements are one place: their own array is accumulated into, through its repeats.
        once = target[tuple([slice(None if step else 1) for step in target.strides])]
        wide = once.astype(np.float32) if is_narrow(once.dtype) else once.copy()
        steps = [own if step else 0 for own, step in zip(wide.strides, target.strides, strict=True)]
        repeated = np.lib.stride_tricks.as_strided(wide, target.shape, steps)
        ufunc.at(repeated, places, values.astype(wide.dtype))
        once[...] = wide.astype(once.dtype)
        return
    if target.dtype.names is not None:
        # Pairs of halves, which NumPy does not compute with.
        wide = widen_pair(target)
        accumulate(ufunc, wide, places, widen_pair(values))
        target[...] = narrow_pair(wide)
        return
    if is_narrow(target.dtype):
        wide = target.astype(np.float32)
        accumulate(ufunc, wide, places, values.astype(np.float32))
        target[...] = wide.astype(target.dtype)
        return
    leading = target.shape[: len(places)]
    rows = places[0] if len(places) == 1 else np.ravel_multi_index(
        tuple([np.broadcast_to(place, shape) for place in places]), leading
    )  # fmt: skip
    rows = rows.reshape(-1)
    whole = target if target.flags.c_contiguous else np.ascontiguousarray(target)
    rest = target.shape[len(places) :]
    width = int(np.prod(rest, dtype=np.int64))
    values = np.broadcast_to(values, shape + rest).reshape(-1, width)
    if ufunc is np.add and values.size >= LARGE and add_rows(whole, rows, values, width):
        rows = rows[:0]
    elif width >= WIDE and np.bincount(rows).max() <= 1:
        table = whole.reshape(-1, width)
        table[rows] = ufunc(table[rows], values)
        rows = rows[:0]
    flat, columns = whole.reshape(-1), np.arange(width)
    step = max(1, STEP // width)
    for start in range(0, rows.size, step):
        some = rows[start : start + step]
        if width != 1:
            some = (some[:, None] * width + columns).reshape(-1)
        ufunc.at(flat, some, values[start : start + step].reshape(-1))
    if whole is not target:
        target[...] = whole


def add_rows(whole: Any, rows: Any, values: Any, width: int) -> bool:
    """The same by native code; False where there is none."""
    add = native_loop("add_rows", whole.dtype)
    if add is None or values.dtype != whole.dtype or not whole.flags.writeable:
        return False
    if np.may_share_memory(whole, values) or np.may_share_memory(whole, rows):
        return False
    index = np.ascontiguousarray(rows, np.int64)
    add(whole, index, np.ascontiguousarray(values), index.size, width)
    return True


# -- index_put --------------------------------------------------------------------------------

PUT = "(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"


def check_put(self: Any, indices: Any, values: Any, accumulate: bool) -> None:
    if not indices:
        raise RuntimeError("index_put_(): at least one index must be provided")
    masked = any(i is not None and i._dtype in (dtypes.bool_, dtypes.uint8) for i in indices)
    if masked and any(i is not None and i._array is None for i in indices):
        # How many elements a mask selects cannot be known: nothing more to check.
        check_index_dtypes(indices)
        return
    entries = index_entries(self, indices)
    wanted = indexed_sizes(tuple(self.shape), [e if e is None else e[0] for e in entries])
    given = tuple(values.shape)
    try:
        fits = not given or geometry.broadcast_shapes(wanted, given) == wanted
    except RuntimeError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {geometry.show(given)} cannot be broadcast to "
            f"indexing result of shape {geometry.show(wanted)}"
        )
    # torch: one number assigned where a mask is true is a masked_fill, which converts it.
    fills = masked and values.numel() == 1 and not accumulate
    if values._dtype is not self._dtype and not (
        fills and sum(i is not None for i in indices) == 1
    ):
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{self._dtype.scalar_type_name} for the destination and "
            f"{values._dtype.scalar_type_name} for the source."
        )


def put_at(xp: Any, self: Any, indices: Any, values: Any, accumulate_: bool) -> None:
    if not accumulate_ and len(indices) == 1 and indices[0] is not None:
        mask = indices[0]
        if mask.dtype == np.bool_ and mask.shape == self.shape and values.ndim == 0:
            np.copyto(self, values, where=mask)
            return
    expanded = expanded_indices(self.shape, indices)
    if self.size == 0:
        return
    if accumulate_:
        add_at(self, expanded, values)
        return
    place = tuple([slice(None) if index is None else index for index in expanded])
    try:
        self[place] = values
        return
    except IndexError:
        pass
    refuse_out_of_range(self.shape, expanded)
    self[place] = values


def add_at(array: Any, expanded: list[Any], values: Any) -> None:
    """Add values at index arrays, indexed axes first."""
    refuse_out_of_range(array.shape, expanded)
    axes = [axis for axis, index in enumerate(expanded) if index is not None]
    rest = [axis for axis in range(array.ndim) if axis not in axes]
    given = [np.where(expanded[a] < 0, expanded[a] + array.shape[a], expanded[a]) for a in axes]
    common = np.broadcast_shapes(*[index.shape for index in given])
    adjacent = axes[-1] - axes[0] == len(axes) - 1
    before = axes[0] if adjacent else 0
    shape = [array.shape[a] for a in rest]
    values = np.broadcast_to(values, (*shape[:before], *common, *shape[before:]))
    if before:
        values = np.moveaxis(values, range(before), range(len(common), len(common) + before))
    accumulate(np.add, array.transpose(axes + rest), tuple(given), values)


def put_samples(make: Any) -> Any:
    for flag in (False, True):
        yield make(3, 4), [make.index(1, below=3)], make(4), flag
        yield make.strided(3, 4), [None, make.ints(1, low=2, high=3)], make(3, 1), flag
        yield make(3, 4), [make.ints(1, low=1, high=2), make.index(1, below=4)], make(1), flag
        yield make(3, 4), [make.mask(3, 4)], make(), flag
    yield make(3, 4), [make.index(5, below=3)], make(5, 4), True
    yield make(2, 3, 4), [make.index(3, below=2), None, make.index(3, below=4)], make(3, 3), True
    yield make(3, 4), [make.index(0, below=3)], make(), False


def put_errors(make: Any) -> Any:
    yield IndexError, sample(make(3, 4), [make.ints(2, low=5, high=9)], make())
    yield RuntimeError, sample(make(3, 4), [make.index(2, below=3)], make(3))
    yield RuntimeError, sample(make(3, 4), [make.index(2, below=3)], make(dtype=dtypes.int64))


def put_formulas(put: str, read: str) -> dict[str, Any]:
    return {
        "self": lambda grad, indices, accumulate: (
            grad
            if accumulate
            else getattr(aten, put)(grad, list(indices), grad.new_zeros(()), False)
        ),
        "values": lambda grad, indices: getattr(aten, read)(grad, list(indices)),
    }


index_put = writing(
    "index_put" + PUT,
    batch=late("indexing.subscripts:write_samples"),
    may_overlap=True,
    layout="like",
    requires=check_put,
    kernel=put_at,
    vjp=put_formulas("index_put", "index"),
    jvp=linear_in("self", "values"),
    samples=put_samples,
    errors=put_errors,
)
index_put_ = find("index_put_")
unsafe_index_put = op(
    "_unsafe_index_put" + PUT,
    batch=late("indexing.subscripts:write_samples"),
    kind=SCATTER,
    writes=True,
    layout="like",
    method=False,
    requires=check_put,
    kernel=put_at,
    vjp=put_formulas("_unsafe_index_put", "_unsafe_index"),
    jvp=linear_in("self", "values"),
    samples=lambda make: [entry for entry in put_samples(make) if len(entry[2].shape)],
)


@composite(
    "_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False, "
    "bool unsafe=False) -> Tensor(a!)",
    method=False,
    samples=lambda make: [
        (make(3, 4), [make.index(1, below=3)], make(4), False),
        (make(3, 4), [None, make.index(5, below=4)], make(3, 5), True),
    ],
)
def index_put_impl_(
    self: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    return self.index_put_(indices, values, accumulate)


# -- along one dimension ----------------------------------------------------------------------


def check_vector_index(name: str, self: Any, dim: int, index: Any, source: Any) -> None:
    """index_add's and index_reduce's checks."""
    sizes, given = tuple(self.shape), tuple(source.shape)
    dim = geometry.wrap_dim(dim, len(sizes))
    if index.dim() > 1:
        raise IndexError(
            f"{name}_(): Index is supposed to be a vector, but got dim: {index.dim()} with type: "
            f"{index._dtype.scalar_type_name} and size: {geometry.show(index.shape)}"
        )
    if index._dtype not in INDEX_DTYPES:
        raise RuntimeError(
            f"{name}_(): Expected dtype int32/int64 for index but got: "
            f"{index._dtype.scalar_type_name}"
        )
    if source._dtype is not self._dtype:
        raise RuntimeError(
            f"{name}_(): self ({self._dtype.scalar_type_name}) and source "
            f"({source._dtype.scalar_type_name}) must have the same scalar type"
        )
    along = geometry.wrap_dim(dim, len(given))
    count = given[along] if given else 1
    if index.numel() != count:
        raise RuntimeError(
            f"{name}_(): Number of indices ({index.numel()}) should be equal to source.size(dim): "
            f"({count}), for dim: {dim}"
        )
    fits = geometry.fitting(geometry.without(sizes, dim), geometry.without(given, along))
    if not fits or bool(sizes) != bool(given):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {geometry.show(sizes)} source.shape = {geometry.show(given)}"
        )


def rows_of(array: Any, dim: int) -> Any:
    """A view with `dim` first; a number counts as one row."""
    return array.reshape(1) if array.ndim == 0 else np.moveaxis(array, dim, 0)


def source_rows(grad: Any, dim: int, index: Any, source_meta: Any) -> Any:
    """The gradient of what was written at `index`."""
    if source_meta.dim() > 0:
        return grad.index_select(dim, index).expand(source_meta.shape)
    return grad.index_select(dim, index.squeeze(0) if index.dim() else index)


index_add = writing(
    "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    out_apart=slice(2, None),
    jvp=linear_in("self", "source"),
    vjp={
        "self": lambda grad: grad,
        "source": lambda grad, dim, index, source_meta, alpha: scaled(
            source_rows(grad, dim, index, source_meta), alpha
        ),
    },
)


@index_add.requires
def _(self: Any, dim: int, index: Any, source: Any) -> None:
    check_vector_index("index_add", self, dim, index, source)


def has_no_rows(array: Any) -> bool:
    """torch: nothing is written to a tensor without elements, and no position is looked at."""
    return array.ndim > 1 and not array.size


def has_empty_rows(array: Any, dim: int) -> bool:
    """Whether nothing is written to a row, so that torch looks at no position."""
    return 0 in array.shape[:dim] or (dim != -1 and 0 in array.shape[dim + 1 :])


@index_add.kernel
def _(xp: Any, self: Any, dim: int, index: Any, source: Any, alpha: Any) -> None:
    index = index.reshape(-1)
    if has_no_rows(self):
        return
    if self.ndim <= 1:
        check_bounds(index, self.size, IndexError, "index out of range in self")
    else:
        check_positions(self, dim % self.ndim, index)
    if alpha != 1:
        dtype = dtypes.from_numpy(self.dtype)
        source = (source * xp.array(held_number(alpha, dtype), self.dtype)).astype(self.dtype)
    if source.size >= LARGE and not dim and self.flags.c_contiguous and self.ndim:
        width = self.size // self.shape[0]
        if source.shape[1:] == self.shape[1:] and add_rows(self, index, source, width):
            return
    accumulate(xp.add, rows_of(self, dim), (index,), rows_of(source, dim))


@index_add.samples
def _(make: Any) -> Any:
    yield make(3, 4), 0, make.index(5, below=3), make(5, 4)
    yield sample(make.strided(3, 4), -1, make.index(2, below=4), make(3, 2), alpha=2)
    yield make(), 0, make.index(1, below=1), make()
    yield make(2, 3, 2), 1, make.index(0, below=3), make(2, 0, 2)


@index_add.errors
def _(make: Any) -> Any:
    yield IndexError, sample(make(3), 0, make.ints(2, low=3, high=5), make(2))
    yield RuntimeError, sample(make(3, 2), 0, make.ints(2, low=3, high=5), make(2, 2))
    yield RuntimeError, sample(make(3), 0, make.index(2, below=3), make(3))
    yield RuntimeError, sample(make(3), 0, make.index(2, below=3), make(2, dtype=dtypes.int64))
    yield IndexError, sample(make(3), 0, make.index(2, 2, below=3), make(2))


index_copy = writing(
    "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    out_apart=slice(2, None),
    autocast="widest",
    jvp=linear_in("self", "source"),
    vjp={
        "self": lambda grad, dim, index: grad.index_fill(dim, index, 0),
        "source": source_rows,
    },
)


write_rows = late("indexing.batched:write_rows")
index_add.batch = index_copy.batch = write_rows


@index_copy.requires
def _(self: Any, dim: int, index: Any, source: Any) -> None:
    sizes, given = tuple(self.shape), tuple(source.shape)
    dim = geometry.wrap_dim(dim, len(sizes))
    count = index.numel()
    if index.dim() >= 2:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.dim()})")
    if not given and count != 1:
        raise IndexError(
            f"index_copy_(): When source is scalar, index should have one element (got {count})"
        )
    if len(given) != len(sizes) and given and sizes:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({len(given)}), destination dimensionality "
            f"({len(sizes)})"
        )
    if index._dtype is not dtypes.int64:
        raise RuntimeError(
            "index_copy_(): Expected a long tensor for index, but got "
            f"{index._dtype.scalar_type_name}"
        )
    if source._dtype is not self._dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{self._dtype.scalar_type_name} and (source) {source._dtype.scalar_type_name}"
        )
    own, other = geometry.without(sizes, dim), geometry.without(given, dim)
    if own != other:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
            f"slice shape: {' '.join(map(str, own))} at dimension {dim} and source slice shape: "
            f"{' '.join(map(str, other))} at dimension 0."
        )
    if given and count != given[dim]:
        raise IndexError(
            f"index_copy_(): Number of indices ({count}) should be equal to source.size(dim) "
            f"({given[dim]})"
        )


@index_copy.kernel
def _(xp: Any, self: Any, dim: int, index: Any, source: Any) -> None:
    if has_empty_rows(self, dim):
        return
    dim %= max(self.ndim, 1)
    size = self.shape[dim] if self.ndim else 1
    text = f"index_copy_(): index {{index}} is out of bounds for dimension {dim} with size {{size}}"
    check_bounds(index, size, IndexError, text)
    rows_of(self, dim)[index.reshape(-1)] = rows_of(source, dim)


@index_copy.samples
def _(make: Any) -> Any:
    yield make(3, 4), 0, make.index(1, below=3), make(1, 4)
    yield make.strided(3, 4), -1, make.ints(1, low=2, high=3), make(3, 1)
    yield make(), 0, make.index(1, below=1), make()


@index_copy.errors
def _(make: Any) -> Any:
    yield IndexError, sample(make(3), 0, make.ints(2, low=3, high=5), make(2))
    yield IndexError, sample(make(3), 0, make.index(2, below=3), make(3))
    yield RuntimeError, sample(make(3), 0, make(2, dtype=dtypes.float32), make(2))


def check_fill(self: Any, dim: int, index: Any, value: Any) -> None:
    geometry.wrap_dim(dim, self.dim())
    if index._dtype is not dtypes.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.dim() > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    if isinstance(value, Tensor):
        if value.dim():
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.dim()} dimension(s)."
            )
        is_complex = value._dtype.is_complex
    else:
        is_complex = isinstance(value, complex)
    if is_complex and not self._dtype.is_complex:
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )


def fill_rows(xp: Any, self: Any, dim: int, index: Any, value: Any) -> None:
    if has_empty_rows(self, dim):
        return
    if isinstance(value, ndarray):
        value = value.item()
    index = index.reshape(-1)
    dim %= max(self.ndim, 1)
    size = self.shape[dim] if self.ndim else 1
    wrapped = np.where(index < 0, index + size, index)
    if wrapped.size and (wrapped.min() < 0 or wrapped.max() >= size):
        bad = int(index[(wrapped < 0) | (wrapped >= size)][0])
        raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {size}")
    rows_of(self, dim)[wrapped] = held_number(value, dtypes.from_numpy(self.dtype))


def fill_samples(make: Any) -> Any:
    yield make(3, 4), 0, make.index(2, below=3), 2
    yield make.strided(3, 4), -1, make.index(2, below=4), 1
    yield make(), 0, make.index(1, below=1), 3


index_fill_tensor = writing(
    "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    may_overlap=True,
    only_index_apart=True,
    errors=lambda make: [(IndexError, (make(3, 4), 1, make(3), make()))],
    node_index=1,
    reads_values="which places its gradient is summed over",
    layout="like",
    requires=check_fill,
    kernel=fill_rows,
    jvp=linear_in("self", "value"),
    vjp={
        "self": lambda grad, dim, index: grad.index_fill(dim, index, 0),
        "value": lambda grad, dim, index: grad.index_select(
            dim, aten._unique(index, sorted=False)[0]
        ).sum(),
    },
    samples=lambda make: [(make(3, 4), 1, make.index(3, below=4), make())],
)
index_fill_scalar = writing(
    "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    may_overlap=True,
    only_index_apart=True,
    errors=lambda make: [(IndexError, (make(3, 4), 0, make(2), 2))],
    layout="like",
    requires=check_fill,
    kernel=fill_rows,
    vjp={"self": lambda grad, dim, index: grad.index_fill(dim, index, 0)},
    jvp=lambda self_t, dim, index: self_t.index_fill(dim, index, 0),
    samples=fill_samples,
)


index_fill_tensor.batch = index_fill_scalar.batch = late("indexing.batched:index_fill")


# -- by mask ----------------------------------------------------------------------------------


def mask_shape(self: Any, mask: Any, value: Any) -> Any:
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.dim()} dimension(s)."
        )
    shape = geometry.broadcast_shapes(tuple(mask.shape), tuple(self.shape))
    if mask._dtype is not dtypes.bool_:
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{mask._dtype.cpp_name}"
        )
    return Spec(shape, self._dtype)


def fill_mask(xp: Any, self: Any, mask: Any, value: Any) -> None:
    number = value.item() if isinstance(value, ndarray) else value
    number = xp.array(held_number(number, dtypes.from_numpy(self.dtype)), self.dtype)
    xp.copyto(self, number, where=xp.broadcast_to(mask, self.shape))


def mask_samples(make: Any) -> Any:
    yield make(3, 4), make.mask(3, 4), 2
    yield make.strided(3, 4), make.mask(4), 1
    yield make(4), make.mask(3, 1), 3
    yield make(), make.mask(), 1
    yield make(0, 3), make.mask(3), 1


masked_fill_tensor = writing(
    "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
    may_overlap=True,
    node_index=1,
    shape=mask_shape,
    kernel=fill_mask,
    jvp=linear_in("self", "value"),
    vjp={
        "self": lambda grad, mask: grad.masked_fill(mask, 0),
        "value": lambda grad, mask: aten.where(mask, grad, 0).sum(),
    },
    samples=lambda make: [
        (make(3, 4), make.mask(3, 4), make()),
        (make(3, 4), make.mask(4), make()),
    ],
    errors=lambda make: [(RuntimeError, sample(make(3), make.mask(3), make(1)))],
)
masked_fill_scalar = writing(
    "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
    may_overlap=True,
    shape=mask_shape,
    kernel=fill_mask,
    vjp={"self": lambda grad, mask: grad.masked_fill(mask, 0)},
    jvp=lambda self_t, mask: self_t.masked_fill(mask, 0),
    samples=mask_samples,
    errors=lambda make: [
        (RuntimeError, sample(make(3), make.mask(4), 1)),
        (RuntimeError, sample(make(3), make.index(3, below=2), 1)),
    ],
)


@masked_fill_scalar.lower
def _(build: Any, op: Any, self: Any, mask: Any, value: Any) -> Any:
    shape, dtype = build.shape, build.val.dtype
    if mask.dtype is not dtypes.bool_ or not geometry.same_sizes(self.shape, shape):
        build.refuse("no mask")
    fill = build.filled(value, dtype)
    return build.m.where(build.spread(mask, shape, mask.dtype), fill, build.plain(self))


@masked_fill_tensor.batch
@masked_fill_scalar.batch
def _(level: Any, op: Any, self: Any, mask: Any, value: Any) -> Any:
    rank = max(self.dim(), mask.dim())
    if op.mutated_positions and self.dim() < rank:
        return level.loop(op, (self, mask, value))
    if not level.holds(value):
        moved = (level.full(self, rank), level.front(mask, rank), value)
        return level.finish(op, level.below(op, moved))
    chosen = aten.where(mask, value.to(self.dtype), self)
    return self.copy_(chosen) if op.mutated_positions else chosen


masked_scatter = writing(
    "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    may_raise=True,
    batch=late("indexing.batched:masked_scatter"),
    jvp=linear_in("self", "source"),
    vjp={
        "self": lambda grad, mask: grad.masked_fill(mask, 0),
        "source": lambda grad, mask, source_shape: aten.masked_scatter_backward(
            grad, mask, source_shape
        ),
    },
    samples=lambda make: [
        (make(3, 4), make.mask(3, 4), make(12)),
        (make.strided(3, 4), make.mask(4), make(4, 4)),
        (make(4), make.mask(3, 1), make(12)),
    ],
    errors=lambda make: [
        (RuntimeError, sample(make(3), make.mask(4), make(4))),
        (RuntimeError, sample(make(3), make.index(3, below=2), make(4))),
        (RuntimeError, sample(make(3), make.mask(3), make(3, dtype=dtypes.int64))),
    ],
)


@masked_scatter.shape
def _(self: Any, mask: Any, source: Any) -> Any:
    shape = geometry.broadcast_shapes(tuple(mask.shape), tuple(self.shape))
    if self._dtype is not source._dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{self._dtype.scalar_type_name} and {source._dtype.scalar_type_name}"
        )
    if mask._dtype is not dtypes.bool_:
        raise RuntimeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{mask._dtype.scalar_type_name}"
        )
    return Spec(shape, self._dtype)


@masked_scatter.kernel
def _(xp: Any, self: Any, mask: Any, source: Any) -> None:
    mask = xp.broadcast_to(mask, self.shape)
    count = int(xp.count_nonzero(mask))
    if count > source.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    self[mask] = source.reshape(-1)[:count]


masked_scatter_backward = op(
    "masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
    method=False,
    batch=late("indexing.batched:masked_scatter_backward"),
    shape=lambda grad_output, mask, sizes: Spec(sizes, grad_output._dtype),
    jvp=linear_in("grad_output"),
    vjp={
        "grad_output": lambda grad, grad_output_shape, mask: grad.new_zeros(
            grad_output_shape
        ).masked_scatter(mask, grad)
    },
    samples=lambda make: [
        (make(3, 4), make.mask(3, 4), (12,)),
        (make(3), make.mask(3), (2, 2)),
        (make(3, 4), make.mask(4), (12,)),
    ],
)


@masked_scatter_backward.kernel
def _(xp: Any, grad_output: Any, mask: Any, sizes: Any) -> Any:
    chosen = grad_output[xp.broadcast_to(mask, grad_output.shape)]
    result = xp.zeros(sizes, grad_output.dtype)
    result.reshape(-1)[: chosen.size] = chosen
    return result


# -- into the flattened tensor ----------------------------------------------------------------

put = writing(
    "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    layout="like",
    function=True,
    batch=late("indexing.batched:put"),
    jvp=linear_in("self", "source"),
    vjp={
        "self": lambda grad, index, source_meta, accumulate: (
            grad if accumulate else grad.put(index, grad.new_zeros(source_meta.shape), False)
        ),
        "source": lambda grad, index, source_meta: grad.take(index).reshape(source_meta.shape),
    },
)


@put.requires
def _(self: Any, index: Any, source: Any) -> None:
    check_long_index("put_", index)
    if self._dtype is not source._dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{self._dtype.scalar_type_name} and source.dtype = {source._dtype.scalar_type_name}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    if geometry.is_size(self.numel(), 0) and geometry.decided(index.numel() != 0):
        raise IndexError("put_(): Tried to put elements into an empty tensor")


@put.kernel
def _(xp: Any, self: Any, index: Any, source: Any, accumulate_: bool) -> None:
    if not accumulate_:
        # The same place may be named twice.
        refuse_nondeterministic("put_")
    refuse_flat_positions(self, index)
    index, source = index.reshape(-1), source.reshape(-1)
    index = xp.where(index < 0, index + self.size, index)
    places = xp.unravel_index(index, self.shape) if self.ndim else ()
    if not places:
        target = self.reshape(1)
        accumulate(xp.add, target, (index,), source) if accumulate_ else target.put(index, source)
    elif accumulate_:
        accumulate(xp.add, self, places, source)
    else:
        self[places] = source


@put.samples
def _(make: Any) -> Any:
    yield make(3, 4), make.index(4, below=12), make(4), True
    yield make.strided(3, 4), make.index(1, below=12), make(1), False
    yield make(), make.index(1, below=1), make(1), False


@put.errors
def _(make: Any) -> Any:
    yield IndexError, sample(make(3), make.index(2, below=3), make(3))
    yield IndexError, sample(make(3), make.ints(2, low=3, high=5), make(2))
    yield RuntimeError, sample(make(3), make(2, dtype=dtypes.float32), make(2))
