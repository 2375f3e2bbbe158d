"""Order: sort, topk, unique, searchsorted, histograms, isin.

NaN counts as greater than every number. Sorting is stable whether asked for or not, so that
indices of equal elements do not depend on how NumPy was built.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.ordering import (
    PACK_FROM,
    comparable,
    first_places,
    search,
    sorted_pair,
    sorted_values,
    stable_order,
)
from rushlight.base.errors import error
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import overridable
from rushlight.core.dtype import unsupported
from rushlight.core.op import OpOverload, Tag, refuse
from rushlight.core.quick import Quick
from rushlight.core.refusals import unknown_size
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.opset.exposure import attribute
from rushlight.opset.indexing.writing import refuse_gradient
from rushlight.opset.kinds import SORT, Spec
from rushlight.opset.reduction.bins import (
    check_finite,
    check_weight_dtype,
    column_ends,
    counted_flat,
)
from rushlight.opset.reduction.reduce import has_values
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late, sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("unique", "unique_consecutive")

ndarray = np.ndarray


def refuse_complex(self: Any, text: str) -> None:
    if self._dtype.is_complex:
        raise RuntimeError(text)


def selected_backward(grad: Any, dim: int, indices: Any, self_shape: Any) -> Any:
    """The gradient of elements that were picked along `dim`."""
    zeros = grad.new_zeros(self_shape)
    return zeros.scatter(dim, indices, grad)


def sort_samples(make: Any) -> Any:
    yield (make.distinct(3, 4),)
    yield make.strided(3, 4), 0
    yield make.special(5), 0, True
    yield (make(),)
    yield (make(0, 3),)
    yield sample(make.expanded(2, 3), dim=-1, descending=True)


sort = op(
    "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    out_in_order=True,
    kind=SORT.checked,
    non_differentiable=(1,),
    layout="like",
    requires=lambda self: refuse_complex(self, " Sort does not support complex dtypes on CPU"),
    kernel=lambda xp, self, dim, descending: sorted_pair(self, dim, descending),
    vjp=lambda grad, self_shape, dim, indices: selected_backward(grad, dim, indices, self_shape),
    jvp=lambda self_t, dim, indices: (self_t.gather(dim, indices), None),
    samples=sort_samples,
    errors=lambda make: [
        (IndexError, sample(make(3), 1)),
        (IndexError, (make(2, 3), 2)),
        (RuntimeError, (make(2, dtype=dtypes.complex64), 0)),
    ],
)
sort_stable = op(
    "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) "
    "-> (Tensor values, Tensor indices)",
    out_in_order=True,
    kind=SORT.checked,
    node_index=1,
    non_differentiable=(1,),
    layout="like",
    requires=lambda self: refuse_complex(self, " Sort does not support complex dtypes on CPU"),
    kernel=lambda xp, self, stable, dim, descending: sorted_pair(self, dim, descending),
    vjp=lambda grad, self_shape, dim, indices: selected_backward(grad, dim, indices, self_shape),
    jvp=lambda self_t, dim, indices: (self_t.gather(dim, indices), None),
    samples=lambda make: [
        sample(make.ints(8, high=3), stable=True),
        sample(make.distinct(3, 4), stable=False, dim=0, descending=True),
    ],
)


@composite(
    "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
    exact_out=True,
    errors=lambda make: [(IndexError, (make(2, 3), 2))],
)
def argsort(self: Any, dim: int = -1, descending: bool = False) -> Any:
    return sort(self, dim, descending)[1]


@composite(
    "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
    exact_out=True,
)
def argsort_stable(self: Any, stable: bool, dim: int = -1, descending: bool = False) -> Any:
    return sort_stable(self, stable=stable, dim=dim, descending=descending)[1]


@composite(
    "msort(Tensor self) -> Tensor",
    exact_out=True,
    errors=lambda make: [(RuntimeError, (make(2, dtype=dtypes.complex64),))],
)
def msort(self: Any) -> Any:
    return sort(self, 0, False)[0]


topk = op(
    "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) "
    "-> (Tensor values, Tensor indices)",
    out_in_order=True,
    kind=SORT.checked,
    non_differentiable=(1,),
    jvp=lambda self_t, dim, indices: (self_t.gather(dim, indices), None),
    vjp=lambda grad, self_shape, dim, indices: selected_backward(grad, dim, indices, self_shape),
)


@topk.requires
def _(self: Any, k: Any, dim: int) -> None:
    sizes = tuple(self.shape)
    dim = geometry.wrap_dim(dim, len(sizes))
    if geometry.decided(k < 0) or geometry.decided(k > (sizes[dim] if sizes else 1)):
        raise RuntimeError("selected index k out of range")
    refuse_complex(self, " topk does not support complex dtypes on CPU")
    if self._dtype is dtypes.bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU")


@topk.kernel
def _(xp: Any, self: Any, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    if self.ndim == 0:
        return self.copy(), xp.zeros((), xp.int64)
    size = self.shape[dim]
    moved = xp.moveaxis(self, dim, -1)
    order = first_places(comparable(moved), k, largest) if 0 < k < size else None
    if order is None and k > 0 and k * 8 < size and size > PACK_FROM:
        keys = comparable(moved)
        chosen = keys.argpartition(size - k if largest else k - 1, axis=-1)
        chosen = chosen[..., size - k :] if largest else chosen[..., :k]
        chosen = xp.sort(chosen, axis=-1)
        order = stable_order(xp.take_along_axis(keys, chosen, -1), largest)
        order = xp.take_along_axis(chosen, order, -1)
    elif order is None:
        order = stable_order(moved, largest)[..., :k]
    values = xp.take_along_axis(moved, order, -1)
    return xp.moveaxis(values, -1, dim), xp.moveaxis(order.astype(xp.int64, copy=False), -1, dim)


@topk.samples
def _(make: Any) -> Any:
    yield make.distinct(3, 5), 2
    yield make.distinct(3, 5), 2, 0, False
    yield make.distinct(4, 3).t(), 1, -1
    yield make.special(5), 3
    yield make(), 1
    yield make.distinct(4), 0


@topk.errors
def _(make: Any) -> Any:
    yield RuntimeError, sample(make(3), 4)
    yield IndexError, sample(make(3), 1, 2)
    yield IndexError, sample(make(2, 3), 1, 2)
    yield RuntimeError, sample(make(3), -1)


# -- unique ----------------------------------------------------------------------------------------


def refuse_unique(name: str) -> Any:
    def formula(grads: Any) -> Any:
        raise error("RL0603", NotImplementedError, name=name)

    return formula


def groups(changes: Any) -> tuple[Any, Any, Any]:
    """From where a sorted row changes: (starts of groups, group of each element, group sizes).

    `changes` is None for a row without elements.
    """
    if changes is None:
        return EMPTY, EMPTY, EMPTY
    starts = np.flatnonzero(np.concatenate(([True], changes)))
    member = np.concatenate(([0], np.cumsum(changes))).astype(np.int64)
    sizes = np.diff(np.append(starts, member.size))
    return starts, member, sizes


EMPTY = np.empty(0, np.int64)


def check_unique(name: str, dtype: Any) -> None:
    if dtype.is_complex:
        raise unsupported(name, dtype)


def unique_values(array: Any, return_inverse: bool, return_counts: bool, ordered: bool) -> Any:
    """(values, inverse, counts) of a flattened array; of runs where `ordered`."""
    check_unique("unique", dtypes.from_numpy(array.dtype))
    flat = array.reshape(-1)
    if ordered:
        order, line = None, flat
    elif return_inverse:
        order = stable_order(flat, False) if flat.size else EMPTY
        line = flat[order]
    else:
        order, line = None, sorted_values(flat)
    changes = line[1:] != line[:-1] if line.size else None
    starts, member, sizes = groups(changes)
    inverse = EMPTY
    if return_inverse:
        inverse = np.empty(flat.size, np.int64)
        if order is None:
            inverse[...] = member
        else:
            inverse[order] = member
        inverse = inverse.reshape(array.shape)
    return line[starts], inverse, sizes if return_counts else EMPTY


def row_order(rows: Any) -> Any:
    """Row numbers in the order of rows; most rows differ in their first element."""
    if rows.shape[1]:
        first = np.argsort(rows[:, 0], kind="stable")
        line = rows[first, 0]
        if (line[1:] > line[:-1]).all():
            return first
    return np.lexsort(rows.T[::-1])


def unique_rows(array: Any, dim: int, ordered: bool) -> Any:
    """(rows along `dim`, inverse, counts)."""
    check_unique("unique_dim", dtypes.from_numpy(array.dtype))
    dim = geometry.wrap_dim(dim, array.ndim)
    if array.ndim and array.size == 0:
        if array.shape[dim] or array.shape.count(0) != 1:
            raise RuntimeError(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
                "applied"
            )
        return array.copy(), EMPTY, EMPTY
    moved = np.moveaxis(array, dim, 0) if array.ndim else array.reshape(1)
    rows = moved.reshape(moved.shape[0], -1)
    order = np.arange(rows.shape[0]) if ordered else row_order(comparable(rows))
    line = rows[order]
    starts, member, sizes = groups((line[1:] != line[:-1]).any(axis=1))
    inverse = np.empty(rows.shape[0], np.int64)
    inverse[order] = member
    values = line[starts].reshape(-1, *moved.shape[1:])
    return np.moveaxis(values, 0, dim) if array.ndim else values, inverse, sizes


def unique_shape(self: Any, inverse: bool, counts: bool, dim: int | None) -> Any:
    """Values, inverse and counts of an operand without values; `inverse` and `counts` say which
    are asked for, empty otherwise."""
    sizes = sizes_of(self)
    found = unknown_size(unique2, "the number of results", self.numel())
    if dim is None:
        values, places = (found,), sizes
    else:
        dim = geometry.wrap_dim(dim, len(sizes))
        values, places = (*sizes[:dim], found, *sizes[dim + 1 :]), (sizes[dim],)
    return (
        Spec(values, self._dtype),
        Spec(places if inverse else (0,), dtypes.int64),
        Spec((found,) if counts else (0,), dtypes.int64),
    )


def unique_samples(make: Any) -> Any:
    yield make.ints(8, high=4, dtype=make.dtype), True, True, True
    yield make.ints(2, 3, high=3, dtype=make.dtype), True, True, False
    yield make.ints(5, high=3, dtype=make.dtype), True, False, True
    yield (make(0),)
    yield (make(),)


def unique_op(schema: str, **options: Any) -> OpOverload:
    name = schema.split("(", 1)[0]
    return op(
        schema,
        kind=SORT,
        layout="kernel",
        method=False,
        tags=(Tag.dynamic_output_shape,),
        non_differentiable=(1, 2),
        vjp=refuse_unique(name),
        jvp=None,
        **options,
    )


unique2 = unique_op(
    "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) "
    "-> (Tensor, Tensor, Tensor)",
    shape=lambda self, sorted, inverse, counts: unique_shape(self, inverse, counts, None),
    kernel=lambda xp, self, sorted, inverse, counts: unique_values(self, inverse, counts, False),
    node="Unique2Backward0",
    samples=unique_samples,
)
unique1 = unique_op(
    "_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
    shape=lambda self, sorted, inverse: unique_shape(self, inverse, False, None)[:2],
    kernel=lambda xp, self, sorted, inverse: unique_values(self, inverse, False, False)[:2],
    node="UniqueBackward0",
    samples=lambda make: [(make.ints(8, high=4, dtype=make.dtype), True, True)],
)
unique_dim = unique_op(
    "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, "
    "bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    function=False,
    shape=lambda self, dim, sorted, inverse, counts: unique_shape(self, True, True, dim),
    kernel=lambda xp, self, dim, sorted, inverse, counts: unique_rows(self, dim, False),
    samples=lambda make: [
        (make.ints(5, 2, high=2, dtype=make.dtype), 0),
        (make.ints(2, 5, high=2, dtype=make.dtype), 1),
    ],
)
unique_runs = unique_op(
    "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, "
    "int? dim=None) -> (Tensor, Tensor, Tensor)",
    function=None,
    shape=lambda self, inverse, counts, dim: unique_shape(
        self, inverse or dim is not None, counts or dim is not None, dim
    ),
    samples=lambda make: [
        (make.ints(8, high=2, dtype=make.dtype), True, True),
        (make.ints(6, 2, high=1, dtype=make.dtype), True, True, 0),
    ],
)
unique_dim_runs = unique_op(
    "unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, "
    "bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    function=False,
    shape=lambda self, dim, inverse, counts: unique_shape(self, True, True, dim),
    kernel=lambda xp, self, dim, inverse, counts: unique_rows(self, dim, True),
    samples=lambda make: [(make.ints(6, 2, high=1, dtype=make.dtype), 0)],
)


@unique_runs.kernel
def _(xp: Any, self: Any, return_inverse: bool, return_counts: bool, dim: Any) -> Any:
    if dim is None:
        return unique_values(self, return_inverse, return_counts, True)
    return unique_rows(self, dim, True)


def chosen(found: Any, return_inverse: bool, return_counts: bool) -> Any:
    """torch's public answer: only what was asked for, a tensor where that is one."""
    values, inverse, counts = found
    if return_inverse and return_counts:
        return values, inverse, counts
    if return_inverse:
        return values, inverse
    return (values, counts) if return_counts else values


