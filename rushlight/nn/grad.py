"""Gradients of convolutions, by themselves."""

from __future__ import annotations

from typing import Any

from rushlight.nn.sizes import per_dim
from rushlight.opset import functions

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight",
]  # fmt: skip


def gradient(
    count: int, wanted: int, grad: Any, input: Any, weight: Any, options: tuple[Any, ...]
) -> Any:
    """The gradient of a convolution for its input (0) or weight (1)."""
    *sizes, groups = options
    sizes = [per_dim(value, count) for value in sizes]
    mask = [wanted == 0, wanted == 1, False]
    return functions.convolution_backward(
        grad, input, weight, None, *sizes, False, (0,) * count, groups, mask
    )[wanted]


def for_input(count: int) -> Any:
    def conv_input(
        input_size: Any,
        weight: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        # Only its size is read.
        input = grad_output.new_empty(1).expand(input_size)
        options = (stride, padding, dilation, groups)
        return gradient(count, 0, grad_output, input, weight, options)

    conv_input.__name__ = conv_input.__qualname__ = f"conv{count}d_input"
    conv_input.__doc__ = f"The gradient of `conv{count}d` for its input."
    return conv_input


def for_weight(count: int) -> Any:
    def conv_weight(
        input: Any,
        weight_size: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        weight = grad_output.new_empty(1).expand(weight_size)
        options = (stride, padding, dilation, groups)
        return gradient(count, 1, grad_output, input, weight, options)

    conv_weight.__name__ = conv_weight.__qualname__ = f"conv{count}d_weight"
    conv_weight.__doc__ = f"The gradient of `conv{count}d` for its weight."
    return conv_weight


conv1d_input, conv2d_input, conv3d_input = [for_input(count) for count in (1, 2, 3)]
conv1d_weight, conv2d_weight, conv3d_weight = [for_weight(count) for count in (1, 2, 3)]
