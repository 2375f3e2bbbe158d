"""`ExportedProgram`: a graph without state, the state, and what its inputs and outputs mean.

Invariants: the graph is checked by the program's verifiers whenever a program is made; tensors of
`state_dict` and `constants` are the exported module's own.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.base.pytree import TreeSpec
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.export.signature import ExportGraphSignature, InputKind, ModuleCallEntry
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.graph.printing import CodeGen
from rushlight.nn.module import Module

if TYPE_CHECKING:
    from rushlight.core.op import OpOverload

__all__ = ["CallSpec", "ExportedProgram"]


class CallSpec(NamedTuple):
    """The structures of a call's arguments, (args, kwargs), and of its result."""

    in_spec: TreeSpec | None
    out_spec: TreeSpec | None


class ExportedProgram:
    """What `export` returns. `module()` gives a callable module.

    >>> import rushlight as torch
    >>> class Scale(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> program = torch.export.export(Scale(), (torch.ones(2),))
    >>> print(program.graph_module.code.strip())
    def forward(self, x):
        mul = torch.ops.aten.mul.Tensor(x, 2);  x = None
        return (mul,)
    >>> program.module()(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(
        self,
        root: Module | dict[str, Any],
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        range_constraints: dict[Any, Any],
        module_call_graph: list[ModuleCallEntry],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        constants: dict[str, Any] | None = None,
        *,
        verifiers: list[Any] | None = None,
    ) -> None:
        from rushlight.export.verifier import Verifier

        # The program's graph takes flat inputs, whatever the graph it comes from did.
        graph._codegen = CodeGen()
        self._graph_module = GraphModule(root, graph)
        if isinstance(root, GraphModule):
            self._graph_module.meta.update(root.meta)
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = range_constraints
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = constants or {}
        self._verifiers: list[Any] = list(verifiers or [Verifier])
        join_parts(self._graph_module, self.named_arguments())
        self.validate()

    def named_arguments(self) -> Iterator[Any]:
        """Everything in signatures that names a node."""
        signature = self._graph_signature
        yield from [spec.arg for spec in signature.input_specs]
        yield from [spec.arg for spec in signature.output_specs]
        for entry in self._module_call_graph:
            if entry.signature is not None:
                yield from (*entry.signature.inputs, *entry.signature.outputs)

    # -- what it holds -----------------------------------------------------------------------------

    @property
    def graph_module(self) -> GraphModule:
        return self._graph_module

    @property
    def graph(self) -> Graph:
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Tensors and objects that are neither parameters nor persistent buffers."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Any]:
        return self._constants

    @property
    def range_constraints(self) -> dict[Any, Any]:
        """Symbol, or expression of symbols -> the range of values that the program takes."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        return self._module_call_graph

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        is_pair = isinstance(value, tuple) and len(value) == 2
        if value is not None and not (
            is_pair and isinstance(value[0], tuple) and isinstance(value[1], dict)
        ):
            raise ValueError(
                "Example inputs should be a tuple containing example arguments (as a tuple), and "
                f"example kwargs (as a dictionary); got {value!r}"
            )
        if value is not None:
            self.check_example(*value)
        self._example_inputs = value

    def check_example(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise ValueError unless the program can be called so."""
        from rushlight.export.checks import flatten_call

        in_spec = self.call_spec.in_spec
        if in_spec is None:
            return
        expected = list(in_spec.child(1).context or ()) if in_spec.num_children == 2 else []
        if set(kwargs) != set(expected):
            raise ValueError(
                f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but "
                f"expected {expected}"
            )
        flatten_call(in_spec, args, kwargs)

    @property
    def call_spec(self) -> CallSpec:
        signature = self._module_call_graph[0].signature if self._module_call_graph else None
        if signature is None:
            return CallSpec(None, None)
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def verifier(self) -> Any:
        return self._verifiers[0]

    @property
    def verifiers(self) -> list[Any]:
        return self._verifiers

    @property
    def dialect(self) -> str:
        dialect: str = self.verifier.dialect
        return dialect

    def parameters(self) -> Iterator[Parameter]:
        for _, value in self.named_parameters():
            yield value

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        for name in self._graph_signature.parameters:
            yield name, self._state_dict[name]

    def buffers(self) -> Iterator[Tensor]:
        for _, value in self.named_buffers():
            yield value

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        left_out = set(self._graph_signature.non_persistent_buffers)
        for name in self._graph_signature.buffers:
            yield name, (self._constants if name in left_out else self._state_dict)[name]

    def _num_lifted_params_buffers(self) -> int:
        specs = self._graph_signature.input_specs
        return sum([spec.kind is not InputKind.USER_INPUT for spec in specs])

    # -- what it does ------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module with this program's state that runs its graph and checks its inputs."""
        from rushlight.export.unlift import unlift_program

        return unlift_program(self, check_guards)

    def run_decompositions(
        self,
        decomp_table: dict[OpOverload, Callable[..., Any]] | None = None,
        decompose_custom_triton_ops: bool = False,
        *,
        _preserve_ops: Sequence[OpOverload] = (),
    ) -> ExportedProgram:
        """The same program over other operators: those of core aten, unless `decomp_table` says
        otherwise."""
        from rushlight.export.decompositions import decompose_program

        return decompose_program(self, decomp_table, tuple(_preserve_ops))

    def validate(self) -> None:
        """Check the graph and what is said of it."""
        self._validate()

    def _validate(self) -> None:
        for verifier in self._verifiers:
            verifier().check(self)

    def _get_flat_args_with_check(
        self, args: tuple[Any, ...], kwargs: dict[str, Any] | None
    ) -> tuple[list[Any], TreeSpec]:
        from rushlight.export.checks import flatten_call

        in_spec = self.call_spec.in_spec
        assert in_spec is not None
        leaves, received = flatten_call(in_spec, args, kwargs or {})
        return [leaf for _, leaf in leaves], received

    def _graph_module_flat_inputs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any] | None
    ) -> tuple[Any, ...]:
        """All inputs of the graph: the state, and the leaves of a call's arguments."""
        flat, _ = self._get_flat_args_with_check(args, kwargs)
        given = iter(flat)
        values = []
        for spec in self._graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                values.append(next(given))
            elif spec.kind is InputKind.TOKEN:
                values.append(Tensor())
            else:
                values.append(self._value_of(spec.target))
        return tuple(values)

    def _value_of(self, target: str | None) -> Any:
        assert target is not None
        held = self._state_dict if target in self._state_dict else self._constants
        return held[target]

    def _check_input_constraints(self, flat_args_with_path: Sequence[Any]) -> None:
        from rushlight.export.checks import check_inputs

        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        users = placeholders[self._num_lifted_params_buffers() :]
        check_inputs(users, flat_args_with_path, self._range_constraints)

    def _update(
        self,
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature,
        *,
        state_dict: dict[str, Any] | None = None,
        constants: dict[str, Any] | None = None,
        verifiers: list[Any] | None = None,
    ) -> ExportedProgram:
        """A program with another graph that means the same."""
        return ExportedProgram(
            root=graph_module,
            graph=graph_module.graph,
            graph_signature=graph_signature,
            state_dict=self._state_dict if state_dict is None else state_dict,
            range_constraints=copy.copy(self._range_constraints),
            module_call_graph=copy.deepcopy(self._module_call_graph),
            example_inputs=self._example_inputs,
            constants=self._constants if constants is None else constants,
            verifiers=self._verifiers if verifiers is None else verifiers,
        )

    def _transform_do_not_use(self, *passes: Callable[[GraphModule], Any]) -> ExportedProgram:
        """The program after passes over its graph, which keep its inputs and outputs in place."""
        from rushlight.fx.passes.infra.pass_manager import PassManager

        found = PassManager(list(passes))(self._graph_module)
        if not found.modified:
            return self
        signature = copy.deepcopy(self._graph_signature)
        rename_specs(signature, found.graph_module)
        return self._update(found.graph_module, signature)

    def __str__(self) -> str:
        text = self._graph_module.print_readable(print_output=False, colored=False)
        body = text.replace("\n", "\n    ")
        signature = str(self._graph_signature).replace("\n", "\n    ")
        return (
            f"ExportedProgram:\n    {body}\nGraph signature: {signature}\n"
            f"Range constraints: {self._range_constraints}\n"
        )


def rename_specs(signature: ExportGraphSignature, module: GraphModule) -> None:
    """Let the specs name the nodes that stand in their places."""
    nodes: Iterable[Any] = module.graph.nodes
    placeholders = [node for node in nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        old = spec.arg.name
        spec.arg.name = node.name
        for output in signature.output_specs:
            if output.target == old:
                output.target = node.name
    outputs = module.graph.output_node().args[0]
    for value, output in zip(outputs, signature.output_specs, strict=True):
        if hasattr(value, "name"):
            output.arg.name = value.name


def join_parts(module: GraphModule, names: Iterable[Any]) -> None:
    """Let each part of a result be taken by one node; what had the name of another has its name."""
    first: dict[tuple[Node, Any], Node] = {}
    renamed: dict[str, str] = {}
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target is not operator.getitem:
            continue
        owner, key = node.args
        if isinstance(owner, Node) and isinstance(key, int):
            kept = first.setdefault((owner, key), node)
            if kept is not node:
                node.replace_all_uses_with(kept)
                module.graph.erase_node(node)
                renamed[node.name] = kept.name
    if renamed:
        module.recompile()
        for argument in names:
            argument.name = renamed.get(argument.name, argument.name)
