"""The ops behind views' gradients: `select_backward` and the like, and the scatter forms.

A `*_scatter` op is its view written functionally: a copy of `self` with the same strides, whose
view holds `src`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import geometry
from rushlight.core.op import OpOverload
from rushlight.core.storage import Storage
from rushlight.core.tensor import (
    Tensor,
    alias_array,
    empty_strided,
    shell,
    sizes_of,
    storage_of,
    strides_of,
    values_of,
    wrap_strided,
)
from rushlight.opset.kinds import SCATTER, Spec, resolved
from rushlight.opset.registry import find, op, packet
from rushlight.opset.results import lay_out, make_view
from rushlight.opset.rules import linear_in
from rushlight.symbolic import SymInt

__all__ = [
    "as_strided_backward",
    "diagonal_backward",
    "select_backward",
    "slice_backward",
    "unfold_backward",
]


def at_dim(dim: int, index: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * dim, index)


select_backward = op(
    "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
    batch="view_backward",
    kind=SCATTER,
    method=False,
    vjp=lambda grad, dim, index: grad.select(dim, index),
    jvp=linear_in("grad_output"),
)


@select_backward.kernel
def _(xp: Any, grad_output: Any, input_sizes: Any, dim: int, index: Any) -> Any:
    result = xp.zeros(input_sizes, grad_output.dtype)
    dim = geometry.wrap_dim(dim, len(input_sizes))
    # Words the error of an index that the dimension does not have.
    geometry.select_geometry(tuple(input_sizes), tuple(input_sizes), dim, index)
    result[at_dim(dim, index)] = grad_output
    return result


select_backward.samples = lambda make: [
    (make(3), (2, 3), 0, 1),
    (make.expanded(2, 2), (2, 3, 2), -2, -1),
    (make(), (3,), 0, 2),
]


slice_backward = op(
    "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, "
    "SymInt step) -> Tensor",
    batch="view_backward",
    kind=SCATTER,
    method=False,
    vjp=lambda grad, dim, start, end, step: find("slice", "Tensor")(grad, dim, start, end, step),
    jvp=linear_in("grad_output"),
)


@slice_backward.kernel
def _(
    xp: Any, grad_output: Any, input_sizes: Any, dim: int, start: Any, end: Any, step: Any
) -> Any:
    result = xp.zeros(input_sizes, grad_output.dtype)
    result[at_dim(geometry.wrap_dim(dim, len(input_sizes)), slice(start, end, step))] = grad_output
    return result


slice_backward.samples = lambda make: [
    (make(2, 3), (4, 3), 0, 1, 3, 1),
    (make.strided(2, 2), (2, 3), -1, 0, 9223372036854775807, 2),
    (make(0), (3,), 0, 3, 1, 1),
]


diagonal_backward = op(
    "diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) "
    "-> Tensor",
    batch="view_backward",
    kind=SCATTER,
    method=False,
    vjp=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2),
    jvp=linear_in("grad_output"),
)


@diagonal_backward.kernel
def _(xp: Any, grad_output: Any, input_sizes: Any, offset: int, dim1: int, dim2: int) -> Any:
    result = xp.zeros(input_sizes, grad_output.dtype)
    if result.size and grad_output.size:
        strided_part(
            result,
            *geometry.diagonal_geometry(
                input_sizes, geometry.contiguous_strides(input_sizes), offset, dim1, dim2
            ),
        )[...] = grad_output
    return result


diagonal_backward.samples = lambda make: [
    (make(3), (3, 3), 0, 0, 1),
    (make.expanded(2, 2), (2, 3, 2), -1, 1, 2),
    (make(0), (2, 2), 5, 0, 1),
]


def strided_part(array: Any, sizes: Any, strides: Any, offset: Any) -> Any:
    """A writable view of a contiguous array's memory."""
    width = array.itemsize
    return np.ndarray(sizes, array.dtype, array, offset * width, [s * width for s in strides])


unfold_backward = op(
    "unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
    batch="view_backward",
    kind=SCATTER,
    method=False,
    vjp=lambda grad, dim, size, step: grad.unfold(dim, size, step),
    jvp=linear_in("grad_in"),
)


