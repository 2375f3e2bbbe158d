"""Sparse coordinate (COO) tensors: construction, parts, coalescing, conversion, masking.

A sparse tensor has no array; its extension record holds the layout and its parts, which are plain
dense tensors without history. Parts are never changed but replaced, so that aliases of a tensor
keep what they saw. Kernels here take tensors: `NATIVE` ops work on parts, not on one array.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from rushlight.arrays.casting import cast
from rushlight.base.errors import error
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call, overridable
from rushlight.core.op import OpOverload, Tag, refuse
from rushlight.core.ownership import COUNTS
from rushlight.core.parts import Compressed, Coo, owned, parts_of, sparse_tensor
from rushlight.core.state import LOCAL
from rushlight.core.tensor import PLAIN, Tensor, set_requires_grad, values_of, wrap
from rushlight.opset.kinds import NATIVE, no_sparse_shells
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, linear_in, sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("sparse_coo_tensor",)

OPTIONS = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
FALSE_PIN = OPTIONS.replace("pin_memory=None", "pin_memory=False")
NO_BATCH = refuse("sparse tensors of a batch need not have the same pattern")
NO_SHAPE = refuse("how many elements are specified follows from values")
LAYOUT_NAMES = {
    "strided": "Strided",
    "sparse_coo": "Sparse",
    "sparse_csr": "SparseCsr",
    "sparse_csc": "SparseCsc",
    "sparse_bsr": "SparseBsr",
    "sparse_bsc": "SparseBsc",
}


# -- making and reading ----------------------------------------------------------------------------


def make_coo(indices: Any, values: Any, sizes: Any, coalesced: bool | None = None) -> Tensor:
    """A COO tensor from arrays or plain tensors. Fewer than two elements need no coalescing,
    unless it is said that they do."""
    if not isinstance(indices, Tensor):
        indices = wrap(np.ascontiguousarray(indices, np.int64), dtypes.int64)
    if not isinstance(values, Tensor):
        values = dense_of(values)
    if coalesced is None:
        coalesced = bool(values.shape[0] < 2)
    return sparse_tensor(devices.sparse_coo, sizes, Coo(indices, values, coalesced))


def dense_of(array: Any) -> Tensor:
    array = np.ascontiguousarray(array)
    return wrap(array, dtypes.from_numpy(array.dtype))


def is_sparse(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value._unusual is not None
        and value._unusual.parts is not None
    )


def is_coo(value: Any) -> bool:
    return is_sparse(value) and value._unusual.layout is devices.sparse_coo


def index_array(tensor: Any) -> Any:
    found = tensor._unusual.parts.indices._array
    return found if found.dtype == np.int64 else found.astype(np.int64)


def value_array(tensor: Any) -> Any:
    return values_of(tensor._unusual.parts.values)


def sparse_dims(tensor: Any) -> int:
    return int(tensor._unusual.parts.indices.shape[0])


def with_values(tensor: Any, values: Tensor, coalesced: bool | None = None) -> Tensor:
    """The pattern of `tensor` with other values."""
    parts = parts_of(tensor)
    if isinstance(parts, Coo):
        flag = parts.coalesced if coalesced is None else coalesced
        made: Any = Coo(parts.indices, values, flag)
    else:
        made = Compressed(parts.compressed, parts.plain, values)
    return sparse_tensor(tensor.layout, tensor.shape, made)


def replace_parts(target: Any, source: Any) -> Any:
    """Make `target` hold what `source` holds; aliases of it keep the old parts."""
    unusual = target._unusual.copy()
    values = source._unusual.parts.values
    if values._dtype is not target._dtype:
        source = with_values(source, converted(values, target._dtype))
    unusual.parts = source._unusual.parts
    unusual.sizes, unusual.strides = source._unusual.sizes, source._unusual.strides
    target._unusual = unusual
    return target


def converted(tensor: Tensor, dtype: Any) -> Tensor:
    if tensor._dtype is dtype:
        return tensor
    return wrap(cast(values_of(tensor), tensor._dtype, dtype), dtype)


def plain_alias(tensor: Tensor) -> Tensor:
    """The same memory as a tensor without history, fit to be a part."""
    if tensor._unusual is not None and (tensor._unusual.conj or tensor._unusual.neg):
        return dense_of(values_of(tensor))
    return tensor._alias(share_counter=False)


def taken_over(grad: Any) -> Any:
    """A gradient that its leaf may keep as it is, held by the caller alone; None when its values
    are not contiguous or somebody else holds them."""
    alone = COUNTS.slot
    if type(grad) not in PLAIN or getrefcount(grad._unusual) > alone:
        return None
    if getrefcount(grad._unusual.parts) > alone or getrefcount(grad._unusual.parts.values) > alone:
        return None
    parts = grad._unusual.parts
    if not (parts.values._is_contiguous and parts.indices._is_contiguous):
        return None
    if parts.values._storage is not None and getrefcount(parts.values._storage) > alone:
        return None
    if parts.indices._storage is not None and getrefcount(parts.indices._storage) > alone:
        # Indices may be the caller's own, whose later changes must not show.
        grad._unusual.parts = Coo(owned(parts.indices), parts.values, parts.coalesced)
    return grad


def layout_name(tensor: Any) -> str:
    return str(LAYOUT_NAMES.get(tensor.layout.name, tensor.layout.name))


def expect_layout(tensor: Any, what: str, wanted: str = "sparse coordinate tensor") -> None:
    if not is_coo(tensor):
        raise RuntimeError(f"{what} expected {wanted} layout but got {layout_name(tensor)}")


NEEDS_VALUES = "sparse tensors cannot be made from or compared with tensors without values"


def native(schema: str, **options: Any) -> OpOverload:
    """An op over sparse tensors. Its results' sizes follow from values: no run on 'meta'."""
    options.setdefault("shape", NO_SHAPE)
    options.setdefault("batch", NO_BATCH)
    options.setdefault("out", False)
    options.setdefault("tags", (Tag.data_dependent_output,))
    return op(schema, kind=NATIVE, needs_values=NEEDS_VALUES, **options)


