"""`Graph`: a doubly linked list of nodes that reads as one Python function.

Invariant: names are unique within a graph and are never reused, even after a node was erased;
every node comes after the nodes it uses (`lint` checks it).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rushlight.graph import host
from rushlight.graph.immutable_collections import immutable_dict
from rushlight.graph.names import (
    Namespace,
    is_torch_name,
    names_function,
    plain_name,
    qualified_name,
    resolve,
    snake_case,
)
from rushlight.graph.node import (
    LEGAL_OPS,
    Args,
    Argument,
    Kwargs,
    Node,
    Target,
    map_aggregate,
    map_arg,
    typename,
)
from rushlight.graph.printing import (
    CodeGen,
    PythonCode,
    TransformCodeFunc,
)

if TYPE_CHECKING:
    from rushlight.graph.host import OwningModule

__all__ = ["Graph"]


class Unset:
    """Stands for a default that was not given."""


UNSET = Unset


class InsertPoint:
    """Where new nodes go; as a context manager, until its end."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.former, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.graph._insert = self.former


class NodeList:
    """The nodes of a graph in order. Nodes may be added and erased while it is walked."""

    def __init__(self, graph: Graph, forward: bool = True) -> None:
        self.graph = graph
        self.forward = forward

    def __len__(self) -> int:
        return self.graph._len

    def walk(self, forward: bool) -> Iterator[Node]:
        root = self.graph._root
        current = root._next if forward else root._prev
        while current is not root:
            if not current._erased:
                yield current
            current = current._next if forward else current._prev

    def __iter__(self) -> Iterator[Node]:
        return self.walk(self.forward)

    def __reversed__(self) -> Iterator[Node]:
        return self.walk(not self.forward)


class NodeRef:
    """A node inside pickled arguments, by its position."""

    def __init__(self, index: int) -> None:
        self.index = index