def unique_of(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements, or the distinct parts along `dim`."""
    if dim is None:
        found = aten._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = aten.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return chosen(found, return_inverse, return_counts)


def unique_runs_of(
    input: Any,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The first element of every run of equal ones."""
    found = unique_runs(input, return_inverse, return_counts, dim)
    return chosen(found, return_inverse, return_counts)


def public(function: Any, name: str) -> Any:
    made = overridable(function)
    made.__name__ = made.__qualname__ = name
    return made


unique = public(unique_of, "unique")
unique_consecutive = public(unique_runs_of, "unique_consecutive")
attribute("unique", public(unique_of, "unique"))
attribute("unique_consecutive", public(unique_runs_of, "unique_consecutive"))


# -- searching -------------------------------------------------------------------------------------

SEARCH = "*, bool out_int32=False, bool right=False"
SORTED_SEARCH = SEARCH + ", str? side=None, Tensor? sorter=None) -> Tensor"


def search_side(right: bool, side: Any) -> bool:
    if side is None:
        return right
    if side not in ("left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if right and side == "left":
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    return bool(side == "right")


def search_shape(
    sorted_sequence: Any, self: Any, out_int32: bool, right: bool, side: Any, sorter: Any
) -> Any:
    search_side(right, side)
    sizes = tuple(sorted_sequence.shape)
    given = tuple(self.shape) if isinstance(self, Tensor) else ()
    if not sizes:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
            "dimension"
        )
    if not given and len(sizes) != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            f"dimension is 1, but we got boundaries tensor dim({len(sizes)}) and input value's "
            f"dim({len(given)}) numel(1)"
        )
    if len(sizes) != 1 and (
        len(sizes) != len(given) or not geometry.same_sizes(sizes[:-1], given[:-1])
    ):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {geometry.show(sizes)} and input value tensor "
            f"{geometry.show(given)}"
        )
    if sorter is not None:
        if not geometry.same_sizes(tuple(sorter.shape), sizes):
            raise RuntimeError(
                "torch.searchsorted(): boundary and sorter must have the same size, but got "
                f"boundary tensor {geometry.show(sizes)}and got sorter tensor "
                f"{geometry.show(sorter.shape)}"
            )
        if sorter._dtype is not dtypes.int64:
            raise RuntimeError(
                "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
                f"{sorter._dtype.scalar_type_name}"
            )
    return Spec(given, dtypes.int32 if out_int32 else dtypes.int64)


