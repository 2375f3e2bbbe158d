"""`export`: a module and example arguments become a program.

Strict export is the same trace with the effects that a capture of the bytecode would have: see
`strict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from rushlight.aot.tracing import shape_environment
from rushlight.base import pytree
from rushlight.compiler import config
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.state import changed
from rushlight.core.tensor import Tensor
from rushlight.export.inputs import CallInputs, collect_inputs
from rushlight.export.lifting import ConstantNames, lift_constants_pass
from rushlight.export.naming import name_nodes
from rushlight.export.operands import order_captured
from rushlight.export.program import ExportedProgram
from rushlight.export.regions import make_regions
from rushlight.export.shapes import unwrapped
from rushlight.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    ModuleCallEntry,
    ModuleCallSignature,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
    TokenArgument,
)
from rushlight.export.state import Held, constant_attributes
from rushlight.export.tracing import Altitude, Traced, trace_module
from rushlight.export.verifier import TrainingIRVerifier, Verifier
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.runtime_assert import insert_deferred_runtime_asserts
from rushlight.graph.node import Node
from rushlight.nn.module import Module
from rushlight.symbolic.numbers import SymBool, SymFloat, SymInt

__all__ = ["export", "export_module"]


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The program of a module for arguments like these.

    `dynamic_shapes` says which sizes may differ from those of the examples; all others, and
    arguments that are no tensors, are part of the program.

    >>> import rushlight as torch
    >>> program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> program.graph_signature.parameters
    ('weight', 'bias')
    >>> program.module()(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    return export_module(
        mod,
        args,
        kwargs,
        dynamic_shapes,
        strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        pre_dispatch=True,
        defer_guards=prefer_deferred_runtime_asserts_over_guards,
    )


def export_module(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
    pre_dispatch: bool = False,
    functional: bool = True,
    defer_guards: bool = False,
    allow_constants: bool = False,
) -> ExportedProgram:
    """The program of a module at any altitude. With `defer_guards`, what cannot be said of dims is
    asserted when the program runs; with `allow_constants`, a dim that must be constant is none."""
    from rushlight.export import strict as effects

    args, kwargs, dynamic_shapes = unwrapped(mod, args, kwargs, dynamic_shapes)
    inputs = collect_inputs(mod, args, kwargs)
    check_paths(mod, preserve_module_call_signature)
    with ExitStack() as stack:
        if strict:
            effects.check_module(mod, inputs)
            stack.enter_context(effects.translated_errors())
            stack.enter_context(effects.SILENCE.of_this_thread())
        return ExportRun(mod, inputs, strict, pre_dispatch, functional).program(
            dynamic_shapes, tuple(preserve_module_call_signature), defer_guards, allow_constants
        )


def check_paths(mod: Module, paths: Sequence[str]) -> None:
    known = dict(mod.named_modules(remove_duplicate=False))
    for path in paths:
        if path not in known:
            raise RuntimeError(f"Couldn't find submodule at path {path}")


class ExportRun:
    """One export: from arguments to a program."""

    def __init__(
        self, mod: Module, inputs: CallInputs, strict: bool, pre_dispatch: bool, functional: bool
    ) -> None:
        self.mod = mod
        self.inputs = inputs
        self.is_strict = strict
        self.pre_dispatch = pre_dispatch
        self.functional = functional
        self.held = Held(mod, may_assign=strict)
        self.state_dict = original_state(mod)
        self.constants = known_constants(mod, self.held)
        self.mode = fake_mode_for([*inputs.leaves, *self.held.tensors])

    def program(
        self,
        dynamic_shapes: Any,
        preserved: tuple[str, ...],
        defer_guards: bool,
        allow_constants: bool,
    ) -> ExportedProgram:
        from rushlight.export import strict as effects

        with changed(fake=None), as_export(self.mode):
            plan, leaves = self.fakes(dynamic_shapes)
            altitude = Altitude(self.pre_dispatch, self.functional, {}, self.is_strict, preserved)
            traced = trace_module(
                self.mod, self.held, leaves, self.inputs.structure, self.mode, altitude
            )
            unused = unused_values(traced)
            ranges = self.solve(plan, traced, defer_guards, allow_constants)
            signature = sign(traced)
            constants = self.finish_graph(traced, signature)
            if isinstance(self.mod, GraphModule) and "custom" in self.mod.meta:
                traced.module.meta["custom"] = self.mod.meta["custom"]
            if self.is_strict:
                effects.note_dims(traced.module, plan)
        entry = ModuleCallSignature(
            [], [], self.inputs.structure, traced.out_structure, list(self.inputs.forward_names)
        )
        return ExportedProgram(
            root=traced.module,
            graph=traced.module.graph,
            graph_signature=signature,
            state_dict=self.state_dict,
            range_constraints=ranges,
            module_call_graph=call_graph(self.mod, entry, kept_calls(traced, unused)),
            example_inputs=(self.inputs.args, self.inputs.kwargs),
            constants=constants,
            verifiers=[Verifier if self.functional else TrainingIRVerifier],
        )

    def fakes(self, dynamic_shapes: Any) -> tuple[Any, list[Any]]:
        """The plan of the sizes that may vary, and the leaves as fakes."""
        from rushlight.export import shapes

        inputs = self.inputs
        plan = shapes.process(self.mod, inputs.args, inputs.kwargs, dynamic_shapes)
        fake_args, fake_kwargs = plan.fakify(self.mode, inputs.args, inputs.kwargs)
        return plan, pytree.tree_leaves((fake_args, fake_kwargs))

    def finish_graph(self, traced: Traced, signature: ExportGraphSignature) -> dict[str, Any]:
        """Lift and name; the constants by name."""
        from rushlight.export import strict as effects

        module = traced.module
        if self.pre_dispatch:
            make_regions(module)
        constants = lift_constants_pass(module, signature, self.constants)
        for name in self.held.left_out & set(self.held.buffers):
            constants[name] = self.held.buffers[name]
        order_captured(module, names_of_inputs(module, signature))
        if self.is_strict:
            effects.drop_unused(module, signature)
            effects.describe_inputs(module, signature)
        name_nodes(module, signature, self.inputs.names)
        return constants

    def solve(
        self, plan: Any, traced: Traced, defer_guards: bool, allow_constants: bool
    ) -> dict[Any, Any]:
        """The ranges of symbols. What they rely on beyond dims is asserted in the graph."""
        env = self.mode.shape_env
        if env is None:
            return {}
        found = plan.solve(env, keep_conditions=defer_guards, allow_constants=allow_constants)
        if self.is_strict:
            traced.module.meta["input_shape_constraints"] = plan.described()
        if not config.do_not_emit_runtime_asserts:
            insert_deferred_runtime_asserts(
                traced.module, env, "forward", export=True, conditions=found.conditions
            )
        return {**found.ranges, **ranges_of_data(traced.module, env)}


def names_of_inputs(module: GraphModule, signature: ExportGraphSignature) -> dict[Node, str]:
    """What lifted inputs are called in the module."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    return {
        node: spec.target
        for node, spec in zip(placeholders, signature.input_specs, strict=True)
        if spec.target is not None
    }


