"""Backends for tests: they run graphs as they are, and count or keep them."""

from __future__ import annotations

from typing import Any

from rushlight.compiler.backends import lookup_backend

__all__ = ["CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs", "normalize_gm"]


class CompileCounter:
    """Counts graphs (`frame_count`) and the calls in them (`op_count`)."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.frame_count = 0
        self.op_count = 0

    def count(self, gm: Any) -> None:
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.count(gm)
        return gm.forward


class CompileCounterWithBackend(CompileCounter):
    """Counts, keeps the graphs, and hands them to another backend."""

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self.backend = backend

    def clear(self) -> None:
        super().clear()
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.count(gm)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)


class EagerAndRecordGraphs:
    """Keeps the graphs."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.graphs.append(gm)
        return gm.forward


def normalize_gm(gm_str: str) -> str:
    """The text of a graph without comments and blanks at the ends of lines."""
    lines = [line.rstrip() for line in gm_str.split("\n")]
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))