def sparse_composite(schema: str, **options: Any) -> Callable[[Callable[..., Any]], OpOverload]:
    options.setdefault("out", False)
    options.setdefault("tags", (Tag.data_dependent_output,))
    return composite(schema, **options)


# -- arithmetic on indices -------------------------------------------------------------------------


def linear_keys(indices: Any, sizes: Any) -> Any:
    """One integer for each index column, ordered as row-major positions are."""
    keys = np.zeros(indices.shape[1], np.int64)
    for row, size in zip(indices, sizes, strict=True):
        keys *= size
        keys += row
    return keys


def unravelled(keys: Any, sizes: Any) -> Any:
    """The inverse of `linear_keys`."""
    rows = np.empty((len(sizes), keys.size), np.int64)
    for axis in range(len(sizes) - 1, -1, -1):
        keys, rows[axis] = np.divmod(keys, max(sizes[axis], 1))
    return rows


def segment_sum(values: Any, starts: Any) -> Any:
    """Sums of consecutive runs of rows; halves add up in float32."""
    if values.size == 0:
        return np.zeros((starts.size, *values.shape[1:]), values.dtype)
    if values.dtype == np.bool_:
        return np.logical_or.reduceat(values, starts, axis=0)
    if values.dtype.itemsize == 2 and values.dtype.kind not in "iu":
        wide = np.add.reduceat(values.astype(np.float32), starts, axis=0)
        return wide.astype(values.dtype)
    return np.add.reduceat(values, starts, axis=0, dtype=values.dtype)


def run_starts(ordered: Any) -> Any:
    """Where runs of equal keys begin."""
    first = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.flatnonzero(first)


def coalesced_arrays(indices: Any, values: Any, sizes: Any) -> tuple[Any, Any]:
    """Indices in order without duplicates, and the sums of the values that shared one."""
    keys = linear_keys(indices, sizes[: indices.shape[0]])
    order = np.argsort(keys, kind="stable")
    starts = run_starts(keys[order])
    if starts.size == keys.size:
        return indices[:, order], values[order]
    return indices[:, order[starts]], segment_sum(values[order], starts)


def coalesced(tensor: Any) -> Tensor:
    if tensor._unusual.parts.coalesced:
        itself: Tensor = tensor
        return itself
    indices, values = coalesced_arrays(index_array(tensor), value_array(tensor), tensor.shape)
    return make_coo(indices, values, tensor.shape, True)


