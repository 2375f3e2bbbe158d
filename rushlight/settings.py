"""Process-wide switches and facts under torch's top-level names."""

from __future__ import annotations

import os
from typing import Any

from rushlight.core.determinism import ASKED, OFF, RAISE, WARN, ask

__all__ = [
    "are_deterministic_algorithms_enabled", "compiled_with_cxx11_abi",
    "get_deterministic_debug_mode", "get_device_module", "get_file_path",
    "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads", "has_lapack",
    "has_mkl", "has_openmp", "has_spectral", "init_num_threads",
    "is_deterministic_algorithms_warn_only_enabled", "is_vulkan_available",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads",
    "set_num_threads", "typename", "use_deterministic_algorithms",
]  # fmt: skip


class Switches:
    """The current values."""

    threads = 0
    interop_threads = 0
    warn_only = False
    matmul_precision = "highest"


def available_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def get_num_threads() -> int:
    """Threads that kernels may use: those of NumPy's libraries."""
    return Switches.threads or available_cores()


def set_num_threads(num: int) -> None:
    """Limit the threads of NumPy's BLAS, where threadpoolctl is installed to do so."""
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    Switches.threads = num
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return
    threadpool_limits(num)


def get_num_interop_threads() -> int:
    return Switches.interop_threads or available_cores()


def set_num_interop_threads(num: int) -> None:
    """Kept for scripts that set it: no work is split between ops."""
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    Switches.interop_threads = num


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for repeatable results. Kernels give them; memory that is not set is filled, and ops
    whose result depends on an order that is not said are refused (`warn_only`: with a warning)."""
    if type(mode) is not bool:
        raise TypeError(
            "use_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not "
            f"{type(mode).__name__}"
        )
    Switches.warn_only = bool(warn_only)
    ask(OFF if not mode else WARN if warn_only else RAISE)


def are_deterministic_algorithms_enabled() -> bool:
    return ASKED.mode != OFF


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return Switches.warn_only


MODES = {"default": 0, "warn": 1, "error": 2}


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    number = MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if number not in (0, 1, 2):
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error` or 0, 1, 2, "
            f"but got {debug_mode}"
        )
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_deterministic_debug_mode() -> int:
    return ASKED.mode


def set_float32_matmul_precision(precision: str) -> None:
    """Allow less precise products. Products are computed at full precision in any case."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current choice is "
            f"'{Switches.matmul_precision}'"
        )
    Switches.matmul_precision = precision


def get_float32_matmul_precision() -> str:
    return Switches.matmul_precision


def set_flush_denormal(mode: bool) -> bool:
    """Whether denormal numbers can be flushed to zero: NumPy offers no such switch."""
    return False


def init_num_threads() -> None:
    """Kept for worker processes that call it: thread counts need no preparation."""


def compiled_with_cxx11_abi() -> bool:
    """torch: which C++ ABI extensions must be compiled for; there are none here."""
    return True


def is_vulkan_available() -> bool:
    return False


has_lapack = has_spectral = True
has_mkl = has_openmp = False


def get_file_path(*path_components: str) -> str:
    """A path next to this package."""
    return os.path.join(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *path_components
    )


def get_device_module(device: Any = None) -> Any:
    """The module of a device type: `torch.cpu` where none is named."""
    import rushlight

    if device is not None and not isinstance(device, (str, rushlight.device)):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    name = "cpu" if device is None else rushlight.device(device).type
    try:
        return getattr(rushlight, name)
    except AttributeError:
        raise RuntimeError(
            f"Device '{name}' does not have a corresponding module registered as 'torch.{name}'."
        ) from None


def typename(obj: Any) -> str:
    """The type's name as printed in messages: `torch.FloatTensor` for tensors."""
    from rushlight.core.tensor import Tensor

    if isinstance(obj, Tensor):
        return str(obj.type())  # type: ignore[attr-defined]
    kind = (
        obj
        if isinstance(obj, type) or (callable(obj) and hasattr(obj, "__qualname__"))
        else type(obj)
    )
    name = getattr(kind, "__qualname__", kind.__name__)
    module = getattr(kind, "__module__", "") or ""
    return name if module in ("", "builtins", "__builtin__") else f"{module}.{name}"


class Config:
    """torch.__config__: what this was built with."""

    @staticmethod
    def show() -> str:
        import platform

        import numpy

        from rushlight import __version__

        return (
            f"Rushlight {__version__} built with:\n"
            f"  - Python {platform.python_version()} ({platform.python_implementation()})\n"
            f"  - NumPy {numpy.__version__}\n"
            f"  - {platform.system()} {platform.machine()}\n"
            "  - CUDA: not available\n"
        )

    @staticmethod
    def parallel_info() -> str:
        return (
            f"Threads for kernels: {get_num_threads()}\n"
            f"Threads between ops: {get_num_interop_threads()}\n"
        )


__config__ = Config
