"""torch.utils: tools beside the tensor library. Submodules are imported when named."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace

__all__ = ["rename_privateuse1_backend", "set_module", "swap_tensors"]

__getattr__, __dir__ = namespace(
    __name__,
    homes={"swap_tensors": "rushlight.core.attributes"},
    modules=(
        "backcompat",
        "benchmark",
        "checkpoint",
        "collect_env",
        "cpp_extension",
        "data",
        "debug_log",
        "deterministic",
        "dlpack",
        "file_baton",
        "flop_counter",
        "hooks",
        "module_tracker",
        "show_pickle",
        "tensorboard",
        "throughput_benchmark",
        "weak",
    ),
)


def set_module(obj: Any, mod: str) -> None:
    """Say which module an object belongs to, where messages name it."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def rename_privateuse1_backend(backend_name: str) -> None:
    """Refused: devices are CPU, meta and CUDA."""
    from rushlight.base.errors import MissingFeature

    raise MissingFeature("backends of one's own (rename_privateuse1_backend)", code="RL1204")
