"""torch.utils.checkpoint: the public names of activation checkpointing."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.checkpoint import (
    CheckpointError,
    CheckpointFunction,
    CheckpointPolicy,
    GraphExecGroup,
    SelectiveCheckpointContext,
    _CachedTorchDispatchMode,
    _CachingTorchDispatchMode,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    detach_variable,
    ignored_ops,
    noop_context_fn,
    set_checkpoint_early_stop,
)
from rushlight.base.errors import error
from rushlight.base.lazy import namespace

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "_CachedTorchDispatchMode",
    "_CachingTorchDispatchMode",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_early_stop",
    "set_device_states",
]


def _find(name: str) -> Any:
    return ignored_ops() if name == "SAC_IGNORED_OPS" else None


__getattr__, __dir__ = namespace(
    __name__,
    make=_find,
    names=("SAC_IGNORED_OPS",),
    refused={
        "RL0017": "set_checkpoint_debug_enabled",
    },
)


class DefaultDeviceType:
    """The type of device whose random state recomputation saves, where no tensor tells."""

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._default_device_type or "cpu"


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The devices beside the CPU that tensors in `args` are on, and their random states: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Sets the random states of devices beside the CPU, of which there are none."""
    if list(zip(devices, states, strict=False)):
        raise error("RL1209", AssertionError)
