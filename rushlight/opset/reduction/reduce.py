"""Reductions: sums, products, extrema, truth.

Results are contiguous. Integers sum and multiply in int64; halves accumulate in float32 and round
once. `dim` lists may be empty or None, which means every dimension; a 0-dim tensor passes for one
of one dimension.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rushlight.arrays.precision import cast, check_computable, working
from rushlight.arrays.summation import sum_array
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.core.quick import Quick
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.tensor import Tensor
from rushlight.opset.kinds import REDUCTION, Spec
from rushlight.opset.large import LARGE
from rushlight.opset.registry import composite, find, op, packet
from rushlight.opset.rules import conj, late, linear_in, sample

# -- words shared by the reducing families --------------------------------------------------------


def reduced_axes(dim: Any, ndim: int) -> tuple[int, ...] | None:
    """NumPy's axes for a `dim` argument (int, list or None); None reduces everything."""
    if dim is None:
        return None
    if type(dim) is int:
        axis = geometry.wrap_dim(dim, ndim)
        return (axis,) if ndim else None
    if not dim:
        return None
    axes = geometry.wrap_dims(dim, ndim)
    return axes if ndim else None


def one_axis(array: Any, dim: int) -> tuple[Any, int]:
    """An array of at least one dimension and the axis that `dim` names in it."""
    axis = geometry.wrap_dim(dim, array.ndim)
    return (array if array.ndim else array.reshape(1)), axis


def dims_of(dim: Any) -> Any:
    return (dim,) if type(dim) is int else dim


def restored(value: Any, dim: Any, keepdim: bool, ndim: int) -> Any:
    """A reduction's result with its reduced dimensions put back with size 1."""
    if keepdim or not ndim:
        return value
    if dim is None or (type(dim) is not int and not dim):
        return value
    for position in sorted(geometry.wrap_dims(dims_of(dim), ndim)):
        value = value.unsqueeze(position)
    return value


def count_of(shape: Any, dim: Any) -> Any:
    """How many elements are reduced into one."""
    if dim is None or (type(dim) is not int and not dim):
        return geometry.numel(shape)
    count: Any = 1
    if shape:
        for position in geometry.wrap_dims(dims_of(dim), len(shape)):
            count = count * shape[position]
    return count


def reduced_spec(self: Any, dim: Any, keepdim: bool, dtype: DType) -> Spec:
    return Spec(geometry.reduced_shape(self.shape, dims_of(dim), keepdim), dtype)


def integral_to_long(dtype: DType) -> DType:
    return dtypes.int64 if dtype.category <= dtypes.INTEGER else dtype


def summed_dtype(source: DType, given: DType | None) -> DType:
    """What sums and products answer in."""
    return given or integral_to_long(source)


def reduction_samples(**fixed: Any) -> Any:
    """Samples of a reduction over `dim` lists."""

    def samples(make: Any) -> Any:
        for dim in (0, -1, (0, 2), (), (-1, 0)):
            yield sample(make(2, 3, 2), dim, **fixed)
        yield sample(make(2, 3), 1, True, **fixed)
        yield sample(make(2, 3), (0, 1), True, **fixed)
        yield sample(make.strided(3, 4), 0, **fixed)
        yield sample(make.expanded(3, 4), 1, **fixed)
        yield sample(make(), 0, **fixed)
        yield sample(make(3, 0), 0, **fixed)
        yield sample(make.special(4, 2), 0, **fixed)

    return samples


def full_samples(make: Any) -> Any:
    """Samples of a reduction to a single element."""
    for shape in ((3, 4), (5,), (), (1, 1, 2)):
        yield (make(*shape),)
    yield (make.strided(3, 4),)
    yield (make.expanded(3, 4),)
    yield (make.special(4),)


# -- sum ------------------------------------------------------------------------------------------

add_reduce: Any = np.add.reduce
multiply_reduce: Any = np.multiply.reduce
empty = np.empty


ONES = {np.dtype(name): np.ones(64, name) for name in ("float32", "float64")}
# Contiguous arrays of up to this many elements are summed over some axes by `quick_sum`.
QUICK_SIZE = 4096
FEW_ROWS = 64


