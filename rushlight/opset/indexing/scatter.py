"""Scatter along a dimension, with or without a reduction, and index_reduce."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from rushlight.arrays.casting import held_number
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.opset.indexing.index import (
    INDEX_DTYPES,
    check_bounds,
    check_positions,
    flat_positions,
    grid,
)
from rushlight.opset.indexing.writing import (
    accumulate,
    check_vector_index,
    refuse_gradient,
    rows_of,
    write_rows,
    writing,
)
from rushlight.opset.kinds import Spec
from rushlight.opset.large import LARGE, native_loop
from rushlight.opset.reduction.reduce import has_values
from rushlight.opset.registry import op
from rushlight.opset.rules import aten, linear_in, sample

ndarray = np.ndarray

UFUNCS: dict[str, Any] = {
    "sum": np.add,
    "add": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "multiply": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
}


def identity_of(reduce: str, dtype: Any) -> Any:
    """What the first value is combined with where `self` does not take part."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.category == dtypes.FLOAT:
        return -np.inf if reduce == "amax" else np.inf
    if dtype.category == dtypes.BOOL:
        return reduce == "amin"
    bounds = np.iinfo(dtype.np)
    return bounds.min if reduce == "amax" else bounds.max


def refuse_dtype(name: str, dtype: Any) -> None:
    raise unsupported(name, dtype)


def reduce_into(
    target: Any, places: tuple[Any, ...], values: Any, reduce: str, include_self: bool
) -> None:
    if not include_self:
        target[places] = identity_of(reduce, dtypes.from_numpy(target.dtype))
    accumulate(UFUNCS[reduce], target, places, values)
    if reduce == "mean":
        counts = np.full(target.shape, int(include_self), np.int64)
        accumulate(np.add, counts, places, np.ones((), np.int64))
        np.maximum(counts, 1, out=counts)
        if target.dtype.kind in "biu":
            target[...] = target // counts
        else:
            target[...] = target / counts.astype(target.dtype)


index_reduce = writing(
    "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, "
    "bool include_self=True) -> Tensor",
    out_apart=slice(2, None),
)


index_reduce.batch = write_rows


