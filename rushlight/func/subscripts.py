"""Subscripts by tensors inside `vmap`: read as one index op, which has a rule for batches."""

from __future__ import annotations

from typing import Any

from rushlight.base.pytree import tree_leaves
from rushlight.core.dispatch import call
from rushlight.core.modes import TorchFunctionMode
from rushlight.core.tensor import Tensor
from rushlight.opset import registry

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """While it is on, `x[i, j]` with tensors alone is `aten.index`: a mapped index of one number
    would be asked for its value otherwise."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is vars(Tensor)["__getitem__"]:
            places = tree_leaves(args[1])
            if places and all(isinstance(place, Tensor) for place in places):
                return call(registry.find("index", "Tensor"), (args[0], places))
        return func(*args, **(kwargs or {}))