def ranges_of_data(module: GraphModule, env: Any) -> dict[Any, Any]:
    """The ranges of numbers that only values tell."""
    found = {}
    for member in module.modules():
        for node in member.graph.nodes if isinstance(member, GraphModule) else ():
            for symbol in node.meta.get("unbacked_bindings") or ():
                found[symbol] = env.var_to_range[symbol]
    return found


@contextmanager
def as_export(mode: FakeTensorMode) -> Iterator[None]:
    """Inside, a mode that was found takes real tensors, and has symbols for data."""
    before = mode.allow_non_fake_inputs, mode.export
    mode.allow_non_fake_inputs = mode.export = True
    if mode.shape_env is None:
        mode.shape_env = shape_environment(required=False)
    try:
        yield
    finally:
        mode.allow_non_fake_inputs, mode.export = before


def fake_mode_for(values: Sequence[Any]) -> FakeTensorMode:
    """The mode that fakes among the values belong to, or a new one."""
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
    env = shape_environment(
        required=False, duck_shape=False, assume_static_by_default=True, refuse_open_sizes=True
    )
    return FakeTensorMode(shape_env=env, static_shapes=False)


def original_state(mod: Module) -> dict[str, Any]:
    """Parameters and persistent buffers under all of their names, in the order of state dicts: the
    tensors themselves. What hooks make of a state dict is not their names."""
    found = {}
    for path, member in mod.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        left_out = member._non_persistent_buffers_set
        kept = {name: value for name, value in member._buffers.items() if name not in left_out}
        for name, value in (*member._parameters.items(), *kept.items()):
            if value is not None:
                found[prefix + name] = value
    return found


def known_constants(mod: Module, held: Held) -> ConstantNames:
    """The names of all tensors that a module has."""
    found = ConstantNames()
    for name, value in {**held.parameters, **held.buffers}.items():
        found.add(value, name)
    for value, names in constant_attributes(mod).values():
        if value not in found:
            for name in names:
                found.add(value, name)
    return found


