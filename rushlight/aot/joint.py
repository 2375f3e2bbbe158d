"""Graphs of a function: forward only, or forward and backward together.

The traced callable runs the user's function under functionalization on fake tensors; the joint
one also runs the autograd engine, so that gradient formulas end up in the graph as operators.
Writes to inputs become extra outputs, or a `copy_` at the end where the facts say so. Tokens of
effects lead the inputs and outputs of the forward, and end those of the backward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from rushlight.aot.metadata import (
    Facts,
    InputFacts,
    OutputKind,
    allow_writes,
    functional_input,
    functional_parts,
    kept_memory,
    value_of,
)
from rushlight.aot.partition import has_effect
from rushlight.aot.subclasses import flatten, layouts_of
from rushlight.aot.tracing import attribute_owner, output_of
from rushlight.autograd.backward import GradientEdge
from rushlight.autograd.backward import grad as gradients_of
from rushlight.autograd.function import BackwardCFunction
from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core import dispatch
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.functional import FunctionalMode, FunctionalTensor, ViewStep, take_geometry
from rushlight.core.history import without_history
from rushlight.core.node import GraphNode, output_meta
from rushlight.core.op import OpOverload, find_overload
from rushlight.core.recording import Recorder, describe
from rushlight.core.state import changed
from rushlight.core.tensor import Tensor, sizes_of, strides_of
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.traceback import follow_backward, preserve_node_meta
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.graph.printing import _PyTreeCodeGen, _PyTreeInfo
from rushlight.higher_order.effects import EffectType, constant_token, register_builtin
from rushlight.symbolic.numbers import NUMBERS

__all__ = [
    "Tracing",
    "flat_parts",
    "joint_inputs",
    "storage_resize",
    "trace_inference",
    "trace_joint",
]

register_builtin()
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
        # Of inputs that lose elements: all that was written to them.
        self.starts: dict[int, Any] = {}
        given = [
            self.guarded(value, entry, position)
            for position, (value, entry) in enumerate(zip(inputs, facts.inputs, strict=True))
        ]
        # As the function has them.
        self.given = given
        outputs = list(self.function(*given))
        for position, known in enumerate(facts.inputs):
            value, alias = inputs[position], given[position]
            if known.is_moved_leaf and value is not alias and has_node_of(value, alias):
                # The gradient of a leaf has the sizes that the leaf has in the backward.
                value._node.output_metas = (output_meta(alias),)
        returned = [
            self.whole(position) if position in self.starts else given[position]
            for position in facts.returned_inputs
        ]
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

    def guarded(self, value: Any, entry: InputFacts, position: int) -> Any:
        """An input as the function may have it: gradients are taken before any write."""
        if not isinstance(value, Tensor) or not (self.training or entry.returns_start):
            return value
        is_copied = self.training and entry.seen_by_autograd and not entry.kept_in_graph
        is_moved = entry.writes_geometry or entry.becomes_view
        if is_copied:
            copy = value.clone()
            if isinstance(copy, FunctionalTensor):
                # Strides decide what the function does: they are the argument's.
                take_geometry(copy, value)
            value = copy
        if entry.returns_start:
            self.starts[position] = value
            alias = value.view(value.shape)
            if not entry.is_view:
                # Views of it lose elements with it.
                alias._node, alias._view = alias.grad_fn, None
            return alias
        if is_moved and (not is_copied or (entry.is_view and any(entry.quiet_moves))):
            # What becomes a view of itself has another history, the argument keeps its own.
            alias = value.view(value.shape)
            if entry.is_moved_leaf:
                alias._node, alias._view = value._node, None
            elif not entry.is_view:
                # The history of a view follows its geometry whatever the grad mode.
                alias._node, alias._view = alias.grad_fn, None
            return alias
        return value

    def whole(self, position: int) -> Any:
        """All that an input has now that lost elements. Its history is that of what was left: from
        before the loss where nothing was written since, for elements may be left twice."""
        start, left, entry = (
            self.starts[position],
            self.given[position],
            self.facts.inputs[position],
        )
        if entry.is_view or not (self.training and left.requires_grad):
            return start
        node, number, count = left._node, left._output_nr, len(entry.moves)
        while count and is_move(node, entry.moves[count - 1]):
            node, number, count = node.next_nodes[0], node.next_nrs[0], count - 1
        found: Any = without_history(start)
        part = found
        with changed(grad=False):
            for step in entry.moves[:count]:
                part = step.replay(part)
        part._node, part._output_nr, part._requires_grad = node, number, True
        if count:
            geometry = sizes_of(part), strides_of(part), part._offset
            found = without_history(start).as_strided_scatter(part, *geometry)
        return found


def is_move(node: Any, step: ViewStep) -> bool:
    """Whether a tensor that became a view of itself by an op left a node."""
    return step.inplace is not None and type(node) is step.inplace.grad_rule.node_class


def has_node_of(value: Tensor, alias: Tensor) -> bool:
    return value._node is not None and value._node is alias._node


@dataclass(frozen=True)
class Tracing:
    """How graphs are recorded."""

    mode: FakeTensorMode | None
    decompositions: Decompositions
    # Above autograd, where composites are whole.
    pre_dispatch: bool = False
    # Writes on a new node where in the program it was made.
    describe_origin: Callable[[Node], None] | None = None
    # Makes what follows writes, where it is not the common one.
    make_mode: Callable[[], FunctionalMode] | None = None

    def functional_mode(self) -> FunctionalMode:
        return FunctionalMode(self.pre_dispatch) if self.make_mode is None else self.make_mode()


class GraphBuilder:
    """Records one run of a callable on fake tensors, below functionalization."""

    def __init__(self, tracing: Tracing) -> None:
        self.mode = tracing.mode
        self.recorder = Recorder(Graph(), tracing.decompositions, tracing.pre_dispatch)
        self.recorder.marks_regions = True
        self.recorder.describe_origin = tracing.describe_origin

    def placeholder(self, name: str, value: Any, binds_sizes: bool = True) -> Node:
        node = self.recorder.graph.create_node("placeholder", name)
        if isinstance(value, (Tensor, *NUMBERS)):
            self.recorder.track(value, node, binds_sizes=binds_sizes)
        else:
            describe(node, value)
        return node

    def token(self, name: str, effect: EffectType) -> Any:
        """An input of the graph after those it has: the token of an effect."""
        value = constant_token(effect)
        if self.mode is not None:
            value = self.mode.from_tensor(value, static_shapes=True)
        graph = self.recorder.graph
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        if not inputs:
            self.placeholder(name, value)
            return value
        with graph.inserting_after(inputs[-1]):
            self.placeholder(name, value)
        return value

    def run(self, callback: Callable[[], Any]) -> Any:
        with ExitStack() as stack:
            if self.mode is not None:
                stack.enter_context(self.mode)
            stack.enter_context(preserve_node_meta())
            stack.enter_context(self.recorder)
            return callback()

    def finish(self, outputs: Sequence[Any]) -> GraphModule:
        recorder = self.recorder
        for name, value in recorder.attributes.items():
            if isinstance(value, FakeTensor):
                raise AssertionError(
                    f"Unexpected fake: {name} of the graph is a fake tensor that is no input of "
                    "the function. Pass it as an argument."
                )
        # Sizes among the outputs may need nodes, which come before the output.
        results = pytree.tree_map(lambda leaf: output_of(recorder, leaf), outputs)
        recorder.graph.output(results)
        asserted = self.asserted_symbols()

        def is_needed(node: Node) -> bool:
            symbols = node.meta.get("unbacked_bindings", ())
            return any([symbol in asserted for symbol in symbols]) or node.is_impure()

        recorder.graph.eliminate_dead_code(is_needed)
        return GraphModule(attribute_owner(recorder), recorder.graph, "<lambda>")

    def asserted_symbols(self) -> set[Any]:
        """Numbers that only values tell and that a program takes something to be true of: it
        asserts that, so it computes them although nothing else uses them."""
        mode = self.mode
        if mode is None or not mode.export or mode.shape_env is None:
            return set()
        return {
            symbol
            for assertion in mode.shape_env.runtime_asserts
            for symbol in assertion.expr.free_symbols
        }


def flat_parts(values: Sequence[Any]) -> list[Any]:
    """The values with subclasses taken apart."""
    return [part for value in values for part in flatten(value)]


def write_back(inputs: Sequence[Any], values: Sequence[Any], facts: Facts) -> dict[int, Any]:
    """What a graph itself does to its inputs at the end; the updated values by input."""
    written: dict[int, Any] = {}
    with changed(grad=False):
        for position, entry in enumerate(facts.inputs):
            if not entry.kept_in_graph:
                continue
            storage = values[position].functional_storage
            gone = storage.resized_to == 0
            if gone:
                memory = storage.base if entry.sets_storage else inputs[position]
                dispatch.call(storage_resize(), (memory, 0))
            if entry.sets_storage:
                inputs[position].set_(value_of(values[position]))
            elif entry.writes_data and not gone:
                # The write in the graph belongs to the function's last one.
                with changed(node_meta=storage.write_meta):
                    written[position] = inputs[position].copy_(value_of(values[position]))
    return written


def storage_resize() -> OpOverload:
    return find_overload("inductor", "resize_storage_bytes_", "default")


class BackwardWrites:
    """Finds what the backward of a function does to its inputs and to the tangents."""

    def __init__(
        self,
        primals: Sequence[Any],
        given: Sequence[Any],
        tangents: Sequence[Any],
        outputs: Sequence[Any],
    ) -> None:
        self.primals, self.given, self.tangents = primals, given, tangents
        self.outputs = outputs
        self.output_writes = [state_of(value)[0] for value in outputs]
        self.primal_values = [
            v.functional_value for v in primals if isinstance(v, FunctionalTensor)
        ]
        self.output_values = [
            v.functional_value if isinstance(v, FunctionalTensor) else None for v in outputs
        ]
        self.before = [state_of(value) for value in (*primals, *given, *tangents)]

    def results(self, facts: Facts) -> list[Any]:
        """The values of outputs: of views of what the backward writes, those from before."""
        found = []
        offset = len(facts.returned_inputs)
        for place, value in enumerate(self.outputs):
            is_output = offset <= place < offset + len(facts.outputs)
            is_view = is_output and facts.outputs[place - offset].kind is OutputKind.ALIAS_OF_INPUT
            is_stale = state_of(value)[0] != self.output_writes[place]
            earlier = self.output_values[place]
            if any([earlier is value for value in self.primal_values]):
                # An input's own value: by now its node is that of the write.
                earlier = None
            is_kept = is_view and is_stale and earlier is not None
            found.append(earlier if is_kept else value_of(value))
        return found

    def written(self, facts: Facts) -> list[int]:
        offset = len(facts.returned_inputs)
        for place, output in enumerate(facts.outputs):
            writes = state_of(self.outputs[offset + place])[0]
            of_input = output.kind in (OutputKind.IS_INPUT, OutputKind.ALIAS_OF_INPUT)
            if not of_input and writes != self.output_writes[offset + place]:
                raise error("RL0628", position=place)
        after = [state_of(value) for value in (*self.primals, *self.given, *self.tangents)]
        count = len(self.primals)
        found = []
        for place in range(len(after)):
            if self.before[place] == after[place]:
                continue
            (writes, moved), (written, now_moved) = self.before[place], after[place]
            if place >= 2 * count:
                # torch: the texts.
                raise AssertionError(
                    "Found an input to the backward that was mutated during the backward. This is "
                    "not supported"
                )
            if now_moved != moved:
                raise AssertionError(
                    "Found a graph input that had its metadata mutated in the backward. This is "
                    "not supported"
                )
            if facts.inputs[place % count].is_changed:
                raise error("RL0623", position=place % count)
            if written != writes and place < count:
                found.append(place)
        return found


def state_of(value: Any) -> tuple[int, int]:
    """What changes when a functional tensor is written."""
    parts = functional_parts(value)
    writes = sum([part.functional_storage.writes for part in parts])
    return writes, sum([len(part.chain) for part in parts])


def keep_effects_late(graph: Graph, last: Node) -> None:
    """Mark what the backward does beside computing values, by what it was recorded after: it may
    depend on no tangent."""
    for node in reversed(graph.nodes):
        if node is last:
            return
        if has_effect(node):
            node.meta["partitioner_tag"] = "must_be_in_backward"


def write_in_backward(
    recorder: Recorder, args: Sequence[Any], primals: Sequence[Any], facts: Facts
) -> None:
    """`copy_` into inputs that the backward writes, marked as the backward's."""
    for place in facts.written_in_backward:
        values = value_of(primals[place])
        before = len(recorder.graph.nodes)
        with changed(grad=False):
            args[place].copy_(values)
        # A wrapper is written in several parts.
        for node in list(recorder.graph.nodes)[before:]:
            node.meta["partitioner_tag"] = "must_be_in_backward"


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
    tracing: Tracing,
) -> GraphModule:
    """The graph of the forward alone, with inputs `arg0_1`, ..."""
    builder = GraphBuilder(tracing)
    args = fresh_aliases(args)
    mode = tracing.functional_mode()
    mode.tokens = {e: builder.token(f"arg{place}_1", e) for place, e in enumerate(facts.tokens)}
    mode.finds_tokens = False
    for position, value in enumerate(flat_parts(args), len(facts.tokens)):
        builder.placeholder(f"arg{position}_1", value)
    prepared = Prepared(function, facts, training=False)

    def run() -> Any:
        inputs = [functional_input(value, {}) for value in args]
        for value in inputs:
            allow_writes(value)
        with mode:
            outputs, _ = prepared(inputs)
        values = [value_of(value) for value in outputs]
        written = write_back(args, inputs, facts)
        offset = len(facts.returned_inputs)
        for position, entry in enumerate(facts.outputs):
            if entry.kind is OutputKind.IS_INPUT and entry.base in written:
                values[offset + position] = written[entry.base]
        facts.result_layouts = layouts_of(values)
        return *mode.tokens.values(), *flat_parts(values)

    with kept_memory(args):
        outputs = builder.run(run)
    return builder.finish(outputs)