@unfold_backward.kernel
def _(xp: Any, grad_in: Any, input_sizes: Any, dim: int, size: int, step: int) -> Any:
    result = xp.zeros(input_sizes, grad_in.dtype)
    if not input_sizes:
        return result + grad_in.sum() if size else result
    windows = strided_part(
        result,
        *geometry.unfold_geometry(
            tuple(input_sizes), geometry.contiguous_strides(tuple(input_sizes)), dim, size, step
        ),
    )
    # Pieces of `step` elements from all windows at once never meet.
    for start in range(0, size, step):
        windows[..., start : start + step] += grad_in[..., start : start + step]
    return result


unfold_backward.samples = lambda make: [
    (make(4, 2), (5,), 0, 2, 1),
    (make(2, 2), (5,), 0, 2, 3),
    (make.strided(2, 2, 3), (2, 5), 1, 3, 2),
]


# -- scatter forms -------------------------------------------------------------------------------


def same_strides_copy(self: Tensor) -> Tensor:
    """A copy with equal sizes, strides and offset over memory of its own."""
    sizes, strides = sizes_of(self), scattered_strides(self)
    dtype = self._dtype
    if self._array is None:
        return shell(sizes, strides, dtype, self.device, self._offset)
    if self._is_contiguous and self._offset == 0:
        return lay_out(self._array.copy(), strides, dtype)
    if strides != strides_of(self):
        return lay_out(values_of(self).copy(), strides, dtype)
    extent = geometry.storage_extent(sizes, strides, self._offset) * dtype.itemsize
    if extent == 0:
        return empty_strided(sizes, strides, dtype)
    storage = Storage(storage_of(self).buffer[:extent].copy())
    array = alias_array(storage, dtype, sizes, strides, self._offset)
    return wrap_strided(array, dtype, storage, self._offset)


def scattered_strides(self: Tensor) -> Any:
    """Those of a tensor, made dense where its elements share memory."""
    sizes, strides = sizes_of(self), strides_of(self)
    if geometry.is_overlapping(sizes, strides):
        return geometry.like_strides(sizes, strides)
    return strides


def example_of(value: Any) -> Any:
    """A tensor or number as it is in the example, where it has one: asking it makes no guard."""
    if isinstance(value, SymInt):
        hint = value.node.hint
        return value if hint is None else hint
    if not isinstance(value, Tensor) or value._array is not None:
        return value
    sizes, strides = (tuple(map(example_of, part)) for part in (sizes_of(value), strides_of(value)))
    if not all([size.__class__ is int for size in (*sizes, *strides)]):
        return value
    return shell(sizes, strides, value._dtype, value.device)


def scatter_of_view(schema: str, view: tuple[str, str], **options: Any) -> OpOverload:
    """An op that writes `src` into a view of a copy of `self`."""
    record = op(
        schema,
        kind=SCATTER,
        takes_tensors=True,
        recompute=True,
        jvp=linear_in("self", "src"),
        **options,
    )

    def part_of(target: Any, src: Any, *rest: Any) -> Any:
        found = find(*view).rule("shape")(target, *rest)
        if not geometry.same_sizes(sizes_of(src), tuple(found[0])):
            raise RuntimeError(
                f"expected src to have a size equal to the slice of self. src size = "
                f"{geometry.show(src.shape)}, slice size = {geometry.show(found[0])}"
            )
        return found

    @record.shape
    def _(self: Any, *args: Any) -> Any:
        # What part it is asks about sizes; those of the example say whether `src` fits it.
        part_of(*[example_of(value) for value in (self, *args)])
        return Spec(self.shape, self._dtype, scattered_strides(self))

    @record.kernel
    def _(self: Any, src: Any, *args: Any) -> Any:
        self, src = resolved(self), resolved(src)
        part_of(*[example_of(value) for value in (self, src, *args)])
        result = same_strides_copy(self)
        if result._array is not None and src._array is not None:
            part = make_view(result, *part_of(result, src, *args))
            np.copyto(part._array, src._array, casting="unsafe")
        return result

    return record


