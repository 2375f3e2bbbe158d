"""Batch norm over the batches of all processes."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import no_grad
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.groups import WORLDS, ProcessGroup, the_group
from rushlight.nn.norm import BatchNorm
from rushlight.opset import functions

__all__ = ["synced_norm"]


def per_channel(values: Tensor) -> Tensor:
    """Sums over all dims but the second."""
    found: Tensor = values.sum([dim for dim in range(values.dim()) if dim != 1])
    return found


def spread(values: Tensor, like: Tensor) -> Tensor:
    """A value for each channel, to be combined with `like`."""
    shown: Tensor = values.reshape([-1 if dim == 1 else 1 for dim in range(like.dim())])
    return shown


class SyncedNorm(Function):
    """Normalises by mean and variance over all processes; answers these, too."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Any, bias: Any, eps: float, group: ProcessGroup
    ) -> Any:
        wide: Any = input.float() if input.element_size() < 4 else input
        channels = input.shape[1]
        sums = functions.zeros(channels + 1, dtype=wide.dtype)
        sums[:channels] = per_channel(wide)
        sums[channels] = input.numel() // channels
        collectives.all_reduce(sums, group=group)
        count = float(sums[channels])
        mean = sums[:channels] / count
        centred = wide - spread(mean, wide)
        variance: Any = per_channel(centred * centred)
        collectives.all_reduce(variance, group=group)
        variance = variance / count
        scale = (variance + eps).rsqrt()
        normal: Any = centred * spread(scale, wide)
        ctx.save_for_backward(normal, scale, weight)
        ctx.count, ctx.group, ctx.has_bias = count, group, bias is not None
        output = normal
        if weight is not None:
            output = output * spread(weight, wide)
        if bias is not None:
            output = output + spread(bias, wide)
        unbiased = variance * (count / max(count - 1, 1.0))
        ctx.mark_non_differentiable(mean, unbiased)
        return output.to(input.dtype), mean, unbiased

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Any) -> Any:
        normal, scale, weight = ctx.saved_tensors
        wide = grad.to(normal.dtype)
        grad_bias, grad_weight = per_channel(wide), per_channel(wide * normal)
        totals = functions.stack([grad_bias, grad_weight])
        collectives.all_reduce(totals, group=ctx.group)
        means = totals / ctx.count
        factor = scale if weight is None else scale * weight
        grad_input = wide - spread(means[0], wide) - normal * spread(means[1], wide)
        grad_input = grad_input * spread(factor, wide)
        return (
            grad_input.to(grad.dtype),
            None if weight is None else grad_weight.to(weight.dtype),
            grad_bias if ctx.has_bias else None,
            None,
            None,
        )


def synced_norm(module: Any, input: Tensor) -> Tensor:
    """What SyncBatchNorm computes in training."""
    group = the_group(module.process_group, "SyncBatchNorm") if WORLDS else None
    if group is None or group.size() == 1:
        alone: Tensor = BatchNorm.forward(module, input)
        return alone
    momentum = 0.0 if module.momentum is None else module.momentum
    if module.track_running_stats:
        module.num_batches_tracked.add_(1)
        if module.momentum is None:
            momentum = 1.0 / float(module.num_batches_tracked)
    output, mean, variance = SyncedNorm.apply(input, module.weight, module.bias, module.eps, group)
    if module.track_running_stats:
        with no_grad():
            module.running_mean.lerp_(mean.to(module.running_mean.dtype), momentum)
            module.running_var.lerp_(variance.to(module.running_var.dtype), momentum)
    result: Tensor = output
    return result