def trace_joint(
    function: Function,
    args: Sequence[Any],
    facts: Facts,
    tracing: Tracing,
    loss: int | None = None,
) -> GraphModule:
    """The graph of forward and backward: a function of (primals, tangents). With a `loss`, which
    is the place of an output, it is one of primals alone and has flat results: those of the
    forward, then a gradient for each primal that requires one. Its effects are one sequence."""
    builder = GraphBuilder(tracing)
    args = fresh_aliases(args)
    count = 0
    mode = FunctionalMode()
    for effect in facts.tokens:
        count += 1
        name = f"primals_{count}" if loss is None else f"arg{count - 1}_1"
        mode.tokens[effect] = builder.token(name, effect)
    mode.finds_tokens = False
    for value, entry in zip(args, facts.inputs, strict=True):
        for part in flatten(value):
            count += 1
            name = f"primals_{count}" if loss is None else f"arg{count - 1}_1"
            node = builder.placeholder(name, part)
            # What the caller finds in it after the forward is not what the backward wants.
            # Memory that is only given up is filled again with what it held.
            is_refilled = entry.resizes_storage and not entry.writes_data
            node.meta["is_written"] = entry.is_changed and not is_refilled
    for position, value in enumerate(flat_parts(facts.tangents) if loss is None else ()):
        # The forward must not take a size from what only the backward has.
        builder.placeholder(f"tangents_{position + 1}", value, binds_sizes=False)
    prepared = Prepared(function, facts, training=True)

    def run() -> Any:
        primals = [functional_input(value, {}) for value in args]
        for primal in primals:
            allow_writes(primal)
        tangents = [functional_input(value, {}) for value in facts.tangents]
        with mode:
            outputs, has_tangent = prepared(primals)
            forward_tokens = list(mode.tokens.values())
            mode.finds_tokens = True
            watch = BackwardWrites(primals, prepared.given, tangents, outputs)
            follow_backward([v.grad_fn for v in outputs if isinstance(v, Tensor)])
            last = next(reversed(builder.recorder.graph.nodes))
            if loss is None:
                mode.tokens.clear()
                mode.make_token = functools.partial(builder.token, "tangents_token")
                gradients = joint_gradients(primals, outputs, has_tangent, tangents)
                facts.backward_tokens = list(mode.tokens)
                backward_tokens = list(mode.tokens.values())
            else:
                gradients = loss_gradients(primals, outputs[len(facts.returned_inputs) + loss])
                forward_tokens, backward_tokens = list(mode.tokens.values()), []
        keep_effects_late(builder.recorder.graph, last)
        facts.written_in_backward = watch.written(facts)
        facts.differentiated = [place for place, g in enumerate(gradients) if g is not None]
        forward = watch.results(facts)
        backward = [value_of(value) for value in gradients]
        facts.result_layouts = layouts_of(forward)
        facts.gradient_layouts = layouts_of(backward)
        write_back(args, prepared.given, facts)
        write_in_backward(builder.recorder, args, primals, facts)
        return (
            [*forward_tokens, *flat_parts(forward)],
            [*flat_parts(backward), *backward_tokens],
        )

    with kept_memory(args):
        outputs = builder.run(run)
    if loss is not None:
        if len(mode.tokens) > len(facts.tokens):
            # An effect that only the backward has: its token is an input from the start.
            facts.tokens = list(mode.tokens)
            return trace_joint(function, args, facts, tracing, loss)
        forward, backward = outputs
        needed = zip(flat_parts(args), backward, strict=True)
        kept = [g for p, g in needed if isinstance(p, Tensor) and p.requires_grad]
        return builder.finish((*forward, *kept))
    names = ["primals", "tangents"]
    structure = pytree.tree_structure(joint_inputs(args, facts))
    flat, out_structure = pytree.tree_flatten(outputs)
    builder.recorder.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, structure, out_structure)))
    return builder.finish(flat)


