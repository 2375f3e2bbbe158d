"""Operators that open and close a label of the profiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.opset.kinds import Spec
from rushlight.opset.registry import op

__all__ = ["record_function_enter", "record_function_exit"]


def enter(xp: Any, name: str, args: str | None) -> Any:
    from rushlight.profiler.recorder import enter_by_handle

    return np.array(enter_by_handle(name, args), np.int64)


def leave(xp: Any, handle: Any) -> None:
    from rushlight.profiler.recorder import exit_by_handle

    exit_by_handle(int(handle))


record_function_enter = op(
    "_record_function_enter(str name, str? args=None) -> Tensor",
    namespace="profiler",
    kernel=enter,
    shape=lambda name, args=None: Spec((), dtypes.int64),
)
record_function_enter_new = op(
    "_record_function_enter_new(str name, str? args=None) -> Tensor",
    namespace="profiler",
    kernel=enter,
    shape=lambda name, args=None: Spec((), dtypes.int64),
)
record_function_exit = op(
    "_record_function_exit(Tensor handle) -> ()",
    namespace="profiler",
    kernel=leave,
    shape=lambda handle: None,
)
