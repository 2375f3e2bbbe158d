"""Switches of the whole process: threads, determinism, precision of products."""

from __future__ import annotations

import os

from rushlight.core.determinism import ASKED, OFF, RAISE, WARN, ask

__all__ = [
    "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
    "init_num_threads", "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
    "set_num_interop_threads", "set_num_threads", "use_deterministic_algorithms",
]  # fmt: skip


class Switches:
    """The current values."""

    interop_threads = 0
    warn_only = False
    # Whether deterministic mode sets memory that `empty` leaves as it finds it.
    matmul_precision = "highest"
    has_warned_of_threads = False


def available_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def get_num_threads() -> int:
    """Threads that kernels may use: those of NumPy's BLAS."""
    from rushlight.arrays.threads import blas_threads

    return blas_threads() or available_cores()


def set_num_threads(num: int) -> None:
    """Let NumPy's BLAS use `num` threads; a warning says so, once, where it cannot be told."""
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    from rushlight.arrays.threads import set_blas_threads

    if not set_blas_threads(num) and not Switches.has_warned_of_threads:
        import warnings

        from rushlight.base.errors import message

        Switches.has_warned_of_threads = True
        warnings.warn(message("RL0006", number=num), stacklevel=2)


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
