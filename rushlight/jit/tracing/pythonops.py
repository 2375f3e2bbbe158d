"""`autograd.Function` in a trace: a node that calls Python, with what its forward did inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.graph import Graph, Node
from rushlight.jit.ir.parts import PythonCall
from rushlight.jit.ir.types import TupleType
from rushlight.jit.tracing.frames import source_here
from rushlight.jit.tracing.state import TracingState


def record_function(
    state: TracingState, cls: Any, args: tuple[Any, ...], run: Callable[[], Any]
) -> Any:
    """Runs `cls.apply(*args)` as `run` does, and writes it as one node."""
    source = source_here()
    tensors = [value for value in args if isinstance(value, Tensor)]
    inputs = [state.value_of(tensor) for tensor in tensors]
    convention = "".join(["d" if isinstance(value, Tensor) else "c" for value in args])
    constants = tuple([value for value in args if not isinstance(value, Tensor)])
    result, subgraph = run_inside(state, tensors, run)
    graph = state.graph
    node = graph.create("prim::PythonOp", inputs, 0)
    node.python = PythonCall(cls, cls.__name__, convention, constants, cls.__module__)
    node.source = source
    results = result if isinstance(result, tuple) else (result,)
    is_inplace = any([value is tensor for value in results for tensor in tensors])
    node.i_("inplace", int(is_inplace))  # type: ignore[attr-defined]
    node.s_("module", cls.__module__)  # type: ignore[attr-defined]
    node.g_("Subgraph", subgraph)  # type: ignore[attr-defined]
    graph.insertNode(node)
    add_results(state, node, result)
    return result


def run_inside(
    state: TracingState, tensors: list[Tensor], run: Callable[[], Any]
) -> tuple[Any, Graph]:
    """Records what a forward does in a graph of its own."""
    outer, scope = state.graph, state.graph.scope
    inner = Graph(scope=scope)
    state.graph = inner
    state.values.append({})
    state.floors.append(len(state.values) - 1)
    try:
        for tensor in tensors:
            value = inner.addInput()
            state.infer(value, tensor)
            state.set_value(tensor, value)
        result = run()
        for each in result if isinstance(result, tuple) else (result,):
            found = state.find(each) if isinstance(each, Tensor) else None
            if found is not None:
                inner.registerOutput(found)
    finally:
        state.graph = outer
        state.values.pop()
        state.floors.pop()
    return result, inner


def add_results(state: TracingState, node: Node, result: Any) -> None:
    if not isinstance(result, tuple):
        if isinstance(result, Tensor):
            value = node.addOutput()
            state.infer(value, result)
            state.set_value(result, value)
        return
    joined = node.addOutput()
    unpack = state.graph.create("prim::TupleUnpack", [joined], len(result))
    state.graph.insertNode(unpack)
    for value, tensor in zip(unpack.outputs(), result):
        if isinstance(tensor, Tensor):
            state.infer(value, tensor)
            state.set_value(tensor, value)
    joined.setType(TupleType([value.type() for value in unpack.outputs()]))
