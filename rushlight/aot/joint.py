"""Graphs of a function: forward only, or forward and backward together.

The traced callable runs the user's function under functionalization on fake tensors; the joint
one also runs the autograd engine, so that gradient formulas end up in the graph as operators.
Writes to inputs become extra outputs, or a `copy_` at the end where the facts say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from rushlight.aot.metadata import Facts, InputFacts, OutputKind, allow_writes, functional_input
from rushlight.aot.tracing import attribute_owner, output_of
from rushlight.autograd.backward import grad as gradients_of
from rushlight.base import pytree
from rushlight.core.fake import FakeTensorMode
from rushlight.core.functional import FunctionalMode, from_functional
from rushlight.core.op import OpOverload
from rushlight.core.recording import Recorder, describe
from rushlight.core.state import changed
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.graph.printing import _PyTreeCodeGen, _PyTreeInfo
from rushlight.higher_order import effects
from rushlight.symbolic.numbers import NUMBERS

__all__ = ["trace_inference", "trace_joint"]

effects.register_builtin()
Function = Callable[..., Sequence[Any]]
Decompositions = dict[OpOverload, Callable[..., Any]]


class Prepared:
    """The user's function with inputs guarded against writes and outputs in graph order."""

    def __init__(self, function: Function, facts: Facts, training: bool) -> None:
        self.function = function
        self.facts = facts
        self.training = training

    def __call__(self, inputs: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        """(mutated inputs, outputs and intermediate bases; which of them have a tangent)."""
        facts = self.facts
        given = [self.guarded(value, entry) for value, entry in zip(inputs, facts.inputs)]
        outputs = list(self.function(*given))
        returned = [given[position] for position in facts.returned_inputs]
        has_tangent = [
            facts.inputs[position].seen_by_autograd and facts.inputs[position].requires_grad
            for position in facts.returned_inputs
        ]
        bases: list[Any] = [None] * facts.bases
        for value, entry in zip(outputs, facts.outputs):
            if entry.kind is OutputKind.ALIAS_OF_BASE and bases[entry.base or 0] is None:
                bases[entry.base or 0] = value._base
            has_tangent.append(entry.is_tensor and entry.requires_grad and not entry.rebuilt)
        return returned + outputs + bases, has_tangent + [True] * len(bases)

    def guarded(self, value: Any, entry: InputFacts) -> Any:
        """An input as the function may have it: gradients are taken before any write."""
        if not self.training or not isinstance(value, Tensor) or entry.kept_in_graph:
            return value
        if entry.seen_by_autograd:
            return value.clone()
        if entry.writes_geometry:
            return value.view(value.shape)
        return value


class GraphBuilder:
    """Records one run of a callable on fake tensors, below functionalization."""

    def __init__(self, mode: FakeTensorMode | None, decompositions: Decompositions) -> None:
        self.mode = mode
        self.recorder = Recorder(Graph(), decompositions)
        self.recorder.marks_regions = True

    def placeholder(self, name: str, value: Any, binds_sizes: bool = True) -> Node:
        node = self.recorder.graph.create_node("placeholder", name)
        if isinstance(value, (Tensor, *NUMBERS)):
            self.recorder.track(value, node, binds_sizes=binds_sizes)
        else:
            describe(node, value)
        return node

    def run(self, callback: Callable[[], Any]) -> Any:
        with ExitStack() as stack:
            if self.mode is not None:
                stack.enter_context(self.mode)
            stack.enter_context(self.recorder)
            return callback()

    def finish(self, outputs: Sequence[Any]) -> GraphModule:
        recorder = self.recorder
        # Sizes among the outputs may need nodes, which come before the output.
        results = pytree.tree_map(lambda leaf: output_of(recorder, leaf), outputs)
        recorder.graph.output(results)
        recorder.graph.eliminate_dead_code()
        return GraphModule(attribute_owner(recorder), recorder.graph, "<lambda>")


def write_back(inputs: Sequence[Any], values: Sequence[Any], facts: Facts) -> dict[int, Any]:
    """`copy_` into inputs whose writes stay in the graph; the updated values by input."""
    written: dict[int, Any] = {}
    with changed(grad=False):
        for position, entry in enumerate(facts.inputs):
            if entry.kept_in_graph:
                written[position] = inputs[position].copy_(from_functional(values[position]))
    return written


def fresh_aliases(args: Sequence[Any]) -> list[Any]:
    """The arguments as tensors of their own: a tensor given twice is two inputs of the graph."""
    seen: set[int] = set()
    result = []
    for value in args:
        if isinstance(value, Tensor) and id(value) in seen:
            value = value.detach().requires_grad_(value.requires_grad)
        seen.add(id(value))
        result.append(value)
    return result


def trace_inference(
    function: Function,
    args: Sequence[Any],
    facts: Facts,
    mode: FakeTensorMode | None,
    decompositions: Decompositions,
) -> GraphModule:
    """The graph of the forward alone, with inputs `arg0_1`, ..."""
    builder = GraphBuilder(mode, decompositions)
    args = fresh_aliases(args)
    for position, value in enumerate(args):
        builder.placeholder(f"arg{position}_1", value)
    prepared = Prepared(function, facts, training=False)

    def run() -> Any:
        inputs = [functional_input(value, {}) for value in args]
        for value in inputs:
            allow_writes(value)
        with FunctionalMode():
            outputs, _ = prepared(inputs)
        values = [from_functional(value) for value in outputs]
        written = write_back(args, inputs, facts)
        offset = len(facts.returned_inputs)
        for position, entry in enumerate(facts.outputs):
            if entry.kind is OutputKind.IS_INPUT and entry.base in written:
                values[offset + position] = written[entry.base]
        return tuple(values)

    return builder.finish(builder.run(run))


def trace_joint(
    function: Function,
    args: Sequence[Any],
    facts: Facts,
    mode: FakeTensorMode | None,
    decompositions: Decompositions,
) -> GraphModule:
    """The graph of forward and backward: a function of (primals, tangents)."""
    builder = GraphBuilder(mode, decompositions)
    args = fresh_aliases(args)
    for position, value in enumerate(args):
        builder.placeholder(f"primals_{position + 1}", value)
    for position, value in enumerate(facts.tangents):
        # The forward must not take a size from what only the backward has.
        builder.placeholder(f"tangents_{position + 1}", value, binds_sizes=False)
    prepared = Prepared(function, facts, training=True)

    def run() -> Any:
        primals = [functional_input(value, {}) for value in args]
        for primal in primals:
            allow_writes(primal)
        tangents = [functional_input(value, {}) for value in facts.tangents]
        with FunctionalMode():
            outputs, has_tangent = prepared(primals)
            gradients = joint_gradients(primals, outputs, has_tangent, tangents)
        forward = [from_functional(value) for value in outputs]
        backward = [from_functional(value) for value in gradients]
        write_back(args, primals, facts)
        return forward, backward

    outputs = builder.run(run)
    names = ["primals", "tangents"]
    structure = pytree.tree_structure((list(args), list(facts.tangents)))
    flat, out_structure = pytree.tree_flatten(outputs)
    builder.recorder.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, structure, out_structure)))
    return builder.finish(flat)


def joint_gradients(
    primals: Sequence[Any],
    outputs: Sequence[Any],
    has_tangent: Sequence[bool],
    tangents: Sequence[Any],
) -> list[Any]:
    """One gradient, or None, for each primal."""
    wanted = [p for p in primals if isinstance(p, Tensor) and p.requires_grad]
    chosen = [value for value, has in zip(outputs, has_tangent) if has]
    pairs = [(value, tangent) for value, tangent in zip(chosen, tangents) if value.requires_grad]
    if not wanted or not pairs:
        return [None] * len(primals)
    found = gradients_of(
        [value for value, _ in pairs],
        wanted,
        grad_outputs=[tangent for _, tangent in pairs],
        allow_unused=True,
    )
    by_primal = dict(zip(map(id, wanted), found))
    return [by_primal.get(id(primal)) for primal in primals]