slice_scatter = scatter_of_view(
    "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
    "SymInt step=1) -> Tensor",
    view=("slice", "Tensor"),
    vjp={
        "self": lambda grad, src_meta, dim, start, end, step: grad.slice_scatter(
            grad.new_zeros(src_meta.shape), dim, start, end, step
        ),
        "src": lambda grad, dim, start, end, step: find("slice", "Tensor")(
            grad, dim, start, end, step
        ),
    },
)
select_scatter = scatter_of_view(
    "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
    view=("select", "int"),
    vjp={
        "self": lambda grad, src_meta, dim, index: grad.select_scatter(
            grad.new_zeros(src_meta.shape), dim, index
        ),
        "src": lambda grad, dim, index: grad.select(dim, index),
    },
)
diagonal_scatter = scatter_of_view(
    "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    view=("diagonal", "default"),
    vjp={
        "self": lambda grad, src_meta, offset, dim1, dim2: grad.diagonal_scatter(
            grad.new_zeros(src_meta.shape), offset, dim1, dim2
        ),
        "src": lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2),
    },
)
as_strided_scatter = scatter_of_view(
    "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, "
    "SymInt? storage_offset=None) -> Tensor",
    view=("as_strided", "default"),
    vjp={
        "self": lambda grad, self_meta, src_meta, size, stride, storage_offset: laid_out_like(
            grad, self_meta
        ).as_strided_scatter(
            grad.new_zeros(src_meta.shape),
            size,
            stride,
            self_meta.offset if storage_offset is None else storage_offset,
        ),
        "src": lambda grad, self_meta, size, stride, storage_offset: laid_out_like(
            grad, self_meta
        ).as_strided(size, stride, self_meta.offset if storage_offset is None else storage_offset),
    },
)


@as_strided_scatter.batch
def _(level: Any, op: Any, self: Any, src: Any, size: Any, stride: Any, storage_offset: Any) -> Any:
    def every(target: Any, source: Any) -> Any:
        if target is self:
            target = self.unsqueeze(0).expand(level.size, *self.shape).contiguous()
        if source is src:
            source = src.unsqueeze(0).expand(level.size, *src.shape)
        offset = target._offset if storage_offset is None else storage_offset
        steps = (strides_of(target)[0], *stride)
        return target.as_strided_scatter(source, (level.size, *size), steps, offset)

    return level.wrap(level.run(every, level.front(self), level.front(src)))


slice_scatter.samples = lambda make: [
    (make(4, 3), make(2, 3), 0, 1, 3),
    (make.strided(2, 5), make(2, 3), 1, 0, None, 2),
]
select_scatter.samples = lambda make: [
    (make(4, 3), make(3), 0, 1),
    (make.strided(2, 5), make.strided(2), -1, 0),
]
diagonal_scatter.samples = lambda make: [
    (make(3, 3), make(3)),
    (make.strided(2, 4), make(2), 1),
]
as_strided_scatter.samples = lambda make: [
    (make(3, 4), make(2, 2), (2, 2), (1, 4)),
    (make(6), make(2), (2,), (3,), 1),
]
slice_scatter.errors = lambda make: [(RuntimeError, (make(4), make(3)))]
select_scatter.errors = lambda make: [(RuntimeError, (make(4), make(3), 0, 0))]
diagonal_scatter.errors = lambda make: [(RuntimeError, (make(4, 4), make(3)))]
as_strided_scatter.errors = lambda make: [(RuntimeError, (make(4), make(3), (2,), (1,)))]


def laid_out_like(grad: Any, meta: Any) -> Any:
    """A gradient at the places of memory where the input has its elements."""
    if meta.offset == 0 and meta.strides == geometry.contiguous_strides(tuple(meta.shape)):
        return grad.contiguous()
    extent = geometry.storage_extent(tuple(meta.shape), meta.strides, meta.offset)
    flat = grad.new_zeros((extent,))
    flat = flat.as_strided_scatter(grad, meta.shape, meta.strides, meta.offset)
    return flat.as_strided(meta.shape, meta.strides, meta.offset)


# -- as_strided ----------------------------------------------------------------------------------


