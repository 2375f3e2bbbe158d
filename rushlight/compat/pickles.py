"""What pickles of torch's objects name to make them again: `pickle.load` finds it while `torch`
means rushlight. Files of `torch.save` are another thing: `io` reads them, and trusts them less.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import nn
from rushlight.core.interop import rebuild_tensor
from rushlight.core.tensor import Tensor
from rushlight.io import rebuild

__all__ = [
    "load_from_bytes", "rebuild_from_type_v2", "rebuild_parameter",
    "rebuild_parameter_with_state", "rebuild_plain", "rebuild_tensor_v2",
    "rebuild_tensor_v3",
]  # fmt: skip


def load_from_bytes(data: bytes) -> Any:
    """A storage: pickles hold each as what `torch.save` writes of it."""
    return rushlight.load(io.BytesIO(data), weights_only=False)


def rebuild_plain(storage: Any, storage_offset: int, size: Any, stride: Any) -> Any:
    """A tensor over a storage, as old pickles make it."""
    return rebuild_tensor_v2(storage, storage_offset, size, stride, False, None)


def rebuild_tensor_v2(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any,
    metadata: Any = None,
) -> Any:  # fmt: skip
    """A tensor over a storage that knows its dtype."""
    return rebuild_tensor_v3(
        storage, offset, size, stride, requires_grad, hooks, storage.dtype, metadata
    )


def rebuild_tensor_v3(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any, dtype: Any,
    metadata: Any = None,
) -> Any:  # fmt: skip
    """A tensor over a storage, whose elements are of that dtype."""
    return rebuild_tensor(
        storage.untyped(), dtype, tuple(size), tuple(stride), offset, requires_grad,
        rebuild.bits_of(metadata), hooks,
    )  # fmt: skip


def rebuild_from_type_v2(
    function: Callable[..., Any], new_type: type, args: Any, state: Any
) -> Any:
    """A tensor with attributes."""
    made = function(*args)
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    if getattr(type(made), "__setstate__", None) is not Tensor.__setstate__:
        made.__setstate__(state)
    else:
        rebuild.set_attributes(made, state)
    return made


def rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any) -> nn.Parameter:
    made = nn.Parameter(data, requires_grad)
    made._backward_hooks = hooks
    return made


def rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, hooks: Any, state: Any
) -> nn.Parameter:
    """A parameter with attributes."""
    made = rebuild_parameter(data, requires_grad, hooks)
    rebuild.set_attributes(made, state)
    return made
