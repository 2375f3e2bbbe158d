"""Views: ops that alias their argument, and composites of them.

Each `shape` rule answers (sizes, strides, offset), the offset counted from the start of the
storage. The ops that carry their gradients back (`slice_backward` and the like) and the scatter
forms live in `viewgrad`; ops that return several views are in `split`.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from rushlight.base.errors import error
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import contiguous_format
from rushlight.core.dispatch import call
from rushlight.core.dtype import dtype as dtype_class
from rushlight.core.op import refuse
from rushlight.core.quick import Quick
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.tensor import PLAIN, sizes_of, storage_of, strides_of
from rushlight.opset.kinds import VIEW
from rushlight.opset.registry import composite, op, view
from rushlight.opset.rules import late
from rushlight.opset.view.gradients import (
    as_strided_backward,
    diagonal_backward,
    select_backward,
    slice_backward,
    unfold_backward,
)

END = 0x7FFFFFFFFFFFFFFF
# What leaves leading dimensions as they are, in a NumPy subscript.
WHOLE = (slice(None),) * 64


# -- reshaping ----------------------------------------------------------------------------------

# A contiguous array in another shape; sizes that NumPy understands otherwise are left alone.
RESHAPED = (
    "array_ if (array_ := {{self}}.reshape({{{0}}})).shape == {{{0}}} or -1 in {{{0}}} else None"
)
view_ = view(
    "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    batch=late("view.batched:view"),
    copied=False,
    varargs=1,
    function=False,
    quick=Quick(RESHAPED.format("size"), when="self._is_contiguous", result_is_contiguous=True),
    vjp=lambda grad, self_shape: grad.reshape(self_shape),
    inverse=lambda source, changed, size: late_reshape(changed, sizes_of(source)),
)
unsafe_view = op(
    "_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
    batch=late("view.batched:view"),
    reshapes=True,
    sparse=late("sparse.shape:refuse_reshape"),
    kind=VIEW,
    out=False,
    method=False,
    function=False,
    vjp=lambda grad, self_shape: grad.reshape(self_shape),
)


@view_.shape
def _(self: Any, size: Any) -> Any:
    array = self._array
    if self._is_contiguous:
        # Sizes that need no inference over contiguous memory: the common case.
        wanted = size if -1 not in size else geometry.infer_size(size, array.size)
        count = 1
        for extent in wanted:
            if extent < 1:
                break
            count *= extent
        else:
            if count == array.size:
                return wanted, geometry.contiguous_strides(wanted), self._offset
    wanted = geometry.infer_size(size, self.numel())
    found = geometry.view_strides(sizes_of(self), strides_of(self), wanted)
    if found is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return wanted, found, self._offset


view_.samples = lambda make: [
    (make(2, 6), (3, 4)),
    (make(2, 6), (-1,)),
    (make(2, 6), (2, -1, 1, 3)),
    (make(), (1, 1)),
    (make(1), ()),
    (make(0, 3), (3, 0)),
    (make(0, 3), (0, 5, 2)),
    (make.strided(2, 3), (2, 1, 3)),
    (make.expanded(3, 4), (3, 2, 2)),
]
unsafe_view.samples = lambda make: [(make(2, 6), (3, 4)), (make.strided(2, 3), (2, 1, 3))]
view_.errors = lambda make: [
    (RuntimeError, (make(4), (3,))),
    (RuntimeError, (make(4), (-1, -1))),
    (RuntimeError, (make(4), (-2, -2))),
    (RuntimeError, (make.strided(2, 3), (6,))),
]


unsafe_view.rules["shape"] = view_.rules["shape"]
# A tangent need not lie in memory as its primal does.
view_.jvp = unsafe_view.jvp = lambda self_t, size: self_t.reshape(size)

view_dtype = view(
    "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
    batch="straight",
    inverse=lambda source, changed, dtype: changed.view(source.dtype),
    function=False,
    untracked=True,
    vjp=refuse("the bits of a number do not vary smoothly with it"),
    jvp=refuse("the bits of a number do not vary smoothly with it"),
)


@view_dtype.shape
def _(self: Any, dtype: dtype_class) -> Any:
    sizes, strides = sizes_of(self), strides_of(self)
    old, new = self._dtype.itemsize, dtype.itemsize
    if self.is_conj():
        raise RuntimeError(
            "torch.Tensor.view is not supported for conjugate view tensors when converting to a "
            "different dtype."
        )
    if self.is_neg():
        raise RuntimeError(
            "torch.Tensor.view is not supported for tensors with negative bit set when converting "
            "to a different dtype."
        )
    if old == new:
        return sizes, strides, self._offset, dtype
    if not sizes:
        raise RuntimeError(
            "self.dim() cannot be 0 to view "
            f"{self._dtype.scalar_type_name} as {dtype.scalar_type_name} (different element sizes)"
        )
    if new < old:
        if strides[-1] != 1:
            raise RuntimeError(
                "self.stride(-1) must be 1 to view "
                f"{self._dtype.scalar_type_name} as {dtype.scalar_type_name} (different element "
                f"sizes), but got {strides[-1]}"
            )
        ratio = old // new
        strides = (*[step * ratio for step in strides[:-1]], 1)
        return (*sizes[:-1], sizes[-1] * ratio), strides, self._offset * ratio, dtype
    ratio = new // old
    names = f"{self._dtype.scalar_type_name} as {dtype.scalar_type_name} (different element sizes)"
    if strides[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 to view {names}, but got {strides[-1]}")
    if geometry.decided(sizes[-1] % ratio != 0):
        raise RuntimeError(
            f"self.size(-1) must be divisible by {ratio} to view {names}, but got {sizes[-1]}"
        )
    if self._offset % ratio != 0:
        raise RuntimeError(
            f"self.storage_offset() must be divisible by {ratio} to view {names}, but got "
            f"{self._offset}"
        )
    for axis, step in enumerate(strides[:-1]):
        if geometry.decided(step % ratio != 0):
            raise RuntimeError(
                f"self.stride({axis}) must be divisible by {ratio} to view {names}, but got {step}"
            )
    strides = (*[step // ratio for step in strides[:-1]], 1)
    return (*sizes[:-1], sizes[-1] // ratio), strides, self._offset // ratio, dtype


view_dtype.samples = lambda make: [
    (make(2, 4), dtypes.uint8),
    (make(2, 16), dtypes.int64),
    (make.strided(2, 4), make.dtype),
]


reshape_alias = view(
    "_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
    copied=False,
    reshapes=True,
    sparse=late("sparse.shape:refuse_reshape"),
    method=False,
    function=False,
    shape=lambda self, size, stride: (size, stride, self._offset),
    vjp=lambda grad, self_shape: grad.reshape(self_shape),
    jvp=lambda self_t, size: self_t.reshape(size),
)


@composite(
    "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
    varargs=1,
    quick=Quick(
        RESHAPED.format("shape"), when="self._is_contiguous", result_is_contiguous=True, as_op=view_
    ),
)
def reshape(self: Any, shape: Any) -> Any:
    if self._is_contiguous:
        return self.view(shape)
    wanted = geometry.infer_size(shape, self.numel())
    sizes, strides = sizes_of(self), strides_of(self)
    found = geometry.view_strides(sizes, strides, wanted)
    if found is None:
        return call(unsafe_view, (self.clone(memory_format=contiguous_format), wanted))
    is_plain = type(self) in PLAIN and not (PROCESS.special and LOCAL.state.layers)
    # torch: what records or overrides ops is shown a plain view.
    if is_plain and not geometry.is_contiguous(sizes, strides):
        return call(reshape_alias, (self, wanted, found))
    return self.view(wanted)


# Without the op itself, which whoever records above autograd would see.
late_reshape: Any = reshape.body
reshape_alias.samples = lambda make: [(make.strided(2, 3), (2, 3, 1), (1, 2, 1))]
reshape.samples = lambda make: [
    (make(2, 6), (3, 4)),
    (make.strided(2, 6), (3, -1)),
    (make.strided(2, 3), (2, 3, 1)),
    (make.strided(4), (2, 2)),
    (make.expanded(3, 4), (12,)),
    (make(0, 3), (3, 0)),
    (make(), (1,)),
]


@composite("view_as(Tensor(a) self, Tensor other) -> Tensor(a)", function=False)
def view_as(self: Any, other: Any) -> Any:
    return self.view(other.shape)


@composite("reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", function=False)
def reshape_as(self: Any, other: Any) -> Any:
    return self.reshape(other.shape)


@composite("flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)")
def flatten(self: Any, start_dim: int, end_dim: int) -> Any:
    sizes = self.shape
    start = geometry.wrap_dim(start_dim, len(sizes))
    end = geometry.wrap_dim(end_dim, len(sizes))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not sizes:
        return self.reshape((1,))
    if start == end:
        return self
    merged = geometry.numel(sizes[start : end + 1])
    return self.reshape((*sizes[:start], merged, *sizes[end + 1 :]))


flatten.samples = lambda make: [
    (make(2, 3, 2),),
    (make.strided(2, 3, 2), 1),
    (make(2, 3, 2), 0, 1),
    (make(),),
    (make(0, 3),),
]


@composite("unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)")
def unflatten(self: Any, dim: int, sizes: Any) -> Any:
    shape = self.shape
    dim = geometry.wrap_dim(dim, len(shape))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not shape:
        raise RuntimeError(
            "unflatten got an unexpected error:\nDimension specified as 0 but tensor has no "
            "dimensions"
        )
    try:
        inferred = geometry.infer_size(sizes, shape[dim])
    except RuntimeError as error:
        if "is invalid for input" not in str(error):
            raise RuntimeError(f"unflatten got an unexpected error:\n{error}\n") from None
        raise RuntimeError(
            f"unflatten: Provided sizes {geometry.show(sizes)} don't multiply up to the size of "
            f"dim {dim} ({shape[dim]}) in the input tensor"
        ) from None
    return self.view((*shape[:dim], *inferred, *shape[dim + 1 :]))


unflatten.samples = lambda make: [
    (make(2, 6), 1, (2, -1)),
    (make.strided(4, 3), -2, (2, 2)),
]


@composite("ravel(Tensor(a) self) -> Tensor(a)")
def ravel(self: Any) -> Any:
    return self.contiguous().view(-1)


def strided_inverse(source: Any, changed: Any, size: Any, stride: Any, offset: Any) -> Any:
    if not geometry.is_nested(tuple(size), tuple(stride)):
        # A write to one element may be one to others.
        raise error("RL0702", NotImplementedError, op="aten::as_strided")
    return source.as_strided_scatter(changed, size, stride, offset)


view_as.samples = lambda make: [(make(2, 3), make(3, 2))]
reshape_as.samples = lambda make: [(make.strided(2, 3), make(3, 2))]
ravel.samples = lambda make: [(make(2, 3),), (make.strided(2, 3),), (make(),)]

as_strided = view(
    "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) "
    "-> Tensor(a)",
    lower=refuse("its strides are those of memory"),
    batch=late("view.batched:as_strided"),
    vjp=lambda grad, self_meta, size, stride, storage_offset: as_strided_backward(
        grad, self_meta, size, stride, storage_offset
    ),
    inverse=strided_inverse,
)


@as_strided.shape
def _(self: Any, size: Any, stride: Any, storage_offset: Any) -> Any:
    offset = self._offset if storage_offset is None else storage_offset
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    for step in stride:
        if step < 0:
            raise RuntimeError(
                "as_strided: Negative strides are not supported at the moment, got strides: "
                f"{geometry.show(stride)}"
            )
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    for extent in size:
        if extent < 0:
            raise RuntimeError(
                f"Storage size calculation overflowed with sizes={geometry.show(size)} and "
                f"strides={geometry.show(stride)}"
            )
    geometry.check_extent(size, stride, offset, storage_of(self).nbytes_, self._dtype.itemsize)
    return size, stride, offset


as_strided.samples = lambda make: [
    (make(3, 4), (2, 2), (1, 4)),
    (make(3, 4), (2, 3), (1, 1), 2),
    (make(3, 4), (2, 3), (0, 2)),
    (make(6), (), (), 3),
    (make(6), (0, 2), (1, 1)),
    (make.strided(3, 4), (4, 2), (1, 5), 1),
    (make.expanded(2, 3), (2, 2), (1, 1)),
]
as_strided.errors = lambda make: [
    (RuntimeError, (make(4), (2,), (-1,))),
    (RuntimeError, (make(4), (2,), (1, 1))),
    (RuntimeError, (make(4), (2,), (1,), -1)),
    (RuntimeError, (make(4), (2, 4), (3, 1))),
]


# -- order of dimensions -------------------------------------------------------------------------

transpose = view(
    "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
    sparse=late("sparse.shape:transpose"),
    quick=Quick("{self}.swapaxes({dim0}, {dim1}) if {self}.size else None"),
    vjp=lambda grad, dim0, dim1: grad.transpose(dim0, dim1),
    inverse=lambda source, changed, dim0, dim1: changed.transpose(dim0, dim1),
)


@transpose.shape
def _(self: Any, dim0: int, dim1: int) -> Any:
    sizes, strides, _ = geometry.transposed_geometry(sizes_of(self), strides_of(self), dim0, dim1)
    return sizes, strides, self._offset


transpose.samples = lambda make: [
    (make(2, 3), 0, 1),
    (make.strided(2, 3, 4), -1, 0),
    (make(2, 3), 1, 1),
    (make(), 0, -1),
    (make(0, 3), 0, 1),
    (make.expanded(2, 3), 0, 1),
]
transpose.errors = lambda make: [(IndexError, (make(2, 3), 0, 2))]


t = view(
    "t(Tensor(a) self) -> Tensor(a)",
    sparse=late("sparse.shape:transpose_matrix"),
    batch=late("view.batched:t"),
    quick=Quick("{self}.T if {self}.ndim == 2 and {self}.size else None"),
    vjp=lambda grad: grad.t(),
    inverse=lambda source, changed: changed.t(),
)


@t.shape
def _(self: Any) -> Any:
    sizes = sizes_of(self)
    if len(sizes) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {len(sizes)}D")
    return sizes[::-1], strides_of(self)[::-1], self._offset


t.samples = lambda make: [(make(2, 3),), (make(3),), (make(),), (make.strided(2, 3),)]
t.errors = lambda make: [(RuntimeError, (make(1, 2, 3),))]


permute = view(
    "permute(Tensor(a) self, int[] dims) -> Tensor(a)",
    batch=late("view.batched:permute"),
    sparse=late("sparse.shape:permuted"),
    varargs=1,
    quick=Quick(
        "{self}.transpose({dims}) if {self}.size else None",
        when="self._is_contiguous",
        result_is_contiguous=False,
    ),
    vjp=lambda grad, dims: grad.permute(inverse_order(dims)),
    inverse=lambda source, changed, dims: changed.permute(inverse_order(dims)),
)


@permute.shape
def _(self: Any, dims: Any) -> Any:
    sizes, strides, _ = geometry.permuted_geometry(sizes_of(self), strides_of(self), dims)
    return sizes, strides, self._offset


permute.samples = lambda make: [
    (make(2, 3, 4), (2, 0, 1)),
    (make.strided(2, 3), (-1, 0)),
    (make(), ()),
]
permute.errors = lambda make: [
    (RuntimeError, (make(2, 3), (0,))),
    (RuntimeError, (make(2, 3), (0, 0))),
    (IndexError, (make(2, 3), (0, 2))),
]


def inverse_order(dims: Any) -> tuple[int, ...]:
    inverse = [0] * len(dims)
    for position, dim in enumerate(dims):
        inverse[dim] = position
    return tuple(inverse)


# -- sizes ---------------------------------------------------------------------------------------


def expanded_number(array: Any, size: Any) -> Any:
    """One number seen as an array of any size."""
    if array.ndim or 0 in size:
        raise ValueError("not a single number")
    return ndarray(size, array.dtype, array, 0, (0,) * len(size))


def unexpanded(source: Any, changed: Any, size: Any, implicit: bool) -> Any:
    """One of the copies that a write to an expanded tensor leaves: all are one element."""
    if changed.numel() == 0:
        return source
    for _ in range(changed.dim() - source.dim()):
        changed = changed.select(0, 0)
    for dim, extent in enumerate(source.shape):
        if extent == 1 and changed.shape[dim] != 1:
            changed = changed.narrow(dim, 0, 1)
    return changed


expand = view(
    "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
    batch=late("view.batched:expand"),
    sparse=late("sparse.shape:refuse_expand"),
    varargs=1,
    function=False,
    quick=Quick(
        "expanded_number({self}, {size})",
        when="self._is_contiguous",
        result_is_contiguous=False,
        scope={"expanded_number": expanded_number},
    ),
    vjp=lambda grad, self_shape: grad.sum_to_size(self_shape),
    inverse=unexpanded,
)


@expand.shape
def _(self: Any, size: Any, implicit: bool) -> Any:
    shape = sizes_of(self)
    kind = "" if len(size) >= len(shape) else self.type()
    sizes, strides, _ = geometry.expand_geometry(shape, strides_of(self), size, kind)
    for extent in sizes:
        if not geometry.required(extent >= 0):
            raise RuntimeError(
                f"The expanded size of the tensor ({extent}) isn't allowed in a leading, "
                "non-existing dimension 0"
            )
    return sizes, strides, self._offset


expand.samples = lambda make: [
    (make(1, 3), (2, 3)),
    (make(3), (2, -1)),
    (make(2, 1), (4, 2, 3)),
    (make(), (2, 2)),
    (make(), ()),
    (make(1), (0,)),
    (make.strided(3, 1), (3, 2)),
]
expand.errors = lambda make: [
    (RuntimeError, (make(2, 3), (3,))),
    (RuntimeError, (make(2, 3), (4, 3))),
    (RuntimeError, (make(3), (-1, 3))),
]


@composite("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", function=False)
def expand_as(self: Any, other: Any) -> Any:
    return self.expand(other.shape)


@composite("broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)")
def broadcast_to(self: Any, size: Any) -> Any:
    return self.expand(size)


expand_as.samples = lambda make: [(make(1, 3), make(2, 3)), (make(3), make.strided(2, 3))]
broadcast_to.samples = lambda make: [(make(1, 3), (2, 3)), (make(), (2,))]


def unsqueeze_to(grad: Any, sizes: Any, dims: Any = None) -> Any:
    """A gradient with the squeezed dimensions put back."""
    among = range(len(sizes)) if dims is None else geometry.wrap_dims(dims, len(sizes))
    for dim in sorted(among):
        if sizes and sizes[dim] == 1:
            grad = grad.unsqueeze(dim)
    return grad


squeeze = view(
    "squeeze(Tensor(a) self) -> Tensor(a)",
    batch=late("view.batched:squeeze"),
    quick=Quick("{self}.squeeze()", when="self._is_contiguous", result_is_contiguous=True),
    vjp=lambda grad, self_shape: unsqueeze_to(grad, self_shape),
    inverse=lambda source, changed: unsqueeze_to(changed, source.shape),
)
squeeze_dim = view(
    "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
    batch=late("view.batched:squeeze"),
    node_index=1,
    vjp=lambda grad, self_shape, dim: unsqueeze_to(grad, self_shape, (dim,)),
    inverse=lambda source, changed, dim: unsqueeze_to(changed, source.shape, (dim,)),
)
squeeze_dims = view(
    "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
    varargs=1,
    batch=late("view.batched:squeeze"),
    node_index=2,
    vjp=lambda grad, self_shape, dim: unsqueeze_to(grad, self_shape, dim),
    inverse=lambda source, changed, dim: unsqueeze_to(changed, source.shape, dim),
)


@squeeze.shape
def _(self: Any) -> Any:
    sizes, strides, _ = geometry.squeezed_geometry(sizes_of(self), strides_of(self))
    return sizes, strides, self._offset


@squeeze_dim.shape
def _(self: Any, dim: int) -> Any:
    sizes, strides, _ = geometry.squeezed_geometry(sizes_of(self), strides_of(self), (dim,))
    return sizes, strides, self._offset


@squeeze_dims.shape
def _(self: Any, dim: Any) -> Any:
    sizes, strides, _ = geometry.squeezed_geometry(sizes_of(self), strides_of(self), dim)
    return sizes, strides, self._offset


squeeze.samples = lambda make: [(make(1, 2, 1),), (make(),), (make(2, 3),), (make.strided(1, 3),)]
squeeze_dim.samples = lambda make: [
    (make(1, 2, 1), 0),
    (make(1, 2, 1), -1),
    (make(1, 2, 1), 1),
    (make(), 0),
]
squeeze_dims.samples = lambda make: [
    (make(1, 2, 1), (0, 2)),
    (make(1, 2, 1), (1,)),
    (make(1, 1), (-1, 0)),
    (make(2), ()),
]


def unsqueezed(array: Any, dim: Any) -> Any:
    """A contiguous array with an axis of size 1 put in."""
    sizes = array.shape
    if not array.size:
        raise ValueError("strides of an empty tensor do not follow from its sizes")
    if dim < 0:
        dim += len(sizes) + 1
    if not 0 <= dim <= len(sizes):
        raise IndexError(dim)
    return array.reshape((*sizes[:dim], 1, *sizes[dim:]))


unsqueeze = view(
    "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
    sparse=late("sparse.shape:unsqueezed"),
    quick=Quick(
        "unsqueezed({self}, {dim})",
        when="self._is_contiguous",
        result_is_contiguous=True,
        scope={"unsqueezed": unsqueezed},
    ),
    vjp=lambda grad, dim: grad.squeeze(dim),
    inverse=lambda source, changed, dim: changed.squeeze(dim),
)


@unsqueeze.batch
def _(level: Any, op: Any, self: Any, dim: int) -> Any:
    return level.wrap(level.below(op, (level.front(self), level.shift(dim, self.dim() + 1))))


@unsqueeze.shape
def _(self: Any, dim: int) -> Any:
    sizes, strides, _ = geometry.unsqueezed_geometry(sizes_of(self), strides_of(self), dim)
    return sizes, strides, self._offset


unsqueeze.samples = lambda make: [
    (make(2, 3), 0),
    (make.strided(2, 3), 1),
    (make(2, 3), -1),
    (make(), 0),
]
unsqueeze.errors = lambda make: [(IndexError, (make(2), 3))]


# -- parts ---------------------------------------------------------------------------------------

select = view(
    "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
    sparse=late("sparse.shape:selected"),
    quick=Quick(
        "{self}[(*WHOLE[:{dim}], {index}, ...)] if {dim} else {self}[{index}, ...]",
        when="{self}.size and 0 <= {dim} < {self}.ndim "
        "and -(size_ := {self}.shape[{dim}]) <= {index} < size_",
        offset="self._offset + {index} % size_ * ({self}.strides[{dim}] // {self}.itemsize)",
        scope={"WHOLE": WHOLE},
    ),
    vjp=lambda grad, self_shape, dim, index: call(select_backward, (grad, self_shape, dim, index)),
    inverse=lambda source, changed, dim, index: source.select_scatter(changed, dim, index),
)


@select.shape
def _(self: Any, dim: int, index: Any) -> Any:
    sizes, strides, skipped = geometry.select_geometry(sizes_of(self), strides_of(self), dim, index)
    return sizes, strides, self._offset + skipped


select.samples = lambda make: [
    (make(2, 3), 0, 1),
    (make.strided(2, 3, 2), -2, -1),
    (make.expanded(2, 3), 0, 1),
    (make(3), 0, 0),
    (make(2, 0), 0, 1),
]
select.errors = lambda make: [
    (IndexError, (make(3), 0, 3)),
    (IndexError, (make(3), 1, 0)),
    (IndexError, (make(), 0, 0)),
]


slice_ = view(
    "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) "
    "-> Tensor(a)",
    method=False,
    function=False,
    quick=Quick(
        "array_ if (array_ := {self}[(*WHOLE[:{dim}], at_ := slice({start}, {end}, {step}))]).size "
        "else None",
        when="0 <= {dim} < {self}.ndim and {step} > 0",
        offset="self._offset + at_.indices({self}.shape[{dim}])[0] "
        "* ({self}.strides[{dim}] // {self}.itemsize)",
        scope={"WHOLE": WHOLE},
    ),
    vjp=lambda grad, self_shape, dim, start, end, step: slice_backward(
        grad, self_shape, dim, 0 if start is None else start, END if end is None else end, step
    ),
    inverse=lambda source, changed, dim, start, end, step: source.slice_scatter(
        changed, dim, start, end, step
    ),
)


@slice_.shape
def _(self: Any, dim: int, start: Any, end: Any, step: Any) -> Any:
    sizes, strides, skipped = geometry.slice_geometry(
        sizes_of(self), strides_of(self), dim, start, end, step
    )
    return sizes, strides, self._offset + skipped


slice_.samples = lambda make: [
    (make(4, 3),),
    (make(4, 3), 0, 1, 3),
    (make.strided(4, 3), 1, -2),
    (make(5), 0, 0, 9, 2),
    (make(5), 0, 4, 1),
    (make.expanded(4, 3), 0, 1, None, 2),
    (make(0, 2), 0, 1, 2),
]
slice_.errors = lambda make: [
    (RuntimeError, (make(3), 0, 0, 3, 0)),
    (IndexError, (make(3), 1)),
]


slice_inverse = view(
    "slice_inverse(Tensor(a) self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
    "SymInt step=1) -> Tensor(a)",
    lower=refuse("it answers memory beyond its operand's"),
    copied=False,
    batch="view",
    shape=lambda self, src, dim, start, end, step: (
        sizes_of(src),
        strides_of(src),
        src._offset,
    ),
    vjp={
        "self": lambda grad, dim, start, end, step: slice_(grad, dim, start, end, step),
        "src": lambda grad, self_meta, dim, start, end, step: grad.slice_scatter(
            grad.new_zeros(self_meta.shape), dim, start, end, step
        ),
    },
    jvp=refuse("the tangent of `self` covers only the slice"),
)


@composite("narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)")
def narrow(self: Any, dim: int, start: Any, length: Any) -> Any:
    sizes = self.shape
    if not sizes:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if not geometry.required(length >= 0):
        raise RuntimeError("narrow(): length must be non-negative.")
    size = sizes[geometry.wrap_dim(dim, len(sizes))]
    if not (geometry.required(start >= -size) and geometry.required(start <= size)):
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    start = geometry.from_front(start, size)
    if not geometry.required(start <= size - length):
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return call(slice_, (self, dim, start, start + length, 1))


@composite(
    "narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)",
    tags=("data_dependent_output",),
)
def narrow_tensor(self: Any, dim: int, start: Any, length: Any) -> Any:
    if start.dim() != 0 or start._dtype.category != 1:
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    return self.narrow(dim, start.item(), length)


narrow_tensor.samples = lambda make: [(make(4, 3), 0, make.index(below=3), 1)]
slice_inverse.samples = refuse("it reads memory around its argument, which a copy of it lacks")
narrow.samples = lambda make: [
    (make(4, 3), 0, 1, 2),
    (make.strided(4, 3), 1, -2, 2),
    (make(3), 0, 3, 0),
]
narrow.errors = lambda make: [
    (RuntimeError, (make(), 0, 0, 0)),
    (IndexError, (make(2), 0, 3, 0)),
    (RuntimeError, (make(2), 0, 1, 2)),
]


diagonal = view(
    "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
    vjp=lambda grad, self_shape, offset, dim1, dim2: diagonal_backward(
        grad, self_shape, offset, dim1, dim2
    ),
    inverse=lambda source, changed, offset, dim1, dim2: source.diagonal_scatter(
        changed, offset, dim1, dim2
    ),
)


@diagonal.shape
def _(self: Any, offset: Any, dim1: int, dim2: int) -> Any:
    sizes, strides, skipped = geometry.diagonal_geometry(
        sizes_of(self), strides_of(self), offset, dim1, dim2
    )
    return sizes, strides, self._offset + skipped


diagonal.samples = lambda make: [
    (make(3, 3),),
    (make(2, 4), 1),
    (make.strided(3, 2), -1),
    (make(2, 3, 2), 0, 0, 2),
    (make(2, 2), 5),
    (make.expanded(3, 3), 0, 1, 0),
]
diagonal.errors = lambda make: [(RuntimeError, (make(2, 2), 0, 0, 0)), (IndexError, (make(2),))]


unfold = view(
    "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
    function=None,
    vjp=lambda grad, self_shape, dimension, size, step: unfold_backward(
        grad, self_shape, dimension, size, step
    ),
)


@unfold.shape
def _(self: Any, dimension: int, size: Any, step: Any) -> Any:
    sizes, strides, _ = geometry.unfold_geometry(
        sizes_of(self), strides_of(self), dimension, size, step
    )
    return sizes, strides, self._offset


unfold.samples = lambda make: [
    (make(5), 0, 2, 1),
    (make(5), 0, 2, 3),
    (make.strided(2, 5), 1, 3, 2),
    (make(), 0, 1, 1),
    (make(3), 0, 0, 1),
]
unfold.errors = lambda make: [
    (RuntimeError, (make(4), 0, 5, 1)),
    (RuntimeError, (make(4), 0, 1, 0)),
]


# -- aliases -------------------------------------------------------------------------------------


def same_geometry(self: Any) -> Any:
    return sizes_of(self), strides_of(self), self._offset


alias = view(
    "alias(Tensor(a) self) -> Tensor(a)",
    sparse=late("sparse.shape:aliased"),
    batch="straight",
    method=False,
    function=False,
    vjp=lambda grad: grad,
    shape=same_geometry,
    inverse=lambda source, changed: changed,
)
lift_fresh = view(
    "lift_fresh(Tensor(a) self) -> Tensor(a)",
    sparse=late("sparse.shape:aliased"),
    copied=False,
    batch="straight",
    method=False,
    function=False,
    vjp=lambda grad: grad,
    shape=same_geometry,
    inverse=lambda source, changed: changed,
)
# An alias that shares the version counter and nothing of the graph: not a view to autograd.
detach = view(
    "detach(Tensor(a) self) -> Tensor(a)",
    sparse=late("sparse.shape:aliased"),
    batch="straight",
    untracked=True,
    seen_again=True,
    shape=same_geometry,
    inverse=lambda source, changed: changed,
    vjp=refuse("it cuts its result off the graph"),
    jvp=refuse("its result has no tangent"),
)

for record in (alias, lift_fresh, detach):
    record.samples = lambda make: [(make(2, 3),), (make.strided(2, 3),), (make(),)]
