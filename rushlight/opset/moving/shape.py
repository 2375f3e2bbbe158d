"""Ops that rearrange, repeat and join tensors."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import contiguous_format
from rushlight.core.dispatch import packet_call
from rushlight.core.dtype import from_numpy, get_default_dtype, unsupported
from rushlight.core.promotion import DIM, ZERO_DIM, result_type
from rushlight.core.refusals import unknown_size
from rushlight.core.tensor import sizes_of, strides_of
from rushlight.opset.kinds import GATHER, REARRANGEMENT, Spec
from rushlight.opset.large import LARGE, join_natively
from rushlight.opset.moving.turning import flipped, lower_flipped, native_flipped, rolled, rotation
from rushlight.opset.registry import alias, composite, op, packet
from rushlight.opset.rules import aten, late, linear_in, sample
from rushlight.opset.view.view import unsafe_view

# Public functions of torch that are written in Python here.
TORCH_NAMES = (
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors", "cartesian_prod",
    "meshgrid",
)  # fmt: skip

# -- joining -------------------------------------------------------------------------------------


def common_dtype(tensors: Any) -> Any:
    first = tensors[0]._dtype
    for tensor in tensors:
        if tensor._dtype is not first:
            return result_type([(t._dtype, DIM if t.dim() else ZERO_DIM) for t in tensors])
    return first


def is_skipped(sizes: Any) -> bool:
    """torch: cat passes over empty tensors of one dimension, whatever the others' rank."""
    return len(sizes) == 1 and sizes[0].__class__ is int and sizes[0] == 0


cat = op(
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    out_apart=slice(None),
    sparse=late("sparse.shape:joined"),
    autocast="widest",
    batch="joined",
    exact_out=False,
    kind=REARRANGEMENT,
    method=False,
    vjp=lambda grad, tensors_meta, dim, needs: cat_backward(grad, tensors_meta, dim, needs),
    jvp=linear_in("tensors"),
)
alias("concat", "cat", method=False)
alias("concatenate", "cat", method=False)


def cat_sizes(shapes: Any, dim: int) -> tuple[Any, int]:
    """(sizes of the result, wrapped dim)."""
    if not shapes:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for position, sizes in enumerate(shapes):
        if not sizes:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {position}) cannot be concatenated"
            )
    first = None
    total: Any = 0
    for position, sizes in enumerate(shapes):
        if is_skipped(sizes):
            continue
        if first is None:
            first = sizes
            dim = geometry.wrap_dim(dim, len(sizes))
        elif len(sizes) != len(first):
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {len(first)} and {len(sizes)}"
            )
        elif not geometry.same_sizes(geometry.without(sizes, dim), geometry.without(first, dim)):
            for axis, size in enumerate(sizes):
                if axis != dim and size != first[axis]:
                    raise RuntimeError(
                        f"Sizes of tensors must match except in dimension {dim}. Expected size "
                        f"{first[axis]} but got size {size} for tensor number {position} in the "
                        "list."
                    )
        total = total + sizes[dim]
    if first is None:
        # torch: where all are passed over, no dim is looked at.
        return (0,), 0
    return (*first[:dim], total, *first[dim + 1 :]), dim


def joint_format(parts: Any) -> Any:
    """The memory format that all (sizes, strides) suggest, or the contiguous one."""
    found = None
    for sizes, strides in parts:
        if len(sizes) < 4:
            return contiguous_format
        suggested = geometry.suggest_memory_format(sizes, strides)
        if suggested is contiguous_format or (found is not None and suggested is not found):
            return contiguous_format
        found = suggested
    return found


def joined_strides(sizes: Any, parts: Any) -> Any:
    if len(sizes) < 4:
        return None
    return geometry.strides_for_memory_format(sizes, joint_format(parts))


