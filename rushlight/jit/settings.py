"""Switches of `jit` that torch has under `torch._C`."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import fail
from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.schemas import Argument, FunctionSchema, Return
from rushlight.jit.unit import PYTHON_UNIT, Function

# How many specialisations torch's fusers may make; nothing is specialised here.
STRATEGY: list[list[tuple[str, int]]] = [[("STATIC", 2), ("DYNAMIC", 10)]]


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
    qualified = PYTHON_UNIT.claim(name)
    function = Function(qualified, graph, FunctionSchema(name, arguments, returns))
    return ScriptFunction(PYTHON_UNIT.add_function(function))


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Keeps a strategy of fusing, and gives the one before.

    Graphs run operator by operator: whatever the strategy, results are the same.
    """
    before = STRATEGY[0]
    for word, depth in strategy:
        if word not in ("STATIC", "DYNAMIC") or not isinstance(depth, int):
            fail("RL1413", given=(word, depth))
    STRATEGY[0] = list(strategy)
    return before


def enable_onednn_fusion(enabled: bool) -> None:
    """There is no oneDNN to fuse for: turning it on is refused."""
    if enabled:
        fail("RL0001", what="fusion by oneDNN")


def onednn_fusion_enabled() -> bool:
    return False


class strict_fusion:
    """Asks that a block be fused whole; only compiled code may ask, and here nothing is fused."""

    def __init__(self) -> None:
        fail("RL0001", what="jit.strict_fusion")


def export_opnames(m: Any) -> list[str]:
    """The operators that a module's methods call, sorted."""
    from rushlight.jit.passes.inlining import inline_calls

    found: set[str] = set()
    for function in m._c.instance.type.methods.values():
        graph = function.graph.copy()
        inline_calls(graph)
        for node in graph.all_nodes():
            operator = node.matched()
            if operator is not None and node.kind().startswith("aten::"):
                overload = operator.schema.overload_name
                found.add(f"{node.kind()}{'.' + overload if overload else ''}")
    return sorted(found)


class ExecutorSwitch:
    """One of torch's switches of how its executor specialises and fuses graphs. It is kept; graphs
    run as they are here, whatever it says, and give the same results."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def read(self) -> Any:
        return self.value

    def write(self, value: Any) -> Any:
        """Set it, and tell what it was."""
        self.value, before = value, self.value
        return before


profiling_executor, profiling_mode = ExecutorSwitch(True), ExecutorSwitch(True)
fuses_on_cpu, fuses_on_gpu = ExecutorSwitch(False), ExecutorSwitch(False)
texpr_fuser, texpr_reductions = ExecutorSwitch(True), ExecutorSwitch(False)
nvfuser, optimises = ExecutorSwitch(False), ExecutorSwitch(True)
bailout_depth, subgraph_inlining = ExecutorSwitch(20), ExecutorSwitch(True)
