"""Graphs as the data that files have."""

from __future__ import annotations

import json
import math
import operator
from typing import Any

from rushlight.core.device import device, layout, memory_format
from rushlight.core.dtype import dtype
from rushlight.core.hop import HigherOrderOperator
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.export.serde.metadata import written_metadata
from rushlight.export.serde.names import (
    DTYPES,
    LAYOUTS,
    MEMORY_FORMATS,
    coded,
    device_data,
    is_level_function,
    is_sym_op,
    sym_arguments,
    target_name,
)
from rushlight.export.serde.reading import KEYWORD, POSITIONAL
from rushlight.export.serde.schema import SerializeError, refuse
from rushlight.export.serde.specs import TAG_OF_TYPE
from rushlight.export.signature import CustomObjArgument
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node
from rushlight.symbolic.numbers import SymBool, SymFloat, SymInt

__all__ = ["GraphWriter", "json_bytes", "written_tensor"]

SYMBOLIC = (SymInt, SymFloat, SymBool)
# Element of a list's type -> the tag of an empty list.
EMPTY = {
    "bool": "as_bools",
    "int": "as_ints",
    "SymInt": "as_ints",
    "float": "as_floats",
    "str": "as_strings",
    "Tensor": "as_tensors",
}
LISTS: dict[type, str] = {
    bool: "as_bools",
    int: "as_ints",
    float: "as_floats",
    str: "as_strings",
}


def json_bytes(data: Any) -> bytes:
    """JSON, with words where JSON has no numbers."""
    return json.dumps(finite(data), allow_nan=False).encode()


def finite(data: Any) -> Any:
    if type(data) is dict:
        return {key: finite(value) for key, value in data.items()}
    if type(data) is list:
        return [finite(value) for value in data]
    if type(data) is float and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data


# -- numbers and tensors ------------------------------------------------------------------------


def written_number(value: Any, tag: str) -> dict[str, Any]:
    """A number, plain under its tag or as an expression."""
    if not isinstance(value, SYMBOLIC):
        return {tag: value}
    node = value.node
    from rushlight.export.serde.expressions import expression_text

    text: dict[str, Any] = {"expr_str": expression_text(node.expr)}
    hint = node.hint if not isinstance(value, SymBool) else None
    text["hint"] = None if hint is None else {tag: hint}
    return {"as_expr": text}


def written_int(value: Any) -> dict[str, Any]:
    return written_number(value if isinstance(value, SymInt) else int(value), "as_int")


def written_tensor(tensor: Any) -> dict[str, Any]:
    """What files say of a tensor."""
    strided = tensor.layout.name == "strided"
    return {
        "dtype": coded(DTYPES, tensor.dtype, "a dtype"),
        "sizes": [written_int(size) for size in tensor.shape],
        "requires_grad": bool(tensor.requires_grad),
        "device": device_data(tensor.device),
        "strides": [written_int(stride) for stride in tensor.stride()] if strided else [],
        "storage_offset": written_int(tensor.storage_offset() if strided else 0),
        "layout": coded(LAYOUTS, tensor.layout, "a layout"),
    }


# -- graphs -------------------------------------------------------------------------------------


