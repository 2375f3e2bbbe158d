"""Batch rules of losses over classes: the items of all samples are looked up at once, and each
sample's are then added up."""

from __future__ import annotations

from typing import Any

from rushlight.core import geometry
from rushlight.opset.network.loss import MEAN, NONE
from rushlight.opset.rules import aten

__all__ = ["nll_backward", "nll_forward"]


def is_plain_case(level: Any, self: Any, target: Any, weight: Any) -> bool:
    """One item a sample, or a batch of them with a label each, and weights that all share."""
    sizes = tuple(self.shape)
    return (
        bool(level.size)
        and not level.holds(weight)
        and len(sizes) > 0
        and geometry.same_sizes(
            tuple(target.shape), () if len(sizes) == 1 else (sizes[0], *sizes[2:])
        )
        and 0 not in sizes
    )


def as_items(level: Any, value: Any, is_single: bool) -> Any:
    """The items of all samples along one axis."""
    full = level.full(value)
    return full if is_single else full.flatten(0, 1)


def sample_sums(level: Any, values: Any) -> Any:
    """What the items of each sample add up to."""
    return values if values.dim() == 1 else values.reshape(level.size, -1).sum(1)


def nll_forward(
    level: Any, op: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int
) -> Any:
    if not is_plain_case(level, self, target, weight):
        return level.loop(op, (self, target, weight, reduction, ignore_index))
    is_single = self.dim() == 1

    def every() -> Any:
        labels = as_items(level, target, is_single)
        scores = as_items(level, self, is_single)
        losses, _ = op(scores, labels, weight, NONE, ignore_index)
        losses = losses.view((level.size, *target.shape))
        if reduction == NONE and not is_single:
            return losses, losses.new_zeros(level.size)
        counted = labels.ne(ignore_index)
        weights = counted.to(losses.dtype)
        if weight is not None:
            weights = weights * weight[aten.where(counted, labels, 0)]
        total = sample_sums(level, weights.view(losses.shape))
        value = sample_sums(level, losses)
        return value / total if reduction == MEAN else value, total

    return level.wrap(level.run(every))


def nll_backward(
    level: Any,
    op: Any,
    grad_output: Any,
    self: Any,
    target: Any,
    weight: Any,
    reduction: int,
    ignore_index: int,
    total_weight: Any,
) -> Any:
    is_single = self.dim() == 1
    wanted = tuple(target.shape) if reduction == NONE and not is_single else ()
    if not is_plain_case(level, self, target, weight) or (
        not geometry.same_sizes(tuple(grad_output.shape), wanted) or total_weight.dim()
    ):
        rest = (target, weight, reduction, ignore_index, total_weight)
        return level.loop(op, (grad_output, self, *rest))

    def every() -> Any:
        share = level.full(grad_output)
        if reduction == MEAN:
            share = share / level.full(total_weight)
        labels = as_items(level, target, is_single)
        scores = as_items(level, self, is_single)
        if not is_single:
            share = share.view((level.size,) + (1,) * (target.dim() if not wanted else 0) + wanted)
            share = share.expand((level.size, *target.shape)).flatten(0, 1)
        found = op(share, scores, labels, weight, NONE, ignore_index, share.new_zeros(()))
        return found if is_single else found.view((level.size, *self.shape))

    return level.wrap(level.run(every))