@cat.shape
def _(tensors: Any, dim: int) -> Any:
    shapes = [sizes_of(t) for t in tensors]
    first, count = shapes[0] if shapes else (), len(shapes)
    # To compare sizes that are symbols would be a condition on them.
    is_plain = all([t._array is not None for t in tensors])
    is_dim = -len(first) <= dim < len(first)
    if is_plain and is_dim and first[0] and shapes.count(first) == count:
        dim %= len(first)
        sizes = (*first[:dim], count * first[dim], *first[dim + 1 :])
    else:
        sizes, _ = cat_sizes(shapes, dim)
    strides = None
    if len(sizes) > 3:
        strides = joined_strides(sizes, [(sizes_of(t), strides_of(t)) for t in tensors])
    return Spec(sizes, common_dtype(tensors), strides)


@cat.kernel
def _(xp: Any, tensors: Any, dim: int) -> Any:
    dtype = cat_dtype(tensors)
    if all([a.dtype is dtype and a.size for a in tensors]):
        join_natively(cat, tensors, False)
        return xp.concatenate(tensors, dim)
    kept = [a if a.dtype == dtype else a.astype(dtype) for a in tensors if a.shape != (0,)]
    return xp.concatenate(kept, dim) if kept else xp.empty((0,), dtype)


cat.samples = lambda make: [
    ([make(2, 3), make(1, 3)],),
    ([make(2, 3), make.strided(2, 2)], -1),
    ([make.strided(2, 3), make.strided(2, 3)], 0),
    ([make(0), make(2, 3)], 1),
    ([make(0), make(0)],),
    ([make(2), make(2, dtype=dtypes.float64)],),
    ([make.expanded(2, 3)],),
]
cat.errors = lambda make: [
    (ValueError, ([],)),
    (RuntimeError, ([make(), make(2)],)),
    (RuntimeError, ([make(2), make(2, 2)],)),
    (RuntimeError, ([make(2, 3), make(2, 2)],)),
    (IndexError, ([make(2)], 1)),
]


def cat_dtype(arrays: Any) -> Any:
    first = arrays[0].dtype
    for array in arrays:
        if array.dtype != first:
            found = result_type(
                [(from_numpy(a.dtype), DIM if a.ndim else ZERO_DIM) for a in arrays]
            )
            return found.np
    return first


def cat_backward(grad: Any, metas: Any, dim: int, needs: Any) -> list[Any]:
    found: list[Any] = []
    start: Any = 0
    wrapped = geometry.wrap_dim(dim, grad.dim())
    for meta, needed in zip(metas, needs, strict=True):
        sizes = meta.shape
        if is_skipped(sizes):
            found.append(grad.new_zeros((0,)) if needed else None)
            continue
        length = sizes[wrapped]
        found.append(grad.narrow(wrapped, start, length) if needed else None)
        start = start + length
    return found


stack = op(
    "stack(Tensor[] tensors, int dim=0) -> Tensor",
    out_apart=slice(None),
    sparse=late("sparse.shape:stacked"),
    autocast="widest",
    batch="stacked",
    exact_out=False,
    kind=REARRANGEMENT,
    method=False,
    vjp=lambda grad, dim: grad.unbind(dim),
    jvp=linear_in("tensors"),
)


@stack.shape
def _(tensors: Any, dim: int) -> Any:
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tuple(tensors[0].shape)
    dim = geometry.wrap_dim(dim, len(first) + 1)
    for position, tensor in enumerate(tensors):
        if not geometry.same_sizes(sizes_of(tensor), first):
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {geometry.show(first)} at "
                f"entry 0 and {geometry.show(tensor.shape)} at entry {position}"
            )
    sizes = (*first[:dim], len(tensors), *first[dim:])
    geometry.check_rank(len(sizes))
    strides = None
    if len(sizes) > 4 and dim < len(first):
        # torch: tensors are joined along an existing dimension, which is then split in two.
        whole = (*first[:dim], len(tensors) * first[dim], *first[dim + 1 :])
        joined = joined_strides(whole, [(first, strides_of(t)) for t in tensors])
        strides = geometry.view_strides(whole, joined, sizes)
    elif len(sizes) > 3:
        parts = [geometry.unsqueezed_geometry(first, strides_of(t), dim)[:2] for t in tensors]
        strides = joined_strides(sizes, parts)
    return Spec(sizes, common_dtype(tensors), strides)


