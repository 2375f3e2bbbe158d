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
from rushlight.base.lazy import namespace

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "_CachedTorchDispatchMode",
    "_CachingTorchDispatchMode",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_early_stop",
]


def _find(name: str) -> Any:
    return ignored_ops() if name == "SAC_IGNORED_OPS" else None


__getattr__, __dir__ = namespace(
    __name__,
    make=_find,
    names=("SAC_IGNORED_OPS",),
    refused={
        "RL0011": "DefaultDeviceType get_device_states set_device_states",
        "RL0017": "set_checkpoint_debug_enabled",
    },
)
