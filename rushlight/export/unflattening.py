"""`unflatten`: a program as the tree of modules that it was traced from.

Nodes belong to the module whose call made them, which their `nn_module_stack` says; each call is a
graph of its own. Values that cross a border are arguments and results. Calls of a module whose
graphs are alike are calls of one module.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rushlight.base.pytree import TreeSpec, tree_unflatten
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.export.checks import InputCheck
from rushlight.export.origins import ROOT_KEY
from rushlight.export.signature import InputKind, OutputKind
from rushlight.export.state import OWN
from rushlight.export.unlift import WRITES, codegen_of, place, write
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node, map_arg
from rushlight.graph.printing import _PyTreeCodeGen, _PyTreeInfo
from rushlight.graph.specs import tree_flatten_spec
from rushlight.nn.module import Module
from rushlight.symbolic.numbers import NUMBERS

if TYPE_CHECKING:
    from rushlight.export.program import ExportedProgram

__all__ = [
    "FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule",
    "unflatten",
]  # fmt: skip


class FlatArgsAdapter:
    """Lets an unflattened module take arguments of another structure."""

    def adapt(
        self,
        target_spec: TreeSpec,
        input_spec: TreeSpec,
        input_args: list[Any],
        metadata: dict[str, Any] | None = None,
        obj: Any = None,
    ) -> list[Any]:
        """The leaves in the order of `target_spec`."""
        raise NotImplementedError


class TreeCheck(InputCheck):
    """The check of a call of a tree's root."""

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return super().__call__(module, args, kwargs)
        except ValueError as error:
            # torch: the class, and the word.
            raise TypeError(
                "There is no flat args adapter sepcified. Are you sure you are calling this with "
                f"the right arguments? {error}"
            ) from error


class InterpreterModule(GraphModule):
    """A module of the tree, with the graph of its calls."""

    def __init__(self, name: str = "InterpreterModule") -> None:
        empty = Graph()
        empty.output(())
        super().__init__(Module(), empty, name)

    def recompile_children(self) -> None:
        """Modules of the tree are graphs of their own: each is given its graph by itself."""


class InterpreterModuleDispatcher(Module):
    """A module whose calls have different graphs: one call after another."""

    def __init__(self, members: Module, calls: list[Module]) -> None:
        super().__init__()
        # State and modules are those of the first call; all calls share them.
        vars(self).update({name: value for name, value in vars(members).items() if name in OWN})
        # In a tuple, so that they are no modules of this one.
        self.calls = tuple(calls)
        self.next = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        chosen = self.calls[self.next]
        self.next = (self.next + 1) % len(self.calls)
        return chosen(*args, **kwargs)

    def call_modules(self) -> list[Module]:
        """The module of each call."""
        return list(self.calls)