@stack.kernel
def _(xp: Any, tensors: Any, dim: int) -> Any:
    dtype = cat_dtype(tensors)
    first = tensors[0].shape
    dim = geometry.wrap_dim(dim, len(first) + 1)
    result = xp.empty((*first[:dim], len(tensors), *first[dim:]), dtype)
    place: list[Any] = [slice(None)] * (len(first) + 1)
    for position, array in enumerate(tensors):
        place[dim] = position
        result[tuple(place)] = array
    join_natively(stack, tensors, True)
    return result


stack.samples = lambda make: [
    ([make(2, 3), make(2, 3)],),
    ([make(2, 3), make.strided(2, 3)], -1),
    ([make(), make()],),
    ([make(2), make(2, dtype=dtypes.float64)], 1),
    ([make(0, 2)], 1),
]
stack.errors = lambda make: [(RuntimeError, ([],)), (RuntimeError, ([make(2), make(3)],))]


@composite("hstack(Tensor[] tensors) -> Tensor", method=False)
def hstack(tensors: Any) -> Any:
    if not tensors:
        raise RuntimeError("hstack expects a non-empty TensorList")
    found = [atleast_1d_of(tensor) for tensor in tensors]
    return aten.cat(found, 0 if found[0].dim() == 1 else 1)


@composite("vstack(Tensor[] tensors) -> Tensor", method=False)
def vstack(tensors: Any) -> Any:
    if not tensors:
        raise RuntimeError("vstack expects a non-empty TensorList")
    return aten.cat([atleast_2d_of(tensor) for tensor in tensors], 0)


alias("row_stack", "vstack", method=False)


@composite("dstack(Tensor[] tensors) -> Tensor", method=False)
def dstack(tensors: Any) -> Any:
    if not tensors:
        raise RuntimeError("dstack expects a non-empty TensorList")
    return aten.cat([atleast_3d_of(tensor) for tensor in tensors], 2)


@composite("column_stack(Tensor[] tensors) -> Tensor", method=False)
def column_stack(tensors: Any) -> Any:
    if not tensors:
        raise RuntimeError("column_stack expects a non-empty TensorList")
    return aten.hstack([t.reshape((t.numel(), 1)) if t.dim() <= 1 else t for t in tensors])


hstack.samples = vstack.samples = dstack.samples = column_stack.samples = lambda make: [
    ([make(2), make(2)],),
    ([make(2, 3), make.strided(2, 3)],),
    ([make(), make()],),
    ([make(1, 2, 2), make(1, 2, 2)],),
]


def atleast_1d_of(self: Any) -> Any:
    return self.reshape((1,)) if self.dim() == 0 else self


def atleast_2d_of(self: Any) -> Any:
    if self.dim() == 0:
        return self.reshape((1, 1))
    return self.unsqueeze(0) if self.dim() == 1 else self


def atleast_3d_of(self: Any) -> Any:
    if self.dim() == 0:
        return self.reshape((1, 1, 1))
    if self.dim() == 1:
        return self.unsqueeze(0).unsqueeze(-1)
    return self.unsqueeze(-1) if self.dim() == 2 else self


def register_atleast(name: str, body: Any) -> None:
    several = composite(
        f"{name}.Sequence(Tensor[] tensors) -> Tensor[]", method=False, function=None
    )(lambda tensors: [body(tensor) for tensor in tensors])
    several.samples = lambda make: [([make(), make(2), make.strided(2, 3)],)]
    single = composite(f"{name}(Tensor self) -> Tensor", method=False, function=None)(body)
    single.samples = lambda make: [(make(),), (make(3),), (make.strided(2, 3),), (make(1, 2, 2),)]