class Graph:
    """A function as data: placeholders, operations, one output."""

    __module__ = "rushlight.fx.graph"

    def __init__(
        self,
        owning_module: OwningModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> OwningModule | None:
        """The GraphModule that runs this graph."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: OwningModule | None) -> None:
        self._owning_module = mod

    # -- reading ----------------------------------------------------------------------------------

    @property
    def nodes(self) -> NodeList:
        """The nodes in order; `reversed(graph.nodes)` gives them backwards."""
        return NodeList(self)

    def output_node(self) -> Node:
        """The node that returns."""
        last = self._root._prev
        if last.op != "output":
            raise AssertionError(f"Expected output node, got op={last.op}")
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, in the order of the graph."""
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    # -- building ---------------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: Args | None = None,
        kwargs: Kwargs | None = None,
        name: str | None = None,
        type_expr: object = None,
    ) -> Node:
        """Add a node at the insert point; its name is `name` or the target's, made unique."""
        if not args:
            args = ()
        elif not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not kwargs:
            kwargs = immutable_dict()
        elif not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        unique = self._graph_namespace.create_name(candidate, None)
        node = Node(self, unique, op, target, args, kwargs, type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", None) or ():
            hook(node)
        self._graph_namespace.associate_name_with_obj(unique, node)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(
        self, name: str, type_expr: object = None, default_value: Argument = UNSET
    ) -> Node:
        """Add a parameter of the function."""
        if default_value is UNSET or getattr(default_value, "__name__", "") == "_empty":
            return self.create_node("placeholder", name, type_expr=type_expr)
        return self.create_node("placeholder", name, args=(default_value,), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: object = None) -> Node:
        """Add a read of a parameter, buffer or submodule of the owning module."""
        if self.owning_module is not None and not has_member(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                "GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: Args | None = None,
        kwargs: Kwargs | None = None,
        type_expr: object = None,
    ) -> Node:
        """Add a call of a submodule."""
        if self.owning_module is not None and self.owning_module.get_submodule(module_name) is None:
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the "
                "owning GraphModule! Call GraphModule.add_submodule to add the necessary "
                "submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: Args | None = None,
        kwargs: Kwargs | None = None,
        type_expr: object = None,
    ) -> Node:
        """Add a call of a method of `args[0]`."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Args | None = None,
        kwargs: Kwargs | None = None,
        type_expr: object = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function or operator."""
        return self.create_node(
            "call_function", the_function, args, kwargs, name=name, type_expr=type_expr
        )

    def output(self, result: Argument, type_expr: object = None) -> Node:
        """Add the return."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Add a copy of another graph's node; `arg_transform` maps that graph's nodes to ours."""
        copied = self.create_node(
            node.op,
            node.target,
            map_arg(node.args, arg_transform),
            map_arg(node.kwargs, arg_transform),
            node.name,
            node.type,
        )
        copied.meta = copy.copy(node.meta)
        return copied

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copy all of `g` but its output; returns what the output names here.

        `val_map` takes the correspondence; nodes that are in it already are not copied.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def _target_to_str(self, target: Target) -> str:
        if callable(target):
            name = plain_name(target)
        elif isinstance(target, str):
            name = target
            if name.startswith("__") and name.endswith("__"):
                name = name[2:-2]
        else:
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        return snake_case(name)

    # -- changing ---------------------------------------------------------------------------------

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """New nodes go before `n`, or to the beginning of the graph."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """New nodes go right after `n`, or to the end of the graph."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nothing uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} "
                f"users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        to_erase._remove_from_list()
        # Iterators may stand on an erased node: it keeps its neighbours.
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs(
            map_arg(to_erase._args, lambda n: None), map_arg(to_erase._kwargs, lambda n: None)
        )

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase what nothing uses and what has no effect; returns whether there was any."""
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            if node.users:
                continue
            kept = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not kept:
                self.erase_node(node)
                changed = True
        if self.owning_module is not None:
            read = {node.target for node in self.nodes if node.op == "get_attr"}
            for name, child in self.owning_module.named_children():
                if name in read and isinstance(getattr(child, "graph", None), Graph):
                    changed |= child.graph.eliminate_dead_code()
                    child.recompile()
        return changed

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    # -- checking ---------------------------------------------------------------------------------

    def lint(self) -> None:
        """Raise unless the graph is well formed."""
        names: set[str] = set()
        values: set[Node] = set()
        for node in self.nodes:
            if node.op not in LEGAL_OPS or node.op == "root":
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for arg in node._input_nodes:
                if arg.graph is not self:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' does not belong to this Graph, but "
                        "was used as an argument! If you are copying nodes from another graph, "
                        "make sure to use ``arg_transform`` on node_copy() to remap values"
                        f"\n{self}"
                    )
                if arg not in values:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' was used before it has been defined! "
                        "Please check that Nodes in the graph are topologically ordered"
                        f"\n{self}"
                    )
            values.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                check_target(self.owning_module, node)

    # -- text -------------------------------------------------------------------------------------

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The graph as source. `root_module` is the name that attributes are read from."""
        # A namespace of its own: the code's names must not clash with its globals either.
        namespace = Namespace()
        names = namespace._obj_to_name
        if all([node.name != root_module for node in self.nodes if node.op == "placeholder"]):
            # Attributes are read from it below, whatever nodes are called.
            namespace.reserve(root_module, self)

        def name_in_code(node: Node) -> str:
            return names.get(node) or namespace.create_name(node.name, node)

        former = [(node, node._repr_fn) for node in self.nodes]
        for node, _ in former:
            node._repr_fn = name_in_code
        try:
            return self._codegen._gen_python_code(
                self.nodes,
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                colored=colored,
                expanded_def=expanded_def,
                additional_meta=additional_meta,
            )
        finally:
            for node, function in former:
                node._repr_fn = function

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(str(node.format_node()) for node in self.nodes)])

    def print_tabular(self) -> None:
        """Print one line per node: opcode, name, target and arguments."""
        header = ("opcode", "name", "target", "args", "kwargs")
        rows = [
            (node.op, node.name, str(node.target), str(node.args), str(node.kwargs))
            for node in self.nodes
        ]
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        rule = tuple("-" * width for width in widths)
        for row in (header, rule, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    # -- inputs and outputs -----------------------------------------------------------------------

    def process_inputs(self, *args: Any) -> Any:
        """The values of the placeholders, from the arguments of the function."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """The function's result, from the output node's value."""
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Choose the frame in which the graph is printed and run."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> Any:
        """Let a function change the body's lines; as a context manager, until its end."""
        former = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(former)

        @contextmanager
        def undo() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = former

        return undo()

    # -- copies -----------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = made
        values: dict[Node, Any] = {}
        returned = made.graph_copy(self, values, return_output_node=True)
        memo.update((id(old), new) for old, new in values.items())
        made._codegen = copy.deepcopy(self._codegen)
        made._co_fields = dict(self._co_fields)
        if returned is not None:
            result, old = returned
            new = made.output(result, type_expr=old.type)
            new.meta = copy.copy(old.meta)
        return made

    def __reduce__(self) -> Any:
        return rebuild, (self.records(), self._codegen, self._tracer_cls, self._tracer_extras)

    def records(self, keep_meta: Callable[[str], bool] = lambda key: True) -> list[tuple[Any, ...]]:
        """The graph as plain tuples; nodes refer to one another by position."""
        position = {node: NodeRef(index) for index, node in enumerate(self.nodes)}
        return [
            (
                node.op,
                pickled_target(node.target),
                map_arg(node.args, position.__getitem__),
                map_arg(node.kwargs, position.__getitem__),
                node.name,
                node.type,
                {key: value for key, value in node.meta.items() if keep_meta(key)},
            )
            for node in self.nodes
        ]


def rebuild(
    records: list[tuple[Any, ...]],
    codegen: CodeGen,
    tracer_cls: type | None,
    tracer_extras: dict[str, Any] | None,
) -> Graph:
    """A graph from its records."""
    graph = Graph(tracer_cls=tracer_cls, tracer_extras=tracer_extras)
    made: list[Node] = []

    def node_at(value: object) -> Any:
        return made[value.index] if isinstance(value, NodeRef) else value

    for op, target, args, kwargs, name, kind, meta in records:
        if isinstance(target, tuple):
            target = resolve(target[0])
        node = graph.create_node(
            op, target, map_aggregate(args, node_at), map_aggregate(kwargs, node_at), name, kind
        )
        node.meta = meta
        made.append(node)
    graph._codegen = codegen
    return graph


def pickled_target(target: Target) -> Any:
    """A target that pickles: functions shown as torch's travel as a one-element tuple."""
    if isinstance(target, str) or hasattr(target, "_schema"):
        return target
    if is_torch_name(getattr(target, "__module__", None)) and hasattr(target, "__name__"):
        path = qualified_name(target)
        if names_function(path, target):
            return (path,)
    return target


def has_member(module: OwningModule, path: str) -> bool:
    """Whether `module` has a parameter, buffer or submodule at a dotted path."""
    parent, _, name = path.rpartition(".")
    try:
        module = module.get_submodule(parent)
    except AttributeError:
        warnings.warn(f"Failed to fetch module {parent}!", stacklevel=3)
        return False
    tables = (module._parameters, module._buffers, module._modules)
    return any(name in table for table in tables)


def check_target(module: OwningModule, node: Node) -> None:
    """Raise unless the node's target is of the right sort and exists in `module`."""
    if node.op == "call_function":
        if not callable(node.target):
            raise ValueError(
                f"Node {node} target {node.target} has type {typename(node.target)} but a "
                "Callable is expected"
            )
    elif not isinstance(node.target, str):
        raise ValueError(
            f"Node {node} target {node.target} has type {typename(node.target)} but a str is "
            "expected"
        )
    if node.op not in ("get_attr", "call_module"):
        return
    parts = node.target.split(".")
    current: Any = module
    for index, part in enumerate(parts):
        above = ".".join(parts[:index])
        current = getattr(current, part, None)
        if current is None:
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of "
                f"{above}"
            )
        if node.op == "call_module" and not isinstance(current, host.library.nn.Module):
            raise RuntimeError(
                f"Node {node} target {node.target} {part} of {above} does not reference an "
                "nn.Module"
            )
