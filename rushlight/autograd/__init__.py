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
from rushlight.base.lazy import namespace
from rushlight.core.state import LOCAL, active_tracer
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
        made = data.data.requires_grad_(requires_grad)
        tracer = active_tracer()
        if tracer is not None:
            tracer.note_alias(made, data)
        return made


HOMES = {
    "Function": ".function",
    "GradcheckError": ".checking",
    "detect_anomaly": ".anomaly",
    "gradcheck": ".checking",
    "gradgradcheck": ".checking",
    "is_view_replay_enabled": ".graph",
    "kineto_available": ".profiler",
    "record_function": ".profiler",
    "set_detect_anomaly": ".anomaly",
}
MODULES = (
    "anomaly", "forward_ad", "function", "functional", "graph", "profiler", "profiler_util",
)  # fmt: skip

# torch: `torch.autograd.torch` has always been reachable.
__getattr__, __dir__ = namespace(
    __name__, HOMES, {"torch": "rushlight", **{name: f".{name}" for name in MODULES}}
)