register_atleast("atleast_1d", atleast_1d_of)
register_atleast("atleast_2d", atleast_2d_of)
register_atleast("atleast_3d", atleast_3d_of)

block_diag_op = op(
    "block_diag(Tensor[] tensors) -> Tensor",
    kind=REARRANGEMENT,
    batch=late("moving.batched:block_diag"),
    method=False,
    function=None,
    vjp=lambda grad, tensors_meta, needs: block_diag_backward(grad, tensors_meta, needs),
    jvp=linear_in("tensors"),
)


def block_sizes(sizes: Any, position: int) -> tuple[Any, Any]:
    if len(sizes) > 2:
        raise RuntimeError(
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
            f"{position} has {len(sizes)} dimensions"
        )
    return (1, 1) if not sizes else (1, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


@block_diag_op.shape
def _(tensors: Any) -> Any:
    if not tensors:
        return Spec((1, 0), get_default_dtype())
    blocks = [block_sizes(sizes_of(t), i) for i, t in enumerate(tensors)]
    rows: Any = 0
    columns: Any = 0
    for height, width in blocks:
        rows, columns = rows + height, columns + width
    return Spec((rows, columns), common_dtype(tensors))


@block_diag_op.kernel
def _(xp: Any, tensors: Any) -> Any:
    if not tensors:
        return xp.zeros((1, 0), get_default_dtype().np)
    blocks = [block_sizes(array.shape, i) for i, array in enumerate(tensors)]
    result = xp.zeros((sum(b[0] for b in blocks), sum(b[1] for b in blocks)), cat_dtype(tensors))
    row = column = 0
    for array, (height, width) in zip(tensors, blocks, strict=True):
        result[row : row + height, column : column + width] = array.reshape(height, width)
        row, column = row + height, column + width
    return result


def block_diag_backward(grad: Any, metas: Any, needs: Any) -> list[Any]:
    found: list[Any] = []
    row: Any = 0
    column: Any = 0
    for position, (meta, needed) in enumerate(zip(metas, needs, strict=True)):
        height, width = block_sizes(tuple(meta.shape), position)
        part = None
        if needed:
            part = grad.narrow(0, row, height).narrow(1, column, width).reshape(meta.shape)
        found.append(part)
        row, column = row + height, column + width
    return found


block_diag_op.samples = lambda make: [
    ([make(2, 3), make(2), make()],),
    ([make.strided(2, 3), make(1, 1)],),
    ([make(0, 2), make(2, 2)],),
]


# -- repeating -----------------------------------------------------------------------------------

repeat = op(
    "repeat(Tensor self, SymInt[] repeats) -> Tensor",
    kind=REARRANGEMENT,
    varargs=1,
    function=False,
    vjp=lambda grad, self_shape, repeats: repeat_backward(grad, self_shape, repeats),
    jvp=linear_in("self"),
)


@repeat.batch
def _(level: Any, op: Any, self: Any, repeats: Any) -> Any:
    if len(repeats) < self.dim():
        return level.loop(op, (self, repeats))
    return level.wrap(level.below(op, (level.front(self, len(repeats)), (1, *repeats))))


@repeat.shape
def _(self: Any, repeats: Any) -> Any:
    sizes = sizes_of(self)
    if len(repeats) < len(sizes):
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    sizes = (1,) * (len(repeats) - len(sizes)) + sizes
    wanted = [size * count for size, count in zip(sizes, repeats, strict=True)]
    for extent in wanted:
        if extent < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {extent}: {geometry.show(wanted)}"
            )
    return Spec(wanted, self._dtype)


@repeat.kernel
def _(xp: Any, self: Any, repeats: Any) -> Any:
    return xp.tile(self, repeats) if repeats else self.copy()