def quick_sum(array: Any, dim: Any) -> Any:
    """The sum of a small array over some axes. A few rows are summed soonest by BLAS."""
    if (dim == (0,) or dim == (-2,)) and array.ndim == 2 and 1 < len(array) <= FEW_ROWS:
        ones = ONES.get(array.dtype)
        if ones is not None:
            return ones[: len(array)].dot(array)
    return add_reduce(array, dim)


def is_quick(dtype: DType, size: int, contiguous: bool) -> bool:
    """Whether `quick_sum` serves: stub and kernel must choose alike, or bits would depend on who
    watches."""
    return contiguous and dtype.scalar_fast and 0 < size <= QUICK_SIZE


def prepared_sum(self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """The sum over `dim` as a function of arrays like `self`."""
    if not dim or keepdim or dtype is not None:
        return None
    if not is_quick(self._dtype, self.numel(), self.is_contiguous()):
        return None
    dim = tuple(dim)
    if (dim == (0,) or dim == (-2,)) and self.dim() == 2 and 1 < self.shape[0] <= FEW_ROWS:
        ones = ONES.get(self._dtype.np)
        if ones is not None:
            return ones[: self.shape[0]].dot
    return partial(quick_sum, dim=dim)


def summed(array: Any, axes: Any, keepdim: bool, dtype: DType) -> Any:
    check_computable("sum_cpu", dtype)
    work = working(dtype)
    found = array.dtype
    if found != work.np:
        if dtype is dtypes.int64 and found.kind in "biu" and found.itemsize < 8:
            return add_reduce(array, axes, work.np, None, keepdim)
        array = cast(array, work)
    elif axes and not keepdim and is_quick(dtype, array.size, array.flags.c_contiguous):
        return quick_sum(array, axes)
    result = sum_array(array, axes, keepdim)
    return result if work is dtype else result.astype(dtype.np)


sum_all = op(
    "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    answers=summed_dtype,
    fold="sum",
    sparse=late("sparse.math:total"),
    over_dim=("sum", "dim_IntList"),
    kind=REDUCTION,
    quick=Quick(
        "add_reduce({self}, None, None, empty((), {self}.dtype))",
        when=f"self._is_contiguous and self._dtype.scalar_fast and {{self}}.size < {LARGE}",
        result_is_contiguous=True,
        scope={"add_reduce": add_reduce, "empty": empty},
    ),
    vjp=lambda grad, self_shape: grad.expand(self_shape),
    jvp=linear_in("self"),
    samples=full_samples,
)


@sum_all.kernel
def _(xp: Any, self: Any, dtype: Any) -> Any:
    result_dtype = dtype or integral_to_long(dtypes.from_numpy(self.dtype))
    return summed(self, None, False, result_dtype)


sum_dim = op(
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)"
    " -> Tensor",
    answers=summed_dtype,
    errors=lambda make: [
        (IndexError, (make(2, 3), 2)),
        (RuntimeError, (make(2, 3), (0, 0))),
    ],
    fold="sum",
    sparse=late("sparse.math:sum_dims"),
    exact_out=False,
    out_decides=True,
    kind=REDUCTION,
    quick=Quick(
        "quick_sum({self}, {dim})",
        # `is_quick`, written out
        when="{dim} and not keepdim and dtype is None and self._is_contiguous "
        f"and self._dtype.scalar_fast and 0 < {{self}}.size <= {QUICK_SIZE}",
        scope={"quick_sum": quick_sum},
    ),
    prepared=prepared_sum,
    node_index=1,
    out_name="IntList_out",
    vjp=lambda grad, self_shape, dim, keepdim: restored(grad, dim, keepdim, len(self_shape)).expand(
        self_shape
    ),
    jvp=linear_in("self"),
    samples=reduction_samples(),
)


