"""Graphs from checked data: nodes, their metadata, and graphs within graphs.

Invariant: every name that reaches the graph is an identifier, every target is an operator that is
registered, and every value is of a kind that the schema has.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.base.errors import error
from rushlight.core.fake import FakeTensorMode, fake_of
from rushlight.core.hop import HigherOrderOperator
from rushlight.core.op import OpOverload
from rushlight.core.tensor import shell
from rushlight.export.serde.metadata import read_metadata
from rushlight.export.serde.names import (
    DTYPES,
    LAYOUTS,
    MEMORY_FORMATS,
    check_identifier,
    check_levels,
    decoded,
    find_target,
    is_sym_op,
    made_device,
)
from rushlight.export.serde.schema import Choice, Record, SerializeError, refuse
from rushlight.export.signature import CustomObjArgument
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.nn.module import Module
from rushlight.symbolic.bindings import unbacked_bindings
from rushlight.symbolic.numbers import SymBool, SymInt

if TYPE_CHECKING:
    from rushlight.export.serde.plain import PlainSymbols
    from rushlight.export.serde.symbols import FileSymbols

__all__ = ["GraphReader"]

POSITIONAL, KEYWORD = 1, 2
NUMBER_TAGS = frozenset(("as_sym_int", "as_sym_float", "as_sym_bool"))
LIST_TAGS = frozenset(
    (
        *("as_tensors", "as_sym_ints", "as_sym_floats", "as_sym_bools", "as_ints", "as_floats"),
        *("as_strings", "as_bools"),
    )
)
PLAIN_TAGS = frozenset(("as_int", "as_float", "as_bool", "as_string"))
PLAIN_LISTS = frozenset(("as_ints", "as_floats", "as_bools", "as_strings"))
MOST_DIMS = 64


class Scope:
    """One graph that is being read."""

    def __init__(self, data: Record) -> None:
        self.data = data
        self.graph = Graph()
        self.module = Module()
        self.nodes: dict[str, Any] = {}
        self.values: dict[str, Any] = {}


class GraphReader:
    """Reads one program's graphs. `constants` are its objects by name."""

    def __init__(self, symbols: FileSymbols | PlainSymbols, constants: dict[str, Any]) -> None:
        self.symbols = symbols
        self.constants = constants
        self.mode = FakeTensorMode(
            allow_fallback_kernels=False,
            allow_non_fake_inputs=True,
            shape_env=symbols.shape_env,
        )
        self.scope: Scope = None  # type: ignore[assignment]

    # -- graphs ------------------------------------------------------------------------------------

    def read(self, data: Record, input_names: list[str] | None = None) -> GraphModule:
        """The graph of `data`; `input_names` names the inputs that are constants."""
        outer, self.scope = self.scope, Scope(data)
        fresh, self.symbols.fresh = self.symbols.fresh, set()
        try:
            self.collect_hints(data)
            for place, input_ in enumerate(data.inputs):
                self.add_input(input_, None if input_names is None else input_names[place])
            for node in data.nodes:
                self.add_node(node)
            self.add_output(data)
            self.drop_unused()
            self.bind_symbols()
            check_levels(self.scope.graph.nodes)
            return GraphModule(self.scope.module, self.scope.graph)
        finally:
            self.scope = outer
            self.symbols.fresh = fresh

    def collect_hints(self, data: Record) -> None:
        for meta in data.tensor_values.values():
            for number in (*meta.sizes, *meta.strides, meta.storage_offset):
                self.symbols.note_hints(number)
        for table in (data.sym_int_values, data.sym_float_values):
            for number in table.values():
                self.symbols.note_hints(number)

    def add_input(self, input_: Choice, name: str | None) -> None:
        if input_.tag in ("as_tensor", "as_custom_obj"):
            self.bind(self.placeholder(input_.value.name), input_.value.name)
        elif input_.tag in NUMBER_TAGS:
            if input_.value.tag != "as_name":
                raise refuse("an input is a number without a name")
            self.bind(self.placeholder(input_.value.value), input_.value.value)
        elif input_.tag in PLAIN_TAGS or input_.tag == "as_none":
            name = name or f"arg{len(self.scope.nodes)}"
            node = self.placeholder(name)
            node.meta["val"] = self.argument(input_)
            self.scope.nodes[name] = node
        else:
            raise refuse(f"an input is {input_.tag}")

    def placeholder(self, name: str) -> Any:
        node = self.scope.graph.placeholder(check_identifier(name))
        # A parameter may hide a name that code otherwise has.
        node.name = name
        return node

    def add_output(self, data: Record) -> None:
        outputs = [self.argument(output) for output in data.outputs]
        result: Any = tuple(outputs)
        if data.is_single_tensor_return:
            if len(outputs) != 1:
                raise refuse("a graph has one output, and others beside it")
            result = outputs[0]
        self.scope.graph.output(result)

    def drop_unused(self) -> None:
        """Outputs that nothing uses have names in files, and no nodes here."""
        for node in reversed(list(self.scope.graph.nodes)):
            if node.target is operator.getitem and not node.users and "_unused_" in node.name:
                self.scope.graph.erase_node(node)

    def bind_symbols(self) -> None:
        """Note at each node which symbols of data it makes known."""
        for node in self.scope.graph.nodes:
            if not self.symbols.fresh:
                return
            if node.op == "output" or node.meta.get("val") is None:
                continue
            found = unbacked_bindings(node.meta["val"], self.symbols.fresh)
            if found:
                node.meta["unbacked_bindings"] = found
                self.symbols.fresh -= set(found)

    # -- values ------------------------------------------------------------------------------------

    def value_named(self, name: str) -> Any:
        """What the file says of a value, made once."""
        found = self.scope.values.get(name, self)
        if found is self:
            found = self.scope.values[name] = self.described(name)
        return found

    def described(self, name: str) -> Any:
        data = self.scope.data
        if name in data.tensor_values:
            return self.tensor(data.tensor_values[name])
        if name in data.sym_int_values:
            return self.symbols.integer(data.sym_int_values[name])
        if name in data.sym_bool_values:
            return self.symbols.boolean(data.sym_bool_values[name])
        if name in data.sym_float_values:
            return self.symbols.floating(data.sym_float_values[name])
        if name in data.custom_obj_values:
            found = data.custom_obj_values[name]
            return CustomObjArgument(found.name, found.class_fqn)
        raise refuse(f"nothing is said of the value {name[:80]!r}")

    def tensor(self, meta: Record) -> Any:
        """A fake tensor."""
        if len(meta.sizes) != len(meta.strides) or len(meta.sizes) > MOST_DIMS:
            raise refuse(f"a tensor has {len(meta.sizes)} sizes and {len(meta.strides)} strides")
        decoded(LAYOUTS, meta.layout, "layout")
        sizes = tuple([self.symbols.integer(size) for size in meta.sizes])
        if any(type(size) is int and size < 0 for size in sizes):
            raise refuse("a tensor has a negative size")
        made = shell(
            sizes,
            tuple([self.symbols.integer(stride) for stride in meta.strides]),
            decoded(DTYPES, meta.dtype, "dtype"),
            made_device(meta.device),
            self.symbols.integer(meta.storage_offset),
        )
        fake = fake_of(made, self.mode)
        if meta.requires_grad:
            fake._requires_grad = True
        return fake

    def bind(self, node: Any, name: str) -> None:
        """Let a node have the name and the value that the file gives it."""
        if name in self.scope.nodes:
            raise refuse(f"two values are called {name[:80]!r}")
        node.name = check_identifier(name)
        self.scope.nodes[name] = node
        node.meta["val"] = self.value_named(name)

    def node_named(self, name: str) -> Any:
        found = self.scope.nodes.get(name)
        if found is None:
            raise refuse(f"the value {name[:80]!r} is used before it is made")
        return found

    # -- nodes -------------------------------------------------------------------------------------

    def add_node(self, data: Record) -> None:
        target = find_target(data.target)
        if target is None:
            raise error("RL1561", SerializeError, name=data.target[:200])
        metadata = read_metadata(data.metadata)
        name = None if data.name is None else check_identifier(data.name)
        if isinstance(target, HigherOrderOperator):
            args, kwargs = self.plain_arguments(data, metadata)
            if name is None and is_single(data) and data.is_hop_single_tensor_return is not False:
                name = check_identifier(data.outputs[0].value.name)
        elif isinstance(target, OpOverload):
            args, kwargs = self.schema_arguments(data, target)
            if name is None and is_single(data):
                name = check_identifier(data.outputs[0].value.name)
        else:
            args, kwargs = self.plain_arguments(data, metadata)
            if kwargs:
                raise refuse(f"{data.target[:80]} takes no keywords")
        node = self.scope.graph.create_node("call_function", target, args, kwargs, name)
        self.add_results(data, node, metadata)
        node.meta.update(metadata)
        # Files leave out what is empty.
        node.meta.setdefault("nn_module_stack", {})
        self.note_conditions(target, node)

    def plain_arguments(
        self, data: Record, metadata: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of an op that has no schema."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for each in data.inputs:
            value = self.argument(each.arg)
            if getattr(value, "op", None) == "get_attr":
                value.meta.update(metadata)
            if each.kind == KEYWORD and each.name:
                kwargs[check_identifier(each.name)] = value
            elif is_sym_op(find_target(data.target)) or each.kind == POSITIONAL or not each.name:
                args.append(value)
            else:
                kwargs[check_identifier(each.name)] = value
        return tuple(args), kwargs

    def schema_arguments(
        self, data: Record, op: OpOverload
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of an op by the names of its schema, in the schema's order."""
        given = {each.name: each for each in data.inputs}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in op._schema.arguments:
            found = given.pop(argument.name, None)
            if found is None:
                if not argument.has_default_value():
                    raise refuse(f"{data.target[:80]} has no {argument.name!r}")
                continue
            value = self.argument(found.arg)
            by_place = found.kind == POSITIONAL
            if found.kind not in (POSITIONAL, KEYWORD):
                by_place = not argument.has_default_value()
            if by_place and not argument.kwarg_only and not kwargs:
                args.append(value)
            else:
                kwargs[argument.name] = value
        if given:
            raise refuse(f"{data.target[:80]} takes no {next(iter(given))[:80]!r}")
        return tuple(args), kwargs

    def note_conditions(self, target: Any, node: Any) -> None:
        """What a node asserts is known to those that follow."""
        env = self.symbols.shape_env
        if env is None:
            return
        name = getattr(target, "base_name", "")
        if name == "_assert_scalar" and node.args and hasattr(node.args[0], "meta"):
            value = node.args[0].meta.get("val")
            if isinstance(value, SymBool):
                env.guard_or_defer_runtime_assert(value.node.expr, "", node)
        elif name == "sym_constrain_range_for_size" and hasattr(node.args[0], "meta"):
            value = node.args[0].meta.get("val")
            if isinstance(value, SymInt):
                env.constrain_size(value.node.expr)

    # -- results -----------------------------------------------------------------------------------

    def add_results(self, data: Record, node: Any, metadata: dict[str, Any]) -> None:
        outputs = data.outputs
        hop = isinstance(node.target, HigherOrderOperator)
        if not outputs:
            if hop:
                node.meta["val"] = ()
            return
        first = outputs[0]
        in_tuple = hop and data.is_hop_single_tensor_return is False
        if len(outputs) == 1 and first.tag == "as_none":
            node.meta["val"] = None
            self.scope.nodes.setdefault(node.name, node)
        elif len(outputs) == 1 and not in_tuple and first.tag not in LIST_TAGS:
            self.bind(node, name_of(first))
        else:
            many = first.value if len(outputs) == 1 and first.tag == "as_tensors" else outputs
            node.meta["val"] = tuple(self.items(many, node, metadata))
            self.scope.nodes.setdefault(node.name, node)

    def items(self, outputs: list[Any], node: Any, metadata: dict[str, Any]) -> list[Any]:
        """A getitem for each result; the values of all."""
        values: list[Any] = []
        for place, output in enumerate(outputs):
            tag = "as_tensor" if isinstance(output, Record) else output.tag
            if tag == "as_none":
                values.append(None)
                continue
            if tag in LIST_TAGS:
                item = self.item(node, place, None)
                found: Any = self.items(output.value, item, metadata)
                item.meta["val"] = found
            elif tag == "as_name" or tag in NUMBER_TAGS or tag == "as_tensor":
                name = name_of(output)
                item = self.item(node, place, name)
                self.bind(item, name)
                found = item.meta["val"]
            else:
                raise refuse(f"a result is {tag}")
            item.meta.update(metadata)
            values.append(found)
        return values

    def item(self, node: Any, place: int, name: str | None) -> Any:
        return self.scope.graph.create_node(
            "call_function", operator.getitem, (node, place), {}, name
        )

    # -- arguments ---------------------------------------------------------------------------------

    def argument(self, data: Choice) -> Any:
        tag, value = data.tag, data.value
        if tag in PLAIN_TAGS:
            return value
        if tag in PLAIN_LISTS:
            return list(value)
        rule = ARGUMENTS.get(tag)
        if rule is None:
            raise refuse(f"an argument is {tag}")
        return rule(self, value)

    def number(self, value: Choice) -> Any:
        return self.node_named(value.value) if value.tag == "as_name" else value.value

    def optional(self, value: Choice) -> Any:
        return None if value.tag == "as_none" else self.node_named(value.value.name)

    def subgraph(self, value: Record) -> Any:
        """A graph within this one, as an attribute of the module."""
        name = check_identifier(value.name)
        self.scope.module.add_module(name, self.read(value.graph))
        return self.scope.graph.create_node("get_attr", name, name=name)

    def custom_object(self, value: Record) -> Any:
        if value.name in self.scope.nodes:
            return self.scope.nodes[value.name]
        if value.name not in self.constants:
            raise refuse(f"there is no object {value.name[:80]!r}")
        return self.constants[value.name]

    def operator_named(self, value: str) -> Any:
        found = find_target(value)
        if found is None:
            raise error("RL1561", SerializeError, name=value[:200])
        return found


def is_single(data: Record) -> bool:
    """Whether a node has one result, a tensor."""
    return len(data.outputs) == 1 and data.outputs[0].tag == "as_tensor"


def name_of(output: Any) -> str:
    """The name of a result."""
    if isinstance(output, Record):
        return str(output.name)
    if output.tag == "as_name":
        return str(output.value)
    if output.tag in NUMBER_TAGS:
        return name_of(output.value)
    if output.tag == "as_tensor":
        return str(output.value.name)
    raise refuse(f"a result is {output.tag}")


def in_list(rule: Callable[[GraphReader, Any], Any]) -> Callable[[GraphReader, Any], Any]:
    return lambda reader, values: [rule(reader, value) for value in values]


def named_node(reader: GraphReader, value: Record) -> Any:
    return reader.node_named(value.name)


ARGUMENTS: dict[str, Callable[[GraphReader, Any], Any]] = {
    "as_none": lambda reader, value: None,
    "as_tensor": named_node,
    "as_tensors": in_list(named_node),
    "as_nested_tensors": in_list(in_list(named_node)),
    **dict.fromkeys(("as_sym_int", "as_sym_float", "as_sym_bool"), GraphReader.number),
    **dict.fromkeys(("as_sym_ints", "as_sym_floats", "as_sym_bools"), in_list(GraphReader.number)),
    "as_optional_tensor": GraphReader.optional,
    "as_optional_tensors": in_list(GraphReader.optional),
    "as_scalar_type": lambda reader, value: decoded(DTYPES, value, "dtype"),
    "as_memory_format": lambda reader, value: decoded(MEMORY_FORMATS, value, "memory format"),
    "as_layout": lambda reader, value: decoded(LAYOUTS, value, "layout"),
    "as_device": lambda reader, value: made_device(value),
    "as_graph": GraphReader.subgraph,
    "as_custom_obj": GraphReader.custom_object,
    "as_operator": GraphReader.operator_named,
    "as_complex": lambda reader, value: complex(value.real, value.imag),
    "as_int_lists": lambda reader, value: [tuple(each) for each in value],
    "as_float_lists": lambda reader, value: [list(each) for each in value],
    "as_string_to_argument": lambda reader, value: {
        key: reader.argument(each) for key, each in value.items()
    },
}


def custom_metadata(text: str) -> Any:
    """What a program's writer put beside its graph."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise refuse("its custom metadata is no JSON") from None