def repeat_backward(grad: Any, sizes: Any, repeats: Any) -> Any:
    """Sum over the copies of each element."""
    if 0 in repeats:
        return grad.new_zeros(sizes)
    lead = len(repeats) - len(sizes)
    for _ in range(lead):
        grad = grad.sum(0)
    shape: list[Any] = []
    gone: list[int] = []
    for size, count in zip(sizes, repeats[lead:], strict=True):
        if count != 1:
            gone.append(len(shape))
            shape.append(count)
        shape.append(size)
    return grad.reshape(shape).sum(gone) if gone else grad


repeat.samples = lambda make: [
    (make(2, 3), (2, 1)),
    (make.strided(2, 3), (2, 3, 2)),
    (make(), (2, 2)),
    (make(3), (0,)),
    (make(), ()),
]
repeat.errors = lambda make: [
    (RuntimeError, (make(2, 3), (2,))),
    (RuntimeError, (make(3), (-1,))),
]


@composite("tile(Tensor self, SymInt[] dims) -> Tensor", varargs=1)
def tile(self: Any, dims: Any) -> Any:
    return self.repeat((1,) * (self.dim() - len(dims)) + tuple(dims))


tile.samples = lambda make: [
    (make(2, 3), (2,)),
    (make.strided(2, 3), (2, 1, 2)),
    (make(), (2,)),
]


repeat_interleave = op(
    "repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
    may_raise=True,
    batch="loop",
    kind=GATHER,
    tags=("dynamic_output_shape",),
)


@repeat_interleave.shape
def _(repeats: Any, output_size: Any) -> Any:
    if output_size is None:
        output_size = unknown_size(
            repeat_interleave, "the length of the result (unless output_size= is given)"
        )
    return Spec((output_size,), repeats._dtype)


@repeat_interleave.kernel
def _(xp: Any, repeats: Any, output_size: Any) -> Any:
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in (xp.int64, xp.int32):
        raise unsupported("repeat_interleave_cpu", from_numpy(repeats.dtype))
    if (repeats < 0).any():
        raise RuntimeError("repeats can not be negative")
    result = xp.repeat(xp.arange(repeats.size, dtype=repeats.dtype), repeats)
    if output_size is not None and output_size != result.size:
        raise RuntimeError("allocated size does not match required size")
    return result


@composite(
    "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, "
    "SymInt? output_size=None) -> Tensor",
    tags=("dynamic_output_shape",),
)
def repeat_interleave_tensor(self: Any, repeats: Any, dim: Any, output_size: Any) -> Any:
    source = self.flatten() if dim is None else self
    dim = geometry.wrap_dim(-1 if dim is None else dim, source.dim())
    size = source.shape[dim] if source.dim() else 1
    if repeats.dim() == 0 or (repeats.dim() == 1 and repeats.shape[0] == 1):
        repeats = repeats.reshape((1,)).expand((size,))
    elif repeats.dim() == 1:
        if repeats.shape[0] != size:
            raise RuntimeError(
                "repeats must have the same size as input along dim, but got repeats.size(0) = "
                f"{repeats.shape[0]} and input.size({dim}) = {size}"
            )
    else:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    return source.index_select(dim, repeat_interleave(repeats, output_size=output_size))


@composite(
    "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, "
    "SymInt? output_size=None) -> Tensor"
)
def repeat_interleave_int(self: Any, repeats: Any, dim: Any, output_size: Any) -> Any:
    source = self.flatten() if dim is None else self
    dim = geometry.wrap_dim(-1 if dim is None else dim, source.dim())
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    if not source.dim():
        source = source.reshape((1,))
    sizes = source.shape
    wide = source.unsqueeze(dim + 1).expand((*sizes[: dim + 1], repeats, *sizes[dim + 1 :]))
    return wide.clone(memory_format=contiguous_format).flatten(dim, dim + 1)