def scattered(tensor: Any) -> Any:
    """The dense array of a COO tensor."""
    tensor = coalesced(tensor)
    indices, values = index_array(tensor), value_array(tensor)
    sizes = tuple(tensor.shape)
    count = indices.shape[0]
    result = np.zeros(sizes, values.dtype)
    flat = result.reshape((int(np.prod(sizes[:count], dtype=np.int64)), *sizes[count:]))
    flat[linear_keys(indices, sizes[:count])] = values
    return result


def specified(array: Any, sparse_dim: int) -> tuple[Any, Any]:
    """Indices and values of the elements (or dense slices) that are not all zero."""
    mask = array != 0
    if sparse_dim < array.ndim:
        mask = mask.any(axis=tuple(range(sparse_dim, array.ndim)))
    mask = np.asarray(mask, np.bool_)
    return np.argwhere(mask).T, array[mask]


def gathered(array: Any, indices: Any) -> Any:
    """The elements of a dense array at index columns."""
    count = indices.shape[0]
    if count == 0:
        return np.broadcast_to(array, (indices.shape[1], *array.shape)).copy()
    return array[tuple(indices)]


# -- constructors ----------------------------------------------------------------------------------


def check_coo_parts(indices: Any, values: Any, size: Any) -> None:
    sparse_dim = indices.shape[0]
    dense_dim = values.dim() - 1
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    if geometry.numel(size) >= 2**63:
        raise RuntimeError("numel: integer multiplication overflow")
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    check_nnz(indices, values)
    wanted = [values.shape[0], *size[sparse_dim:]]
    if not geometry.same_sizes(list(values.shape), wanted):
        raise RuntimeError(
            f"values has incorrect size, expected {wanted}, got {list(values.shape)}"
        )
    check_coo_bounds(indices, size)


def check_nnz(indices: Any, values: Any) -> None:
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{indices.shape[1]}, nnz from values: {values.shape[0]}"
        )


def check_coo_bounds(indices: Any, size: Any) -> None:
    array = values_of(indices)
    if array.shape[1] == 0:
        return
    lowest, highest = array.min(axis=1), array.max(axis=1)
    for dim, (low, high) in enumerate(zip(lowest.tolist(), highest.tolist(), strict=True)):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
        if high >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found "
                f"index {high}"
            )


def check_coo_index(indices: Any) -> None:
    if indices.layout is not devices.strided:
        raise RuntimeError(
            f"expected indices to be a dense tensor, but got indices of layout {indices.layout}"
        )
    if indices._dtype.category != dtypes.INTEGER:
        raise RuntimeError(
            f"indices must be an int64 tensor, but got {indices._dtype.legacy_tensor_name}"
        )


with_dims = native(
    f"_sparse_coo_tensor_with_dims(int sparse_dim, int dense_dim, int[] size, *, {FALSE_PIN}) "
    "-> Tensor",
    method=False,
    function=False,
    structural=True,
    samples=lambda make: [sample(1, 1, (2, 3), dtype=make.dtype, layout=devices.sparse_coo)],
)


@with_dims.kernel
def _(sparse_dim: int, dense_dim: int, size: Any, dtype: Any, *rest: Any) -> Any:
    result_dtype = dtype or dtypes.get_default_dtype()
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), "
            f"but got {len(size)}"
        )
    return empty_coo(size, sparse_dim, result_dtype)


def empty_coo(size: Any, sparse_dim: int, dtype: Any) -> Tensor:
    """No element specified."""
    values = wrap(np.zeros((0, *size[sparse_dim:]), dtype.np), dtype)
    return make_coo(np.zeros((sparse_dim, 0), np.int64), values, size, True)


def values_grad(grad: Any, result: Any) -> Any:
    """Gradient of a COO tensor's values: the gradient at its indices."""
    if result.is_coalesced():
        return grad.sparse_mask(result).values()
    if not LOCAL.state.grad:
        return grad.sparse_mask(result)._values()
    # `_values` passes no gradient on, which a second derivative needs.
    dense = grad if grad.layout is devices.strided else grad.to_dense()
    indices = result._indices()
    if indices.shape[0] == 0:
        return dense.unsqueeze(0).expand((indices.shape[1], *dense.shape))
    return aten.index(dense, list(indices.unbind(0)))


