"""Automatic differentiation: torch's public names."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.backward import backward, grad
from rushlight.autograd.engine import Engine
from rushlight.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "grad",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "is_view_replay_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

# Modules imported when named, and functions with the module that defines them.
LAZY_MODULES = frozenset(
    ("anomaly", "forward_ad", "function", "functional", "graph", "profiler", "profiler_util")
)
LAZY_NAMES = {
    "Function": "function",
    "detect_anomaly": "anomaly",
    "is_view_replay_enabled": "graph",
    "set_detect_anomaly": "anomaly",
    "GradcheckError": "checking",
    "gradcheck": "checking",
    "gradgradcheck": "checking",
    "kineto_available": "profiler",
    "record_function": "profiler",
}


def is_multithreading_enabled() -> bool:
    """Whether backward may use worker threads."""
    return LOCAL.state.multithreading


class VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=VariableType):
    """torch's old name of a tensor: calling it returns a Tensor, and every Tensor is one."""

    _execution_engine = Engine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.data.requires_grad_(requires_grad)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "torch":
        # torch: `torch.autograd.torch` has always been reachable.
        return import_module("rushlight")
    module = LAZY_NAMES.get(name, name if name in LAZY_MODULES else None)
    if module is not None:
        try:
            found = import_module(f"rushlight.autograd.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"rushlight.autograd.{module}":
                raise
        else:
            return found if module == name else getattr(found, name)
    raise AttributeError(f"module 'rushlight.autograd' has no attribute '{name}'")