repeat_interleave.samples = lambda make: [(make.ints(4, high=3),)]
repeat_interleave_tensor.samples = lambda make: [
    (make(2, 3), make.ints(3, high=2), 1),
    (make.strided(2, 3), make.ints(6, high=2)),
    (make(3), make.ints(1, low=2, high=2), 0),
]
repeat_interleave_int.samples = lambda make: [
    (make(2, 3), 2),
    (make.strided(2, 3), 2, 1),
    (make(2, 3), 3, -2),
    (make(), 2),
]
repeat_interleave_tensor.errors = lambda make: [
    (RuntimeError, (make(3), make.ints(2))),
    (RuntimeError, (make(2), make.ints(2, low=-2, high=-1))),
]


# -- reordering ----------------------------------------------------------------------------------

flip = op(
    "flip(Tensor self, int[] dims) -> Tensor",
    kind=REARRANGEMENT,
    varargs=1,
    vjp=lambda grad, dims: grad.flip(dims),
    jvp=linear_in("self"),
)


@flip.shape
def _(self: Any, dims: Any) -> Any:
    sizes = sizes_of(self)
    geometry.wrap_dims(dims, len(sizes))
    return Spec(sizes, self._dtype, geometry.like_strides(sizes, strides_of(self)))


@flip.kernel
def _(xp: Any, self: Any, dims: Any) -> Any:
    return flipped(self, geometry.wrap_dims(dims, self.ndim) if self.ndim else ())


flip.lower = lambda build, op, self, dims: lower_flipped(build, self, dims)


flip.samples = lambda make: [
    (make(2, 3), (0,)),
    (make.strided(2, 3), (0, -1)),
    (make.expanded(2, 3), (1,)),
    (make(2, 3), ()),
    (make(), (0,)),
]
flip.errors = lambda make: [
    (RuntimeError, (make(2, 3), (0, 0))),
    (IndexError, (make(2, 3), (2,))),
]


@composite("fliplr(Tensor self) -> Tensor")
def fliplr(self: Any) -> Any:
    if self.dim() < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return self.flip((1,))


@composite("flipud(Tensor self) -> Tensor")
def flipud(self: Any) -> Any:
    if self.dim() < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return self.flip((0,))


fliplr.samples = lambda make: [(make(2, 3),), (make.strided(2, 3),)]
flipud.samples = lambda make: [(make(2, 3),), (make(3),)]


roll = op(
    "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
    kind=REARRANGEMENT,
    vjp=lambda grad, shifts, dims: grad.roll([-s for s in shifts[::-1]], dims[::-1]),
    jvp=linear_in("self"),
)


roll.batch = late("moving.batched:roll")


@roll.shape
def _(self: Any, shifts: Any, dims: Any) -> Any:
    sizes = sizes_of(self)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(dims) != len(shifts):
        if not dims and len(shifts) == 1:
            return Spec(sizes, self._dtype)
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    if not sizes and dims:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    wrapped = [geometry.wrap_dim(dim, len(sizes)) for dim in dims]
    if any(geometry.is_size(size, 0) for size in sizes):
        return Spec(sizes, self._dtype, geometry.like_strides(sizes, strides_of(self)))
    # torch: a roll joins two slices, and takes the layout that joining gives.
    strides: Any = strides_of(self)
    for shift, dim in zip(shifts, wrapped, strict=True):
        size = sizes[dim]
        if len(sizes) < 4:
            strides = None
            break
        start = -shift % size
        lengths = ((*sizes[:dim], length, *sizes[dim + 1 :]) for length in (size - start, start))
        strides = joined_strides(sizes, [(part, strides) for part in lengths])
    return Spec(sizes, self._dtype, strides)


@roll.kernel
def _(xp: Any, self: Any, shifts: Any, dims: Any) -> Any:
    if not dims:
        return xp.roll(self, shifts)
    if len(dims) == 1 and self.size:
        return rolled(xp, self, shifts[0], dims[0])
    return xp.roll(self, shifts, dims) if self.ndim else self.copy()


