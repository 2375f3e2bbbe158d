"""Batch rules of matrix ops whose further arguments are not matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.opset.batching import with_batch

if TYPE_CHECKING:
    from rushlight.core.batching import VmapLevel
    from rushlight.core.op import OpOverload

__all__ = ["least_squares", "pseudo_inverse"]


def pseudo_inverse(
    level: VmapLevel, op: OpOverload, self: Any, atol: Any, rtol: Any, hermitian: bool
) -> Any:
    """Tolerances have the leading dims of the matrices."""
    if op.out_positions or self.dim() < 2:
        return level.loop(op, (self, atol, rtol, hermitian))
    lead = self.dim() - 2
    limits = [level.front(value, lead) for value in (atol, rtol)]
    return level.wrap(level.below(op, (level.full(self), *limits, hermitian)))


def least_squares(
    level: VmapLevel, op: OpOverload, self: Any, b: Any, rcond: Any, driver: Any
) -> Any:
    """Right-hand sides are matrices, or vectors with one dim less."""
    is_vector = b.dim() == self.dim() - 1
    if op.out_positions or self.dim() < 2 or not (is_vector or b.dim() == self.dim()):
        return level.loop(op, (self, b, rcond, driver))
    found = level.below(op, (level.full(self), level.full(b), rcond, driver))
    return level.wrap(level.run(with_batch, tuple(found), level.size))
