"""Bags of table rows: embedding_bag with sum, mean and max, and its gradients.

A bag is a run of indices; `offsets` says where each begins. The primitive answers, besides the
result, the bag of each index, the size of each bag and, for max, the row each maximum came from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.promotion import promote_types
from rushlight.core.tensor import values_of
from rushlight.opset.indexing.embedding import check_embedding
from rushlight.opset.indexing.index import INDEX_DTYPES
from rushlight.opset.kinds import GATHER, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late, sample

SUM, MEAN, MAX = 0, 1, 2
ARGUMENTS = (
    "Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
    "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False"
)
RESULTS = "(Tensor, Tensor, Tensor, Tensor)"
BACKWARD = (
    "bool scale_grad_by_freq, int mode, {sparse}Tensor? per_sample_weights, int padding_idx=-1"
)


def check_bag(weight: Any, indices: Any, offsets: Any, mode: int, per_sample_weights: Any) -> None:
    if indices.dim() != 1:
        allowed = "1D" if indices.dim() == 2 else "1D or 2D"
        raise RuntimeError(
            f"input has to be a {allowed} Tensor, but got Tensor of dimension {indices.dim()}"
        )
    if offsets.dim() != 1:
        raise RuntimeError(
            f"offsets has to be a 1D Tensor, but got Tensor of dimension {offsets.dim()}"
        )
    if weight.dim() != 2:
        raise RuntimeError(f"weight has to be a 2D Tensor, but got {weight.dim()} dimensions")
    check_embedding(indices, 1, "embedding_bag")
    if offsets._dtype not in INDEX_DTYPES:
        raise RuntimeError(
            "Expected tensor for argument #1 'offsets' to have one of the following scalar types: "
            f"Long, Int; but got torch.{offsets._dtype.legacy_tensor_name} instead (while checking "
            "arguments for embedding_bag)"
        )
    if weight._dtype.category != dtypes.FLOAT:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            f"Half, BFloat16, Float, Double; but got torch.{weight._dtype.legacy_tensor_name} "
            "instead (while checking arguments for embedding_bag)"
        )
    if per_sample_weights is not None:
        if mode != SUM:
            raise RuntimeError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                f"supported for mode='sum' (got mode={mode})"
            )
        if not geometry.same_sizes(tuple(per_sample_weights.shape), tuple(indices.shape)):
            raise RuntimeError(
                "embedding_bag: If per_sample_weights is defined, it must have the same shape as "
                "the input"
            )
        if per_sample_weights._dtype is not weight._dtype:
            raise RuntimeError(
                "Expected tensor for argument #1 'weight' to have the same type as tensor for "
                "argument #1 'per_sample_weights'; but type "
                f"torch.{weight._dtype.legacy_tensor_name} does not equal "
                f"torch.{per_sample_weights._dtype.legacy_tensor_name} (while checking arguments "
                "for embedding_bag)"
            )


def leaves_owners_out(dtype: Any, mode: int, padding_idx: int) -> bool:
    """torch: where sums take the quick way, the bag of each index is left to the gradient."""
    return mode == SUM and padding_idx < 0 and dtype is not dtypes.float64


def bag_count(offsets: Any, include_last_offset: bool) -> Any:
    return offsets.shape[0] - 1 if include_last_offset else offsets.shape[0]


bag = op(
    f"_embedding_bag({ARGUMENTS}, int padding_idx=-1) -> {RESULTS}",
    kind=GATHER.checked,
    method=False,
    batch=late("indexing.batched:embedding_bag"),
    non_differentiable=(1, 2, 3),
)


@bag.shape
def _(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    include_last_offset: bool,
    padding_idx: int,
) -> Any:
    check_bag(weight, indices, offsets, mode, per_sample_weights)
    bags = bag_count(offsets, include_last_offset)
    width = weight.shape[1]
    dtype = promote_types(indices._dtype, offsets._dtype)
    most = (bags, width) if mode == MAX else (bags,)
    owners = (0,) if leaves_owners_out(weight._dtype, mode, padding_idx) else indices.shape
    return (
        Spec((bags, width), weight._dtype),
        Spec(owners, dtype),
        Spec((bags,), dtype),
        Spec(most, dtype),
    )


def reduced(ufunc: Any, rows: Any, sizes: Any) -> Any:
    """One row for each run of rows; zeros for an empty run."""
    result = np.zeros((sizes.size, *rows.shape[1:]), rows.dtype)
    filled = np.flatnonzero(sizes)
    if filled.size:
        starts = np.cumsum(sizes) - sizes
        result[filled] = ufunc.reduceat(rows, starts[filled], axis=0)
    return result


def check_rows(indices: Any, rows: int, quick: bool) -> None:
    """torch: sums and means without padding say it in other words."""
    wrong = np.flatnonzero((indices < 0) | (indices >= rows))
    if wrong.size and not quick:
        raise RuntimeError(
            "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be "
            f"{indices[wrong[0]]}"
        )
    if wrong.size:
        raise RuntimeError(
            f"Index {wrong[0]} of input takes value {indices[wrong[0]]} which is not in the valid "
            f"range [0, {rows})"
        )


def bags_of(indices: Any, offsets: Any, include_last_offset: bool) -> Any:
    """The bag of every index."""
    if offsets.size and offsets[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {offsets[0]}"
        )
    if offsets.size and offsets[-1] > indices.size:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {indices.size} but got "
            f"offsets[-1] of {offsets[-1]}"
        )
    if (np.diff(offsets) < 0).any():
        raise RuntimeError("embedding_bag: offsets must not decrease")
    starts = offsets[:-1] if include_last_offset else offsets
    if starts.size == 0:
        return np.zeros(0, indices.dtype), starts
    sizes = np.diff(np.append(starts, indices.size))
    return np.repeat(np.arange(starts.size, dtype=indices.dtype), sizes), starts


@bag.kernel
def _(
    xp: Any,
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    include_last_offset: bool,
    padding_idx: int,
) -> Any:
    check_rows(indices, weight.shape[0], quick=mode != MAX and padding_idx < 0)
    indices = indices.astype(np.promote_types(indices.dtype, offsets.dtype), copy=False)
    owner, starts = bags_of(indices, offsets, include_last_offset)
    used, chosen = owner, indices[: owner.size]
    kept = slice(None)
    if padding_idx >= 0:
        kept = chosen != padding_idx
        used, chosen = owner[kept], chosen[kept]
    sizes = xp.bincount(used, minlength=starts.size).astype(indices.dtype)
    wide = np.float32 if weight.dtype.itemsize == 2 else weight.dtype
    rows = weight[chosen].astype(wide)
    most = sizes
    if per_sample_weights is not None:
        rows *= per_sample_weights[: owner.size][kept][:, None].astype(wide)
    if mode == MAX:
        result = reduced(xp.maximum, rows, sizes)
        place = xp.arange(rows.shape[0])[:, None]
        first = reduced(xp.minimum, xp.where(rows == result[used], place, rows.shape[0]), sizes)
        most = xp.zeros(result.shape, indices.dtype)
        if rows.shape[0]:
            filled = sizes > 0
            most[filled] = chosen[xp.minimum(first[filled], rows.shape[0] - 1)]
    else:
        result = reduced(xp.add, rows, sizes)
        if mode == MEAN:
            result /= xp.maximum(sizes, 1)[:, None].astype(wide)
    padded = xp.zeros(indices.shape, indices.dtype)
    padded[: owner.size] = owner
    if leaves_owners_out(dtypes.from_numpy(weight.dtype), mode, padding_idx):
        padded = padded[:0]
    if mode == SUM:
        sizes = xp.zeros_like(sizes)
    if mode != MAX:
        most = sizes.copy()
    return result.astype(weight.dtype, copy=False), padded, sizes, most


def weight_grad(
    grad: Any,
    indices: Any,
    offsets: Any,
    result1: Any,
    result2: Any,
    result3: Any,
    weight_shape: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    padding_idx: int,
) -> Any:
    return aten._embedding_bag_backward(
        grad,
        indices,
        offsets,
        result1,
        result2,
        result3,
        weight_shape[0],
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        padding_idx,
    )


bag.vjp = {
    "weight": weight_grad,
    "per_sample_weights": lambda grad, weight, indices, offsets, result1, mode, padding_idx: (
        aten._embedding_bag_per_sample_weights_backward(
            grad, weight, indices, offsets, result1, mode, padding_idx
        )
    ),
}


def bag_arguments(make: Any) -> Any:
    """Table, indices and offsets; the last bag but one is empty."""
    offsets = make.ints(3, low=0, high=0)
    values_of(offsets)[...] = [0, 2, 2]
    return make.distinct(5, 2), make.index(5, below=5), offsets


@bag.samples
def _(make: Any) -> Any:
    if not make.dtype.is_floating_point:
        return
    for mode in (SUM, MEAN, MAX):
        yield sample(*bag_arguments(make), mode=mode)
        yield sample(*bag_arguments(make), mode=mode, padding_idx=1)
    yield sample(*bag_arguments(make), per_sample_weights=make(5))
    weight, indices, offsets = bag_arguments(make)
    values_of(offsets)[-1] = 5
    yield sample(weight, indices, offsets, include_last_offset=True)


@composite(
    f"_embedding_bag_forward_only({ARGUMENTS}, int padding_idx=-1) -> {RESULTS}",
    method=False,
    samples=lambda make: [sample(*bag_arguments(make))] if make.dtype.is_floating_point else [],
)
def forward_only(*args: Any) -> Any:
    return aten._embedding_bag(*args)


@composite(
    f"embedding_bag({ARGUMENTS}) -> {RESULTS}",
    method=False,
    samples=lambda make: [sample(*bag_arguments(make))] if make.dtype.is_floating_point else [],
)
def embedding_bag(*args: Any) -> Any:
    return aten._embedding_bag(*args, -1)


@composite(
    "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, "
    "bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, "
    f"bool include_last_offset, int? padding_idx) -> {RESULTS}",
    method=False,
    samples=lambda make: (
        [(*bag_arguments(make), False, 0, False, None, False, 1)]
        if make.dtype.is_floating_point
        else []
    ),
)
def embedding_bag_padding(weight: Any, *args: Any) -> Any:
    *rest, padding_idx = args
    if padding_idx is None:
        padding_idx = -1
    else:
        count = weight.shape[0]
        if not -count <= padding_idx < count:
            raise RuntimeError(
                f"padding_idx must be within the number of embeddings, -{count} through "
                f"{count - 1}, but got {padding_idx}"
            )
        padding_idx %= count
    return aten._embedding_bag(weight, *rest, padding_idx)


# -- gradients -------------------------------------------------------------------------------------

FACTS = "Tensor grad, Tensor indices, {offsets}Tensor offset2bag, Tensor bag_size, "


def backward_sample(make: Any, offsets: bool, most: bool, sparse: bool) -> Any:
    if not make.dtype.is_floating_point:
        return
    weight, indices, starts = bag_arguments(make)
    _, owner, sizes, highest = aten._embedding_bag(weight, indices, starts, mode=MEAN)
    args = [make(3, 2), indices]
    args += [starts] if offsets else []
    args += [owner, sizes]
    args += [highest] if most else []
    args += [5, False, MEAN]
    args += [False] if sparse else []
    yield (*args, None)


@composite(
    "_embedding_bag_backward("
    + FACTS.format(offsets="Tensor offsets, ")
    + "Tensor maximum_indices, SymInt num_weights, "
    + BACKWARD.format(sparse="bool sparse, ")
    + ") -> Tensor",
    method=False,
    samples=lambda make: backward_sample(make, True, True, True),
)
def bag_backward(
    grad: Any,
    indices: Any,
    offsets: Any,
    offset2bag: Any,
    bag_size: Any,
    maximum_indices: Any,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    *weights: Any,
) -> Any:
    rest = (num_weights, scale_grad_by_freq, mode, *weights)
    offset2bag = owners_of(indices, offsets, offset2bag, grad.shape[0])
    if sparse:
        return aten._embedding_bag_sparse_backward(
            grad, indices, offsets, offset2bag, bag_size, *rest
        )
    return aten._embedding_bag_dense_backward(
        grad, indices, offset2bag, bag_size, maximum_indices, *rest
    )


def owners_of(indices: Any, offsets: Any, offset2bag: Any, bags: Any) -> Any:
    """The bag of each index, counted from the offsets where the forward op left it out."""
    count = indices.shape[0]
    if offset2bag.numel() or count == 0:
        return offset2bag
    marks = aten.zeros((count + 1,), dtype=indices._dtype)
    marks = marks.index_add(0, offsets, aten.ones_like(offsets, dtype=indices._dtype))
    owners = (marks.cumsum(0) - 1).narrow(0, 0, count).clamp(max=bags - 1)
    return owners.to(indices._dtype)


def grad_of_table(
    sparse: bool,
    grad: Any,
    indices: Any,
    offset2bag: Any,
    bag_size: Any,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Any,
    padding_idx: int = -1,
) -> Any:
    """Sums and means: each looked-up row receives its share of its bag's gradient."""
    if mode == MAX:
        raise RuntimeError("embedding_bag: max mode does not support sparse weights")
    if mode == MEAN:
        grad = grad / bag_size.clamp(min=1).unsqueeze(1).to(grad._dtype)
    rows = grad.index_select(0, offset2bag)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return aten.embedding_backward(
        rows, indices, num_weights, padding_idx, scale_grad_by_freq, sparse
    )