def maybe_overlapping(sizes: Any, strides: Any) -> bool:
    """Whether elements may share memory, told without looking at every one of them."""
    reach: Any = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size == 1:
            continue
        if stride <= reach:
            return True
        reach = reach + stride * (size - 1)
    return False


def as_strided_backward(grad: Any, meta: Any, size: Any, stride: Any, storage_offset: Any) -> Any:
    """Gradient of `as_strided`, with each memory location standing for one variable.

    Gradients of output elements at one location add up; an input whose elements share a
    location gives each of them the location's share.
    """
    offset = meta.offset if storage_offset is None else storage_offset
    if 0 in size:
        return grad.new_zeros(meta.shape)
    out_sizes: list[Any] = []
    out_strides: list[Any] = []
    for dim in range(len(size) - 1, -1, -1):
        if size[dim] == 1:
            grad = grad.squeeze(dim)
        elif stride[dim] == 0:
            grad = grad.sum(dim)
        else:
            out_sizes.insert(0, size[dim])
            out_strides.insert(0, stride[dim])
    if 0 in meta.shape:
        return grad.new_zeros(meta.shape)
    in_sizes: list[Any] = []
    in_strides: list[Any] = []
    repeats: Any = 1
    for extent, step in zip(meta.shape, meta.strides, strict=True):
        if extent != 1 and step == 0:
            repeats = repeats * extent
        elif extent != 1:
            in_sizes.append(extent)
            in_strides.append(step)
    first = min(meta.offset, offset)
    base = max(
        geometry.storage_extent(tuple(in_sizes), tuple(in_strides), meta.offset - first),
        geometry.storage_extent(tuple(out_sizes), tuple(out_strides), offset - first),
    )
    flat = grad.new_zeros((base,))
    if maybe_overlapping(out_sizes, out_strides):
        places = memory_places(grad, base, out_sizes, out_strides, offset - first)
        flat = flat.index_add(0, places, grad.reshape((-1,)))
    else:
        flat = flat.as_strided_scatter(grad, out_sizes, out_strides, offset - first)
    if maybe_overlapping(in_sizes, in_strides):
        places = memory_places(grad, base, in_sizes, in_strides, meta.offset - first)
        ones = grad.new_zeros((1,)).add(1).expand(places.shape)
        flat = flat / grad.new_zeros((base,)).index_add(0, places, ones).clamp(min=1)
    if repeats != 1:
        flat = flat / repeats
    return flat.as_strided(meta.shape, meta.strides, meta.offset - first)


def memory_places(grad: Any, base: Any, sizes: Any, strides: Any, offset: Any) -> Any:
    """The flat positions of a geometry's elements, in order."""
    places = packet("arange")(base, device=grad.device)
    return places.as_strided(sizes, strides, offset).reshape((-1,))


# -- several views -------------------------------------------------------------------------------


def new_zeros_like(grads: Any, sizes: Any) -> Any:
    given = next(grad for grad in grads if grad is not None)
    return given.new_zeros(sizes)


def unbind_backward(grads: Any, meta: Any, dim: int) -> Any:
    dim = geometry.wrap_dim(dim, len(meta.shape))
    blank = None
    filled = []
    for grad in grads:
        if grad is None:
            if blank is None:
                blank = new_zeros_like(grads, geometry.without(tuple(meta.shape), dim))
            grad = blank
        filled.append(grad)
    return packet("stack")(filled, dim)


def split_with_sizes_backward(grads: Any, meta: Any, split_sizes: Any, dim: int) -> Any:
    dim = geometry.wrap_dim(dim, len(meta.shape))
    sizes = tuple(meta.shape)
    filled = []
    for grad, length in zip(grads, split_sizes, strict=True):
        if grad is None:
            grad = new_zeros_like(grads, (*sizes[:dim], length, *sizes[dim + 1 :]))
        filled.append(grad)
    return packet("cat")(filled, dim)


def split_backward(grads: Any, meta: Any, split_size: Any, dim: int) -> Any:
    dim = geometry.wrap_dim(dim, len(meta.shape))
    size = meta.shape[dim]
    count = len(grads)
    lengths = [split_size] * (count - 1) + [size - split_size * (count - 1)]
    return split_with_sizes_backward(grads, meta, lengths, dim)
