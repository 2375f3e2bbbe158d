"""Reductions as programs over core ops."""

from __future__ import annotations

import math
from typing import Any

from rushlight.aot.decompositions.texts import as_tensor, cast, wide
from rushlight.aot.decompositions.written import program
from rushlight.core import dtype as dtypes
from rushlight.core.dtype import COMPLEX, FLOAT
from rushlight.core.tensor import Tensor
from rushlight.opset.rules import aten

__all__ = ["every"]


def every(self: Tensor, dim: Any) -> list[int]:
    """The dims that a reduction's `dim` names; none named are all."""
    if dim is None or (not isinstance(dim, int) and not dim):
        return list(range(self.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


@program("sum")
def sum(self: Tensor, *, dtype: Any = None) -> Any:
    return aten.sum(self, [], dtype=dtype)


@program("max")
def max(self: Tensor) -> Any:
    return aten.amax(self, every(self, None))


@program("min")
def min(self: Tensor) -> Any:
    return aten.amin(self, every(self, None))


def inverted_any(self: Tensor, **options: Any) -> Any:
    found = aten.logical_not(aten.any(aten.logical_not(self), **options))
    return cast(found, dtypes.uint8) if self.dtype is dtypes.uint8 else found


@program("all")
def all(self: Tensor) -> Any:
    return inverted_any(self)


@program("all.dim", "all.dims")
def all_dims(self: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    return inverted_any(self, dim=dim, keepdim=keepdim)


@program("aminmax")
def aminmax(self: Tensor, *, dim: Any = None, keepdim: bool = False) -> Any:
    dims = every(self, dim)
    return aten.amin(self, dims, keepdim), aten.amax(self, dims, keepdim)


@program("count_nonzero", "count_nonzero.dim_IntList")
def count_nonzero(self: Tensor, dim: Any = None) -> Any:
    return aten.sum(aten.ne(self, 0), every(self, dim))


@program("nansum")
def nansum(self: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if self.dtype.category >= FLOAT:
        self = aten.where(aten.isnan(self), as_tensor(0, self), self)
    return aten.sum(self, every(self, dim), keepdim, dtype=dtype)


@program("logsumexp")
def logsumexp(self: Tensor, dim: Any, keepdim: bool = False) -> Any:
    result = self.dtype if self.dtype.category >= FLOAT else dtypes.get_default_dtype()
    x = wide(cast(self, result))
    dims = every(x, dim)
    if x.numel() == 0 or x.dtype.category == COMPLEX:
        return cast(aten.log(aten.sum(aten.exp(x), dims, keepdim)), result)
    top = aten.amax(x, dims, True)
    top = aten.where(aten.isinf(top), as_tensor(0, top), top)
    total = aten.log(aten.sum(aten.exp(aten.sub(x, top)), dims, keepdim))
    found = aten.add(total, top if keepdim or not x.dim() else aten.squeeze(top, dims))
    return cast(found, result)


@program("var.correction")
def var(self: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return var_mean(self, dim, correction=correction, keepdim=keepdim)[0]


@program("var_mean.correction")
def var_mean(
    self: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    dims = every(self, dim)
    x = wide(self)
    mean = aten.mean(x, dims, True)
    spread = aten.sub(x, mean)
    square = aten.mul(spread, spread)
    if x.dtype.category == COMPLEX:
        size = aten.abs(spread)
        square = aten.mul(size, size)
    count: Any = math.prod([self.shape[d] for d in dims])
    total = aten.sum(square, dims, keepdim)
    free = count - (1 if correction is None else correction)
    divisor = free if not isinstance(free, (int, float)) or free > 0 else 0
    result = aten.div(total, divisor)
    if not keepdim and self.dim():
        mean = aten.squeeze(mean, dims)
    real = self.dtype.to_real()
    return cast(result, real), cast(mean, self.dtype)


@program("std.correction")
def std(self: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    found = aten.var(wide(self), every(self, dim), correction=correction, keepdim=keepdim)
    return cast(aten.sqrt(found), self.dtype.to_real())


@program("std_mean.correction")
def std_mean(
    self: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    dims = every(self, dim)
    mean = aten.mean(self, dims, keepdim)
    return std(self, dims, correction=correction, keepdim=keepdim), mean


@program("linalg_vector_norm")
def linalg_vector_norm(
    self: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    x = self if dtype is None else cast(self, dtype)
    result = x.dtype.to_real()
    size = aten.abs(wide(x))
    dims = every(x, dim)
    if ord == math.inf:
        found = aten.amax(size, dims, keepdim)
    elif ord == -math.inf:
        found = aten.amin(size, dims, keepdim)
    elif ord == 0:
        found = aten.sum(cast(aten.ne(size, 0), size.dtype), dims, keepdim)
    elif ord == 1:
        found = aten.sum(size, dims, keepdim)
    elif ord == 2:
        found = aten.sqrt(aten.sum(aten.mul(size, size), dims, keepdim))
    else:
        found = aten.pow(aten.sum(aten.pow(size, ord), dims, keepdim), 1 / ord)
    return cast(found, result)


@program("norm.Scalar")
def norm(self: Tensor, p: Any = 2) -> Any:
    return linalg_vector_norm(self, p)


@program("norm.ScalarOpt_dtype")
def norm_as(self: Tensor, p: Any, *, dtype: Any) -> Any:
    return linalg_vector_norm(self, 2 if p is None else p, dtype=dtype)


@program("norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype")
def norm_along(self: Tensor, p: Any, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return linalg_vector_norm(self, 2 if p is None else p, dim, keepdim, dtype=dtype)


@program("dist")
def dist(self: Tensor, other: Tensor, p: Any = 2) -> Any:
    return linalg_vector_norm(aten.sub(self, other), p)


@program("renorm")
def renorm(self: Tensor, p: Any, dim: int, maxnorm: Any) -> Any:
    rest = [d for d in range(self.dim()) if d != dim % self.dim()]
    size = linalg_vector_norm(wide(self), p, rest, True)
    scale = aten.div(as_tensor(maxnorm, size), aten.add(size, 1e-7))
    factor = aten.where(aten.gt(size, maxnorm), scale, as_tensor(1, size))
    return cast(aten.mul(wide(self), factor), self.dtype)
