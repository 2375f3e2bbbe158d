"""Batch rules of normalisations and losses: samples become more channels or more rows.

Where a parameter varies along the batch, the op runs without it and the parameter follows as an
elementwise op; reductions to its sizes stay within each sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core import dispatch, geometry
from rushlight.core.tensor import Tensor
from rushlight.opset import functions as aten
from rushlight.opset.batching import argument, replaced
from rushlight.opset.network.loss import MEAN, NONE
from rushlight.opset.network.norm import fresh_statistics
from rushlight.opset.network.normkernels import group_layout, row_layout
from rushlight.opset.window.batched import as_images, merged

if TYPE_CHECKING:
    from rushlight.core.batching import VmapLevel
    from rushlight.core.op import OpOverload

__all__ = [
    "batch_norm",
    "batch_norm_writing",
    "ctc_loss",
    "ctc_loss_backward",
    "group_norm",
    "group_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "loss_backward",
    "nll_backward",
    "nll_forward",
]


# -- normalisations --------------------------------------------------------------------------------


def batch_norm(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """Every sample has channels of its own. The first `images` arguments have a channel dim, and so
    has the first result; all other tensors are as long as there are channels."""
    images = 2 if op.argument_names[0] == "grad_out" else 1
    if op.out_positions or not level.size or any([value.dim() < 2 for value in args[:images]]):
        return level.loop(op, args)
    moved = [level.full(value) for value in args]

    def apart(value: Any, axis: int) -> Any:
        if value is None or geometry.same_sizes(tuple(value.shape), (0,)):
            return None if value is None else value.expand((level.size, 0))
        return value.unflatten(axis, (level.size, value.shape[axis] // level.size)).movedim(axis, 0)

    def every() -> Any:
        for place, value in enumerate(moved):
            if isinstance(value, Tensor):
                moved[place] = merged(value, 1) if place < images else value.flatten(0, 1)
        first, *others = dispatch.call(op, tuple(moved))
        return (apart(first, 1), *[apart(item, 0) for item in others])

    return level.wrap(level.run(every))


def batch_norm_writing(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """As above, for ops that write to the running statistics they are given."""
    if argument(op, args, "training") and argument(op, args, "running_mean") is not None:
        return level.loop(op, args)
    return batch_norm(level, op, *args)


def scaled(values: Any, weight: Any, bias: Any) -> Any:
    found = values if weight is None else values * weight
    found = found if bias is None else found + bias
    return found.to(values._dtype)


def normalised(layout: Any, input: Any, mean: Any, rstd: Any) -> Any:
    """Normalised values: the saved statistics, with derivatives as functions of the input."""
    centre, factor = fresh_statistics(layout, input, saved_rstd=rstd)
    centre = layout.statistic(mean).detach() + (centre - centre.detach())
    return ((input.reshape(layout.shape) - centre) * factor).reshape(input.shape)


def layer_norm(
    level: VmapLevel,
    op: OpOverload,
    input: Any,
    normalized_shape: Any,
    weight: Any,
    bias: Any,
    eps: float,
) -> Any:
    if op.out_positions:
        return level.loop(op, (input, normalized_shape, weight, bias, eps))
    if not level.has_batched((weight, bias)):
        moved = (level.front(input), normalized_shape, weight, bias, eps)
        return level.wrap(level.below(op, moved))
    found, mean, rstd = aten.native_layer_norm(input, normalized_shape, None, None, eps)
    return scaled(found, weight, bias), mean, rstd


def layer_norm_backward(
    level: VmapLevel, op: OpOverload,
    grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any,
    weight: Any, bias: Any, mask: Any,
) -> Any:  # fmt: skip
    args = (grad_out, input, normalized_shape, mean, rstd, weight, bias, mask)
    if op.out_positions:
        return level.loop(op, args)
    outer = tuple(range(input.dim() - len(normalized_shape)))
    by_input = by_weight = by_bias = None
    if mask[0]:
        slope, factor = (grad_out * weight, None) if level.holds(weight) else (grad_out, weight)
        moved = [level.full(value) for value in (slope, input, mean, rstd)]
        only = (moved[0], moved[1], normalized_shape, moved[2], moved[3], factor, None)
        by_input = level.wrap(level.below(op, (*only, (True, False, False))))[0]
    if mask[1] and weight is not None:
        layout = row_layout(tuple(input.shape), normalized_shape)
        by_weight = grad_out * normalised(layout, input, mean, rstd)
        by_weight = (by_weight.sum(outer) if outer else by_weight).to(weight._dtype)
    if mask[2] and bias is not None:
        # A result of its own, never the operand: forward mode is derived from what leads to it.
        by_bias = (grad_out.sum(outer) if outer else grad_out.clone()).to(bias._dtype)
    return by_input, by_weight, by_bias


def per_channel(value: Any, rank: int) -> Any:
    return None if value is None else value.reshape((-1,) + (1,) * (rank - 2))


def group_norm(
    level: VmapLevel, op: OpOverload,
    input: Any, weight: Any, bias: Any, N: Any, C: Any, HxW: Any, group: int,
    eps: float,
) -> Any:  # fmt: skip
    if op.out_positions or not level.size:
        return level.loop(op, (input, weight, bias, N, C, HxW, group, eps))
    if not level.has_batched((weight, bias)):
        args = (input, weight, bias, N * level.size, C, HxW, group, eps)
        return as_images(level, op, args, (0,))
    found, mean, rstd = aten.native_group_norm(input, None, None, N, C, HxW, group, eps)
    rank = input.dim()
    return scaled(found, per_channel(weight, rank), per_channel(bias, rank)), mean, rstd


def group_norm_backward(
    level: VmapLevel, op: OpOverload,
    grad_out: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: Any,
    C: Any, HxW: Any, group: int, mask: Any,
) -> Any:  # fmt: skip
    if op.out_positions or not level.size:
        args = (grad_out, input, mean, rstd, weight, N, C, HxW, group, mask)
        return level.loop(op, args)
    by_input = by_weight = by_bias = None
    if mask[0]:
        slope, factor = grad_out, weight
        if level.holds(weight):
            slope, factor = grad_out * per_channel(weight, input.dim()), None
        sizes = (N * level.size, C, HxW, group, (True, False, False))
        by_input = as_images(level, op, (slope, input, mean, rstd, factor, *sizes), (0, 1, 2, 3))[0]
    slope = grad_out.reshape((N, C, HxW))
    if mask[1]:
        normal = normalised(group_layout(N, C, HxW, group), input, mean, rstd)
        by_weight = (slope * normal.reshape((N, C, HxW))).sum((0, 2)).to(input._dtype)
    if mask[2]:
        by_bias = slope.sum((0, 2)).to(input._dtype)
    return by_input, by_weight, by_bias


# -- losses ----------------------------------------------------------------------------------------


def loss_backward(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """The gradient of a reduced loss is that of every element, divided among them for a mean."""
    grad, self, target = args[:3]
    if op.out_positions or not geometry.same_sizes(self.shape, target.shape):
        return level.loop(op, args)
    reduction = argument(op, args, "reduction")
    slope = (grad / self.numel() if reduction == 1 else grad).expand(self.shape)
    bound = replaced(op, (slope, *args[1:]), reduction=0)
    return level.wrap(level.below(op, tuple([level.full(value, self.dim()) for value in bound])))


class Labels:
    """Which class every row of `self` belongs to, and how much it counts."""

    def __init__(self, self_: Any, target: Any, weight: Any, ignore_index: int) -> None:
        self.dim = 0 if self_.dim() == 1 else 1
        valid = target != ignore_index
        self.target = aten.where(valid, target, 0).unsqueeze(self.dim)
        if weight is None:
            self.shares = valid.to(self_._dtype)
        else:
            flat = self.target.reshape(-1)
            taken = weight.index_select(0, flat).reshape(target.shape)
            self.shares = aten.where(valid, taken, 0)
        self.valid = valid


def nll_terms(
    level: VmapLevel,
    op: OpOverload,
    self: Any,
    target: Any,
    weight: Any,
    reduction: int,
    ignore_index: int,
) -> Any:
    if op.out_positions or target.dim() != max(self.dim() - 1, 0) or not self.dim():
        return level.loop(op, (self, target, weight, reduction, ignore_index))
    rows = Labels(self, target, weight, ignore_index)
    picked = -self.gather(rows.dim, rows.target).squeeze(rows.dim)
    terms = aten.where(rows.valid, picked * rows.shares, 0)
    if reduction == 0:
        return terms, rows.shares if self.dim() == 1 else self.new_zeros(())
    total = rows.shares.sum()
    return (terms.sum() / total if reduction == 1 else terms.sum()), total


def nll_shares(
    level: VmapLevel, op: OpOverload,
    grad_output: Any, self: Any, target: Any, weight: Any, reduction: int,
    ignore_index: int, total_weight: Any,
) -> Any:  # fmt: skip
    if op.out_positions or target.dim() != max(self.dim() - 1, 0) or not self.dim():
        args = (grad_output, self, target, weight, reduction, ignore_index, total_weight)
        return level.loop(op, args)
    rows = Labels(self, target, weight, ignore_index)
    slope = grad_output / total_weight if reduction == 1 else grad_output
    share = aten.where(rows.valid, -slope * rows.shares, 0).unsqueeze(rows.dim)
    blank = share.new_zeros(self.shape, dtype=self._dtype)
    return blank.scatter(rows.dim, rows.target, share.to(self._dtype))


# Where samples share weights, all their items are looked up at once.


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
    if op.out_positions or not is_plain_case(level, self, target, weight):
        return nll_terms(level, op, self, target, weight, reduction, ignore_index)
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
    level: Any, op: Any, grad_output: Any, self: Any, target: Any, weight: Any, reduction: int,
    ignore_index: int, total_weight: Any,
) -> Any:  # fmt: skip
    is_single = self.dim() == 1
    wanted = tuple(target.shape) if reduction == NONE and not is_single else ()
    plain = is_plain_case(level, self, target, weight) and not op.out_positions
    if not plain or not geometry.same_sizes(tuple(grad_output.shape), wanted) or total_weight.dim():
        rest = (target, weight, reduction, ignore_index, total_weight)
        return nll_shares(level, op, grad_output, self, *rest)

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


# -- alignments ------------------------------------------------------------------------------------


def is_aligned(level: VmapLevel, op: OpOverload, log_probs: Any, lengths: tuple[Any, Any]) -> bool:
    """Whether the sequences of all samples can be one batch: their lengths must be known."""
    known = not any([isinstance(entry, Tensor) for entry in lengths])
    return bool(known and level.size and log_probs.dim() == 3 and not op.out_positions)


def ctc_loss(
    level: VmapLevel, op: OpOverload,
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
    *rest: Any,
) -> Any:  # fmt: skip
    lengths = (input_lengths, target_lengths)
    if not is_aligned(level, op, log_probs, lengths):
        return level.loop(op, (log_probs, targets, *lengths, *rest))
    scores, labels = level.full(log_probs), level.full(targets)
    repeated = [list(entry) * level.size for entry in lengths]

    def every() -> Any:
        found = dispatch.call(op, (merged(scores, 1), labels.flatten(0, 1), *repeated, *rest))
        return tuple([item.unflatten(0, (level.size, -1)) for item in found])

    return level.wrap(level.run(every))


def ctc_loss_backward(
    level: VmapLevel, op: OpOverload, grad: Any, log_probs: Any, targets: Any, input_lengths: Any,
    target_lengths: Any, *rest: Any,
) -> Any:  # fmt: skip
    lengths = (input_lengths, target_lengths)
    if not is_aligned(level, op, log_probs, lengths):
        return level.loop(op, (grad, log_probs, targets, *lengths, *rest))
    scores = level.full(log_probs)
    rows = [level.full(value) for value in (grad, targets, *rest)]
    repeated = [list(entry) * level.size for entry in lengths]

    def every() -> Any:
        slope, labels, *others = [
            value.flatten(0, 1) if isinstance(value, Tensor) else value for value in rows
        ]
        moved = (slope, merged(scores, 1), labels, *repeated, *others)
        return dispatch.call(op, moved).unflatten(1, (level.size, -1))

    return level.wrap(level.run(every), 1)
