"""Switches of `jit` that torch has under `torch._C`."""

from __future__ import annotations

from typing import Any

from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.schemas import Argument, FunctionSchema, Return
from rushlight.jit.unit import PYTHON_UNIT, Function


class Settings:
    """`inline_everything`: calls are replaced by what they call as soon as a graph is made."""

    inline_everything = False


def get_inline_everything() -> bool:
    return Settings.inline_everything


def set_inline_everything(value: bool) -> None:
    Settings.inline_everything = value


def create_function(name: str, graph: Graph) -> Any:
    """A function of a graph that belongs to nobody."""
    from rushlight.jit.objects.functions import ScriptFunction

    graph = graph.copy()
    graph.makeMultiOutputIntoTuple()
    arguments = tuple([Argument(v.debugName(), v.type()) for v in graph.inputs()])
    returns = tuple([Return(v.type()) for v in graph.outputs()])
    qualified = PYTHON_UNIT.free_name(name)
    function = Function(qualified, graph, FunctionSchema(name, arguments, returns))
    return ScriptFunction(PYTHON_UNIT.add_function(function))