searchsorted = op(
    "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, " + SORTED_SEARCH,
    batch=late("reduction.batched:searchsorted"),
    kind=SORT.checked,
    errors=lambda make: [
        (RuntimeError, (make(2, 3), make(3, 2))),
        (RuntimeError, sample(make.distinct(3), make(2), side="middle")),
    ],
    method=False,
    shape=search_shape,
    kernel=lambda xp, sequence, self, out_int32, right, side, sorter: search(
        sequence, self, search_side(right, side), sorter, out_int32
    ),
)
searchsorted_scalar = op(
    "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, " + SORTED_SEARCH,
    batch=late("reduction.batched:searchsorted"),
    kind=SORT.checked,
    method=False,
    shape=search_shape,
    kernel=lambda xp, sequence, self, out_int32, right, side, sorter: search(
        sequence, xp.asarray(self), search_side(right, side), sorter, out_int32
    ),
)


@searchsorted.samples
def _(make: Any) -> Any:
    if make.dtype.is_complex or make.dtype is dtypes.bool_:
        return
    rising = make.distinct(6).sort()[0]
    yield rising, make.distinct(2, 3)
    yield sample(rising, make.distinct(4), right=True, out_int32=True)
    yield sample(make.distinct(2, 4).sort()[0], make.distinct(2, 3), side="right")
    yield rising, make(0)


