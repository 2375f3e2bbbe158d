"""Functions that programs give for operators of their own, in the manner of TorchScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["register_custom_op_symbolic", "unregister_custom_op_symbolic"]

# (name of the operator, version of ONNX's operators) -> the function. `export` translates captured
# programs and refuses operators that it does not know, these included.
REGISTERED: dict[tuple[str, int], Callable[..., Any]] = {}


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    if "::" not in symbolic_name:
        raise ValueError(
            f"Failed to register operator {symbolic_name}. The symbolic name must match the "
            "format domain::name, and should start with a letter and contain only alphanumerical "
            "characters"
        )
    REGISTERED[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    REGISTERED.pop((symbolic_name, opset_version), None)
