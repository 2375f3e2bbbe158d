"""Functions of torch's that others took the place of, as programs over those."""

from __future__ import annotations

from typing import Any

from rushlight.core import geometry
from rushlight.core.construct import make_tensor
from rushlight.core.dispatch import overridable
from rushlight.opset import functions

TORCH_NAMES = ("batch_norm_update_stats", "mkldnn_convolution", "sym_fresh_size")


def mkldnn_convolution(
    input: Any, weight: Any, bias: Any, padding: Any, stride: Any, dilation: Any, groups: int
) -> Any:
    """A convolution: its arguments in the order of oneDNN's."""
    dims = input.dim() - 2
    return functions.convolution(
        input, weight, bias, list(stride), list(padding), list(dilation), False, [0] * dims, groups
    )


def batch_norm_update_stats(
    input: Any, running_mean: Any, running_var: Any, momentum: float
) -> tuple[Any, Any]:
    """Mean and variance of each channel; running statistics move towards them."""
    if geometry.is_size(input.numel(), 0):
        raise RuntimeError(
            "input tensor must have at least one element, but got input_sizes = "
            f"{geometry.show(input.shape)}"
        )
    dims = [dim for dim in range(input.dim()) if dim != 1]
    mean = input.mean(dims)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(input.var(dims, correction=1), alpha=momentum)
    return mean, input.var(dims, correction=0)


def sym_fresh_size(expr: Any) -> Any:
    """The number, as if data had given it."""
    return make_tensor(expr).item()


mkldnn_convolution = overridable(mkldnn_convolution)
batch_norm_update_stats = overridable(batch_norm_update_stats)
