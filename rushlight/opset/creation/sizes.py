"""Functions of sizes rather than of values: `broadcast_shapes`, `unravel_index`."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core.geometry import contiguous_strides, show
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("broadcast_shapes", "unravel_index")

__all__ = ["broadcast_shapes", "unravel_index"]


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to; no tensor is made.

    >>> import rushlight as torch
    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    found: list[Any] = []
    for position, given in enumerate(shapes):
        shape = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        found[:0] = [1] * (len(shape) - len(found))
        for dim in range(-1, -len(shape) - 1, -1):
            size = shape[dim]
            if size < 0:
                raise RuntimeError(
                    f"Trying to create tensor with negative dimension ({size}): ({size})"
                )
            if size != 1 and found[dim] != 1 and size != found[dim]:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {size} at {dim}! Mismatching "
                    f"argument at index {position} had {shape}; but expected shape should be "
                    f"broadcastable to {show(found)}"
                )
            if size != 1:
                found[dim] = size
    return Size(found)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Positions in a flattened tensor as one coordinate tensor per dimension of `shape`.

    >>> import rushlight as torch
    >>> torch.unravel_index(torch.tensor([4]), (2, 3))
    (tensor([1]), tensor([1]))
    """
    if not isinstance(indices, Tensor) or indices.dtype.category != dtypes.INTEGER:
        raise TypeError(
            "expected 'indices' to be integer dtype, but got "
            f"{indices.dtype if isinstance(indices, Tensor) else type(indices).__name__}"
        )
    if isinstance(shape, Tensor):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for size in sizes:
        if not hasattr(size, "__index__"):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    steps = contiguous_strides(sizes)
    whole: Any = indices.to(dtypes.int64)
    if not sizes:
        return ()
    # torch: parts of one tensor.
    found = whole.new_empty((*whole.shape, len(sizes)))
    for place, (step, size) in enumerate(zip(steps, sizes, strict=True)):
        found.select(-1, place).copy_(whole // step % size)
    return tuple(found.unbind(-1))