class UnflattenedModule(InterpreterModule):
    """The root of the tree."""

    def __init__(
        self, program: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
    ) -> None:
        super().__init__("UnflattenedModule")
        self.module_call_graph = copy.deepcopy(program.module_call_graph)
        self.flat_args_adapter = flat_args_adapter
        self.dispatchers: list[InterpreterModuleDispatcher] = []
        Builder(reading_state(program), self).build()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.flat_args_adapter is not None:
            args, kwargs = self.adapted(args, kwargs)
        for dispatcher in self.dispatchers:
            dispatcher.next = 0
        return super().__call__(*args, **kwargs)

    def adapted(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        from rushlight.base import pytree

        leaves, found = pytree.tree_flatten((args, kwargs))
        wanted = self._in_spec
        if found == wanted or self.flat_args_adapter is None:
            return args, kwargs
        leaves = self.flat_args_adapter.adapt(wanted, found, leaves)
        args, kwargs = pytree.tree_unflatten(leaves, wanted)
        return args, kwargs


def unflatten(
    module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
) -> UnflattenedModule:
    """The modules of a program, each with its part of the graph.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    >>> tree = unflatten(torch.export.export(model, (torch.ones(1, 2),)))
    >>> [name for name, _ in tree.named_children()]
    ['0', '1']
    >>> tree(torch.ones(1, 2)).shape
    torch.Size([1, 2])
    """
    return UnflattenedModule(module, flat_args_adapter)


def reading_state(program: ExportedProgram) -> ExportedProgram:
    """The program with the state itself where it uses what a write to it returns: modules of the
    tree read it from where it is, and calls give it to nobody."""
    source = program.graph
    kinds = (InputKind.PARAMETER, InputKind.BUFFER)
    specs = program.graph_signature.input_specs
    state = {spec.arg.name for spec in specs if spec.kind in kinds}
    graph = Graph()
    values: dict[Node, Node] = {}
    is_written = False
    for node in source.nodes:
        values[node] = copy_node(graph, node, values)
        if gives_what_it_writes(node):
            target: Any = values[node].args[0]
            if target.name in state:
                values[node] = target
                is_written = True
    if not is_written:
        return program
    made = copy.copy(program)
    made._graph_module = GraphModule(program.graph_module, graph)
    return made


def gives_what_it_writes(node: Node) -> bool:
    """Whether a node writes its first argument, and gives that."""
    if not isinstance(node.target, OpOverload) or node.target.mutated_positions != (0,):
        return False
    returns = node.target._schema.returns
    mark = returns[0].alias_info if returns else None
    return mark is not None and mark.is_write and isinstance(node.args[0], Node)


class Frame:
    """One call of a module: its nodes, and calls of others among them."""

    def __init__(self, path: str, key: str, depth: int, outer: Frame | None) -> None:
        self.path = path
        self.key = key
        self.depth = depth
        self.outer = outer
        self.parts: list[Node | Frame] = []
        self.nodes: set[Node] = set()
        self.inputs: list[Node] | None = None
        self.outputs: list[Node] | None = None

    def holds(self, node: Node) -> bool:
        return node in self.nodes

    def add(self, node: Node) -> None:
        frame: Frame | None = self
        self.parts.append(node)
        while frame is not None:
            frame.nodes.add(node)
            frame = frame.outer


def frames_of(graph: Graph) -> Frame:
    """The calls that a graph's nodes were made in."""
    root = Frame("", "", 0, None)
    current = root
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        stack = node.meta.get("nn_module_stack")
        if stack:
            current = enter(current, list(stack.items())[1:])
        current.add(node)
    return root


def enter(current: Frame, stack: Sequence[tuple[str, Any]]) -> Frame:
    """The frame of a stack: calls that are in both go on, others end and begin."""
    open_frames: list[Frame] = []
    frame: Frame | None = current
    while frame is not None:
        open_frames.append(frame)
        frame = frame.outer
    open_frames.reverse()
    common = 0
    for (key, _), known in zip(stack, open_frames[1:]):
        if known.key != key:
            break
        common += 1
    found = open_frames[common]
    for key, (path, *_rest) in stack[common:]:
        made = Frame(path.partition("@")[0], key, found.depth + 1, found)
        found.parts.append(made)
        found = made
    return found


def frames_in(frame: Frame) -> Iterator[Frame]:
    """All calls in a call."""
    for part in frame.parts:
        if isinstance(part, Frame):
            yield part
            yield from frames_in(part)


class Builder:
    """Makes the tree of a program."""

    def __init__(self, program: ExportedProgram, root: UnflattenedModule) -> None:
        self.program = program
        self.root = root
        self.signature = program.graph_signature
        self.placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
        # Placeholder -> the names of the state that it stands for.
        self.state: dict[Node, list[str]] = {}
        self.users: list[Node] = []
        # Path of a module -> the modules made for calls of it, with the texts of their graphs.
        self.made: dict[str, list[tuple[str, str]]] = {}
        # Value that is written -> the names of the buffers that take it.
        self.writes: dict[Node, list[str]] = {}
        # Path of a module -> how it was called, where that is to be kept.
        self.kept = {
            entry.fqn: entry.signature
            for entry in program.module_call_graph
            if entry.fqn and entry.signature is not None
        }
        self.by_name = {node.name: node for node in program.graph.nodes}
        self.order = {node: place for place, node in enumerate(program.graph.nodes)}
        # Path of a module whose way of being called is kept -> the modules for its calls.
        self.calls: dict[str, list[str]] = {}
        self.all_kept: dict[str, bool] = {}
        self.frames: dict[str, list[Frame]] = {}

    def build(self) -> None:
        self.place_modules()
        self.place_state()
        frame = frames_of(self.program.graph)
        for inner in frames_in(frame):
            self.frames.setdefault(inner.path, []).append(inner)
        self.collect_writes()
        graph = self.build_root(frame)
        self.root.graph = graph
        self.place_dispatchers()
        self.join_shared()
        hook = TreeCheck(self.users, self.program.range_constraints)
        if self.root.flat_args_adapter is None:
            self.root.register_forward_pre_hook(hook, with_kwargs=True)

    def place_modules(self) -> None:
        """All modules of the original, in its order; those without a graph stay empty."""
        used: dict[str, None] = {}
        for node in self.program.graph.nodes:
            for path, *_rest in (node.meta.get("nn_module_stack") or {}).values():
                parts = path.partition("@")[0].split(".")
                used |= {".".join(parts[: length + 1]): None for length in range(len(parts))}
        held = {
            name.rpartition(".")[0] for name in (*self.program.state_dict, *self.program.constants)
        }
        for entry in self.program.module_call_graph:
            path = entry.fqn
            if (
                path
                and "@" not in path
                and (path in used or any([is_in(name, path) for name in held]))
            ):
                put_module(self.root, path, InterpreterModule())
        # A program of a program's module calls modules that this one has no more.
        known = dict(self.root.named_modules())
        for path in used:
            if path not in known:
                put_module(self.root, path, InterpreterModule())

    def place_state(self) -> None:
        """State is copied once, whatever the number of its names."""
        program, signature = self.program, self.signature
        copies: dict[int, Any] = {}
        names: dict[int, list[str]] = {}
        left_out = set(signature.non_persistent_buffers)
        buffers = set(signature.buffers)
        parameters = set(signature.parameters)
        for table in (program.state_dict, program.constants):
            for name, value in table.items():
                names.setdefault(id(value), []).append(name)
                if id(value) not in copies:
                    copies[id(value)] = copied(value)
                is_buffer = name in buffers or (
                    table is program.state_dict and name not in parameters
                )
                place(self.root, name, copies[id(value)], name not in left_out, is_buffer)
        for node, spec in zip(self.placeholders, signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                self.users.append(node)
            elif spec.target is not None:
                own = program._value_of(spec.target)
                others = [name for name in names[id(own)] if name != spec.target]
                self.state[node] = [spec.target, *others]
        for node in self.program.graph.nodes:
            if node.op == "get_attr":
                value = getattr(self.program.graph_module, str(node.target))
                setattr(self.root, str(node.target), value)

    def collect_writes(self) -> None:
        outputs: Any = self.program.graph.output_node().args[0]
        kinds = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
        for value, spec in zip(outputs, self.signature.output_specs, strict=True):
            if spec.kind in kinds:
                self.writes.setdefault(value, []).append(str(spec.target))

    # -- graphs ------------------------------------------------------------------------------------

    def build_root(self, frame: Frame) -> Graph:
        graph = Graph()
        values: dict[Node, Node] = {}
        for node in self.users:
            values[node] = copy_node(graph, node, values)
        self.fill(graph, frame, values)
        outputs: Any = self.program.graph.output_node().args[0]
        results = []
        written: dict[Any, Any] = {}
        for value, spec in zip(outputs, self.signature.output_specs, strict=True):
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                target = next(node for node in self.users if node.name == spec.target)
                written[value] = write(
                    graph, values[target], self.value_in(graph, frame, value, values)
                )
            elif spec.kind in WRITES or spec.kind is OutputKind.TOKEN:
                self.write_late(graph, frame, value, str(spec.target), values)
            elif value in written:
                results.append(written[value])
            elif isinstance(value, Node):
                results.append(self.value_in(graph, frame, value, values))
            else:
                results.append(value)
        graph.output(tuple(results))
        graph.set_codegen(codegen_of(self.program, self.users))
        return graph

    def write_late(
        self, graph: Graph, frame: Frame, value: Any, target: str, values: dict[Node, Node]
    ) -> None:
        """Write state whose new value no module below has written: an input, or of elsewhere."""
        if not isinstance(value, Node) or target not in self.writes.get(value, ()):
            return
        self.writes[value].remove(target)
        held = self.state_node(graph, target, target)
        write(graph, held, self.value_in(graph, frame, value, values))

    def fill(self, graph: Graph, frame: Frame, values: dict[Node, Node]) -> None:
        """Copy the nodes of a frame into its graph; calls in it become calls of modules."""
        for part in frame.parts:
            if isinstance(part, Frame):
                self.call(graph, frame, part, values)
                continue
            for used in part.all_input_nodes:
                self.value_in(graph, frame, used, values)
            values[part] = copy_node(graph, part, values)
            if part.op == "get_attr" and frame.outer is not None:
                self.bring_graph(frame, part)
            self.write_here(graph, frame, part, values)

    def bring_graph(self, frame: Frame, node: Node) -> None:
        """A graph that an op in a module calls is the module's."""
        owner = self.root.get_submodule(frame.path)
        setattr(owner, str(node.target), getattr(self.program.graph_module, str(node.target)))

    def write_here(self, graph: Graph, frame: Frame, node: Node, values: dict[Node, Node]) -> None:
        """Write state below this frame's module that takes the value of a node of it."""
        for target in list(self.writes.get(node, ())):
            local = local_name([target], frame.path)
            if local is not None:
                self.writes[node].remove(target)
                write(graph, self.state_node(graph, local, target), values[node])

    def state_node(self, graph: Graph, local: str, target: str) -> Node:
        """A node that reads state, which says what it is like."""
        made = graph.create_node("get_attr", local)
        made.meta["val"] = self.program._value_of(target)
        return made

    def value_in(self, graph: Graph, frame: Frame, node: Node, values: dict[Node, Node]) -> Node:
        """A value as a frame's graph has it; state is read where the module has it."""
        if node not in values:
            local = local_name(self.state.get(node, []), frame.path)
            assert local is not None, f"{node} is not known in {frame.path!r}"
            with inserting_state(graph):
                values[node] = graph.create_node("get_attr", local)
                values[node].meta["val"] = node.meta.get("val")
        return values[node]

    def call(self, graph: Graph, frame: Frame, inner: Frame, values: dict[Node, Node]) -> None:
        """A call of a module: its graph, and the node that calls it."""
        inputs = self.inputs_of(inner)
        outputs = self.outputs_of(inner)
        if self.is_kept(inner.path):
            self.call_as_kept(graph, frame, inner, values)
            return
        body = Graph()
        known: dict[Node, Node] = {}
        for node in inputs:
            made = body.create_node("placeholder", node.name, name=node.name)
            made.meta = copy.copy(node.meta)
            known[node] = made
        self.fill(body, inner, known)
        results = [self.value_in(body, inner, node, known) for node in outputs]
        body.output(results[0] if len(results) == 1 else tuple(results))
        path = self.module_for(inner, body)
        local = path[len(frame.path) + 1 :] if frame.path else path
        args = tuple([self.value_in(graph, frame, node, values) for node in inputs])
        made = graph.create_node("call_module", local, args)
        facts = [node.meta.get("val") for node in outputs]
        made.meta["val"] = facts[0] if len(outputs) == 1 else tuple(facts)
        if len(outputs) == 1:
            values[outputs[0]] = made
            return
        for place_, node in enumerate(outputs):
            part = graph.create_node("call_function", operator.getitem, (made, place_))
            part.meta["val"] = facts[place_]
            values[node] = part

    def is_kept(self, path: str) -> bool:
        """Whether all calls of a module go by its original way of being called."""
        if path not in self.all_kept:
            self.all_kept[path] = path in self.kept and all(
                [
                    self.signature_of(frame) is not None
                    and self.sizes_beside(frame, self.inputs_of(frame)) is not None
                    and self.sizes_beside(frame, self.outputs_of(frame)) is not None
                    for frame in self.frames.get(path, ())
                ]
            )
        return self.all_kept[path]

    def signature_of(self, frame: Frame) -> Any:
        return self.kept.get(frame.key.removeprefix(ROOT_KEY))

    def sizes_beside(self, frame: Frame, values: Sequence[Node]) -> list[Node] | None:
        """What a call takes or gives beside its arguments and results, and is computed of its
        arguments: sizes. None where there is more than that."""
        kept = self.signature_of(frame)
        known = {self.by_name[arg.name] for arg in kept.inputs if arg.name}
        results = {arg.name for arg in kept.outputs}
        found: dict[Node, None] = {}

        def can_have(node: Node) -> bool:
            if node in known or node in found:
                return True
            is_size = isinstance(node.meta.get("val"), NUMBERS) and node.op == "call_function"
            if not is_size or not node.args or not all(map(can_have, node.all_input_nodes)):
                return False
            found[node] = None
            return True

        is_inside = bool(values) and frame.holds(values[0])
        wanted = [node for node in values if not is_inside or node.name not in results]
        return list(found) if all(map(can_have, wanted)) else None

    def call_as_kept(
        self, graph: Graph, frame: Frame, inner: Frame, values: dict[Node, Node]
    ) -> None:
        """A call by the original way of calling: arguments are nested before and results
        flattened after it, so that another module may take the place. Sizes of arguments are
        computed anew on both sides."""
        kept = self.signature_of(inner)
        sizes = self.sizes_beside(inner, self.inputs_of(inner)) or []
        body = Graph()
        known: dict[Node, Node] = {}
        for place_, arg in enumerate(kept.inputs):
            made = body.create_node("placeholder", arg.name or f"constant_{place_}")
            if arg.name:
                made.meta = copy.copy(self.by_name[arg.name].meta)
                known.setdefault(self.by_name[arg.name], made)
        for node in sizes:
            known[node] = copy_node(body, node, known)
        self.fill(body, inner, known)
        body.output(tuple([self.leaf(arg, body, inner, known) for arg in kept.outputs]))
        positional, keywords = kept.in_spec.children()
        parameters = [f"arg_{number}" for number in range(positional.num_children)]
        parameters += list(keywords.context)
        body.set_codegen(_PyTreeCodeGen(_PyTreeInfo(parameters, kept.in_spec, kept.out_spec)))
        self.calls.setdefault(inner.path, []).append(self.module_for(inner, body))
        path = inner.path
        owner = self.root.get_submodule(frame.path) if frame.path else self.root
        leaves = [self.leaf(arg, graph, frame, values) for arg in kept.inputs]
        in_spec = self.constant(graph, owner, kept.in_spec)
        nested = graph.call_function(tree_unflatten, (leaves, in_spec))
        args = graph.call_function(operator.getitem, (nested, 0))
        named = graph.call_function(operator.getitem, (nested, 1))
        call = graph.create_node(
            "call_module",
            path[len(frame.path) + 1 :] if frame.path else path,
            tuple(
                [
                    graph.call_function(operator.getitem, (args, number))
                    for number in range(positional.num_children)
                ]
            ),
            {key: graph.call_function(operator.getitem, (named, key)) for key in keywords.context},
        )
        out_spec = self.constant(graph, owner, kept.out_spec)
        flat = graph.call_function(tree_flatten_spec, (call, out_spec))
        for place_, arg in enumerate(kept.outputs):
            if arg.name:
                part = graph.call_function(operator.getitem, (flat, place_))
                part.meta["val"] = self.by_name[arg.name].meta.get("val")
                values[self.by_name[arg.name]] = part
        for node in self.sizes_beside(inner, self.outputs_of(inner)) or ():
            for used in node.all_input_nodes:
                self.value_in(graph, frame, used, values)
            values[node] = copy_node(graph, node, values)

    def leaf(self, arg: Any, graph: Graph, frame: Frame, values: dict[Node, Node]) -> Any:
        """A leaf of arguments or results as a graph has it."""
        if not arg.name:
            return arg.value
        return self.value_in(graph, frame, self.by_name[arg.name], values)

    def constant(self, graph: Graph, owner: Any, value: Any) -> Node:
        """An attribute of a module for a structure."""
        number = 0
        while hasattr(owner, f"_spec_{number}"):
            number += 1
        setattr(owner, f"_spec_{number}", value)
        return graph.create_node("get_attr", f"_spec_{number}")

    def inputs_of(self, frame: Frame) -> list[Node]:
        """What a frame takes from outside, less the state of its module."""
        if frame.inputs is None:
            taken = [used for node in self.nodes_of(frame) for used in node.all_input_nodes]
            found = dict.fromkeys(used for used in taken if not frame.holds(used))
            frame.inputs = [
                used for used in found if local_name(self.state.get(used, []), frame.path) is None
            ]
        return frame.inputs

    def outputs_of(self, frame: Frame) -> list[Node]:
        """What others take from a frame."""
        if frame.outputs is None:
            frame.outputs = []
            for node in self.nodes_of(frame):
                outside = [user for user in node.users if not frame.holds(user)]
                if outside and not self.is_only_written(node, frame, outside):
                    frame.outputs.append(node)
        return frame.outputs

    def nodes_of(self, frame: Frame) -> list[Node]:
        return sorted(frame.nodes, key=self.order.__getitem__)

    def is_only_written(self, node: Node, frame: Frame, outside: Sequence[Node]) -> bool:
        """Whether a value goes nowhere but into state of the frame's module."""
        if any([user.op != "output" for user in outside]):
            return False
        specs = self.signature.output_specs
        outputs: Any = self.program.graph.output_node().args[0]
        return all(
            [
                spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
                and local_name([str(spec.target)], frame.path) is not None
                for value, spec in zip(outputs, specs, strict=True)
                if value is node
            ]
        )

    def place_dispatchers(self) -> None:
        """Let one module stand for calls of which each has a graph of its own."""
        owners = list(self.root.modules())
        for path, calls in self.calls.items():
            if len(set(calls)) == 1:
                continue
            members = [self.root.get_submodule(name) for name in calls]
            dispatcher = InterpreterModuleDispatcher(members[0], members)
            self.root.dispatchers.append(dispatcher)
            own, last = set(map(id, members)), path.rpartition(".")[2]
            for owner in owners:
                table = owner._modules
                for name in [name for name, member in table.items() if id(member) in own]:
                    if name == last:
                        table[name] = dispatcher
                    else:
                        del table[name]

    def join_shared(self) -> None:
        """Let paths of modules that have the same state and graphs be paths of one module; one that
        is never called is the one that has its state."""
        called = {id(self.root.get_submodule(path)) for path in self.paths_made()}
        keys = Keys()
        first: dict[Any, Module] = {}
        members = list(self.root.modules())
        for member in members:
            if id(member) in called and keys.state_of(member):
                first.setdefault(keys.state_of(member), member)
                first.setdefault(keys.key_of(member), member)
        for owner in members:
            for name, member in owner._modules.items():
                if member is None or not keys.state_of(member):
                    continue
                is_called = id(member) in called
                key = keys.key_of(member) if is_called else keys.state_of(member)
                owner._modules[name] = first.get(key, member)

    def paths_made(self) -> list[str]:
        """The paths of modules with graphs; behind dispatchers there are others."""
        hidden = {path for calls in self.calls.values() if len(set(calls)) > 1 for path in calls}
        made = [path for found in self.made.values() for path, _ in found]
        return [path for path in made if not any([is_in(path, other) for other in hidden])]

    def module_for(self, frame: Frame, body: Graph) -> str:
        """The path of the module for a call: one that has such a graph, or a new one."""
        text = f"{shape_of(body)}\n{self.is_kept(frame.path)}"
        made = self.made.setdefault(frame.path, [])
        for path, known in made:
            if known == text:
                return path
        path = f"{frame.path}@{len(made)}" if made else frame.path
        made.append((path, text))
        if len(made) > 1:
            twin = copy_state(self.root.get_submodule(frame.path))
            put_module(self.root, path, twin)
        self.root.get_submodule(path).graph = body
        return path


class Keys:
    """What modules are, as numbers: equal ones have the same state, and compute the same of it."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.states: dict[int, Any] = {}
        self.found: dict[int, int] = {}

    def state_of(self, module: Module) -> Any:
        """The tensors below a module by name; nothing where there are none."""
        if id(module) not in self.states:
            table = {**module._parameters, **module._buffers}
            own = [(name, id(value)) for name, value in table.items() if value is not None]
            below = [
                (name, self.state_of(child))
                for name, child in module._modules.items()
                if child is not None and self.state_of(child)
            ]
            state = (tuple(own), tuple(below))
            number = self.numbers.setdefault(state, len(self.numbers) + 1)
            self.states[id(module)] = number if own or below else 0
        return self.states[id(module)]

    def key_of(self, module: Module) -> int:
        if id(module) not in self.found:
            text = shape_of(module.graph) if isinstance(module, GraphModule) else id(module)
            below = tuple(
                [
                    (name, self.key_of(child))
                    for name, child in module._modules.items()
                    if child is not None
                ]
            )
            key = ("graph", self.state_of(module), text, below)
            self.found[id(module)] = self.numbers.setdefault(key, len(self.numbers) + 1)
        return self.found[id(module)]


def copy_state(module: Module) -> InterpreterModule:
    """A module with the tensors and the modules of another."""
    made = InterpreterModule()
    made._parameters.update(module._parameters)
    made._buffers.update(module._buffers)
    made._modules.update(module._modules)
    for name, value in vars(module).items():
        if isinstance(value, (Tensor, TreeSpec)):
            setattr(made, name, value)
    return made


def shape_of(graph: Graph) -> str:
    """A graph with its nodes numbered, so that equal texts are equal computations."""
    numbers = {node: f"%{place}" for place, node in enumerate(graph.nodes)}
    lines = []
    for node in graph.nodes:
        args = map_arg((node.args, dict(node.kwargs)), lambda used: Named(numbers[used]))
        target = "" if node.op == "placeholder" else node.target
        lines.append(f"{node.op} {target} {args}")
    return "\n".join(lines)


class Named(str):
    __repr__ = str.__str__


def is_in(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}.")


def local_name(names: Sequence[str], path: str) -> str | None:
    """The name from a module's point of view; None where it lies outside."""
    if not path:
        return names[0] if names else None
    return next((name[len(path) + 1 :] for name in names if name.startswith(f"{path}.")), None)


def copied(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    from rushlight.core.parameter import Parameter

    fresh = value.detach().clone()
    if isinstance(value, Parameter):
        return Parameter(fresh, requires_grad=value.requires_grad)
    return fresh.requires_grad_(value.requires_grad) if value.requires_grad else fresh


def put_module(root: Module, path: str, module: Module) -> None:
    *parts, name = path.split(".")
    owner: Any = root
    for part in parts:
        if part not in owner._modules:
            owner.add_module(part, InterpreterModule())
        owner = owner._modules[part]
    owner.add_module(name, module)


def inserting_state(graph: Graph) -> Any:
    """Inside, nodes go behind the inputs and the state that a graph has."""
    last = None
    for node in graph.nodes:
        if node.op not in ("placeholder", "get_attr"):
            break
        last = node
    if last is not None:
        return graph.inserting_after(last)
    first = next(iter(graph.nodes), None)
    return nullcontext() if first is None else graph.inserting_before(first)


def copy_node(graph: Graph, node: Node, values: dict[Node, Node]) -> Node:
    return graph.node_copy(node, lambda used: values[used])
