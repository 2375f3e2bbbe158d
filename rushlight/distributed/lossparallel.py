"""loss_parallel: cross entropy of logits whose classes are split, without bringing them together.

Within it, the operators of cross entropy on a DTensor that is split along its classes work on the
parts, and send three numbers for each row: the largest logit, the sum of exponentials, and the one
that is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.dtensor import SPECIAL, DTensor
from rushlight.distributed.placements import Replicate, Shard, part_of
from rushlight.distributed.reductions import ReduceOp
from rushlight.opset import functions

__all__ = ["loss_parallel"]

LOCAL = threading.local()
MEAN, SUM = 1, 2


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Cross entropy, and its backward, on parts of the classes."""
    before = getattr(LOCAL, "active", False)
    LOCAL.active = True
    try:
        yield
    finally:
        LOCAL.active = before


def split_along(tensor: Any, dim: int) -> bool:
    """Whether a tensor is one of parts along this dim."""
    if not getattr(LOCAL, "active", False) or not isinstance(tensor, DTensor):
        return False
    return tensor._mesh.ndim == 1 and tensor._placements == (Shard(dim % tensor.dim()),)


def like(local: Tensor, tensor: DTensor) -> DTensor:
    return DTensor(local, tensor._mesh, tensor._placements, tensor.shape)


def summed(local: Tensor, tensor: DTensor, op: ReduceOp = ReduceOp.SUM) -> Any:
    collectives.all_reduce(local, op, tensor._mesh.get_group())
    return local


def plain(tensor: Any) -> Any:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def log_softmax(self: DTensor, dim: int, half_to_float: bool) -> Any:
    if not split_along(self, dim):
        return NotImplemented
    own: Any = self._local
    sizes = list(own.shape)
    sizes[dim] = 1
    empty = not own.shape[dim]
    largest = own.new_full(sizes, float("-inf")) if empty else own.amax(dim, True)
    shifted = own - summed(largest.contiguous(), self, ReduceOp.MAX)
    total = summed(shifted.exp().sum(dim, True), self)
    return like(shifted - total.log(), self)


def log_softmax_gradient(grad: Any, output: Any, dim: int, dtype: Any) -> Any:
    if not split_along(output, dim) or not split_along(grad, dim):
        return NotImplemented
    total = summed(grad._local.sum(dim, True), output)
    return like(grad._local - output._local.exp() * total, output)


class Picked:
    """Which class each row asks for, where it is, and how much it counts."""

    def __init__(self, logs: DTensor, target: Any, weight: Any, ignored: int) -> None:
        group = logs._mesh.get_group()
        begin, end = part_of(logs.shape[1], group.size(), group.rank())
        target = plain(target)
        counts = target != ignored
        safe = functions.where(counts, target, 0)
        self.mine = counts & (safe >= begin) & (safe < end)
        self.place = functions.where(self.mine, safe - begin, 0).unsqueeze(1)
        weight = plain(weight)
        factor = functions.ones_like(safe, dtype=logs.dtype) if weight is None else weight[safe]
        self.factor = functions.where(counts, factor, 0.0)


def nll_loss(self: Any, target: Any, weight: Any, reduction: int, ignored: int) -> Any:
    if self.dim() < 2 or not split_along(self, 1):
        return NotImplemented
    asked = Picked(self, target, weight, ignored)
    own: Any = self._local
    found = functions.zeros_like(asked.factor)
    if own.shape[1]:
        found = functions.where(asked.mine, own.gather(1, asked.place).squeeze(1), 0.0)
    each = -summed(found.contiguous(), self) * asked.factor
    total = asked.factor.sum()
    loss: Any = each
    if reduction:
        loss = each.sum() / total if reduction == MEAN else each.sum()
    whole = (Replicate(),)
    return tuple([DTensor(one, self._mesh, whole, one.shape) for one in (loss, total)])


def nll_loss_gradient(
    grad: Any, self: Any, target: Any, weight: Any, reduction: int, ignored: int, total: Any
) -> Any:
    if self.dim() < 2 or not split_along(self, 1):
        return NotImplemented
    asked = Picked(self, target, weight, ignored)
    factor = -asked.factor * plain(grad)
    if reduction == MEAN:
        factor = factor / plain(total)
    found = functions.zeros_like(self._local)
    if self._local.shape[1]:
        kept = functions.where(asked.mine, factor, 0.0).to(found.dtype)
        found = found.scatter_add(1, asked.place, kept.unsqueeze(1))
    return like(found, self)


RULES: dict[str, Callable[..., Any]] = {
    "_log_softmax": log_softmax,
    "_log_softmax_backward_data": log_softmax_gradient,
    "nll_loss_forward": nll_loss,
    "nll_loss_backward": nll_loss_gradient,
    "nll_loss2d_forward": nll_loss,
    "nll_loss2d_backward": nll_loss_gradient,
}
SPECIAL.update(RULES)
