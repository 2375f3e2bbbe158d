"""Normalisation over batches, channels, dims and vectors."""

from __future__ import annotations

import math
from typing import Any

from rushlight.opset import functions

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize",
    "rms_norm",
]  # fmt: skip


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """Vectors along `dim` divided by their p-norm, or by `eps` where that is larger."""
    length = input.norm(p, dim, keepdim=True).clamp_min(eps)
    return functions.div(input, length.expand_as(input), out=out)


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel normalised over the batch, or with running statistics."""
    if training:
        check_values_per_channel(input.shape)
    return functions.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def check_values_per_channel(size: Any) -> None:
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel of each sample normalised."""
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    return functions.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalisation over the last dims."""
    return functions.layer_norm(input, tuple(normalized_shape), weight, bias, eps, True)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Groups of channels of each sample normalised."""
    if input.dim() < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
        )
    sizes = tuple(input.shape)
    if num_groups > 0:
        check_values_per_channel([sizes[0] * sizes[1] // num_groups, num_groups, *sizes[2:]])
    return functions.group_norm(input, num_groups, weight, bias, eps, True)


def rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    """Division by the root mean square over the last dims."""
    return functions.rms_norm(input, normalized_shape, weight, eps)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """Division by a power of the mean square over `size` neighbouring channels."""
    dims = input.dim()
    if dims < 3:
        # torch: the line break inside its message is one of spaces.
        raise ValueError(
            f"Expected 3D or higher dimensionality {' ' * 25}input (got {dims} dimensions)"
        )
    if input.numel() == 0:
        return input
    sizes = input.shape
    if dims == 3:
        squares = functions.pad((input * input).unsqueeze(1), (0, 0, size // 2, (size - 1) // 2))
        means = functions.avg_pool2d(squares, (size, 1), 1).squeeze(1)
        return input / (means * alpha + k) ** beta
    squares = (input * input).reshape(sizes[0], 1, sizes[1], sizes[2], -1)
    squares = functions.pad(squares, (0, 0, 0, 0, size // 2, (size - 1) // 2))
    means = functions.avg_pool3d(squares, (size, 1, 1), 1).reshape(sizes)
    return input / (means * alpha + k) ** beta