def bucket_shape(self: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    sizes = self.shape if isinstance(self, Tensor) else ()
    return Spec(sizes, dtypes.int32 if out_int32 else dtypes.int64)


def bucket(xp: Any, self: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    return search(boundaries, xp.asarray(self), right, None, out_int32)


bucketize = op(
    f"bucketize.Tensor(Tensor self, Tensor boundaries, {SEARCH}) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2), make(2, 2)))],
    batch=late("reduction.batched:bucketize"),
    kind=SORT.checked,
    method=False,
    shape=bucket_shape,
    kernel=bucket,
)
bucketize_scalar = op(
    f"bucketize.Scalar(Scalar self, Tensor boundaries, {SEARCH}) -> Tensor",
    batch=late("reduction.batched:bucketize"),
    kind=SORT.checked,
    method=False,
    shape=bucket_shape,
    kernel=bucket,
)


@bucketize.samples
def _(make: Any) -> Any:
    if make.dtype.is_complex or make.dtype is dtypes.bool_:
        return
    yield make.distinct(2, 3), make.distinct(5).sort()[0]
    yield sample(make.distinct(4), make.distinct(5).sort()[0], right=True, out_int32=True)


def isin_shape(elements: Any, test_elements: Any, assume_unique: bool, invert: bool) -> Any:
    for value in (elements, test_elements):
        if isinstance(value, Tensor) and (value._dtype.is_complex or value._dtype is dtypes.bool_):
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {value._dtype.scalar_type_name}"
            )
    sizes = elements.shape if isinstance(elements, Tensor) else ()
    return Spec(sizes, dtypes.bool_)


def isin_values(xp: Any, elements: Any, tests: Any, assume_unique: bool, invert: bool) -> Any:
    return xp.isin(comparable(xp.asarray(elements)), comparable(xp.asarray(tests)), invert=invert)


def isin_errors(make: Any) -> Any:
    yield RuntimeError, (make(2, dtype=dtypes.complex64), make(2, dtype=dtypes.complex64))


isin_records = []
for isin_overload in (
    "Tensor_Tensor(Tensor elements, Tensor test_elements",
    "Tensor_Scalar(Tensor elements, Scalar test_element",
    "Scalar_Tensor(Scalar element, Tensor test_elements",
):
    isin = op(
        f"isin.{isin_overload}, *, bool assume_unique=False, bool invert=False) -> Tensor",
        kind=SORT.checked,
        batch=late("reduction.batched:isin"),
        errors=isin_errors if "(Tensor elements, Tensor" in isin_overload else None,
        method=False,
        out_name=isin_overload.split("(", 1)[0] + "_out",
        shape=isin_shape,
        kernel=isin_values,
    )
    isin_records.append(isin)


# -- counting --------------------------------------------------------------------------------------

bincount = op(
    "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
    may_raise=True,
    errors=lambda make: [
        (NotImplementedError, (make(3),)),
        (RuntimeError, (make.ints(2, 2),)),
        (RuntimeError, (make.ints(3, low=-3, high=-1),)),
        (RuntimeError, sample(make.ints(3), minlength=-1)),
    ],
    kind=SORT.checked,
    tags=(Tag.dynamic_output_shape,),
    node="torch::autograd::NotImplemented",
    vjp={"weights": refuse_gradient("aten::bincount")},
)


@bincount.shape
def _(self: Any, weights: Any, minlength: Any) -> Any:
    check_bincount(self._dtype, self.dim(), minlength)
    if self._array is None:
        least = minlength if type(minlength) is int else 0
        count = unknown_size(bincount, "the number of results", least=least)
        return Spec((count,), bincount_dtype(weights))
    if self._array.size and int(self._array.min()) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    largest = int(self._array.max()) + 1 if self._array.size else 0
    dtype = bincount_dtype(weights) if self._array.size else dtypes.int64
    return Spec((max(largest, minlength),), dtype)


def bincount_dtype(weights: Any) -> Any:
    if weights is None:
        return dtypes.int64
    return dtypes.float32 if weights._dtype is dtypes.float32 else dtypes.float64


def check_bincount(dtype: Any, ndim: int, minlength: Any) -> None:
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if dtype.category != dtypes.INTEGER:
        raise unsupported("bincount_cpu", dtype)
    if ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")


@bincount.kernel
def _(xp: Any, self: Any, weights: Any, minlength: int) -> Any:
    if self.size == 0:
        return xp.zeros(minlength, xp.int64)
    if weights is None:
        return xp.bincount(self.astype(xp.int64), minlength=minlength).astype(xp.int64)
    if weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    totals = xp.bincount(self.astype(xp.int64), weights.astype(xp.float64), minlength)
    return totals.astype(xp.float32 if weights.dtype == xp.float32 else xp.float64)


@bincount.samples
def _(make: Any) -> Any:
    yield (make.ints(6, high=5),)
    yield sample(make.ints(6, high=5), minlength=8)
    if make.dtype.is_floating_point:
        yield make.ints(6, high=5), make(6)


histc = op(
    "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(3), 0)),
        (NotImplementedError, (make.ints(3), 2)),
        (RuntimeError, (make(3), 2, 3, 1)),
    ],
    kind=SORT.checked,
    batch=late("reduction.batched:histc"),
    vjp=refuse("counts are piecewise constant"),
    jvp=refuse("counts are piecewise constant"),
)


