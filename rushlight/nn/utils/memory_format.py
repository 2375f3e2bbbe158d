"""Memory formats of the weights of convolutions."""

from __future__ import annotations

from typing import Any

from rushlight.nn.conv import Convolution

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert(module: Any, memory_format: Any, count: int) -> Any:
    for child in module.modules():
        if isinstance(child, Convolution) and child.count == count:
            weight = child.weight.detach().clone(memory_format=memory_format)
            # Also where a size of one leaves the strides open.
            child.weight.data = weight.resize_(weight.shape, memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Give the weights of all 2d convolutions in a module a memory format."""
    return convert(module, memory_format, 2)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Give the weights of all 3d convolutions in a module a memory format."""
    return convert(module, memory_format, 3)
