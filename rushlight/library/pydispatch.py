"""The Python dispatcher: while it is on, what `OpOverload.py_impl` registered is in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import keys
from rushlight.core.modes import TorchDispatchMode, set_pre_modes
from rushlight.core.op import OpOverload
from rushlight.core.state import LOCAL, Change, ThreadState
from rushlight.opset.kinds import tensors_in

__all__ = ["enable_python_dispatcher", "no_python_dispatcher"]


class PythonDispatcher(TorchDispatchMode):
    """Runs the functions that were registered for keys of a call; stands above autograd, where
    composite operators are still whole."""

    def __enter__(self) -> Any:
        set_pre_modes((*LOCAL.state.pre_modes, self))
        return self

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        set_pre_modes(LOCAL.state.pre_modes[:-1])

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        kernel = find_kernel(func, args, kwargs)
        if kernel is None and func._can_decompose():
            kernel = func.decompose
        if kernel is None:
            return func(*args, **kwargs)
        with self:
            return kernel(*args, **kwargs)


def find_kernel(op: OpOverload, args: Any, kwargs: Any) -> Callable[..., Any] | None:
    """What was registered for the highest key of a call."""
    table = {keys.parse_key(key): function for key, function in op.py_kernels.items()}
    if not table:
        return None
    tensors = tensors_in((*args, *kwargs.values()))
    backend = keys.backend_key(tensors)
    autograd = f"Autograd{backend.removeprefix('SparseCsr').removeprefix('Sparse')}"
    for key in (autograd, "Autograd", backend, keys.EXPLICIT, keys.IMPLICIT):
        if key in table:
            return table[key]
    return None


class enable_python_dispatcher(PythonDispatcher):
    """Inside, functions registered with `py_impl` are called."""


class no_python_dispatcher(Change):
    """Inside, functions registered with `py_impl` are not called."""

    def fields(self, state: ThreadState) -> dict[str, Any]:
        others = [mode for mode in state.pre_modes if not isinstance(mode, PythonDispatcher)]
        return {"pre_modes": tuple(others)}


EnablePythonDispatcher = enable_python_dispatcher
DisablePythonDispatcher = no_python_dispatcher