@histc.shape
def _(self: Any, bins: int, min: Any, max: Any) -> Any:
    check_histogram(self._dtype, bins, "histogram_cpu")
    return Spec((bins,), self._dtype)


def check_histogram(dtype: Any, bins: int, name: str) -> None:
    if geometry.decided(bins <= 0):
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if dtype.category != dtypes.FLOAT:
        raise unsupported(name, dtype)


@histc.kernel
def _(xp: Any, self: Any, bins: int, min: Any, max: Any) -> Any:
    flat = comparable(self).reshape(-1)
    low, high = float(min), float(max)
    if low == high and flat.size:
        low, high = float(flat.min()), float(flat.max())
    if low == high:
        low, high = low - 1, high + 1
    check_finite(low, high, "torch.histc: range of")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    edges = xp.array([low, high], flat.dtype)
    flat = flat[(flat >= edges[0]) & (flat <= edges[1])]
    place = ((flat - edges[0]) * (bins / (edges[1] - edges[0]))).astype(xp.int64)
    return xp.bincount(xp.minimum(place, bins - 1), minlength=bins).astype(self.dtype)


@histc.samples
def _(make: Any) -> Any:
    if make.dtype.is_floating_point:
        yield make(8), 4
        yield make(8), 5, -1, 1
        yield make(2, 3), 3


