"""Batch rules of products and distances that take more than one more leading dim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core import geometry
from rushlight.core.dtype import FLOAT, INTEGER
from rushlight.opset import functions as aten
from rushlight.opset.batching import settled

if TYPE_CHECKING:
    from rushlight.core.batching import VmapLevel
    from rushlight.core.op import OpOverload

__all__ = [
    "addbmm",
    "addr",
    "cross",
    "pair_distances",
    "pair_slopes",
    "pairwise",
    "trilinear",
]


def added(op: OpOverload, self: Any, found: Any, beta: Any, alpha: Any) -> Any:
    """beta * self + alpha * found, or what `self` becomes."""
    found = found if alpha == 1 else found * alpha
    if beta != 0:
        found = (self if beta == 1 else self * beta) + found
    elif not geometry.same_sizes(tuple(self.shape), tuple(found.shape)):
        self.expand(found.shape)
    return settled(op, self, found)


def is_uniform(tensors: tuple[Any, ...], factors: tuple[Any, ...]) -> bool:
    """Whether sums stay in one dtype: integers take whole factors only."""
    dtype = tensors[0].dtype
    if any([value.dtype is not dtype for value in tensors]):
        return False
    if dtype.category == INTEGER:
        return all([isinstance(factor, int) for factor in factors])
    return bool(dtype.category >= FLOAT)


def addbmm(
    level: VmapLevel, op: OpOverload, self: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any
) -> Any:
    fits = is_uniform((self, batch1, batch2), (beta, alpha))
    if op.out_positions or not fits or batch1.dim() != 3:
        return level.loop(op, (self, batch1, batch2, beta, alpha))
    return added(op, self, aten.bmm(batch1, batch2).sum(0), beta, alpha)


def addr(
    level: VmapLevel, op: OpOverload, self: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any
) -> Any:
    fits = is_uniform((self, vec1, vec2), (beta, alpha))
    if op.out_positions or not fits or (vec1.dim(), vec2.dim()) != (1, 1):
        return level.loop(op, (self, vec1, vec2, beta, alpha))
    return added(op, self, vec1.unsqueeze(1) * vec2, beta, alpha)


def cross(level: VmapLevel, op: OpOverload, self: Any, other: Any, dim: int) -> Any:
    rank = self.dim()
    if op.out_positions or other.dim() != rank or not rank:
        return level.loop(op, (self, other, dim))
    return level.wrap(
        level.below(op, (level.full(self), level.full(other), level.shift(dim, rank)))
    )


def trilinear(
    level: VmapLevel, op: OpOverload,
    i1: Any, i2: Any, i3: Any, expand1: Any, expand2: Any, expand3: Any,
    sumdim: Any, unroll_dim: int,
) -> Any:  # fmt: skip
    if op.out_positions:
        args = (i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim)
        return level.loop(op, args)
    dims = [[dim + 1 for dim in entry] for entry in (expand1, expand2, expand3, sumdim)]
    values = [level.full(value) for value in (i1, i2, i3)]
    return level.wrap(level.below(op, (*values, *dims, unroll_dim + 1)))


def pairwise(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """Distances between the rows of two matrices, whose leading dims broadcast."""
    tensors = [args[place] for place in op.tensor_positions if args[place] is not None]
    rank = max([value.dim() for value in tensors])
    if op.out_positions or min([value.dim() for value in tensors]) < 2:
        return level.loop(op, args)
    return level.wrap(level.below(op, tuple([level.full(value, rank) for value in args])))


def pair_distances(level: VmapLevel, op: OpOverload, self: Any, p: float) -> Any:
    from rushlight.opset.product.differences import pair_rows

    if op.out_positions or self.dim() != 2:
        return level.loop(op, (self, p))
    if not self.numel():
        # Rows of nothing, the same for all samples.
        return level.below(op, (level.run(level.front(self).new_empty, tuple(self.shape)), p))
    first, second = pair_rows(self.shape[0], self.device)
    gap = self.index_select(0, first) - self.index_select(0, second)
    return aten.linalg_vector_norm(gap, p, [-1])


def pair_slopes(
    level: VmapLevel, op: OpOverload, grad: Any, self: Any, p: float, pdist: Any
) -> Any:
    from rushlight.opset.product.differences import pair_rows, slope_of_pairs

    if op.out_positions or self.dim() != 2 or not self.numel():
        return level.loop(op, (grad, self, p, pdist))
    first, second = pair_rows(self.shape[0], self.device)
    gap = self.index_select(0, first) - self.index_select(0, second)
    moved = slope_of_pairs(gap, pdist.unsqueeze(-1), p) * grad.unsqueeze(-1)
    blank = moved.new_zeros(self.shape)
    return blank.index_add(0, first, moved).index_add(0, second, moved, alpha=-1)
