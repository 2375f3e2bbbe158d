"""torch.compiler: questions and marks that code may carry, and graphs as native code."""

from __future__ import annotations

import sys
from typing import Any

__all__ = [
    "compile_graph",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "reset",
]


def compile_graph(gm: Any, example_inputs: Any) -> Any:
    """Compile a GraphModule of functional ops to native code for the CPU.

    Its nodes carry `meta["val"]` with static sizes. The result takes and returns what the graph
    does and expects inputs of the same sizes, strides and dtypes; `print` shows its loops. Needs
    llvmlite: `pip install "rushlight[compile]"`.
    """
    from rushlight.compiler.graphcache import FxGraphCache

    return FxGraphCache.load(gm, example_inputs)


def is_compiling() -> bool:
    """Whether the caller is being compiled: never true of code that runs."""
    return False


def is_dynamo_compiling() -> bool:
    return False


def is_exporting() -> bool:
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark a function as one to run as it is; it already does."""
    if fn is None:
        return lambda function: function
    return fn


def reset() -> None:
    """Give back what compiled code keeps for its next call: memory for results, and graphs that
    were compiled."""
    buffers = sys.modules.get("rushlight.codegen.buffers")
    if buffers is not None:
        buffers.release()
    graphs = sys.modules.get("rushlight.compiler.graphcache")
    if graphs is not None:
        graphs.FxGraphCache.forget()


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark: there are no device graphs."""
