"""Writes by index and mask, and gradients of views, as programs over core ops."""

from __future__ import annotations

from typing import Any

from rushlight.aot.decompositions.moving import view_or_copy
from rushlight.aot.decompositions.texts import as_tensor, cast, wide
from rushlight.aot.decompositions.written import program
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.tensor import Tensor
from rushlight.opset.rules import aten

__all__: list[str] = []


@program("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(self: Tensor, mask: Tensor, value: Any) -> Any:
    found = cast(as_tensor(value, self), self.dtype)
    return aten.where(mask, found, self)


def at(dim: int, index: Tensor, ndim: int) -> list[Any]:
    """The subscripts that take `index` along a dim."""
    return [*[None] * geometry.wrap_dim(dim, ndim), index]


@program("_unsafe_index_put")
def _unsafe_index_put(
    self: Tensor, indices: Tensor, values: Tensor, accumulate: bool = False
) -> Any:
    return aten.index_put(self, indices, values, accumulate)


def put_along(self: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool) -> Any:
    if not self.dim():
        return aten.squeeze(put_along(aten.unsqueeze(self, 0), 0, index, source, accumulate), 0)
    place = index if index.dim() else aten.unsqueeze(index, 0)
    if source.dim() < self.dim() and source.dim():
        source = aten.unsqueeze(source, dim)
    return aten.index_put(self, at(dim, place, self.dim()), source, accumulate)


@program("index_add")
def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Any:
    if alpha != 1:
        source = cast(aten.mul(source, alpha), self.dtype)
    return put_along(self, dim, index, source, True)


@program("index_copy")
def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    return put_along(self, dim, index, source, False)


@program("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    found = cast(as_tensor(value, self), self.dtype)
    return put_along(self, dim, index, found, False)


def zeros(grad: Tensor, sizes: Any) -> Any:
    return aten.full(sizes, 0, dtype=grad.dtype, device=grad.device)


@program("select_backward")
def select_backward(grad_output: Tensor, input_sizes: Any, dim: int, index: Tensor) -> Any:
    return aten.select_scatter(zeros(grad_output, input_sizes), grad_output, dim, index)


@program("slice_backward")
def slice_backward(
    grad_output: Tensor, input_sizes: Any, dim: int, start: Any, end: Any, step: Any
) -> Any:
    blank = zeros(grad_output, input_sizes)
    return aten.slice_scatter(blank, grad_output, dim, start, end, step)


@program("diagonal_backward")
def diagonal_backward(
    grad_output: Tensor, input_sizes: Any, offset: int, dim1: int, dim2: int
) -> Any:
    return diagonal_scatter(zeros(grad_output, input_sizes), grad_output, offset, dim1, dim2)


@program("diagonal_scatter")
def diagonal_scatter(
    self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    first, second = geometry.wrap_dim(dim1, self.dim()), geometry.wrap_dim(dim2, self.dim())
    place = aten.arange(0, src.shape[-1], 1, device=self.device)
    rows = aten.add(place, max(-offset, 0))
    columns = aten.add(place, max(offset, 0))
    # The diagonal goes first, then the other dims, as they are subscripted.
    others = [d for d in range(self.dim()) if d not in (first, second)]
    order = [first, second, *others]
    moved = aten.permute(self, order)
    values = aten.permute(src, [src.dim() - 1, *range(src.dim() - 1)])
    written = aten.index_put(moved, [rows, columns], values)
    back = [order.index(d) for d in range(self.dim())]
    return aten.clone(aten.permute(written, back))


@program("unfold_backward")
def unfold_backward(grad_in: Any, input_sizes: Any, dim: int, size: int, step: int) -> Any:
    if not len(input_sizes):
        return aten.squeeze(grad_in, 0)
    dim = geometry.wrap_dim(dim, len(input_sizes))
    length = input_sizes[dim]
    starts = aten.arange(0, grad_in.shape[dim], 1, device=grad_in.device)
    inside = aten.arange(0, size, 1, device=grad_in.device)
    place = aten.add(aten.unsqueeze(aten.mul(starts, step), 1), inside)
    # Windows and their elements as one dim, in the dim's place.
    ndim = len(input_sizes)
    order = [*range(dim + 1), ndim, *range(dim + 1, ndim)]
    count = grad_in.shape[dim] * size
    values = view_or_copy(
        aten.permute(grad_in, order), [*input_sizes[:dim], count, *input_sizes[dim + 1 :]]
    )
    blank = zeros(grad_in, [*input_sizes[:dim], length, *input_sizes[dim + 1 :]])
    return aten.index_put(blank, at(dim, aten.view(place, [count]), ndim), values, True)


# -- embedding -------------------------------------------------------------------------------------


@program("embedding")
def embedding(
    weight: Tensor | None,
    indices: Tensor,
    padding_idx: Any = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    if indices.dim() == 1:
        return aten.index_select(weight, 0, indices)
    return aten.index(weight, [indices])


@program("embedding_dense_backward")
def embedding_dense_backward(
    grad_output: Tensor,
    indices: Tensor,
    num_weights: Any,
    padding_idx: Any,
    scale_grad_by_freq: bool,
) -> Any:
    if grad_output.dtype.category != dtypes.FLOAT:
        return NotImplemented
    grad = wide(grad_output)
    places = cast(indices, dtypes.int64)
    if scale_grad_by_freq:
        counts = aten.full([num_weights], 0, dtype=dtypes.int64, device=indices.device)
        ones = aten.full_like(places, 1)
        counts = aten.index_put(counts, [places], ones, True)
        grad = aten.div(grad, aten.unsqueeze(aten.index(counts, [places]), -1))
    if padding_idx >= 0:
        is_padding = aten.unsqueeze(aten.eq(places, padding_idx), -1)
        grad = aten.where(is_padding, as_tensor(0, grad), grad)
    blank = aten.full([num_weights, grad.shape[-1]], 0, dtype=grad.dtype, device=grad.device)
    return cast(aten.index_put(blank, [places], grad, True), grad_output.dtype)


# -- membership ------------------------------------------------------------------------------------


@program("isin.Tensor_Tensor")
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    tests = view_or_copy(test_elements, [test_elements.numel()])
    found = aten.any(aten.eq(aten.unsqueeze(elements, -1), tests), -1)
    return aten.logical_not(found) if invert else found


@program("isin.Tensor_Scalar")
def isin_number(
    elements: Any, test_element: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    return aten.ne(elements, test_element) if invert else aten.eq(elements, test_element)


@program("isin.Scalar_Tensor")
def is_number_in(
    element: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    found = aten.any(aten.eq(test_elements, element))
    return aten.logical_not(found) if invert else found