@composite(
    "_embedding_bag_sparse_backward("
    + FACTS.format(offsets="Tensor offsets, ")
    + "SymInt num_weights, "
    + BACKWARD.format(sparse="")
    + ") -> Tensor",
    method=False,
    tags=("data_dependent_output",),
    samples=lambda make: backward_sample(make, True, False, False),
)
def bag_sparse_backward(grad: Any, indices: Any, offsets: Any, *rest: Any) -> Any:
    return grad_of_table(True, grad, indices, *rest)


@composite(
    "_embedding_bag_dense_backward("
    + FACTS.format(offsets="")
    + "Tensor maximum_indices, SymInt num_weights, "
    + BACKWARD.format(sparse="")
    + ") -> Tensor",
    method=False,
    samples=lambda make: backward_sample(make, False, True, False),
)
def bag_dense_backward(
    grad: Any,
    indices: Any,
    offset2bag: Any,
    bag_size: Any,
    maximum_indices: Any,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    *weights: Any,
) -> Any:
    if mode == MAX:
        filled = grad.masked_fill((bag_size == 0).unsqueeze(1), 0)
        table = grad.new_zeros((num_weights, grad.shape[1]))
        return table.scatter_add(0, maximum_indices.to(dtypes.int64), filled)
    options = (num_weights, scale_grad_by_freq, mode, *weights)
    return grad_of_table(False, grad, indices, offset2bag, bag_size, *options)


@composite(
    "_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, "
    "Tensor offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
    method=False,
    samples=lambda make: per_sample_samples(make),
)
def per_sample_backward(
    grad: Any,
    weight: Any,
    indices: Any,
    offsets: Any,
    offset2bag: Any,
    mode: int,
    padding_idx: int = -1,
) -> Any:
    if mode != SUM:
        raise RuntimeError("embedding_bag: per_sample_weights has a gradient for mode='sum' only")
    owners = owners_of(indices, offsets, offset2bag, grad.shape[0])
    products = grad.index_select(0, owners) * weight.index_select(0, indices)
    result = products.sum(1)
    return result.masked_fill(indices == padding_idx, 0) if padding_idx >= 0 else result


def per_sample_samples(make: Any) -> Any:
    if make.dtype.is_floating_point:
        weight, indices, starts = bag_arguments(make)
        _, owner, _, _ = aten._embedding_bag(weight, indices, starts, mode=MEAN)
        yield make(3, 2), weight, indices, starts, owner, SUM