class Values:
    """What a graph's values are, by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.ints: dict[str, Any] = {}
        self.bools: dict[str, Any] = {}
        self.floats: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}


class GraphWriter:
    """Writes one program's graphs; objects that stand in them go to `objects`."""

    def __init__(self) -> None:
        self.values = Values()
        self.objects: dict[str, Any] = {}
        # Of several reads of one result, the name of the first.
        self.same: dict[str, str] = {}

    def written(self, module: GraphModule) -> dict[str, Any]:
        outer, self.values = self.values, Values()
        inputs: list[Any] = []
        outputs: list[Any] = []
        nodes: list[Any] = []
        single = False
        try:
            for node in module.graph.nodes:
                try:
                    if node.op == "placeholder":
                        inputs.append(self.input(node))
                    elif node.op == "call_function":
                        if node.target is not operator.getitem:
                            nodes.append(self.call(node))
                    elif node.op == "output":
                        result = node.args[0]
                        single = isinstance(result, Node)
                        many = [result] if single else result
                        outputs = [self.argument(each) for each in many]
                    elif node.op != "get_attr":
                        raise refuse(f"a graph with {node.op} cannot be written")
                except SerializeError as failure:
                    failure.add_note(f"While writing {node.format_node()}")
                    raise
            return self.graph_data(inputs, outputs, nodes, single)
        finally:
            self.values = outer

    def graph_data(
        self, inputs: list[Any], outputs: list[Any], nodes: list[Any], single: bool
    ) -> dict[str, Any]:
        return {
            "inputs": inputs,
            "outputs": outputs,
            "nodes": nodes,
            "tensor_values": self.values.tensors,
            "sym_int_values": self.values.ints,
            "sym_bool_values": self.values.bools,
            "is_single_tensor_return": single,
            "custom_obj_values": self.values.objects,
            "sym_float_values": self.values.floats,
        }

    def input(self, node: Node) -> dict[str, Any]:
        value = node.meta.get("val")
        if isinstance(value, CustomObjArgument):
            data = {"name": node.name, "class_fqn": value.class_fqn}
            self.values.objects[node.name] = dict(data)
            return {"as_custom_obj": data}
        if isinstance(value, (Tensor, *SYMBOLIC)):
            return self.result(node.name, value)
        return self.argument(value)

    def call(self, node: Node) -> dict[str, Any]:
        target: Any = node.target
        value = node.meta.get("val")
        single = None
        name = target_name(target)
        if is_sym_op(target):
            names = sym_arguments(name, len(node.args))
            inputs = [
                named_argument(each, self.argument(arg), POSITIONAL)
                for each, arg in zip(names, node.args)
            ]
            outputs = [self.result(node.name, value)]
        elif isinstance(target, OpOverload):
            inputs = self.schema_arguments(target, node)
            outputs = self.results(node, target)
        elif isinstance(target, HigherOrderOperator):
            inputs = [named_argument("", self.argument(arg), POSITIONAL) for arg in node.args]
            inputs += [
                named_argument(key, self.argument(arg), KEYWORD) for key, arg in node.kwargs.items()
            ]
            outputs = self.hop_results(node)
            single = isinstance(value, Tensor)
        elif is_level_function(target):
            inputs = [named_argument("", self.argument(arg), POSITIONAL) for arg in node.args]
            outputs = [self.result(node.name, value)]
        else:
            raise refuse(f"a call of {target} cannot be written")
        return {
            "target": name,
            "inputs": inputs,
            "outputs": outputs,
            "metadata": written_metadata(node.meta),
            "is_hop_single_tensor_return": single,
            "name": node.name,
        }

    def schema_arguments(self, op: OpOverload, node: Node) -> list[dict[str, Any]]:
        """Arguments by the names of the schema; those that have their defaults are left out."""
        found = []
        for place, argument in enumerate(op._schema.arguments):
            if argument.name in node.kwargs:
                value, kind = node.kwargs[argument.name], KEYWORD
            elif not argument.kwarg_only and place < len(node.args):
                value, kind = node.args[place], POSITIONAL
            else:
                continue
            found.append(named_argument(argument.name, self.argument(value, argument.type), kind))
        return found

    # -- results -----------------------------------------------------------------------------------

    def result(self, name: str, value: Any) -> dict[str, Any]:
        """One result, and what it is."""
        if value is None:
            return {"as_none": True}
        if isinstance(value, Tensor):
            self.values.tensors[name] = written_tensor(value)
            return {"as_tensor": {"name": name}}
        if isinstance(value, (bool, SymBool)):
            self.values.bools[name] = written_number(value, "as_bool")
            return {"as_sym_bool": {"as_name": name}}
        if isinstance(value, (int, SymInt)):
            self.values.ints[name] = written_number(value, "as_int")
            return {"as_sym_int": {"as_name": name}}
        if isinstance(value, (float, SymFloat)):
            self.values.floats[name] = written_number(value, "as_float")
            return {"as_sym_float": {"as_name": name}}
        raise refuse(f"a result of type {type(value).__name__} cannot be written")

    def results(self, node: Node, op: OpOverload) -> list[dict[str, Any]]:
        returns = op._schema.returns
        value = node.meta.get("val")
        if not returns:
            return []
        if len(returns) == 1:
            if returns[0].type.kind == "List":
                return [self.list_result(node, value or (), str(node.name))]
            return [self.result(node.name, value)]
        return self.many_results(node, value or ())

    def hop_results(self, node: Node) -> list[dict[str, Any]]:
        value = node.meta.get("val")
        if isinstance(value, (tuple, list)):
            return self.many_results(node, value)
        return [self.result(node.name, value)]

    def many_results(self, node: Node, values: Any) -> list[dict[str, Any]]:
        found = []
        for place, value in enumerate(values):
            reader = self.reader_of(node, place)
            unused = f"{node.name}_unused_{place}"
            if isinstance(value, (list, tuple)):
                found.append(self.list_result(reader, value, unused))
            else:
                found.append(self.result(unused if reader is None else reader.name, value))
        return found

    def list_result(self, node: Node | None, values: Any, unused: str) -> dict[str, Any]:
        tensors = []
        for place, value in enumerate(values):
            if not isinstance(value, Tensor):
                raise refuse(f"a list of {type(value).__name__} among results cannot be written")
            reader = None if node is None else self.reader_of(node, place)
            name = f"{unused}_unused_{place}" if reader is None else reader.name
            self.values.tensors[name] = written_tensor(value)
            tensors.append({"name": name})
        return {"as_tensors": tensors}

    def reader_of(self, node: Node, place: int) -> Node | None:
        """The first node that reads one of several results."""
        found: Node | None = None
        for user in node.users:
            if user.target is not operator.getitem:
                raise refuse(f"{user} uses several results at once")
            if user.args[1] == place:
                if found is None:
                    found = user
                else:
                    self.same[user.name] = found.name
        return found

    # -- arguments ---------------------------------------------------------------------------------

    def argument(self, value: Any, type_: Any = None) -> dict[str, Any]:
        if isinstance(value, Node):
            return self.node_argument(value)
        if value is None:
            return {"as_none": True}
        tag = TAG_OF_TYPE.get(type(value))
        if tag is not None:
            return {tag: value}
        if isinstance(value, (list, tuple)):
            return self.list_argument(list(value), type_)
        if isinstance(value, dict):
            if not all(type(key) is str for key in value):
                raise refuse("a dict whose keys are no texts cannot be written")
            return {
                "as_string_to_argument": {key: self.argument(each) for key, each in value.items()}
            }
        if isinstance(value, complex):
            return {"as_complex": {"real": value.real, "imag": value.imag}}
        if isinstance(value, dtype):
            return {"as_scalar_type": coded(DTYPES, value, "a dtype")}
        if isinstance(value, device):
            return {"as_device": device_data(value)}
        if isinstance(value, memory_format):
            return {"as_memory_format": coded(MEMORY_FORMATS, value, "a memory format")}
        if isinstance(value, layout):
            return {"as_layout": coded(LAYOUTS, value, "a layout")}
        if isinstance(value, (OpOverload, HigherOrderOperator)):
            return {"as_operator": target_name(value)}
        if hasattr(value, "__getstate__") and hasattr(value, "_type"):
            name = f"_custom_obj_{len(self.objects)}"
            self.objects[name] = value
            return {"as_custom_obj": {"name": name, "class_fqn": value._type().qualified_name()}}
        raise refuse(f"an argument of type {type(value).__name__} cannot be written")

    def node_argument(self, node: Node) -> dict[str, Any]:
        if node.op == "get_attr":
            held = getattr(node.graph.owning_module, str(node.target), None)
            if not isinstance(held, GraphModule):
                raise refuse(f"the attribute {node.target!r} is read; state belongs to the inputs")
            return {"as_graph": {"name": str(node.target), "graph": self.written(held)}}
        if node.name in self.values.ints:
            return {"as_sym_int": {"as_name": node.name}}
        if node.name in self.values.floats:
            return {"as_sym_float": {"as_name": node.name}}
        if node.name in self.values.bools:
            return {"as_sym_bool": {"as_name": node.name}}
        value = node.meta.get("val")
        if isinstance(value, CustomObjArgument):
            return {"as_custom_obj": {"name": node.name, "class_fqn": value.class_fqn}}
        if node.op == "placeholder" and not isinstance(value, Tensor):
            # An input that is a constant.
            return self.argument(value)
        return {"as_tensor": self.tensor_argument(node)}

    def tensor_argument(self, node: Node) -> dict[str, Any]:
        if node.op == "get_attr":
            raise refuse(f"the attribute {node.target!r} is read; state belongs to the inputs")
        return {"name": self.same.get(node.name, node.name)}

    def list_argument(self, values: list[Any], type_: Any) -> dict[str, Any]:
        if not values:
            element = None if type_ is None else type_.element
            return {EMPTY.get("" if element is None else element.kind, "as_tensors"): []}
        kinds = {type(value) for value in values}
        if len(kinds) == 1 and (tag := LISTS.get(next(iter(kinds)))):
            return {tag: values}
        for table, tag, plain, inner in (
            (self.values.ints, "as_sym_ints", int, "as_int"),
            (self.values.floats, "as_sym_floats", float, "as_float"),
            (self.values.bools, "as_sym_bools", bool, "as_bool"),
        ):
            if all(
                type(value) is plain or (isinstance(value, Node) and value.name in table)
                for value in values
            ):
                return {
                    tag: [
                        {"as_name": value.name} if isinstance(value, Node) else {inner: value}
                        for value in values
                    ]
                }
        if all(isinstance(value, Node) for value in values):
            return {"as_tensors": [self.tensor_argument(value) for value in values]}
        if all(value is None or isinstance(value, Node) for value in values):
            return {
                "as_optional_tensors": [
                    {"as_none": True}
                    if value is None
                    else {"as_tensor": self.tensor_argument(value)}
                    for value in values
                ]
            }
        return self.nested_argument(values)

    def nested_argument(self, values: list[Any]) -> dict[str, Any]:
        if all(isinstance(value, (list, tuple)) for value in values):
            parts = [part for value in values for part in value]
            if all(isinstance(part, Node) for part in parts):
                return {
                    "as_nested_tensors": [
                        [self.tensor_argument(part) for part in value] for value in values
                    ]
                }
            if all(type(part) is int for part in parts):
                return {"as_int_lists": [list(value) for value in values]}
            if all(type(part) is float for part in parts):
                return {"as_float_lists": [list(value) for value in values]}
        kinds = sorted({type(value).__name__ for value in values})
        raise refuse(f"a list of {', '.join(kinds)} cannot be written")


def named_argument(name: str, argument: dict[str, Any], kind: int) -> dict[str, Any]:
    return {"name": name, "arg": argument, "kind": kind}
