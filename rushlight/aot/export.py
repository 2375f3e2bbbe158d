"""`aot_export_module` and `aot_export_joint_simple`: one graph with a signature, nothing around it.

An exported graph has no wrappers: whatever would need one, such as arguments that share memory,
is refused. Parameters and buffers lead the arguments; values that the module writes lead the
results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.aot.arguments import Bases, Duplicates
from rushlight.aot.compilation import FlatFunction, check_arguments, fake_argument, mode_for
from rushlight.aot.joint import Decompositions, Tracing, trace_inference, trace_joint
from rushlight.aot.metadata import Facts, OutputKind, collect_facts
from rushlight.aot.wrappers import Task
from rushlight.base import pytree
from rushlight.base.pytree import TreeSpec
from rushlight.core.rng import default_generator
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor
from rushlight.func.stateless import functional_call
from rushlight.fx.graph_module import GraphModule
from rushlight.nn.module import Module

__all__ = ["BackwardSignature", "GraphSignature", "aot_export_joint_simple", "aot_export_module"]


@dataclass
class BackwardSignature:
    """What the results of a joint graph are for the backward."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class GraphSignature:
    """Names of a graph's inputs and outputs, and what they stand for."""

    parameters: list[str]
    buffers: list[str]
    user_inputs: list[str]
    user_outputs: list[str]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    # Name of an output -> the buffer, or the input, that takes its value.
    buffers_to_mutate: dict[str, str]
    user_inputs_to_mutate: dict[str, str]
    in_spec: TreeSpec
    out_spec: TreeSpec
    backward_signature: BackwardSignature | None = None
    input_tokens: list[str] = field(default_factory=list)
    output_tokens: list[str] = field(default_factory=list)


def aot_export_module(
    mod: Module,
    args: Sequence[Any],
    *,
    decompositions: Decompositions | None = None,
    trace_joint: bool,
    output_loss_index: int | None = None,
    pre_dispatch: bool = False,
    dynamic_shapes: bool | None = None,
    kwargs: dict[str, Any] | None = None,
) -> tuple[GraphModule, GraphSignature]:
    """The graph of a module, of its forward or of forward and backward, and its signature.

    >>> import rushlight as torch
    >>> class Scale(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = torch.nn.Parameter(torch.ones(2))
    ...     def forward(self, x):
    ...         return (x * self.weight,)
    >>> graph, signature = aot_export_module(Scale(), [torch.ones(2)], trace_joint=False)
    >>> print(graph.code.strip())
    def forward(self, arg0_1, arg1_1):
        mul = torch.ops.aten.mul.Tensor(arg1_1, arg0_1);  arg1_1 = arg0_1 = None
        return (mul,)
    >>> signature.inputs_to_parameters
    {'arg0_1': 'weight'}
    """
    if pre_dispatch and trace_joint:
        raise RuntimeError("pre_dispatch is not supported when trace_joint is True.")
    if trace_joint and output_loss_index is None:
        raise RuntimeError(
            "If trace_joint=True it is required that one of your forward outputs must be a scalar "
            "loss. You must specify the which (index) output is the loss with output_loss_index."
        )
    parameters, buffers = dict(mod.named_parameters()), dict(mod.named_buffers())
    names = [*parameters, *buffers]

    def functional(*flat: Any, **options: Any) -> Any:
        state = dict(zip(names, flat))
        result = functional_call(mod, state, flat[len(names) :], options)
        if not isinstance(result, (tuple, list)):
            raise RuntimeError(
                "Graph output must be a (). This is so that we can avoid pytree processing of the "
                "outputs. Please change the module to have tuple outputs."
            )
        return check_loss(result, output_loss_index) if trace_joint else result

    given = [*parameters.values(), *buffers.values(), *args]
    leaves, structure = pytree.tree_flatten((given, kwargs or {}))
    flat = FlatFunction(functional, structure)
    # A graph of the forward alone is traced without gradients; above autograd, the switches of
    # grad mode that the module makes are part of the graph.
    grad = LOCAL.state.grad if trace_joint or pre_dispatch else False
    task = prepare(flat, leaves, len(names), grad, pre_dispatch, bool(dynamic_shapes))
    refuse_wrappers(task)
    refuse_writes(task.facts)
    with changed(grad=grad):
        graph = trace(task, decompositions or {}, trace_joint, pre_dispatch, output_loss_index)
    signature = sign(
        graph, task, flat, structure, list(parameters), list(buffers), output_loss_index
    )
    return graph, signature


