"""torch.compiler: questions and marks that code may carry, and graphs as native code."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

from rushlight.base import logs
from rushlight.capture.marks import (
    allow_in_graph,
    assume_constant_result,
    disable,
    nested_compile_region,
    substitute_in_graph,
)
from rushlight.capture.stances import set_stance

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "compile_graph",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "load_cache_artifacts",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_stance",
    "substitute_in_graph",
]


def compile_graph(gm: Any, example_inputs: Any) -> Any:
    """Compile a GraphModule of functional ops to native code for the CPU.

    Its nodes carry `meta["val"]`. The result takes and returns what the graph does and expects
    inputs of the same sizes, strides and dtypes, where symbols stand for any size that guards
    allow; `print` shows its loops. Needs llvmlite: `pip install "rushlight[compile]"`.
    """
    from rushlight.compiler.graphcache import FxGraphCache

    made = FxGraphCache.load(gm, example_inputs)
    if logs.is_on("kernel"):
        logs.write("kernel", str(made))
    if logs.is_on("fusion") or logs.is_on("memory"):
        from rushlight.codegen import reports

        logs.write("fusion", reports.fusion_report(made))
        logs.write("memory", reports.memory_report(made))
    return made


def compile(*args: Any, **kwargs: Any) -> Any:
    """As `torch.compile`."""
    from rushlight.compiler import compiling

    return compiling.compile(*args, **kwargs)


def save_cache_artifacts() -> Any:
    """(bytes, what is in them): the code and graphs that this process kept on disk or took from
    there, for `load_cache_artifacts` in another place; None if there are none."""
    from rushlight.compiler import artifacts

    return artifacts.save_cache_artifacts()


def load_cache_artifacts(serialized_artifacts: bytes) -> Any:
    """Put what `save_cache_artifacts` gave into the caches of this machine; what was put there, or
    None for bytes that are not whole. They hold native code: load what you would run."""
    from rushlight.compiler import artifacts

    return artifacts.load_cache_artifacts(serialized_artifacts)


def list_backends(
    exclude_tags: Sequence[str] | None = ("debug", "experimental"),
) -> list[str]:
    """The names that `torch.compile(backend=...)` knows."""
    from rushlight.compiler import backends

    return backends.list_backends(exclude_tags)


def get_default_backend() -> Any:
    """The backend that `torch.compile` takes where none is named."""
    from rushlight.compiler import backends

    return backends.get_default_backend()


def set_default_backend(backend: Any) -> None:
    """Name the backend that `torch.compile` takes where none is named."""
    from rushlight.compiler import backends

    backends.set_default_backend(backend)


class Exporting(threading.local):
    """Whether this thread is exporting a module."""

    active = False


EXPORTING = Exporting()


def is_compiling() -> bool:
    """Whether the caller is compiled: true in captured code, which is where it is asked, and in
    modules that are exported."""
    return EXPORTING.active


def is_dynamo_compiling() -> bool:
    return EXPORTING.active


def is_exporting() -> bool:
    """Whether the caller is being exported."""
    return EXPORTING.active


def reset() -> None:
    """Drop compiled functions, and give back what compiled code keeps for its next call: memory
    for results, and graphs that were compiled."""
    functions = sys.modules.get("rushlight.compiler.compiling")
    if functions is not None:
        functions.reset()
    programs = sys.modules.get("rushlight.autograd.programs")
    if programs is not None:
        programs.forget_graphs()
    buffers = sys.modules.get("rushlight.arrays.buffers")
    if buffers is not None:
        buffers.release()
    graphs = sys.modules.get("rushlight.compiler.graphcache")
    if graphs is not None:
        graphs.FxGraphCache.forget()


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark: there are no device graphs."""