HISTOGRAM = "Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)"
UNDERIVED: dict[str, Any] = {
    "node": "torch::autograd::NotImplemented",
    "batch": late("reduction.batched:histogram"),
    "vjp": {
        "self": refuse_gradient("aten::histogram"),
        "weight": refuse_gradient("aten::histogram"),
    },
}
histogram_edges = op(
    "histogram.bins_tensor(Tensor self, Tensor bins, *, " + HISTOGRAM,
    kind=SORT.checked,
    **UNDERIVED,
)
histogram_count = op(
    "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, " + HISTOGRAM,
    kind=SORT.checked,
    **UNDERIVED,
)


@histogram_edges.shape
def _(self: Any, bins: Any, weight: Any, density: bool) -> Any:
    if bins._dtype is not self._dtype:
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
            f"input with dtype {self._dtype.cpp_name} and bins for dimension 0 with dtype "
            f"{bins._dtype.cpp_name}"
        )
    if bins.dim() != 1:
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have one dimension, but got {bins.dim()} "
            "dimensions in the bins tensor for dimension 0"
        )
    check_weight_dtype(self, weight)
    check_histogram(self._dtype, bins.numel() - 1, "histogramdd")
    return Spec((bins.numel() - 1,), self._dtype), Spec((bins.numel(),), self._dtype)