@index_reduce.requires
def _(self: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> None:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    unordered = self._dtype.is_complex
    if (unordered or self._dtype is dtypes.bool_) and not include_self:
        refuse_dtype("index_reduce_func_exclude_input_init", self._dtype)
    if unordered and reduce in ("amax", "amin"):
        refuse_dtype("maximum_cpu" if reduce == "amax" else "minimum_cpu", self._dtype)
    if self._dtype is dtypes.bool_ and reduce == "mean":
        refuse_dtype("div_floor_cpu", self._dtype)
    check_vector_index("index_reduce", self, dim, index, source)


@index_reduce.kernel
def _(
    xp: Any, self: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool
) -> None:
    index = index.reshape(-1)
    size = self.shape[dim] if self.ndim else 1
    check_bounds(index, size, IndexError, "index out of range in self")
    reduce_into(rows_of(self, dim), (index,), rows_of(source, dim), reduce, include_self)


@index_reduce.samples
def _(make: Any) -> Any:
    for reduce in ("prod", "mean", "amax", "amin"):
        yield make.distinct(3, 4), 0, make.index(4, below=3), make.distinct(4, 4), reduce
        yield sample(
            make.distinct(3, 2), 1, make.index(3, below=2), make.distinct(3, 3), reduce,
            include_self=False,
        )  # fmt: skip


SCATTERED = "(Tensor self, int dim, Tensor index, "


def check_scatter(name: str, self: Any, dim: int, index: Any, src: Any = None) -> None:
    sizes, wanted = tuple(self.shape), tuple(index.shape)
    dim = geometry.wrap_dim(dim, len(sizes))
    if geometry.decided(index.numel() != 0) and index._dtype not in INDEX_DTYPES:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if src is not None and src._dtype is not self._dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if geometry.is_size(index.numel(), 0):
        return
    if max(len(sizes), 1) != max(len(wanted), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    given = None if src is None else tuple(src.shape)
    fits = True
    for axis, size in enumerate(wanted):
        if given is not None:
            geometry.wrap_dim(axis, len(given))
            fits = fits and not geometry.decided(size > (given[axis] if given else 1))
        fits = fits and (axis == dim or not geometry.decided(size > sizes[axis]))
    if not fits:
        against = "" if given is None else (
            f" and to be no larger size than src {geometry.show(given)}"
        )  # fmt: skip
        raise RuntimeError(
            f"Expected index {geometry.show(wanted)} to be no larger than self "
            f"{geometry.show(sizes)} apart from dimension {dim}{against}"
        )
    if src is not None and max(len(given or ()), 1) != max(len(wanted), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")


def by_native_code(name: str, array: Any, dim: int, index: Any, other: Any) -> bool:
    """Write what an index names along a dim by native code; False where there is none. The
    sizes of the other dims are those of the index, and positions are known to be right."""
    sizes, given = list(array.shape), list(index.shape)
    length, count = sizes.pop(dim), given.pop(dim)
    inner = prod(sizes[dim:])
    loop = name if inner != 1 else f"{name} along"
    run = native_loop(loop, array.dtype) if geometry.same_sizes(sizes, given) else None
    if run is None or other.dtype != array.dtype or not array.flags.writeable:
        return False
    if not array.flags.c_contiguous or not other.flags.c_contiguous:
        return False
    if np.may_share_memory(array, other) or np.may_share_memory(array, index):
        return False
    index = np.ascontiguousarray(index, np.int64)
    numbers = (length, count) if inner == 1 else (length, count, inner)
    run(array, index, other, prod(sizes[:dim]), *numbers)
    return True


def scatter_places(self: Any, dim: int, index: Any, src: Any) -> tuple[Any, Any, Any]:
    """(a view of the target, places in it, values for them)."""
    if self.ndim == 0 or index.ndim == 0:
        self, index = self.reshape(-1), index.reshape(-1)
    if isinstance(src, ndarray) and src.ndim == 0:
        src = src.reshape(-1)
    dim %= self.ndim
    check_positions(self, dim, index)
    if isinstance(src, ndarray):
        src = src[tuple([slice(0, size) for size in index.shape])]
    else:
        src = np.array(held_number(src, dtypes.from_numpy(self.dtype)), self.dtype)
    if self.flags.c_contiguous:
        return self.reshape(-1), (flat_positions(self, dim, index),), src
    return self, grid(index.shape, dim, index), src


def scatter_into(xp: Any, self: Any, dim: int, index: Any, src: Any) -> None:
    if index.size:
        target, places, values = scatter_places(self, dim, index, src)
        target[places] = values


def scatter_reducing(
    xp: Any, self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> None:
    if not index.size:
        return
    adds = reduce in ("sum", "add") and include_self
    if adds and index.size >= LARGE and self.ndim and isinstance(src, ndarray):
        check_positions(self, dim % self.ndim, index)
        given = src[tuple([slice(0, size) for size in index.shape])]
        if by_native_code("scatter_add", self, dim % self.ndim, index, given):
            return
    target, places, values = scatter_places(self, dim, index, src)
    reduce_into(target, places, values, reduce, include_self)


def check_old_reduce(reduce: str) -> None:
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")


def scatter_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(3), 0, make.ints(2, low=3, high=5), make(2))
    yield RuntimeError, sample(make(3), 0, make.index(2, below=3), make(1))
    yield RuntimeError, sample(make(3, 2), 0, make.index(2, below=3), make(2))
    yield RuntimeError, sample(make(3), 0, make.index(2, below=3), make(2, dtype=dtypes.int64))


def scatter_samples(make: Any) -> Any:
    yield make(3, 4), 0, make.ints(1, 4, high=3), make(1, 4)
    yield make.strided(3, 4), 1, make.ints(2, 1, high=4), make(3, 2)
    yield make(), 0, make.index(below=1), make()
    yield make(3, 4), -1, make.index(0, 4, below=3), make(3, 4)


def source_gradient(grad: Any, dim: int, index: Any, src_shape: Any) -> Any:
    """The gradient of `src`, of which `index` may read a corner only."""
    found = grad.gather(dim, index)
    if len(src_shape) != found.dim() or geometry.same_sizes(tuple(src_shape), tuple(found.shape)):
        return found
    padding: list[Any] = []
    for size, wanted in zip(reversed(found.shape), reversed(src_shape), strict=True):
        padding += [0, wanted - size]
    return aten.constant_pad_nd(found, padding)


scatter_src = writing(
    f"scatter.src{SCATTERED}Tensor src) -> Tensor",
    out_seen_first=True,
    out_apart=slice(2, None),
    jvp=linear_in("self", "src"),
    requires=lambda self, dim, index, src: check_scatter("scatter", self, dim, index, src),
    kernel=scatter_into,
    vjp={
        "self": lambda grad, dim, index: grad.scatter(dim, index, 0),
        "src": source_gradient,
    },
    samples=scatter_samples,
    errors=scatter_errors,
)
scatter_value = writing(
    f"scatter.value{SCATTERED}Scalar value) -> Tensor",
    out_seen_first=True,
    out_apart=slice(2, None),
    node_index=1,
    requires=lambda self, dim, index: check_scatter("scatter", self, dim, index),
    kernel=scatter_into,
    vjp={"self": lambda grad, dim, index: grad.scatter(dim, index, 0)},
    jvp=lambda self_t, dim, index: self_t.scatter(dim, index, 0),
    samples=lambda make: [
        (make(3, 4), 0, make.index(2, 4, below=3), 2),
        (make.strided(3, 4), 1, make.index(3, 2, below=4), 3),
    ],
)
scatter_reduce_src = writing(
    f"scatter.reduce{SCATTERED}Tensor src, *, str reduce) -> Tensor",
    out_seen_first=True,
    out_apart=slice(2, None),
    kernel=scatter_reducing,
    node="NotImplemented",
    vjp={"self": refuse_gradient("aten::scatter"), "src": refuse_gradient("aten::scatter")},
    samples=lambda make: [
        sample(make(3, 4), 0, make.index(2, 4, below=3), make(2, 4), reduce="add"),
        sample(make(3, 4), 1, make.index(2, 4, below=4), make(2, 4), reduce="multiply"),
    ],
)
scatter_reduce_value = writing(
    f"scatter.value_reduce{SCATTERED}Scalar value, *, str reduce) -> Tensor",
    out_seen_first=True,
    out_apart=slice(2, None),
    kernel=scatter_reducing,
    node="NotImplemented",
    vjp={"self": refuse_gradient("aten::scatter")},
    samples=lambda make: [
        sample(make(3, 4), 0, make.index(2, 4, below=3), 2, reduce="add"),
        sample(make(3, 4), 1, make.index(2, 4, below=4), 2, reduce="multiply"),
    ],
)


@scatter_reduce_src.requires
def _(self: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
    check_old_reduce(reduce)
    check_scatter("scatter", self, dim, index, src)


@scatter_reduce_value.requires
def _(self: Any, dim: int, index: Any, reduce: str) -> None:
    check_old_reduce(reduce)
    check_scatter("scatter", self, dim, index)


scatter_add = writing(
    f"scatter_add{SCATTERED}Tensor src) -> Tensor",
    out_apart=slice(2, None),
    jvp=linear_in("self", "src"),
    requires=lambda self, dim, index, src: check_scatter("scatter", self, dim, index, src),
    kernel=lambda xp, self, dim, index, src: scatter_reducing(xp, self, dim, index, src, "sum"),
    vjp={"self": lambda grad: grad, "src": source_gradient},
    samples=lambda make: [
        *scatter_samples(make),
        (make(3, 4), 0, make.index(5, 4, below=3), make(5, 4)),
    ],
    errors=scatter_errors,
)
scatter_reduce = writing(
    f"scatter_reduce.two{SCATTERED}Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    out_apart=slice(2, None),
    kernel=scatter_reducing,
)


@scatter_reduce.requires
def _(self: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "reduce argument must be either sum, prod, mean, amax or amin, got " + reduce
        )
    unordered = self._dtype.is_complex and reduce in ("amax", "amin")
    if unordered or (self._dtype is dtypes.bool_ and reduce == "mean"):
        refuse_dtype(f"scatter_gather_tensor_cpu_reduce_{reduce}", self._dtype)
    check_scatter("scatter_reduce", self, dim, index, src)


@scatter_reduce.samples
def _(make: Any) -> Any:
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for flag in (True, False):
            yield sample(
                make.distinct(3, 4), 0, make.index(4, 3, below=3), make.distinct(4, 3), reduce,
                include_self=flag,
            )  # fmt: skip
        yield make(), 0, make.index(below=1), make(), reduce


def reduce_gradients(
    grad: Any,
    self: Any,
    src: Any,
    result: Any,
    reduce: str,
    include_self: bool,
    name: str,
    add: Callable[[Any, Any], Any],
    read: Callable[[Any], Any],
    again: Callable[[Any, Any], Any],
    clear: Callable[[Any], Any],
) -> tuple[Any, Any]:
    """Gradients of scatter_reduce and index_reduce, which differ in how places are named:
    `add(to, values)` accumulates at them, `read(from)` reads, `again(self, src)` is the op,
    `clear(of)` puts zeros."""
    if grad.is_complex() and reduce == "prod":
        raise RuntimeError(
            f"{name} does not support automatic differentiation for outputs with complex dtype."
        )
    if reduce == "sum":
        grad_self, grad_src = grad, read(grad)
    elif reduce == "prod":
        kept = self.masked_fill(self == 0, 1)
        grad_self = grad * again(kept, src) / kept
        is_zero = src == 0
        zeros = read(add(aten.zeros_like(self), is_zero.to(self.dtype)))
        single = is_zero.logical_and(zeros == 1)
        others = again(self, src.masked_fill(single, 1))
        grad_src = aten.where(
            single, read(grad * others), read(grad * result) / src.masked_fill(is_zero, 1)
        )
        if has_values(src) and bool((zeros > 1).any()):
            grad_src = refuse_twice(
                grad_src,
                f"{name}(): Double backward is unsupported for src when >1 zeros in src are "
                "scattered to the same position in self",
            )
    elif reduce == "mean":
        counts = aten.ones_like(grad) if include_self else aten.zeros_like(grad)
        counts = add(counts, aten.ones_like(src))
        counts = counts.masked_fill(counts == 0, 1)
        grad_self, grad_src = grad / counts, read(grad) / read(counts)
    else:
        own = (self == result).to(self.dtype)
        theirs = (src == read(result)).to(src.dtype)
        share = grad / add(own, theirs)
        grad_self, grad_src = own * share, theirs * read(share)
    if not include_self:
        grad_self = clear(grad_self)
    return grad_self, grad_src


@scatter_reduce.vjp
def _(
    grad: Any,
    self: Any,
    dim: int,
    index: Any,
    src: Any,
    reduce: str,
    include_self: bool,
    result: Any,
) -> Any:
    return reduce_gradients(
        grad,
        self,
        src,
        result,
        reduce,
        include_self,
        "scatter_reduce",
        lambda to, values: to.scatter_add(dim, index, values),
        lambda source: source.gather(dim, index),
        lambda to, values: aten.scatter_reduce(
            to, dim, index, values, reduce, include_self=include_self
        ),
        lambda of: of.scatter(dim, index, 0),
    )


@index_reduce.vjp
def _(
    grad: Any,
    self: Any,
    dim: int,
    index: Any,
    source: Any,
    reduce: str,
    include_self: bool,
    result: Any,
) -> Any:
    return reduce_gradients(
        grad,
        self,
        source,
        result,
        reduce,
        include_self,
        "index_reduce",
        lambda to, values: to.index_add(dim, index, values),
        lambda given: given.index_select(dim, index),
        lambda to, values: aten.index_reduce(
            to, dim, index, values, reduce, include_self=include_self
        ),
        lambda of: of.index_fill(dim, index, 0),
    )


scatter_reduce.options["differentiable"] = ["self", "src"]
index_reduce.options["differentiable"] = ["self", "source"]

refuse_twice = op(
    "refuse_twice(Tensor self, str reason) -> Tensor",
    namespace="rushlight",
    shape=lambda self, reason: Spec(self.shape, self._dtype),
    kernel=lambda xp, self, reason: self.copy(),
    node="DelayedError",
)


@refuse_twice.vjp
def _(grad: Any, reason: str) -> Any:
    raise RuntimeError(reason)
