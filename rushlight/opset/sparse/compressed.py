"""Compressed sparse tensors: CSR, CSC and their block forms BSR, BSC.

`compressed` holds pointers along rows (CSR, BSR) or columns (CSC, BSC) into `plain`, the indices
along the other dimension; values are (batch..., nnz, [block rows, block columns], dense...).
Without batch dims conversions go through COO and keep explicit zeros; with them, through dense.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call, overridable
from rushlight.core.parts import Compressed, parts_of, sparse_tensor
from rushlight.core.tensor import Tensor, sizes_of, values_of, wrap
from rushlight.opset.kinds import Spec
from rushlight.opset.rules import linear_in, sample
from rushlight.opset.sparse.convert import coo_of, looked_up, to_sparse_grad
from rushlight.opset.sparse.coo import (
    FALSE_PIN,
    LAYOUT_NAMES,
    OPTIONS,
    as_tensor,
    check_value_dtype,
    checked_device,
    coalesced,
    converted,
    coo_sample,
    dense_of,
    index_array,
    is_coo,
    is_sparse,
    layout_name,
    linear_keys,
    make_coo,
    marked,
    native,
    part_op,
    plain_alias,
    run_starts,
    scattered,
    sparse_composite,
    value_array,
    with_values,
)

# Public functions of torch that are written in Python here.
TORCH_NAMES = (
    "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_csc_tensor",
    "sparse_csr_tensor",
)  # fmt: skip

ROWS = (devices.sparse_csr, devices.sparse_bsr)
COLUMNS = (devices.sparse_csc, devices.sparse_bsc)
BLOCKED = (devices.sparse_bsr, devices.sparse_bsc)
LAYOUTS = (*ROWS, *COLUMNS)


def is_compressed(tensor: Any) -> bool:
    return is_sparse(tensor) and not is_coo(tensor)


def pointers(tensor: Any) -> Any:
    return values_of(parts_of(tensor).compressed).astype(np.int64, copy=False)


def plain_indices(tensor: Any) -> Any:
    return values_of(parts_of(tensor).plain).astype(np.int64, copy=False)


def batch_dims(tensor: Any) -> int:
    return int(parts_of(tensor).compressed.dim()) - 1


def block_sizes(tensor: Any) -> tuple[int, int]:
    """Rows and columns of one block; (1, 1) where there are none."""
    if tensor.layout not in BLOCKED:
        return 1, 1
    start = batch_dims(tensor) + 1
    sizes = parts_of(tensor).values.shape
    return int(sizes[start]), int(sizes[start + 1])


def dense_dims(tensor: Any) -> int:
    return int(tensor.dim()) - batch_dims(tensor) - 2


def major_indices(ends: Any, count: int) -> Any:
    """The compressed index of every specified element, of one batch or of each."""
    lengths = np.diff(ends, axis=-1)
    if ends.ndim == 1:
        return np.repeat(np.arange(lengths.size), lengths)
    rows = np.broadcast_to(np.arange(lengths.shape[-1]), lengths.shape)
    return np.repeat(rows.reshape(-1), lengths.reshape(-1)).reshape(*ends.shape[:-1], count)


def as_blocks(array: Any, batch: int, block: tuple[int, int], by_columns: bool) -> Any:
    """A view (batch..., major, minor, block rows, block columns, dense...) of a dense array."""
    sizes = array.shape
    rows, columns = sizes[batch], sizes[batch + 1]
    split = array.reshape(
        *sizes[:batch],
        rows // block[0],
        block[0],
        columns // block[1],
        block[1],
        *sizes[batch + 2 :],
    )
    order = list(range(split.ndim))
    order[batch : batch + 4] = [batch, batch + 2, batch + 1, batch + 3]
    if by_columns:
        order[batch : batch + 4] = [batch + 2, batch, batch + 1, batch + 3]
    return split.transpose(order)


def expanded(tensor: Any) -> Any:
    """The dense array of a compressed tensor."""
    values = value_array(tensor)
    batch, block = batch_dims(tensor), block_sizes(tensor)
    by_columns = tensor.layout in COLUMNS
    if tensor.layout not in BLOCKED:
        values = values.reshape(*values.shape[: batch + 1], 1, 1, *values.shape[batch + 1 :])
    result = np.zeros(tuple(tensor.shape), values.dtype)
    target = as_blocks(result, batch, block, by_columns)
    plain = plain_indices(tensor)
    major = major_indices(pointers(tensor), plain.shape[-1])
    place = tuple(np.indices(plain.shape)[:batch])
    target[(*place, major, plain)] = values
    # `as_blocks` of a fresh array shares its memory, except where a size is zero.
    return result


def check_block(name: str, sizes: Any, block: Any) -> None:
    if len(block) != 2:
        raise RuntimeError(f"{name}: blocksize needs to be a tuple of size 2, but got {len(block)}")
    if block[0] < 1 or block[1] < 1:
        raise RuntimeError(
            f"{name}: blocksize needs to be positive, but got [{block[0]}, {block[1]}]"
        )
    if sizes[0] % block[0] or sizes[1] % block[1]:
        raise RuntimeError(
            f"{name}: tensor sparse size ({sizes[0]},{sizes[1]}) must be divisible by given "
            f"blocksize ({block[0]},{block[1]})"
        )


def compress(array: Any, layout: Any, block: tuple[int, int], dense_dim: int) -> Tensor:
    """A dense array in a compressed layout."""
    batch = array.ndim - 2 - dense_dim
    blocks = as_blocks(array, batch, block, layout in COLUMNS)
    mask = (blocks != 0).any(axis=tuple(range(batch + 2, blocks.ndim)))
    lengths = mask.sum(axis=-1)
    leading = array.shape[:batch]
    totals = lengths.sum(axis=-1).reshape(-1)
    if totals.size and (totals != totals[0]).any():
        raise RuntimeError("Expect the same number of specified elements per batch.")
    count = int(totals[0]) if totals.size else 0
    ends = np.zeros((*leading, lengths.shape[-1] + 1), np.int64)
    np.cumsum(lengths, axis=-1, out=ends[..., 1:])
    plain = np.nonzero(mask)[-1].reshape(*leading, count)
    values = blocks[mask].reshape(*leading, count, *blocks.shape[batch + 2 :])
    if layout not in BLOCKED:
        values = values.reshape(*leading, count, *array.shape[batch + 2 :])
    return compressed_tensor(layout, array.shape, ends, plain, values)


def compressed_tensor(layout: Any, sizes: Any, ends: Any, plain: Any, values: Any) -> Tensor:
    ends = wrap(np.ascontiguousarray(ends, np.int64), dtypes.int64)
    plain = wrap(np.ascontiguousarray(plain, np.int64), dtypes.int64)
    return sparse_tensor(layout, sizes, Compressed(ends, plain, dense_of(values)))


def coo_to_compressed(tensor: Any, layout: Any, block: tuple[int, int]) -> Tensor:
    """A COO tensor with two sparse dims in a compressed layout, explicit zeros kept."""
    tensor = coalesced(tensor)
    rows, columns = index_array(tensor)
    values = value_array(tensor)
    sizes = tuple(tensor.shape)
    grid = (sizes[0] // block[0], sizes[1] // block[1])
    major, minor, lengths = rows // block[0], columns // block[1], grid
    if layout in COLUMNS:
        major, minor, lengths = minor, major, grid[::-1]
    keys = major * lengths[1] + minor
    order = np.argsort(keys, kind="stable")
    starts = run_starts(keys[order])
    chosen = order[starts]
    ends = np.zeros(lengths[0] + 1, np.int64)
    np.cumsum(np.bincount(major[chosen], minlength=lengths[0]), out=ends[1:])
    if layout not in BLOCKED:
        return compressed_tensor(layout, sizes, ends, minor[chosen], values[order])
    number = np.zeros(keys.size, np.int64)
    number[starts[1:]] = 1
    filled = np.zeros((starts.size, *block, *values.shape[1:]), values.dtype)
    filled[np.cumsum(number), rows[order] % block[0], columns[order] % block[1]] = values[order]
    return compressed_tensor(layout, sizes, ends, minor[chosen], filled)


def compressed_to_coo(tensor: Any) -> Tensor:
    """A compressed tensor as COO; blocks give all of their elements."""
    if batch_dims(tensor):
        array = expanded(tensor)
        mask = expanded(with_values(tensor, ones_of(parts_of(tensor).values))) != 0
        count = batch_dims(tensor) + 2
        if mask.ndim > count:
            mask = mask.any(axis=tuple(range(count, mask.ndim)))
        return make_coo(np.argwhere(mask).T, array[mask], tensor.shape, True)
    plain, values = plain_indices(tensor), value_array(tensor)
    major = major_indices(pointers(tensor), plain.size)
    rows, columns = (plain, major) if tensor.layout in COLUMNS else (major, plain)
    if tensor.layout in BLOCKED:
        height, width = block_sizes(tensor)
        inner = np.indices((height, width))
        rows = (rows[:, None, None] * height + inner[0]).reshape(-1)
        columns = (columns[:, None, None] * width + inner[1]).reshape(-1)
        values = values.reshape(-1, *values.shape[3:])
    indices = np.stack([rows, columns])
    if tensor.layout is not devices.sparse_csr:
        order = np.argsort(linear_keys(indices, tuple(tensor.shape)[:2]), kind="stable")
        indices, values = indices[:, order], values[order]
    return make_coo(indices, values, tensor.shape, True)


def ones_of(values: Any) -> Tensor:
    return wrap(np.ones(tuple(values.shape), np.bool_), dtypes.bool_)


def to_compressed(self: Any, layout: Any, blocksize: Any, dense_dim: Any) -> Tensor:
    """Any tensor in a compressed layout."""
    name = f"dense_to_{layout.name}"
    if layout in BLOCKED and blocksize is None:
        raise RuntimeError(
            f"dense_to_sparse: conversion from {layout_name(self)} to {LAYOUT_NAMES[layout.name]} "
            "without blocksize argument given is not supported"
        )
    block = (1, 1) if blocksize is None else (blocksize[0], blocksize[-1])
    if not is_sparse(self):
        count = dense_dim or 0
        if self.dim() < 2:
            raise RuntimeError(
                f"{name}: expected a tensor of at least 2 dimensions, got {self.dim()}"
            )
        if not 0 <= count <= self.dim() - 2:
            raise RuntimeError(
                f"{name}: dense_dim argument must be in [0,{self.dim() - 2}] range, but "
                f"{dense_dim} is given"
            )
        start = self.dim() - 2 - count
        check_block(name, self.shape[start:], block)
        if 0 in self.shape[:start]:
            raise RuntimeError(
                f"to_{layout.name}: Expected product of batch dimensions to be non-zero."
            )
        return compress(values_of(self), layout, block, count)
    check_dense_dim(self, layout, dense_dim)
    if is_coo(self):
        if index_array(self).shape[0] != 2:
            raise RuntimeError(
                f"coo_to_{layout.name}: conversion from Sparse to {LAYOUT_NAMES[layout.name]} for "
                "input tensors with sparse_dim()!=2 is not supported"
            )
        check_block(f"coo_to_{layout.name}", self.shape, block)
        return coo_to_compressed(self, layout, block)
    start = batch_dims(self)
    check_block(f"to_{layout.name}", self.shape[start:], block)
    if start:
        made = compress(expanded(self), layout, block, dense_dims(self))
    else:
        made = coo_to_compressed(compressed_to_coo(self), layout, block)
    return with_indices_like(made, self)


def with_indices_like(made: Any, source: Any) -> Tensor:
    """The tensor with indices in the dtype that those of another have."""
    dtype = parts_of(source).plain._dtype
    if dtype is dtypes.int64:
        return made  # type: ignore[no-any-return]
    parts = parts_of(made)
    ends, plain = converted(parts.compressed, dtype), converted(parts.plain, dtype)
    return sparse_tensor(made.layout, made.shape, Compressed(ends, plain, parts.values))


def check_dense_dim(self: Any, layout: Any, dense_dim: Any) -> None:
    """A sparse tensor has its dense dimensions already."""
    if dense_dim is not None:
        raise RuntimeError(
            f"to_{layout.name}: conversion from {layout_name(self)} to {LAYOUT_NAMES[layout.name]} "
            "with dense_dim argument given is not supported"
        )


def masked_by_compressed(self: Any, mask: Any) -> Tensor:
    """The elements of `self` that `mask` specifies, in its layout."""
    if is_sparse(self):
        if batch_dims(mask) == 0:
            indices = index_array(block_pattern(mask))
            values = looked_up(coo_of(self), indices, 2)
            return with_values(mask, dense_of(values.reshape(tuple(parts_of(mask).values.shape))))
        array = expanded(self) if is_compressed(self) else scattered(self)
    else:
        array = values_of(self)
    batch, block = batch_dims(mask), block_sizes(mask)
    blocks = as_blocks(array, batch, block, mask.layout in COLUMNS)
    plain = plain_indices(mask)
    major = major_indices(pointers(mask), plain.shape[-1])
    place = tuple(np.indices(plain.shape)[:batch])
    values = blocks[(*place, major, plain)]
    return with_values(mask, dense_of(values.reshape(tuple(parts_of(mask).values.shape))))


def block_pattern(mask: Any) -> Tensor:
    """The positions a compressed tensor specifies, in the order of its values."""
    plain = plain_indices(mask)
    major = major_indices(pointers(mask), plain.size)
    rows, columns = (plain, major) if mask.layout in COLUMNS else (major, plain)
    height, width = block_sizes(mask)
    inner = np.indices((height, width))
    rows = (rows[:, None, None] * height + inner[0]).reshape(-1)
    columns = (columns[:, None, None] * width + inner[1]).reshape(-1)
    return make_coo(np.stack([rows, columns]), np.zeros(rows.size, np.bool_), mask.shape[:2])


def empty_compressed(size: Any, layout: Any, dtype: Any, block: Any = (1, 1)) -> Tensor:
    """No element specified; only without batch dims."""
    inner = tuple(block) if layout in BLOCKED else ()
    length = size[1] // block[1] if layout in COLUMNS else size[0] // block[0]
    values = np.zeros((0, *inner, *size[2:]), dtype.np)
    ends, plain = np.zeros(length + 1, np.int64), np.zeros(0, np.int64)
    return compressed_tensor(layout, size, ends, plain, values)


def flipped(tensor: Any) -> Tensor:
    """The transpose over the two sparse dims: rows become columns, nothing is moved."""
    other = {
        devices.sparse_csr: devices.sparse_csc,
        devices.sparse_csc: devices.sparse_csr,
        devices.sparse_bsr: devices.sparse_bsc,
        devices.sparse_bsc: devices.sparse_bsr,
    }[tensor.layout]
    parts, batch = parts_of(tensor), batch_dims(tensor)
    values = parts.values
    if tensor.layout in BLOCKED:
        values = dense_of(np.swapaxes(values_of(values), batch + 1, batch + 2))
    sizes = list(tensor.shape)
    sizes[batch], sizes[batch + 1] = sizes[batch + 1], sizes[batch]
    return sparse_tensor(other, sizes, Compressed(parts.compressed, parts.plain, values))


# -- constructors ----------------------------------------------------------------------------------

NAMES = {
    devices.sparse_csr: ("crow_indices", "col_indices", "rows", "ncols"),
    devices.sparse_bsr: ("crow_indices", "col_indices", "row blocks", "ncols"),
    devices.sparse_csc: ("ccol_indices", "row_indices", "columns", "nrows"),
    devices.sparse_bsc: ("ccol_indices", "row_indices", "column blocks", "nrows"),
}


def unmet(condition: str) -> RuntimeError:
    return RuntimeError(f"`{condition}` is not satisfied.")


def check_compressed(ends: Any, plain: Any, values: Any, size: Any, layout: Any) -> None:
    """Refuse parts that do not make a tensor of this size and layout."""
    first, second, counted, _ = NAMES[layout]
    if ends._dtype is not plain._dtype:
        raise RuntimeError(
            f"{first} and {second} must have the same dtype, bot got "
            f"{ends._dtype.scalar_type_name} and {plain._dtype.scalar_type_name}, respectively"
        )
    if ends._dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            f"{first} and {second} must be an int32 or int64 type, but got: "
            f"{ends._dtype.scalar_type_name}"
        )
    batch = ends.dim() - 1
    inner = 2 if layout in BLOCKED else 0
    dense = values.dim() - batch - 1 - inner
    if len(size) != batch + 2 + dense:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
            f"(={batch} + 2 + {dense}) but got {len(size)}"
        )
    block = tuple(values.shape[batch + 1 : batch + 3]) if inner else (1, 1)
    check_block(f"{layout.name}_tensor", size[batch:], block)
    grid = (size[batch] // block[0], size[batch + 1] // block[1])
    major, minor = grid if layout in ROWS else grid[::-1]
    if ends.shape[-1] != major + 1:
        raise RuntimeError(
            f"{first}.shape[-1] must be equal to the number of {counted} + 1 (={major + 1}), but "
            f"got {ends.shape[-1]}"
        )
    count = values.shape[batch]
    if plain.shape[-1] != count:
        raise RuntimeError(
            f"{second}.shape[-1] must be equal to nnz (={count}) as defined by "
            f"values.shape[{batch}], but got {plain.shape[-1]}"
        )
    check_order(values_of(ends), values_of(plain), major, minor, count, NAMES[layout])


def check_order(ends: Any, plain: Any, major: int, minor: int, count: int, names: Any) -> None:
    first, second, _, bound = names
    if (ends[..., 0] != 0).any():
        raise unmet(f"{first}[..., 0] == 0")
    if (ends[..., -1] != count).any():
        raise unmet(f"{first}[..., -1] == nnz")
    lengths = np.diff(ends, axis=-1)
    if (lengths < 0).any() or (lengths > minor).any():
        raise unmet(f"0 <= {first}[..., 1:] - {first}[..., :-1] <= {bound}")
    if ((plain < 0) | (plain >= minor)).any():
        raise unmet(f"0 <= {second} < {bound}")
    keys = major_indices(ends, count) * minor + plain
    if (np.diff(keys, axis=-1) <= 0).any():
        line = "nrows" if bound == "ncols" else "ncols"
        raise unmet(
            f"{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., {line} are "
            "sorted and distinct along the last dimension values"
        )


def compressed_values_grad(grad: Any, result: Any) -> Any:
    dense = grad if grad.layout is devices.strided else grad.to_dense()
    return dense.sparse_mask(result).values()


def compressed_sample(make: Any) -> Any:
    ends = wrap(np.array([0, 1, 2]), dtypes.int64)
    plain = wrap(np.array([1, 0]), dtypes.int64)
    yield sample(ends, plain, make(2), (2, 3), dtype=make.dtype, layout=devices.sparse_csr)


def required_layout(layout: Any) -> Any:
    if layout not in LAYOUTS:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            f"{'none' if layout is None else LAYOUT_NAMES.get(layout.name, layout.name)}"
        )
    return layout


def assembled(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any,
    dtype: Any,
    layout: Any,
    *rest: Any,
) -> Any:
    check_value_dtype(values, dtype)
    parts = Compressed(
        plain_alias(compressed_indices), plain_alias(plain_indices), plain_alias(values)
    )
    return sparse_tensor(required_layout(layout), size, parts)


def assembled_checked(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any,
    dtype: Any,
    layout: Any,
    *rest: Any,
) -> Any:
    check_compressed(compressed_indices, plain_indices, values, size, required_layout(layout))
    return assembled(compressed_indices, plain_indices, values, size, dtype, layout)


PARTS = "Tensor compressed_indices, Tensor plain_indices, Tensor values"
with_size = native(
    f"sparse_compressed_tensor.comp_plain_value_size({PARTS}, SymInt[] size, *, {FALSE_PIN}) "
    "-> Tensor",
    method=False,
    vjp={"values": compressed_values_grad},
    jvp=linear_in("values"),
    kernel=assembled_checked,
    samples=compressed_sample,
)
unsafe = native(
    f"_sparse_compressed_tensor_unsafe({PARTS}, SymInt[] size, *, {OPTIONS}) -> Tensor",
    method=False,
    function=False,
    vjp={"values": compressed_values_grad},
    jvp=linear_in("values"),
    kernel=assembled,
    samples=compressed_sample,
)


def inferred_size(ends: Any, plain: Any, values: Any, layout: Any) -> tuple[int, ...]:
    batch = ends.dim() - 1
    inner = 2 if layout in BLOCKED else 0
    block = tuple(values.shape[batch + 1 : batch + 3]) if inner else (1, 1)
    array = values_of(plain)
    grid = [ends.shape[-1] - 1, int(array.max()) + 1 if array.size else 0]
    if layout in COLUMNS:
        grid.reverse()
    dense = tuple(values.shape[batch + 1 + inner :])
    return (*ends.shape[:-1], grid[0] * block[0], grid[1] * block[1], *dense)


@sparse_composite(
    f"sparse_compressed_tensor.comp_plain_value({PARTS}, *, {FALSE_PIN}) -> Tensor",
    method=False,
    samples=lambda make: [
        sample(*entry.args[:3], **entry.kwargs) for entry in compressed_sample(make)
    ],
)
def without_size(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    dtype: Any = None,
    layout: Any = None,
    *rest: Any,
) -> Any:
    layout = required_layout(layout)
    size = inferred_size(compressed_indices, plain_indices, values, layout)
    return call(
        with_size,
        (compressed_indices, plain_indices, values, size, dtype, layout, None, False),
    )


def compressed_public(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:
    """A tensor in one of the compressed layouts from its pointers, indices and values."""
    checked_device(device)
    layout = required_layout(layout)
    ends, plain = as_tensor(compressed_indices), as_tensor(plain_indices)
    values = as_tensor(values, dtype)
    rest = (values._dtype, layout, None, False)
    if size is None:
        made = call(without_size, (ends, plain, values, *rest))
    else:
        made = call(with_size, (ends, plain, values, tuple(size), *rest))
    return marked(made, requires_grad)


def of_layout(layout: Any, names: tuple[str, str]) -> Any:
    """`sparse_csr_tensor` and its like."""

    def function(*args: Any, **kwargs: Any) -> Any:
        for name, general in zip(names, ("compressed_indices", "plain_indices"), strict=True):
            if name in kwargs:
                kwargs[general] = kwargs.pop(name)
        kwargs["layout"] = layout
        return compressed_public(*args, **kwargs)

    function.__name__ = function.__qualname__ = f"{layout.name}_tensor"
    function.__doc__ = f"A tensor of layout {layout} from its parts."
    return overridable(function)


compressed_public.__name__ = compressed_public.__qualname__ = "sparse_compressed_tensor"
sparse_compressed_tensor = overridable(compressed_public)
sparse_csr_tensor = of_layout(devices.sparse_csr, ("crow_indices", "col_indices"))
sparse_csc_tensor = of_layout(devices.sparse_csc, ("ccol_indices", "row_indices"))
sparse_bsr_tensor = of_layout(devices.sparse_bsr, ("crow_indices", "col_indices"))
sparse_bsc_tensor = of_layout(devices.sparse_bsc, ("ccol_indices", "row_indices"))

native(
    "_validate_compressed_sparse_indices(bool is_crow, Tensor compressed_idx, Tensor plain_idx, "
    "int cdim, int dim, int nnz) -> ()",
    method=False,
    kernel=lambda is_crow, compressed_idx, plain_idx, cdim, dim, nnz: check_order(
        values_of(compressed_idx),
        values_of(plain_idx),
        cdim,
        dim,
        nnz,
        NAMES[devices.sparse_csr if is_crow else devices.sparse_csc],
    ),
    samples=lambda make: [(True, *entry.args[:2], 2, 3, 2) for entry in compressed_sample(make)],
)


# -- parts -----------------------------------------------------------------------------------------


def compressed_part(name: str, attribute: str, allowed: tuple[Any, ...], side: str) -> None:
    def kernel(self: Any) -> Any:
        if self.layout not in allowed or not is_sparse(self):
            raise RuntimeError(
                f"{name} expected sparse {side} compressed tensor layout but got "
                f"{layout_name(self)}"
            )
        return getattr(parts_of(self), attribute)._alias(share_counter=False)

    layout = allowed[0]
    part_op(
        name,
        kernel,
        samples=lambda make: [(to_compressed(coo_sample(make, 2, 4), layout, None, None),)],
    )


compressed_part("crow_indices", "compressed", ROWS, "row")
compressed_part("col_indices", "plain", ROWS, "row")
compressed_part("ccol_indices", "compressed", COLUMNS, "column")
compressed_part("row_indices", "plain", COLUMNS, "column")


# -- conversions by name ---------------------------------------------------------------------------


def conversion(layout: Any) -> None:
    """`to_sparse_csr` and its like: a composite before a primitive with a gradient."""
    blocked = layout in BLOCKED
    block = "int[2] blocksize, " if blocked else ""
    name = f"to_{layout.name}"
    given = ((2, 2),) if blocked else ()

    def samples(make: Any) -> Any:
        yield (make(4, 2), *given)

    def kernel(self: Any, *rest: Any) -> Any:
        blocksize, dense_dim = rest if blocked else (None, *rest)
        return to_compressed(self, layout, blocksize, dense_dim)

    primitive = native(
        f"_{name}(Tensor self, {block}int? dense_dim=None) -> Tensor",
        function=False,
        vjp=to_sparse_grad,
        kernel=kernel,
        samples=samples,
    )

    def body(self: Any, *rest: Any) -> Any:
        padded = rest if len(rest) == 1 + blocked else (*rest, None)
        if self.layout is layout and (
            not blocked or block_sizes(self) == (rest[0][0], rest[0][-1])
        ):
            check_dense_dim(self, layout, padded[-1])
            return self
        return call(primitive, (self, *padded))

    sparse_composite(
        f"{name}(Tensor self, {block}int? dense_dim=None) -> Tensor",
        function=False,
        samples=samples,
    )(body)


for layout in (devices.sparse_csr, devices.sparse_csc, devices.sparse_bsr, devices.sparse_bsc):
    conversion(layout)

to_csr = native(
    "_convert_indices_from_coo_to_csr(Tensor self, int size, *, bool out_int32=False) -> Tensor",
    method=False,
    samples=lambda make: [(wrap(np.array([0, 0, 2]), dtypes.int64), 4)],
)


@to_csr.shape
def _(self: Any, size: Any, out_int32: bool) -> Any:
    return Spec((size + 1,), dtypes.int32 if out_int32 else dtypes.int64)


@to_csr.kernel
def _(self: Any, size: int, out_int32: bool) -> Any:
    dtype = dtypes.int32 if out_int32 else dtypes.int64
    ends = np.zeros(size + 1, dtype.np)
    np.cumsum(np.bincount(values_of(self), minlength=size), out=ends[1:])
    return wrap(ends, dtype)


from_csr = native(
    "_convert_indices_from_csr_to_coo(Tensor crow_indices, Tensor col_indices, *, "
    "bool out_int32=False, bool transpose=False) -> Tensor",
    method=False,
    samples=lambda make: [entry.args[:2] for entry in compressed_sample(make)],
)


@from_csr.shape
def _(crow_indices: Any, col_indices: Any, out_int32: bool, transpose: bool) -> Any:
    sizes = sizes_of(col_indices)
    rows = (
        (2, geometry.numel(sizes)) if len(sizes) == 1 else (len(sizes) + 1, geometry.numel(sizes))
    )
    return Spec(rows, dtypes.int32 if out_int32 else dtypes.int64)


@from_csr.kernel
def _(crow_indices: Any, col_indices: Any, out_int32: bool, transpose: bool) -> Any:
    dtype = dtypes.int32 if out_int32 else dtypes.int64
    columns = values_of(col_indices)
    rows = major_indices(values_of(crow_indices), columns.shape[-1])
    pair = (columns, rows) if transpose else (rows, columns)
    return wrap(np.stack(pair).astype(dtype.np), dtype)