roll.samples = lambda make: [
    (make(2, 3), (1,)),
    (make.strided(2, 3), (1,), (1,)),
    (make(2, 3), (1, -2), (0, 1)),
    (make(2, 3), (0,), (0,)),
    (make(0, 3), (1,), (1,)),
    (make(), (1,)),
    (make.strided(2, 3, 2, 2), (1,), (1,)),
]
roll.errors = lambda make: [
    (RuntimeError, (make(3), (1, 2), (0,))),
    (RuntimeError, (make(3), ())),
    (IndexError, (make(3), (1,), (1,))),
    (RuntimeError, (make(2, 3), (1, 2), (0,))),
    (IndexError, (make(2, 3), 1, 2)),
]


rot90 = op(
    "rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor",
    kind=REARRANGEMENT,
    vjp=lambda grad, k, dims: grad.rot90(-k, dims),
    jvp=linear_in("self"),
)


@rot90.shape
def _(self: Any, k: int, dims: Any) -> Any:
    sizes, strides = sizes_of(self), strides_of(self)
    turns, first, second = rotation(len(sizes), k, dims)
    if turns == 0:
        return Spec(sizes, self._dtype)
    like = geometry.like_strides(sizes, strides)
    if turns == 2:
        return Spec(sizes, self._dtype, like)
    sizes, like, _ = geometry.transposed_geometry(sizes, like, first, second)
    return Spec(sizes, self._dtype, like)


@rot90.kernel
def _(xp: Any, self: Any, k: int, dims: Any) -> Any:
    turns, first, second = rotation(self.ndim, k, dims)
    if turns == 0:
        return self.copy()
    dims = (first, second) if turns == 2 else (second if turns == 1 else first,)
    found = native_flipped(self, dims) if self.size >= LARGE else None
    if found is None:
        found = flipped(self, dims)
    return found if turns == 2 else found.swapaxes(first, second)


rot90.samples = lambda make: [
    (make(2, 3),),
    (make(2, 3), 2),
    (make.strided(2, 3), 3),
    (make.strided(2, 3), 4),
    (make(2, 3, 2), -1, (1, -1)),
]
rot90.errors = lambda make: [
    (RuntimeError, (make(2, 3), 1, (0, 0))),
    (RuntimeError, (make(2, 3), 1, (0,))),
    (RuntimeError, (make(3),)),
    (IndexError, (make(2, 3), 1, (0, 5))),
    (RuntimeError, (make(3), 1, (0, 1))),
]


# -- grids ---------------------------------------------------------------------------------------


@composite("broadcast_tensors(Tensor[] tensors) -> Tensor[]", method=False, function=None)
def broadcast_all(tensors: Any) -> Any:
    sizes = tuple(geometry.broadcast_shapes(*[tuple(t.shape) for t in tensors]))
    return [t if geometry.same_sizes(tuple(t.shape), sizes) else t.expand(sizes) for t in tensors]


def grid(tensors: Any, indexing: str) -> Any:
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for tensor in tensors:
        if tensor.dim() > 1:
            raise RuntimeError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: "
                f"{geometry.show(tensor.shape)}"
            )
        if tensor._dtype is not tensors[0]._dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            'torch.meshgrid: indexing must be one of "xy" or "ij", but received: ' + indexing
        )
    swap = indexing == "xy" and len(tensors) >= 2
    order = [tensors[1], tensors[0], *tensors[2:]] if swap else list(tensors)
    sizes = tuple([tensor.numel() for tensor in order])
    found = []
    for axis, tensor in enumerate(order):
        shape = [1] * len(order)
        shape[axis] = -1
        found.append(tensor.view(shape).expand(sizes))
    return [found[1], found[0], *found[2:]] if swap else found


@composite(
    "meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", method=False, function=None
)
def meshgrid_indexing(tensors: Any, indexing: str) -> Any:
    return grid(tensors, indexing)


@meshgrid_indexing.samples
def _(make: Any) -> Any:
    return [
        sample([make(2), make(3), make(2)], indexing="ij"),
        sample([make(2), make.strided(3), make(2)], indexing="xy"),
        sample([make(), make(2)], indexing="xy"),
    ]