def call_graph(
    mod: Module, signature: ModuleCallSignature, kept: dict[str, ModuleCallSignature]
) -> list[ModuleCallEntry]:
    """An entry for every module; the root's, and those that are kept, say how it is called. Further
    calls of these have entries of their own."""
    found = [
        ModuleCallEntry(path, kept.get(path) if path else signature)
        for path, _ in mod.named_modules(remove_duplicate=False)
    ]
    return found + [ModuleCallEntry(path, kept[path]) for path in kept if "@" in path]


def unused_values(traced: Traced) -> set[Node]:
    """What modules take or give and a trace has left out, for nothing uses it."""
    alive = set(traced.module.graph.nodes)
    return {
        value
        for record in traced.calls.values()
        for value in (*record.inputs, *record.outputs)
        if isinstance(value, Node) and value not in alive
    }


def kept_calls(traced: Traced, unused: set[Node]) -> dict[str, ModuleCallSignature]:
    """How modules are called, in terms of the nodes that a graph has in the end. In place of what
    nothing uses there is None."""
    alive = set(traced.module.graph.nodes)

    def argument(value: Any) -> Any:
        if not isinstance(value, Node) or value in unused:
            return ConstantArgument("", None if isinstance(value, Node) else value)
        return argument_for(value, value.meta.get("val")) if value in alive else None

    found = {}
    for path, record in traced.calls.items():
        inputs = [argument(value) for value in record.inputs]
        outputs = [argument(value) for value in record.outputs]
        if None not in inputs and None not in outputs:
            found[path] = ModuleCallSignature(
                inputs, outputs, record.in_structure, record.out_structure
            )
    return found


# -- signatures ------------------------------------------------------------------------------------


def sign(traced: Traced) -> ExportGraphSignature:
    """What the inputs and outputs of a trace stand for."""
    graph, held = traced.module.graph, traced.held
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    specs = [
        InputSpec(InputKind.TOKEN, TokenArgument(node.name), None)
        for node in placeholders[: traced.tokens]
    ]
    rest = placeholders[traced.tokens :]
    names = held.names
    for node, name in zip(rest, names):
        arg = TensorArgument(node.name)
        if name in held.parameters:
            specs.append(InputSpec(InputKind.PARAMETER, arg, name))
        else:
            specs.append(InputSpec(InputKind.BUFFER, arg, name, name not in held.left_out))
    for node in rest[len(names) :]:
        value = node.meta.get("val")
        node.meta.setdefault("val", None)
        specs.append(InputSpec(InputKind.USER_INPUT, argument_for(node, value), None))
    outputs: Any = graph.output_node().args[0]
    return ExportGraphSignature(specs, output_specs(traced, rest, outputs))


def output_specs(
    traced: Traced, placeholders: Sequence[Node], outputs: Sequence[Any]
) -> list[OutputSpec]:
    held = traced.held
    names = held.names
    found = []
    for place, value in enumerate(outputs):
        arg = argument_for(value, value.meta.get("val") if isinstance(value, Node) else value)
        written = place - traced.tokens
        if written < 0:
            found.append(OutputSpec(OutputKind.TOKEN, TokenArgument(value.name), None))
        elif written >= len(traced.written):
            found.append(OutputSpec(OutputKind.USER_OUTPUT, arg, None))
        else:
            source = traced.written[written]
            if source >= len(names):
                target = placeholders[source].name
                found.append(OutputSpec(OutputKind.USER_INPUT_MUTATION, arg, target))
            elif names[source] in held.parameters:
                found.append(OutputSpec(OutputKind.PARAMETER_MUTATION, arg, names[source]))
            else:
                found.append(OutputSpec(OutputKind.BUFFER_MUTATION, arg, names[source]))
    return found


NUMBER_ARGUMENTS: tuple[tuple[type, Callable[[str], Any]], ...] = (
    (SymInt, SymIntArgument),
    (SymFloat, SymFloatArgument),
    (SymBool, SymBoolArgument),
)


def argument_for(node: Any, value: Any) -> Any:
    """What a spec says of a node, or of a value that is none."""
    name = node.name if isinstance(node, Node) else ""
    if isinstance(value, Tensor):
        return TensorArgument(name)
    for cls, argument in NUMBER_ARGUMENTS:
        if isinstance(value, cls):
            return argument(name)
    return ConstantArgument(name, value)