@sum_dim.kernel
def _(xp: Any, self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    result_dtype = dtype or integral_to_long(dtypes.from_numpy(self.dtype))
    return summed(self, reduced_axes(dim, self.ndim), keepdim, result_dtype)


@composite(
    "sum_to_size(Tensor self, SymInt[] size) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), (4,)))],
    function=False,
    varargs=1,
    samples=lambda make: (
        (make(2, 3), (1, 3)),
        (make(2, 3), (3,)),
        (make(2, 3), ()),
        (make(2, 3), (2, 3)),
        (make.strided(2, 3), (2, 1)),
        (make(), ()),
    ),
)
def sum_to_size(self: Any, size: Any) -> Any:
    shape = self.shape
    lead = len(shape) - len(size)
    fits = lead >= 0 and all(
        [
            geometry.is_size(wanted, 1) or geometry.required(wanted == shape[lead + at])
            for at, wanted in enumerate(size)
        ]
    )
    if not fits:
        raise RuntimeError(
            f"size {{{geometry.show(size)}}} is not expandable to size {{{geometry.show(shape)}}}."
        )
    if not size:
        return self.sum()
    gone = list(range(lead))
    for at, wanted in enumerate(size):
        if geometry.is_size(wanted, 1) and not geometry.is_size(shape[lead + at], 1):
            gone.append(lead + at)
    result = self.sum(gone, True) if gone else self
    return result.view(size) if lead else result


nansum = op(
    "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)"
    " -> Tensor",
    answers=summed_dtype,
    errors=lambda make: [
        (RuntimeError, (make(2, 3, dtype=dtypes.complex64),)),
        (IndexError, (make(2, 3), 5)),
    ],
    exact_out=False,
    kind=REDUCTION,
    samples=reduction_samples(),
)


@nansum.kernel
def _(xp: Any, self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    source = dtypes.from_numpy(self.dtype)
    if source.is_complex:
        raise RuntimeError("nansum on CPU does not support complex inputs")
    result_dtype = dtype or integral_to_long(source)
    axes = reduced_axes(dim, self.ndim)
    with np.errstate(invalid="ignore"):
        found = summed(self, axes, keepdim, result_dtype)
    # A sum without NaN has none among what it adds up.
    if source.is_floating_point and xp.isnan(found).any():
        self = xp.where(xp.isnan(self), self.dtype.type(0), self)
        found = summed(self, axes, keepdim, result_dtype)
    return found


@nansum.vjp
def _(grad: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    whole = restored(grad, dim, keepdim, self.dim()).expand(self.shape)
    return whole * self.isnan().logical_not()


# -- mean -----------------------------------------------------------------------------------------


def mean_dtype(source: DType, given: DType | None) -> DType:
    dtype = given or source
    if dtype.category < dtypes.FLOAT:
        which = "Input" if given is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point "
            f"or complex dtype. Got: {dtype.scalar_type_name}"
        )
    return dtype


def averaged(array: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    result_dtype = mean_dtype(dtypes.from_numpy(array.dtype), dtype)
    check_computable("sum_cpu", result_dtype)
    work = working(result_dtype)
    total = sum_array(cast(array, work), reduced_axes(dim, array.ndim), keepdim)
    result = total / work.np.type(count_of(array.shape, dim))
    return result if work is result_dtype else result.astype(result_dtype.np)


mean_all = op(
    "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    answers=mean_dtype,
    errors=lambda make: [(RuntimeError, (make.ints(3),))],
    fold="mean",
    over_dim=("mean", "dim"),
    exact_out=False,
    kind=REDUCTION,
    quick=Quick(
        "divide(total_ := add_reduce({self}, None, None, empty((), {self}.dtype)), {self}.size, "
        "total_)",
        when=f"self._is_contiguous and self._dtype.scalar_fast and {{self}}.size < {LARGE}",
        result_is_contiguous=True,
        scope={"add_reduce": add_reduce, "empty": empty, "divide": np.true_divide},
    ),
    out_name="dtype_out",
    vjp=lambda grad, self_shape: grad.expand(self_shape) / geometry.numel(self_shape),
    jvp=linear_in("self"),
    samples=full_samples,
)


@mean_all.kernel
def _(xp: Any, self: Any, dtype: Any) -> Any:
    return averaged(self, None, False, dtype)


mean_dim = op(
    "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    answers=mean_dtype,
    errors=lambda make: [(IndexError, (make(2, 3), -3)), (RuntimeError, (make.ints(2, 3), 0))],
    fold="mean",
    exact_out=False,
    kind=REDUCTION,
    node_index=1,
    out_name="out",
    vjp=lambda grad, self_shape, dim, keepdim: (
        restored(grad, dim, keepdim, len(self_shape)).expand(self_shape) / count_of(self_shape, dim)
    ),
    jvp=linear_in("self"),
    samples=reduction_samples(),
)


@mean_dim.kernel
def _(xp: Any, self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return averaged(self, dim, keepdim, dtype)


@composite(
    "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)"
    " -> Tensor",
    samples=reduction_samples(),
)
def nanmean(self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if self._dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{self._dtype.scalar_type_name}"
        )
    count = self.detach().isnan().logical_not().sum(dim, keepdim)
    return self.nansum(dim, keepdim, dtype=dtype).div(count)


# -- truth ----------------------------------------------------------------------------------------


def truth_dtype(source: DType, given: DType | None) -> DType:
    # torch: uint8 was the first truth type and still answers in kind.
    return dtypes.uint8 if source is dtypes.uint8 else dtypes.bool_


def truth_op(name: str, schema: str, **options: Any) -> Any:
    reduce: Any = np.logical_or.reduce if name == "any" else np.logical_and.reduce
    allowed = (dtypes.bool_, dtypes.uint8)
    record = op(
        f"{name}{schema}",
        kind=REDUCTION,
        fold=name,
        answers=truth_dtype,
        exact_out=allowed,
        **options,
    )

    @record.kernel
    def _(xp: Any, self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        dtype = dtypes.from_numpy(self.dtype)
        check_computable(f"{name}_cpu", dtype)
        true = self if dtype is dtypes.bool_ else self != 0
        # torch: an empty list reduces nothing here.
        axes = () if type(dim) is tuple and not dim else reduced_axes(dim, self.ndim)
        result = reduce(true, axis=axes, keepdims=keepdim)
        return result.astype(np.uint8) if dtype is dtypes.uint8 else result

    return record


def truth_samples(make: Any) -> Any:
    for dim in ((0,), (0, 2), (), (-1, 0)):
        yield make(2, 3, 2, low=0, high=1), dim
    yield make(2, 3, low=0, high=1), (0, 1), True
    yield make.strided(3, 4), None
    yield make(3, 0), (0,)
    yield make(), (0,)


for _name in ("any", "all"):
    truth_op(
        _name,
        "(Tensor self) -> Tensor",
        samples=full_samples,
        out_name="all_out",
        over_dim=(_name, "dim"),
        sparse=late("sparse.math:any_specified") if _name == "any" else None,
    )
    truth_op(
        _name,
        ".dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        out_name="out",
        samples=lambda make: [(make(2, 3), 0), (make(2, 3), -1, True), (make(), 0)],
    )
    truth_op(
        _name,
        ".dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        samples=truth_samples,
        empty_dims_are_all=False,
    )


find("any", "dims").errors = lambda make: [(RuntimeError, (make(2, 3), (0, 0)))]
find("all", "dim").errors = lambda make: [(IndexError, (make(2, 3), 3))]


def count_samples(make: Any) -> Any:
    yield (make.special(3, 4),)
    yield (make.mask(2, 3),)
    for dim in (0, -1):
        yield make.ints(3, 4, low=0, high=2), dim
    yield (make(),)
    yield make(0, 3), 0


def count_dims_samples(make: Any) -> Any:
    for dim in ((0,), (-1, 0), ()):
        yield make.ints(3, 4, low=0, high=2), dim
    yield make.special(3, 4), (1,)


def count_op(schema: str, samples: Any) -> Any:
    record = op(
        schema,
        kind=REDUCTION,
        fold="count",
        answers=lambda dtype, given: dtypes.int64,
        samples=samples,
    )

    @record.kernel
    def _(xp: Any, self: Any, dim: Any) -> Any:
        return add_reduce(self != 0, reduced_axes(dim, self.ndim), np.int64)

    return record


count_nonzero = count_op("count_nonzero(Tensor self, int? dim=None) -> Tensor", count_samples)
count_nonzero_dims = count_op(
    "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", count_dims_samples
)
count_nonzero_dims.errors = lambda make: [(IndexError, (make(2, 3), (0, 2)))]


# -- products -------------------------------------------------------------------------------------


COLUMNS = 512


def multiplied(array: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    result_dtype = dtype or integral_to_long(dtypes.from_numpy(array.dtype))
    check_computable("prod_cpu", result_dtype)
    work = working(result_dtype)
    axes = reduced_axes(dim, array.ndim)
    array = cast(array, work)
    if (
        array.size >= LARGE
        and array.flags.c_contiguous
        and not keepdim
        and (axes is None or len(axes) == array.ndim)
    ):
        # Products of columns: one element after the other would wait for each product.
        flat = array.reshape(-1)
        whole = flat.size // COLUMNS * COLUMNS
        columns = multiply_reduce(flat[:whole].reshape(-1, COLUMNS), 0, work.np)
        array, axes = np.concatenate([columns, flat[whole:]]), None
    result = multiply_reduce(array, axes, work.np, None, keepdim)
    return result if work is result_dtype else result.astype(result_dtype.np)


def has_values(value: Any) -> bool:
    """Whether a rule may look at a tensor's elements: it has some, and no mode records it."""
    if type(value) is not Tensor or value._array is None:
        return False
    return not (PROCESS.special and LOCAL.state.below)


def product_gradient(grad: Any, self: Any, result: Any, dim: int) -> Any:
    """The gradient of a product along `dim`, whose result and gradient keep that dimension."""
    if has_values(self) and not bool((self == 0).any()):
        return grad * conj(result / self)
    # Where there are zeros: what stands before and after each element, multiplied.
    size = self.shape[dim]
    ones = self.new_ones((*self.shape[:dim], 1, *self.shape[dim + 1 :]))
    before = cat((ones, self.narrow(dim, 0, size - 1)), dim).cumprod(dim)
    after = cat((ones, self.flip(dim).narrow(dim, 0, size - 1)), dim).cumprod(dim).flip(dim)
    return grad * conj(before * after)


def cat(tensors: Any, dim: int) -> Any:
    return packet("cat")(list(tensors), dim)


prod_all = op(
    "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    answers=summed_dtype,
    fold="prod",
    autocast="float32",
    over_dim=("prod", "dim_int"),
    kind=REDUCTION,
    samples=full_samples,
)


@prod_all.kernel
def _(xp: Any, self: Any, dtype: Any) -> Any:
    return multiplied(self, None, False, dtype)


@prod_all.vjp
def _(grad: Any, self: Any, result: Any) -> Any:
    if not self.dim():
        return grad.clone()
    self = self.to(grad._dtype)
    flat = self.reshape(-1)
    if flat.shape[0] == 0:
        return self.clone()
    return product_gradient(grad, flat, result, 0).reshape(self.shape)


prod_dim = op(
    "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    answers=summed_dtype,
    errors=lambda make: [(IndexError, (make(2, 3), 2))],
    fold="prod",
    autocast="float32",
    exact_out=False,
    out_decides=True,
    kind=REDUCTION,
    node_index=1,
    out_name="int_out",
    samples=lambda make: [
        (make(2, 3), 0),
        (make(2, 3), -1, True),
        (make(), 0),
        (make(3, 0), 0),
        (make(3, 0), 1),
        (make.strided(3, 4), 0),
        (make.special(3, 2), 0),
    ],
)


@prod_dim.kernel
def _(xp: Any, self: Any, dim: int, keepdim: bool, dtype: Any) -> Any:
    return multiplied(self, dim, keepdim, dtype)


@prod_dim.vjp
def _(grad: Any, self: Any, result: Any, dim: int, keepdim: bool) -> Any:
    if not self.dim():
        return grad.clone()
    self = self.to(grad._dtype)
    if self.numel() == 0:
        return self.clone()
    dim = geometry.wrap_dim(dim, self.dim())
    if not keepdim:
        grad, result = grad.unsqueeze(dim), result.unsqueeze(dim)
    return product_gradient(grad, self, result, dim)