with_dims_and_tensors = native(
    "_sparse_coo_tensor_with_dims_and_tensors(int sparse_dim, int dense_dim, SymInt[] size, "
    f"Tensor indices, Tensor values, *, {FALSE_PIN}, bool? is_coalesced=None) -> Tensor",
    method=False,
    function=False,
    structural=True,
    vjp={"values": values_grad},
    jvp=linear_in("values"),
)


@with_dims_and_tensors.kernel
def _(
    sparse_dim: int,
    dense_dim: int,
    size: Any,
    indices: Any,
    values: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: Any,
    is_coalesced: Any,
) -> Any:
    check_value_dtype(values, dtype)
    return make_coo(plain_alias(indices), plain_alias(values), size, is_coalesced)


def check_value_dtype(values: Any, dtype: Any) -> None:
    result_dtype = dtype or dtypes.get_default_dtype()
    if values._dtype is not result_dtype:
        raise RuntimeError(
            f"dtype of values ({values._dtype.scalar_type_name}) must match dtype of sparse tensor "
            f"({result_dtype.scalar_type_name})"
        )


@with_dims_and_tensors.samples
def _(make: Any) -> Any:
    yield sample(
        1,
        0,
        (4,),
        make.index(1, 3, below=4),
        make(3),
        dtype=make.dtype,
        layout=devices.sparse_coo,
    )


@sparse_composite(
    f"_sparse_coo_tensor_unsafe(Tensor indices, Tensor values, SymInt[] size, *, {OPTIONS}, "
    "bool? is_coalesced=None) -> Tensor",
    method=False,
    function=False,
    samples=lambda make: [(make.index(1, 3, below=4), make(3), (4,))],
)
def sparse_coo_unsafe(
    indices: Any,
    values: Any,
    size: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    is_coalesced: Any = None,
) -> Any:
    if dtype is not None and dtype is not values._dtype:
        values = values.to(dtype)
    sparse_dim = indices.shape[0]
    return call(
        with_dims_and_tensors,
        (
            sparse_dim,
            values.dim() - 1,
            tuple(size),
            indices,
            values,
            values._dtype,
            devices.sparse_coo,
            values.device,
            None,
            is_coalesced,
        ),
    )


@sparse_composite(
    f"sparse_coo_tensor.size(int[] size, *, {FALSE_PIN}) -> Tensor",
    method=False,
    samples=lambda make: [sample((2, 3), dtype=make.dtype)],
)
def sparse_coo_size(size: Any, dtype: Any = None, *rest: Any) -> Any:
    result_dtype = dtype or dtypes.get_default_dtype()
    return call(
        with_dims, (len(size), 0, tuple(size), result_dtype, devices.sparse_coo, None, False)
    )


@sparse_composite(
    f"sparse_coo_tensor.indices(Tensor indices, Tensor values, *, {OPTIONS}, "
    "bool? is_coalesced=None) -> Tensor",
    method=False,
    samples=lambda make: [(make.index(1, 3, below=4), make(3))],
)
def sparse_coo_indices(indices: Any, values: Any, *options: Any) -> Any:
    check_coo_index(indices)
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if values.dim() == 0:
        values = values.reshape((1,))
    check_nnz(indices, values)
    array = values_of(indices)
    if array.shape[1]:
        low = array.min(axis=1)
        if (low < 0).any():
            dim = int(np.flatnonzero(low < 0)[0])
            raise RuntimeError(f"found negative index {int(low[dim])} for dim {dim}")
        leading = [int(high) + 1 for high in array.max(axis=1)]
    else:
        leading = [0] * array.shape[0]
    size = (*leading, *values.shape[1:])
    return call(sparse_coo_unsafe, (indices, values, size, *options))


@sparse_composite(
    "sparse_coo_tensor.indices_size(Tensor indices, Tensor values, int[] size, *, "
    f"{OPTIONS}, bool? is_coalesced=None) -> Tensor",
    method=False,
    samples=lambda make: [(make.index(1, 3, below=4), make(3), (5,))],
)
def sparse_coo_indices_size(indices: Any, values: Any, size: Any, *options: Any) -> Any:
    check_coo_index(indices)
    if values.dim() == 0:
        values = values.reshape((1,))
    check_coo_parts(indices, values, size)
    is_coalesced = options[-1]
    if is_coalesced:
        keys = linear_keys(values_of(indices), tuple(size)[: indices.shape[0]])
        if not bool((keys[1:] > keys[:-1]).all()):
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )
    return call(sparse_coo_unsafe, (indices, values, tuple(size), *options))