def check_loss(outputs: Sequence[Any], loss: int | None) -> Sequence[Any]:
    """The results of a forward, of which one is the loss."""
    assert loss is not None
    for place, value in enumerate(outputs):
        if isinstance(value, Tensor) and value.requires_grad and place != loss:
            raise RuntimeError(
                "Found an output of the forward that requires gradients, that was not the scalar "
                "loss. We require all outputs to the forward that are not the scalar loss to not "
                "require gradient, because we will only compute a backward graph against the "
                "scalar loss. You can fix this by calling .detach() on each of your forward "
                f"outputs that is not the loss. You specified that output index {loss} is the "
                f"loss, but we found that the output at index {place} requires gradients."
            )
    value = outputs[loss]
    if not value.requires_grad:
        raise RuntimeError(
            f"The output at index {loss} was marked as the loss, but it does not require gradients"
        )
    if value.numel() != 1:
        raise RuntimeError(
            "We require the output marked as the loss (at index "
            f"{loss}) to be a scalar, but it has shape {tuple(value.shape)}"
        )
    return outputs


def prepare(
    flat: FlatFunction,
    leaves: Sequence[Any],
    parameters: int,
    grad: bool,
    pre_dispatch: bool,
    dynamic: bool,
) -> Task:
    """The facts about a function that is to be exported."""
    check_arguments(leaves)
    mode = mode_for(leaves, dynamic)
    fakes = [fake_argument(mode, value, place, parameters) for place, value in enumerate(leaves)]
    random_state = default_generator.snapshot()
    with changed(grad=grad, autocast=LOCAL.state.autocast):
        try:
            with mode:
                facts = collect_facts(flat, fakes, keep_writes=False, pre_dispatch=pre_dispatch)
        finally:
            default_generator.restore(random_state)
    return Task(flat, leaves, fakes, facts, mode, 0, keep_writes=False)


def refuse_wrappers(task: Task) -> None:
    # torch: the texts.
    if task.facts.has_subclasses:
        raise RuntimeError(
            "aot_export is not currently supported with traceable tensor subclass. If you need "
            "this feature, please comment on the issue tracker."
        )
    if Duplicates.plan(task) is not None:
        raise RuntimeError(
            "Encountered duplicated inputs that are mutated in the graph you are trying to export. "
            "This functionality is currently not supported. Pass clones."
        )
    if Bases.plan(task) is not None:
        raise RuntimeError(
            "Encountered aliased inputs that are mutated in the graph you are trying to export. "
            "This functionality is currently not supported. Pass clones."
        )


def refuse_writes(facts: Facts) -> None:
    for place, entry in enumerate(facts.inputs):
        if entry.writes_geometry:
            raise RuntimeError(
                "Found an input that received a metadata mutation, through e.g. a call to "
                f"`.resize_()` or `.transpose_()`. This is currently banned in the aot_export "
                f"workflow. It is input {place}."
            )
        if entry.writes_data and entry.requires_grad:
            raise RuntimeError(
                "Found a graph input that requires gradients, and received a mutation. This is "
                f"currently banned in the aot_export workflow. It is input {place}."
            )