def joint_inputs(args: Sequence[Any], facts: Facts) -> tuple[list[Any], list[Any]]:
    """Examples of what a joint graph takes: (primals, tangents), tokens included."""
    leading = [constant_token(effect) for effect in facts.tokens]
    trailing = [constant_token(effect) for effect in facts.backward_tokens]
    return [*leading, *flat_parts(args)], [*flat_parts(facts.tangents), *trailing]


def loss_gradients(primals: Sequence[Any], loss: Any) -> list[Any]:
    """The gradient of a scalar for each primal that requires one."""
    wanted = [p for p in primals if isinstance(p, Tensor) and p.requires_grad]
    found = dict(zip(map(id, wanted), gradients_of(loss, wanted, allow_unused=True)))
    return [found.get(id(primal)) for primal in primals]


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
    outputs = [value for value, _ in pairs]
    found = gradients_of(
        outputs,
        [*wanted, *ends_of_functions(outputs, wanted)],
        grad_outputs=[tangent for _, tangent in pairs],
        allow_unused=True,
    )
    by_primal = dict(zip(map(id, wanted), found, strict=False))
    return [by_primal.get(id(primal)) for primal in primals]


def ends_of_functions(outputs: Sequence[Any], primals: Sequence[Any]) -> list[GradientEdge]:
    """Where backwards of autograd Functions lead besides to primals: they may do more than compute
    gradients, so they run wherever they lead."""
    known = {primal.grad_fn for primal in primals}
    nodes = below([value.grad_fn for value in outputs if value.grad_fn is not None])
    called = [node for node in nodes if isinstance(node, BackwardCFunction)]
    ends = [node for node in below(called) if not node.next_functions and node not in known]
    somewhere = {*ends, *known, *called}
    for node in called:
        following = [each for each, _ in node.next_functions if each is not None]
        if node.next_nodes and somewhere.isdisjoint(below(following)):
            # It leads nowhere: a place for its gradient has it run all the same.
            end = GraphNode()
            end.output_metas = (None,)  # takes a gradient as it is
            ends.append(end)
            node.next_nodes = (end, *node.next_nodes[1:])
    return [GradientEdge(node, 0) for node in ends]


def below(roots: Iterable[Any]) -> list[Any]:
    """These nodes and all that they lead to, each once."""
    found = dict.fromkeys(roots)
    waiting = list(found)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in found:
                found[node] = None
                waiting.append(node)
    return list(found)
