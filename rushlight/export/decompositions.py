"""`run_decompositions`: a program over other operators, traced anew from its graph.

What nodes say of where they come from is kept, and so are the names of inputs. Ops that are
preserved stay whole although their bodies are known.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.aot.compilation import FlatFunction
from rushlight.aot.decompositions.tables import core_aten_decompositions
from rushlight.aot.joint import Tracing, trace_inference
from rushlight.aot.metadata import collect_facts
from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.functional import FunctionalMode, may_alias
from rushlight.core.op import OpOverload, Tag, find_overload
from rushlight.core.rng import default_generator
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor
from rushlight.export.lifting import ConstantNames, lift_constants_pass
from rushlight.export.naming import name_nodes
from rushlight.export.regions import SWITCHES, graph_modules
from rushlight.export.signature import InputKind, OutputKind, OutputSpec
from rushlight.export.tracing import (
    ProgramInterpreter,
    casting,
    exporting,
    node_for,
    without_bases,
)
from rushlight.export.verifier import Verifier
from rushlight.opset.registry import PACKETS, registered

if TYPE_CHECKING:
    from rushlight.export.program import ExportedProgram
    from rushlight.fx.graph_module import GraphModule
    from rushlight.graph.node import Node

__all__ = ["CustomDecompTable", "decompose_program", "default_decompositions"]

Decomposition = Callable[..., Any]
# Questions about a tensor, not computations.
QUERIES = frozenset(
    (
        "is_contiguous", "numel", "size", "stride", "storage_offset", "sym_is_contiguous",
        "sym_numel", "sym_size", "sym_storage_offset", "sym_stride",
    )
)  # fmt: skip


class CustomDecompTable(OrderedDict[Any, Decomposition]):
    """A table of decompositions that knows what was taken out of it, where composites stay whole,
    and what was put in, where composites follow the rule in place of their own body."""

    def __init__(self, entries: Any = ()) -> None:
        super().__init__()
        self.removed: dict[Any, None] = {}
        self.added: dict[Any, None] = {}
        for key, value in dict(entries).items():
            super().__setitem__(key, value)

    def __setitem__(self, key: Any, value: Decomposition) -> None:
        super().__setitem__(key, value)
        getattr(self, "removed", {}).pop(key, None)
        getattr(self, "added", {})[key] = None

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self.removed[key] = None

    def pop(self, key: Any, *default: Any) -> Any:
        if key in self:
            self.removed[key] = None
            value = self[key]
            super().__delitem__(key)
            return value
        return super().pop(key, *default)

    def copy(self) -> CustomDecompTable:
        made = CustomDecompTable(self)
        made.removed, made.added = dict(self.removed), dict(self.added)
        return made

    def materialize(self) -> dict[Any, Decomposition]:
        return dict(self)


def default_decompositions() -> CustomDecompTable:
    """The table that `run_decompositions()` uses: to core aten.

    >>> import rushlight as torch
    >>> table = torch.export.default_decompositions()
    >>> del table[torch.ops.aten.linear.default]
    >>> program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> print(program.run_decompositions(table).graph_module.code.strip())  # doctest: +ELLIPSIS
    def forward(self, p_weight, p_bias, input):
        linear = torch.ops.aten.linear.default(input, p_weight, p_bias);  ...
        return (linear,)
    """
    return CustomDecompTable({**composites_of_users(), **core_aten_decompositions()})


def composites_of_users() -> dict[Any, Decomposition]:
    """The functional ops of other namespaces that have a body, which is their decomposition."""
    return {
        op: op.decompose
        for namespace in list(PACKETS)
        if namespace not in ("aten", "prims")
        for op in registered(namespace)
        if op.composite_body() is not None and not may_alias(op) and not op.mutated_positions
    }


def decompose_program(
    program: ExportedProgram,
    table: dict[Any, Decomposition] | None,
    preserved: Sequence[OpOverload] = (),
) -> ExportedProgram:
    """A program that does the same with what a table of decompositions leads to."""
    for op in preserved:
        check_preserved(op)
    is_training = program.dialect == "TRAINING"
    if table is None:
        # torch: from the dialect that writes, the first step is that to functions.
        table = {} if is_training else default_decompositions()
    kept = set(preserved)
    if isinstance(table, CustomDecompTable):
        kept |= {op for op in table.removed if isinstance(op, OpOverload) and is_whole(op)}
    rules = {op: rule for op, rule in table.items() if op not in kept}
    given = table.added if isinstance(table, CustomDecompTable) else table
    # Composites with a rule of the user's reach it whole.
    kept |= {op for op in given if op in rules and isinstance(op, OpOverload) and is_whole(op)}
    return Decomposing(program, rules, frozenset(kept)).run()


def is_whole(op: OpOverload) -> bool:
    return op.composite_body() is not None and not may_alias(op)


def check_preserved(op: OpOverload) -> None:
    """Refuse ops that cannot be kept whole."""
    # torch: the texts.
    if op.base_name in QUERIES:
        raise RuntimeError(f"{op} is a metadata query function, we don't support preserving it")
    if Tag.maybe_aliasing_or_mutating in op.tags or op.base_name in MAYBE_ALIASING:
        raise RuntimeError(
            f"We can't detect {op} as a functional op statically, so we can't preserve it"
        )
    schema = op._schema
    marks = [entry.alias_info for entry in schema.arguments]
    marks += [entry.alias_info for entry in schema.returns]
    if schema.is_mutable or any([mark is not None for mark in marks]):
        raise RuntimeError(f"{op} is a mutating/aliasing op, we can't preserve it as is")
    if op.composite_body() is None:
        raise RuntimeError(
            f"{op} is not CompositeImplicitAutograd op, so we will preserve it as long as "
            "there is no python decomposition"
        )


MAYBE_ALIASING = frozenset(
    (
        "alpha_dropout", "atleast_1d", "atleast_2d", "atleast_3d", "batch_norm", "chalf",
        "cudnn_batch_norm", "dropout", "feature_alpha_dropout", "feature_dropout",
        "instance_norm", "miopen_batch_norm", "native_batch_norm", "rrelu", "to", "type_as",
    )
)  # fmt: skip


class DecomposingMode(FunctionalMode):
    """Functionalization of programs, whose constants are inputs: what copies one copies a value."""

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.base_name == "lift_fresh_copy":
            return super().process(find_overload("aten", "clone", "default"), (args[0], None))
        return super().process(op, args)


class KeepingMode(DecomposingMode):
    """The same above autograd: composites are taken apart, but for some; autocast casts here."""

    def __init__(self, kept: Iterable[OpOverload]) -> None:
        super().__init__(pre_dispatch=True)
        self.kept = frozenset(kept)

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        with casting(op, args) as args:
            return super().process(op, args)

    def takes_apart(self, op: OpOverload) -> bool:
        return op not in self.kept


def without_switches(module: GraphModule) -> GraphModule:
    """A graph that says nothing of modes: casts are written out, and gradients are its caller's."""
    for member in graph_modules(module):
        switches = [node for node in member.graph.nodes if node.target in SWITCHES]
        for node in reversed(switches):
            member.graph.erase_node(node)
        if switches:
            member.recompile()
    return module