def trace(
    task: Task,
    decompositions: Decompositions,
    joint: bool,
    pre_dispatch: bool,
    loss: int | None = None,
) -> GraphModule:
    random_state = default_generator.snapshot()
    tracing = Tracing(task.mode, decompositions, pre_dispatch)
    try:
        if not joint:
            return trace_inference(task.function, task.fakes, task.facts, tracing)
        return trace_joint(task.function, task.fakes, task.facts, tracing, loss)
    finally:
        default_generator.restore(random_state)


def sign(
    graph: GraphModule,
    task: Task,
    flat: FlatFunction,
    structure: TreeSpec,
    parameters: list[str],
    buffers: list[str],
    loss: int | None,
) -> GraphSignature:
    facts = task.facts
    inputs = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    outputs = [
        node.name if hasattr(node, "name") else node for node in graph.graph.output_node().args[0]
    ]
    tokens = len(facts.tokens)
    input_tokens, inputs = inputs[:tokens], inputs[tokens:]
    output_tokens, outputs = outputs[:tokens], outputs[tokens:]
    names = [*parameters, *buffers]
    by_input = dict(zip(inputs, names))
    user_inputs = inputs[len(names) :]
    count = len(facts.returned_inputs)
    written = list(zip(outputs, facts.returned_inputs))
    user_outputs = outputs[count : count + len(facts.outputs)]
    backward = None
    if loss is not None:
        differentiated = [
            name
            for name, value in zip(inputs, task.fakes, strict=True)
            if isinstance(value, Tensor) and value.requires_grad
        ]
        gradients = dict(zip(outputs[count + len(facts.outputs) :], differentiated))
        backward = BackwardSignature(
            {g: by_input[name] for g, name in gradients.items() if name in by_input},
            {g: name for g, name in gradients.items() if name not in by_input},
            user_outputs[loss],
        )
    return GraphSignature(
        parameters=parameters,
        buffers=buffers,
        user_inputs=user_inputs,
        user_outputs=user_outputs,
        inputs_to_parameters=dict(zip(inputs, parameters)),
        inputs_to_buffers=dict(zip(inputs[len(parameters) :], buffers)),
        buffers_to_mutate={o: names[i] for o, i in written if i < len(names)},
        user_inputs_to_mutate={o: inputs[i] for o, i in written if i >= len(names)},
        in_spec=structure,
        out_spec=flat.out_structure,
        backward_signature=backward,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def aot_export_joint_simple(
    func: Callable[..., Any],
    args: Sequence[Any],
    *,
    trace_joint: bool,
    num_params_buffers: int = 0,
    decompositions: Decompositions | None = None,
) -> GraphModule:
    """The graph of a function of tensors that changes and aliases nothing: of its forward, or of
    (primals, tangents) with the backward in it."""
    leaves, structure = pytree.tree_flatten((list(args), {}))
    if not all([child.is_leaf() for child in structure.children()[0].children()]):
        raise RuntimeError(
            "aot_export_joint_simple requires individual inputs not to be pytrees. "
            f"in_spec={structure}"
        )
    flat = FlatFunction(func, structure)
    grad = LOCAL.state.grad if trace_joint else False
    task = prepare(flat, leaves, num_params_buffers, grad, pre_dispatch=False, dynamic=False)
    refuse_wrappers(task)
    refuse_writes(task.facts)
    if any([entry.is_changed for entry in task.facts.inputs]):
        raise RuntimeError(
            f"aot_export_joint_simple does not support input mutations. {task.facts.inputs}"
        )
    if any([entry.kind is not OutputKind.FRESH for entry in task.facts.outputs]):
        raise RuntimeError(
            "aot_export_joint_simple does not support outputs that alias inputs. "
            f"{task.facts.outputs}"
        )
    if flat.out_structure is not None and not all(
        [child.is_leaf() for child in flat.out_structure.children()]
    ):
        raise RuntimeError(
            "aot_export_joint_simple requires individual outputs not to be pytrees. "
            f"out_spec={flat.out_structure}"
        )
    with changed(grad=grad):
        return trace(task, decompositions or {}, trace_joint, pre_dispatch=False)