@histogram_count.shape
def _(self: Any, bins: int, range: Any, weight: Any, density: bool) -> Any:
    if range is not None and len(range) != 2:
        raise RuntimeError(
            "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but "
            f"got {len(range)}"
        )
    check_weight_dtype(self, weight)
    check_histogram(self._dtype, bins, "histogramdd")
    return Spec((bins,), self._dtype), Spec((bins + 1,), self._dtype)


@histogram_edges.kernel
def _(xp: Any, self: Any, bins: Any, weight: Any, density: bool) -> Any:
    return counted_flat(self, bins.copy(), weight, density)


@histogram_count.kernel
def _(xp: Any, self: Any, bins: int, range: Any, weight: Any, density: bool) -> Any:
    low, high = column_ends(self, range, 0)
    edges = xp.linspace(low, high, bins + 1).astype(self.dtype)
    return counted_flat(self, edges, weight, density)


def hot_rows(index: Any, count: int) -> Any:
    """A row for each index of so many classes; None where they are not all there."""
    if not index.size or count <= 0 or index.view(np.uint64).max() >= count:
        return None
    rows = np.zeros((*index.shape, count), np.int64)
    rows.reshape(-1)[np.arange(0, rows.size, count) + index.reshape(-1)] = 1
    return rows


@composite(
    "one_hot(Tensor self, int num_classes=-1) -> Tensor",
    quick=Quick(
        "hot_rows({self}, {num_classes})",
        when="{self}.dtype == int64 and {num_classes} > 0",
        result_is_contiguous=True,
        scope={"hot_rows": hot_rows, "int64": np.dtype(np.int64)},
    ),
    reads_values="the largest class, where their number is not given",
    batch="by_class",
    functional=True,
    errors=lambda make: [
        (RuntimeError, (make.ints(3, low=3, high=5), 2)),
        (RuntimeError, (make(3),)),
    ],
    method=False,
    function=None,
)
def one_hot(self: Any, num_classes: int = -1) -> Any:
    if self._dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    sizes = tuple(self.shape)
    if self.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return self.new_empty((*sizes, num_classes))
    if num_classes == -1:
        num_classes = self.max().item() + 1
    if has_values(self):
        if self.min().item() < 0:
            raise RuntimeError("Class values must be non-negative.")
        if num_classes <= self.max().item():
            raise RuntimeError("Class values must be smaller than num_classes.")
    zeros = self.new_zeros((*sizes, num_classes))
    return zeros.scatter(-1, self.unsqueeze(-1), 1)


@isin_records[0].samples
def _(make: Any) -> Any:
    yield make.distinct(3, 4), make.distinct(5)
    yield sample(make.ints(6, high=5), make.ints(3, high=5), invert=True)
    yield sample(make(0), make(3), assume_unique=True)
    yield make(), make(2)


@isin_records[1].samples
def _(make: Any) -> Any:
    yield make.ints(2, 3, high=4), 2
    yield sample(make.ints(5, high=4), 1, invert=True)


@isin_records[2].samples
def _(make: Any) -> Any:
    yield 2, make.ints(2, 3, high=4)


@histogram_count.samples
def _(make: Any) -> Any:
    if make.dtype.name in ("float32", "float64"):
        yield make(8), 4
        yield sample(make(8), 4, range=(-1.0, 1.0), density=True)
        yield sample(make(2, 3), 3, weight=make.positive(2, 3))


@histogram_edges.samples
def _(make: Any) -> Any:
    if make.dtype.name in ("float32", "float64"):
        yield make(8), make.distinct(5).sort()[0]


@one_hot.samples
def _(make: Any) -> Any:
    yield (make.index(2, 3, below=4),)
    yield make.index(3, below=4), 5
    yield make.index(0, below=4), 3


@searchsorted_scalar.samples
def _(make: Any) -> Any:
    yield make.ints(6, high=9).sort()[0], 4
    yield sample(make.ints(6, high=9).sort()[0], 4, right=True, out_int32=True)


@bucketize_scalar.samples
def _(make: Any) -> Any:
    yield 4, make.ints(6, high=9).sort()[0]


argsort.samples = sort_samples


@argsort_stable.samples
def _(make: Any) -> Any:
    yield sample(make.ints(8, high=3), stable=True, descending=True)
    yield sample(make.distinct(3, 4), stable=False, dim=0)


@msort.samples
def _(make: Any) -> Any:
    yield (make.distinct(3, 4),)
    yield (make(),)