class NotingInterpreter(ProgramInterpreter):
    """Knows which nodes of the graph that is recorded stand for some nodes of the one it runs."""

    def __init__(self, module: Any, wanted: set[str]) -> None:
        super().__init__(module)
        self.wanted = wanted
        self.found: dict[str, Any] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        state = LOCAL.state
        is_recorded = state.pre_proxy is not None or state.proxy is not None
        if n.name in self.wanted and is_recorded:
            self.found[n.name] = node_for(result)
        return result


class Decomposing:
    """One run of a program through a table."""

    def __init__(
        self,
        program: ExportedProgram,
        rules: dict[Any, Decomposition],
        kept: frozenset[OpOverload],
    ) -> None:
        self.program = program
        self.rules = rules
        self.kept = kept
        self.source = program.graph_module
        self.placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
        self.mode = self.fake_mode()
        # Names of nodes that signatures of calls mention -> the nodes for them in the new graph.
        self.wanted = {
            arg.name
            for entry in program.module_call_graph[1:]
            if entry.signature is not None
            for arg in (*entry.signature.inputs, *entry.signature.outputs)
        }
        self.found: dict[str, Any] = {}

    def fake_mode(self) -> FakeTensorMode:
        for node in self.placeholders:
            value = node.meta.get("val")
            if isinstance(value, FakeTensor):
                return value.fake_mode
        for node in self.program.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, FakeTensor):
                return value.fake_mode
        return FakeTensorMode(allow_non_fake_inputs=True, export=True)

    def run(self) -> ExportedProgram:
        signature = copy.deepcopy(self.program.graph_signature)
        module, written, tokens = self.trace()
        outputs: Any = module.graph.output_node().args[0]
        added = self.written_specs(module, written, outputs[tokens : tokens + len(written)])
        signature.output_specs[tokens:tokens] = added
        self.copy_specs(module, signature)
        found = lift_constants_pass(module, signature, ConstantNames())
        names = [
            node.name
            for node, spec in zip(self.placeholders, self.program.graph_signature.input_specs)
            if spec.kind is InputKind.USER_INPUT
        ]
        name_nodes(module, signature, names)
        module.meta.update(self.source.meta)
        self.program = self.with_calls(module)
        made = self.program._update(
            module,
            signature,
            constants={**self.program.constants, **found},
            verifiers=[Verifier],
        )
        self.add_ranges(made)
        return made

    def with_calls(self, module: GraphModule) -> ExportedProgram:
        """The program with signatures of calls that name the new graph's nodes; those whose nodes
        are gone are not kept."""
        alive = {node.name: node for node in module.graph.nodes}
        entries = copy.deepcopy(self.program.module_call_graph)
        for entry in entries[1:]:
            if entry.signature is None:
                continue
            for arg in (*entry.signature.inputs, *entry.signature.outputs):
                node = self.found.get(arg.name)
                if arg.name and (node is None or alive.get(node.name) is not node):
                    entry.signature = None
                    break
                if arg.name and node is not None:
                    arg.name = node.name
        made = copy.copy(self.program)
        made._module_call_graph = entries
        return made

    def inputs(self) -> list[Any]:
        """Fakes of a trace: fresh ones with the geometry that the program's inputs have."""
        return [fresh_fake(node.meta.get("val")) for node in self.placeholders]

    def trace(self) -> tuple[GraphModule, list[int], int]:
        from rushlight.export.driver import as_export

        given = self.inputs()
        flat = FlatFunction(self.interpret, pytree.tree_structure((tuple(given), {})))
        above = bool(self.kept)
        make_mode = (lambda: KeepingMode(self.kept)) if above else DecomposingMode
        tracing = Tracing(self.mode, self.rules, above, self.describe, make_mode)
        random_state = default_generator.snapshot()
        with exporting(), changed(grad=False, fake=None), as_export(self.mode):
            try:
                with self.mode:
                    facts = collect_facts(flat, given, False, above, make_mode)
                default_generator.restore(random_state)
                module = trace_inference(flat, given, facts, tracing)
            finally:
                default_generator.restore(random_state)
        if any([entry.writes_geometry for entry in facts.inputs]):
            raise error("RL1502")
        module = without_switches(without_bases(module, facts))
        return module, facts.returned_inputs, len(facts.tokens)

    def interpret(self, *args: Any) -> Any:
        interpreter = NotingInterpreter(self.source, self.wanted)
        result = interpreter.run(*args, enable_io_processing=False)
        self.found = interpreter.found
        return result

    def describe(self, node: Node) -> None:
        """Nodes inherit what the node being run says."""

    def written_specs(
        self, module: GraphModule, written: Sequence[int], outputs: Sequence[Any]
    ) -> list[OutputSpec]:
        """Specs for what a program that writes in place is found to write."""
        from rushlight.export.driver import argument_for

        specs = self.program.graph_signature.input_specs
        kinds = {
            InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
            InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
            InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
        }
        found = []
        for place, value in zip(written, outputs, strict=True):
            spec = specs[place]
            if spec.kind not in kinds:
                raise error("RL1503", name=spec.target)
            is_input = spec.kind is InputKind.USER_INPUT
            target = spec.arg.name if is_input else spec.target
            arg = argument_for(value, value.meta.get("val"))
            found.append(OutputSpec(kinds[spec.kind], arg, target))
        return found

    def copy_specs(self, module: GraphModule, signature: Any) -> None:
        """Let new inputs say what the old ones said, and specs name the new nodes."""
        from rushlight.export.driver import argument_for

        fresh = [node for node in module.graph.nodes if node.op == "placeholder"]
        renamed = {}
        for old, new, spec in zip(self.placeholders, fresh, signature.input_specs, strict=True):
            new.meta = copy.copy(old.meta)
            renamed[spec.arg.name] = spec.arg.name = new.name
        outputs: Any = module.graph.output_node().args[0]
        for value, spec in zip(outputs, signature.output_specs, strict=True):
            held = value.meta.get("val") if hasattr(value, "meta") else value
            if spec.kind is not OutputKind.TOKEN:
                spec.arg = argument_for(value, held)
        for old, new in zip(self.placeholders, fresh, strict=True):
            for spec in signature.output_specs:
                if spec.kind is OutputKind.USER_INPUT_MUTATION and spec.target == old.name:
                    spec.target = new.name

    def add_ranges(self, made: ExportedProgram) -> None:
        from rushlight.export.driver import ranges_of_data

        env = self.mode.shape_env
        if env is not None:
            made.range_constraints.update(ranges_of_data(made.graph_module, env))


def fresh_fake(value: Any) -> Any:
    """A fake of its own with the same geometry."""
    if not isinstance(value, Tensor):
        return value
    made = copy.deepcopy(value)
    return made.requires_grad_(value.requires_grad) if value.requires_grad else made
