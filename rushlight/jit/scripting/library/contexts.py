# mypy: ignore-errors
"""Context managers of the package as compiled classes."""

from __future__ import annotations

from functools import cache
from typing import Any

import rushlight as torch


class no_grad:
    _jit_override_qualname = "__torch__.torch.autograd.grad_mode.no_grad"

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.set_grad_enabled(self.prev)


class enable_grad:
    _jit_override_qualname = "__torch__.torch.autograd.grad_mode.enable_grad"

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.set_grad_enabled(True)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.set_grad_enabled(self.prev)


class record_function:
    _jit_override_qualname = "__torch__.torch.autograd.profiler.record_function"

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self.record: torch.Tensor | None = None

    def __enter__(self):
        self.record = torch.ops.profiler._record_function_enter(self.name, self.args)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if not self.run_callbacks_on_exit:
            return
        record = self.record
        if record is None:
            raise AssertionError("Expected record to be set")
        torch.ops.profiler._record_function_exit(record)


@cache
def TWINS() -> dict[Any, Any]:
    """Classes of the package -> the class that is compiled for them."""
    return {
        torch.no_grad: no_grad,
        torch.enable_grad: enable_grad,
        torch.autograd.profiler.record_function: record_function,
    }
