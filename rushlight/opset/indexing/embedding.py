"""Rows of a table by index: embedding, its gradient, and renormalisation of the rows used."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.op import refuse
from rushlight.opset.indexing.index import INDEX_DTYPES, check_bounds
from rushlight.opset.indexing.writing import accumulate
from rushlight.opset.kinds import GATHER, SCATTER, Spec
from rushlight.opset.large import PickRule
from rushlight.opset.registry import composite, mutation, op
from rushlight.opset.rules import aten, late, linear_in, sample


def check_embedding(indices: Any, position: int, name: str) -> None:
    check_indices(indices._dtype, position, name)


def check_indices(dtype: Any, position: int, name: str) -> None:
    if dtype not in INDEX_DTYPES:
        raise RuntimeError(
            f"Expected tensor for argument #{position} 'indices' to have one of the following "
            f"scalar types: Long, Int; but got torch.{dtype.legacy_tensor_name} instead "
            f"(while checking arguments for {name})"
        )


embedding = op(
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, "
    "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    kind=GATHER.checked,
    picks="row",
    method=False,
    jvp=linear_in("weight"),
    vjp={
        "weight": lambda grad, indices, weight_shape, padding_idx, scale_grad_by_freq, sparse: (
            aten.embedding_backward(
                grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq, sparse
            )
        )
    },
)


embedding.batch = late("indexing.batched:embedding")


@embedding.requires
def _(weight: Any, indices: Any) -> None:
    if weight.dim() != 2:
        raise RuntimeError("'weight' must be 2-D")
    check_embedding(indices, 1, "embedding")


def rows_embedded(weight: Any, indices: Any, *rest: Any) -> Any:
    (length, width), sizes = weight.shape, tuple(indices.shape)
    return (*sizes, width), (1, length, prod(sizes), width)


pick_rows = PickRule(embedding, True, rows_embedded)


@embedding.kernel
def _(
    xp: Any, weight: Any, indices: Any, padding_idx: Any, scale_grad_by_freq: bool, sparse: bool
) -> Any:
    found = pick_rows(weight, indices, padding_idx, scale_grad_by_freq, sparse)
    if found is not None:
        return found
    check_bounds(indices, weight.shape[0], IndexError, "index out of range in self")
    return weight[indices] if not weight.flags.c_contiguous else weight.take(indices, axis=0)


@embedding.samples
def _(make: Any) -> Any:
    yield make(4, 3), make.index(2, 3, below=4)
    yield make(4, 3), make.index(below=4)
    yield make.strided(4, 3), make.index(5, below=4), 1


@embedding.errors
def _(make: Any) -> Any:
    yield IndexError, sample(make(4, 3), make.ints(2, low=4, high=6))
    yield RuntimeError, sample(make(4), make.index(2, below=4))
    yield RuntimeError, sample(make(4, 3), make(2))


@composite(
    "embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, "
    "bool scale_grad_by_freq, bool sparse) -> Tensor",
    method=False,
    samples=lambda make: [(make(2, 3, 2), make.index(2, 3, below=4), 4, -1, False, False)],
)
def embedding_backward(
    grad: Any,
    indices: Any,
    num_weights: Any,
    padding_idx: Any,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Any:
    if sparse:
        return aten.embedding_sparse_backward(
            grad, indices, num_weights, padding_idx, scale_grad_by_freq
        )
    return aten.embedding_dense_backward(
        grad, indices, num_weights, padding_idx, scale_grad_by_freq
    )


def check_rows(indices: Any, grad_output: Any) -> None:
    count, sizes = geometry.numel(indices.shape), grad_output.shape
    if geometry.numel(sizes[:-1]) != count:
        raise RuntimeError(
            f"shape '{geometry.show((count, sizes[-1]))}' is invalid for input of size "
            f"{geometry.numel(sizes)}"
        )


embedding_dense_backward = op(
    "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, "
    "SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
    kind=SCATTER.checked,
    method=False,
    batch=late("indexing.batched:embedding_dense_backward"),
    jvp=linear_in("grad_output"),
)


@embedding_dense_backward.shape
def _(
    grad_output: Any, indices: Any, num_weights: Any, padding_idx: Any, scale_grad_by_freq: bool
) -> Any:
    check_embedding(indices, 2, "embedding_backward")
    check_rows(indices, grad_output)
    return Spec((num_weights, grad_output.shape[-1]), grad_output._dtype)


@embedding_dense_backward.kernel
def _(
    xp: Any,
    grad_output: Any,
    indices: Any,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Any:
    check_rows(indices, grad_output)
    width = grad_output.shape[-1]
    result = xp.zeros((num_weights, width), grad_output.dtype)
    rows, values = indices.reshape(-1), grad_output.reshape(indices.size, width)
    # torch: the rows of indices beyond the table are dropped as those of the padding are.
    kept = (rows >= 0) & (rows < num_weights) & (rows != padding_idx)
    if not kept.all():
        rows, values = rows[kept], values[kept]
    if scale_grad_by_freq and rows.size:
        counts = xp.bincount(rows, minlength=num_weights)[rows]
        values = (values / counts[:, None]).astype(grad_output.dtype)
    accumulate(xp.add, result, (rows,), values)
    return result


def embedding_double_backward(
    grad: Any, indices: Any, padding_idx: Any, scale_grad_by_freq: bool
) -> Any:
    rows = indices.reshape((-1,))
    found = grad.index_select(0, rows)
    if scale_grad_by_freq:
        # torch: no scale here, and so no true derivative.
        ones = grad.new_ones(rows.shape)
        counts = grad.new_zeros((grad.shape[0],)).index_add(0, rows, ones)
        found = found / counts.index_select(0, rows).unsqueeze(-1)
    result = found.view((*indices.shape, grad.shape[-1]))
    if padding_idx >= 0:
        result = result.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    return result


embedding_dense_backward.vjp = {"grad_output": embedding_double_backward}


@embedding_dense_backward.samples
def _(make: Any) -> Any:
    yield make(2, 3, 2), make.index(2, 3, below=4), 4, -1, False
    yield make(5, 2), make.index(5, below=4), 4, 1, False


def renormalise(xp: Any, self: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Scale the rows that are used so that no norm exceeds `max_norm`, in place."""
    check_indices(dtypes.from_numpy(indices.dtype), 2, "embedding_renorm_")
    check_bounds(indices, self.shape[0], IndexError, "index out of range in self")
    rows = xp.unique(indices)
    used = self[rows].astype(np.promote_types(self.dtype, np.float32))
    # torch: a norm is rounded to the weights' dtype, its quotient is not.
    norms = xp.linalg.norm(used, norm_type, axis=1).astype(self.dtype).astype(np.float64)
    scale = xp.where(norms > max_norm, max_norm / (norms + 1e-7), 1).astype(used.dtype)
    self[rows] = (used * scale[:, None]).astype(self.dtype)
    return self


embedding_renorm = op(
    "embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
    method=False,
    function=False,
    layout="like",
    batch=late("indexing.batched:embedding_renorm"),
    vjp=refuse("rows are renormalised outside of the graph"),
    jvp=refuse("rows are renormalised outside of the graph"),
    kernel=lambda xp, self, *rest: renormalise(xp, self.copy(), *rest),
)
embedding_renorm_ = mutation(embedding_renorm, renormalise, method=False)


@embedding_renorm.shape
def _(self: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    check_embedding(indices, 2, "embedding_renorm_")
    return Spec(self.shape, self._dtype)


@embedding_renorm.samples
def _(make: Any) -> Any:
    if make.dtype.name in ("float32", "float64"):
        yield make(4, 3), make.index(3, below=4), 1.0, 2.0