def as_tensor(value: Any, dtype: Any = None) -> Any:
    if isinstance(value, Tensor):
        return value if dtype is None or value._dtype is dtype else value.to(dtype)
    from rushlight.core.construct import tensor

    return tensor(value) if dtype is None else tensor(value, dtype=dtype)


def checked_device(device: Any) -> None:
    """Sparse tensors exist on the CPU only."""
    place = None if device is None else devices.device(device)
    if place is not None and place.type == "meta":
        raise no_sparse_shells("a constructor")
    if place is not None and place.type != "cpu":
        from rushlight.opset.kinds import refuse_device

        refuse_device(place)


MISSING: Any = object()


def coo_public(
    indices: Any = MISSING,
    values: Any = MISSING,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:
    """A sparse tensor from the indices and values of its specified elements."""
    checked_device(device)
    if values is MISSING:
        given = size if indices is MISSING else indices
        if given is None:
            raise TypeError("sparse_coo_tensor(): indices and values, or a size, must be given")
        made = call(sparse_coo_size, (tuple(given), dtype, None, None, False))
    else:
        indices = as_tensor(indices)
        if indices._dtype is not dtypes.int64:
            indices = indices.to(dtypes.int64)
        values = as_tensor(values, None if isinstance(values, Tensor) else dtype)
        if indices.is_meta or values.is_meta:
            raise no_sparse_shells("a constructor")
        options = (dtype, None, None, None, is_coalesced)
        if size is None:
            made = call(sparse_coo_indices, (indices, values, *options))
        else:
            made = call(sparse_coo_indices_size, (indices, values, tuple(size), *options))
    return marked(made, requires_grad)


def marked(made: Any, requires_grad: bool) -> Any:
    if requires_grad:
        if made._dtype.category < dtypes.FLOAT:
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        if made._node is not None:
            made = made.detach()
        set_requires_grad(made, True)
    return made


coo_public.__name__ = coo_public.__qualname__ = "sparse_coo_tensor"
sparse_coo_tensor = overridable(coo_public)


# -- parts -----------------------------------------------------------------------------------------


def coo_samples(make: Any) -> Any:
    yield (coo_sample(make, 3, 4),)
    yield (coo_sample(make, 2, 3, sparse_dim=1),)


def coo_sample(make: Any, *shape: int, sparse_dim: int | None = None) -> Any:
    """A coalesced COO tensor with every other element specified."""
    count = len(shape) if sparse_dim is None else sparse_dim
    keys = np.arange(0, int(np.prod(shape[:count])), 2)
    values = make(keys.size, *shape[count:])
    return make_coo(unravelled(keys, shape[:count]), values, shape, True)


def doubled(make: Any) -> Any:
    """A COO tensor in which one element is given twice."""
    return make_coo(np.array([[2, 0, 2]]), make(3), (4,))


def any_samples(make: Any) -> Any:
    yield from coo_samples(make)
    yield (make(2, 3),)


def dims(tensor: Any) -> tuple[int, int]:
    """(sparse dims, dense dims)."""
    if not is_sparse(tensor):
        return 0, tensor.dim()
    if is_coo(tensor):
        count = sparse_dims(tensor)
        return count, tensor.dim() - count
    from rushlight.opset.sparse.compressed import dense_dims

    return 2, dense_dims(tensor)


def dims_op(name: str, position: int, samples: Any) -> None:
    def kernel(self: Any) -> int:
        if name.startswith("_") and not is_coo(self):
            raise error(
                "RL0507",
                NotImplementedError,
                name=name,
                given=f"of layout {self.layout}",
                who="sparse COO tensors",
                what="it",
            )
        return dims(self)[position]

    native(
        f"{name}(Tensor self) -> int",
        function=False,
        structural=True,
        kernel=kernel,
        samples=samples,
    )


dims_op("sparse_dim", 0, any_samples)
dims_op("dense_dim", 1, any_samples)
dims_op("_dimI", 0, coo_samples)
dims_op("_dimV", 1, coo_samples)

nnz = native("_nnz(Tensor self) -> int", function=False, structural=True, samples=coo_samples)


@nnz.kernel
def _(self: Any) -> int:
    if not is_sparse(self):
        raise error(
            "RL0507",
            NotImplementedError,
            name="_nnz",
            given="from the 'CPU' backend",
            who="sparse tensors",
            what="a number of specified elements",
        )
    parts = parts_of(self)
    return int(parts.indices.shape[1] if isinstance(parts, Coo) else parts.plain.shape[-1])


is_coalesced = native(
    "is_coalesced(Tensor self) -> bool", function=False, structural=True, samples=coo_samples
)


@is_coalesced.kernel
def _(self: Any) -> bool:
    expect_layout(self, "is_coalesced")
    return bool(parts_of(self).coalesced)


def part_op(name: str, kernel: Callable[[Any], Any], **options: Any) -> OpOverload:
    """An accessor whose result aliases a part and belongs to no graph."""
    return native(
        f"{name}(Tensor(a) self) -> Tensor(a)",
        function=False,
        structural=True,
        untracked=True,
        vjp=refuse("the part is handed out without its history"),
        jvp=refuse("the part is handed out without its history"),
        kernel=kernel,
        samples=options.pop("samples", coo_samples),
        **options,
    )


def unchecked_part(self: Any, name: str) -> Any:
    if not is_coo(self):
        raise error(
            "RL0507",
            NotImplementedError,
            name=f"_{name}",
            given=f"of layout {self.layout}",
            who="sparse COO tensors",
            what=f"{name} of this kind",
        )
    return getattr(parts_of(self), name)._alias(share_counter=False)


def checked_part(self: Any, name: str) -> Any:
    expect_layout(self, name)
    if not parts_of(self).coalesced:
        raise RuntimeError(
            f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
        )
    return getattr(parts_of(self), name)._alias(share_counter=False)


part_op("_indices", lambda self: unchecked_part(self, "indices"))
part_op("_values", lambda self: unchecked_part(self, "values"))
part_op("indices", lambda self: checked_part(self, "indices"))


def rebuilt_from_values(grad: Any, self: Any) -> Any:
    """A gradient of values, as a gradient of the sparse tensor they belong to."""
    if is_coo(self):
        return aten._sparse_coo_tensor_unsafe(
            self._indices(), grad, tuple(self.shape), is_coalesced=True
        )
    parts = parts_of(self)
    return aten._sparse_compressed_tensor_unsafe(
        parts.compressed,
        parts.plain,
        grad,
        tuple(self.shape),
        dtype=grad._dtype,
        layout=self.layout,
    )


values_op = native(
    "values(Tensor(a) self) -> Tensor(a)",
    function=False,
    structural=True,
    vjp=rebuilt_from_values,
    samples=coo_samples,
)


@values_op.kernel
def _(self: Any) -> Any:
    if not is_sparse(self):
        raise RuntimeError(f"values expected sparse tensor layout but got {layout_name(self)}")
    if is_coo(self):
        return checked_part(self, "values")
    return parts_of(self).values._alias(share_counter=False)


set_coalesced = native(
    "_coalesced_(Tensor(a!) self, bool coalesced) -> Tensor(a!)",
    function=False,
    vjp=refuse("it changes a flag, no value"),
    jvp=refuse("it changes a flag, no value"),
    samples=lambda make: [(*given, True) for given in coo_samples(make)],
)


@set_coalesced.kernel
def _(self: Any, coalesced: bool) -> Any:
    expect_layout(self, "_coalesced_")
    unusual = self._unusual.copy()
    unusual.parts = Coo(unusual.parts.indices, unusual.parts.values, coalesced)
    self._unusual = unusual
    return self


coalesce_op = native(
    "_coalesce(Tensor self) -> Tensor",
    method=False,
    vjp=lambda grad: grad,
    jvp=linear_in("self"),
    samples=lambda make: [(doubled(make),)],
)


@coalesce_op.kernel
def _(self: Any) -> Any:
    expect_layout(self, "coalesce")
    found = coalesced(self)
    return found if found is not self else self._alias(share_counter=False)


@sparse_composite("coalesce(Tensor(a) self) -> Tensor(a)", function=False, samples=coo_samples)
def coalesce(self: Any) -> Any:
    expect_layout(self, "coalesce")
    return self if parts_of(self).coalesced else call(coalesce_op, (self,))