@composite("meshgrid(Tensor[] tensors) -> Tensor[]", method=False, function=None)
def meshgrid_default(tensors: Any) -> Any:
    warnings.warn(
        "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
        "argument.",
        UserWarning,
        stacklevel=2,
    )
    return grid(tensors, "ij")


meshgrid_default.samples = lambda make: [([make(2), make(3)],)]


@composite("cartesian_prod(Tensor[] tensors) -> Tensor", method=False, function=None)
def cartesian_product(tensors: Any) -> Any:
    for tensor in tensors:
        if tensor.dim() != 1:
            raise RuntimeError("Expect a 1D vector, but got shape " + geometry.show(tensor.shape))
    if len(tensors) == 1:
        return tensors[0]
    return aten.stack([part.flatten() for part in grid(tensors, "ij")], 1)


@composite(
    "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
    method=False,
    tags=("dynamic_output_shape",),
)
def combinations(self: Any, r: int, with_replacement: bool) -> Any:
    if self.dim() != 1:
        raise RuntimeError("Expect a 1D vector, but got shape " + geometry.show(self.shape))
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return self.new_empty((0,))
    places = grid([aten.arange(self.shape[0], device=self.device)] * r, "ij")
    chosen = places[0] >= 0
    for left, right in itertools.pairwise(places):
        chosen = chosen & (left <= right if with_replacement else left < right)
    return aten.stack([part.masked_select(chosen) for part in grid([self] * r, "ij")], 1)


combinations.samples = lambda make: [
    (make(4),),
    (make(3), 2, True),
    (make.strided(4), 3),
    (make(3), 1),
    (make(3), 0),
    (make(2), 3),
]
cartesian_product.samples = lambda make: [([make(2), make(3)],), ([make(2)],)]
broadcast_all.samples = lambda make: [([make(2, 1), make(3)],), ([make(), make.strided(2, 3)],)]


def gathered(name: str, single: bool = False) -> Any:
    """A public function that takes its tensors one by one or as one sequence."""

    def function(*tensors: Any, **kwargs: Any) -> Any:
        sequence = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
        given = tuple(tensors[0]) if sequence else tensors
        if single and len(given) == 1 and not sequence:
            return packet_call(packet(name), function, given, kwargs)
        result = packet_call(packet(name), function, (list(given),), kwargs)
        return tuple(result) if type(result) is list else result

    function.__name__ = function.__qualname__ = name
    function.__module__ = "rushlight.functional"
    return function


block_diag = gathered("block_diag")
atleast_1d = gathered("atleast_1d", single=True)
atleast_2d = gathered("atleast_2d", single=True)
atleast_3d = gathered("atleast_3d", single=True)
broadcast_tensors = gathered("broadcast_tensors")
cartesian_prod = gathered("cartesian_prod")
meshgrid = gathered("meshgrid")


# -- products and shuffles -----------------------------------------------------------------------


@composite("kron(Tensor self, Tensor other) -> Tensor")
def kron(self: Any, other: Any) -> Any:
    ndim = max(self.dim(), other.dim())
    left = (1,) * (ndim - self.dim()) + sizes_of(self)
    right = (1,) * (ndim - other.dim()) + sizes_of(other)
    wide, narrow = [], []
    for size, times in zip(left, right, strict=True):
        wide += [size, 1]
        narrow += [1, times]
    product = unsafe_view(self, wide) * unsafe_view(other, narrow)
    sizes = tuple([size * times for size, times in zip(left, right, strict=True)])
    if geometry.view_strides(sizes_of(product), strides_of(product), sizes) is None:
        return product.reshape(sizes)
    return unsafe_view(product, sizes)


kron.samples = lambda make: [
    (make(2, 2), make(2, 3)),
    (make(), make(2, 2)),
    (make(2), make(2, 2)),
]
