"""Signatures and call graphs of programs, to checked data and back."""

from __future__ import annotations

import json
from typing import Any

from rushlight.base.pytree import NAMEDTUPLE_NAMES, SUPPORTED_NODES, TreeSpec
from rushlight.base.treetexts import treespec_dumps, treespec_loads
from rushlight.export import signature as sig
from rushlight.export.serde.names import check_identifier, check_path
from rushlight.export.serde.reading import NUMBER_TAGS, PLAIN_LISTS, PLAIN_TAGS
from rushlight.export.serde.schema import TREESPEC_VERSION, Choice, Record, refuse

__all__ = ["CallGraphWriter", "read_call_graph", "read_signature", "written_argument",
           "written_constant", "written_signature"]  # fmt: skip

IN, OUT = sig.InputKind, sig.OutputKind
# kind: (tag, field of the target)
INPUTS: dict[Any, tuple[str, str]] = {
    IN.PARAMETER: ("parameter", "parameter_name"),
    IN.BUFFER: ("buffer", "buffer_name"),
    IN.CONSTANT_TENSOR: ("tensor_constant", "tensor_constant_name"),
    IN.CUSTOM_OBJ: ("custom_obj", "custom_obj_name"),
    IN.TOKEN: ("token", ""),
}
OUTPUTS: dict[Any, tuple[str, str]] = {
    OUT.LOSS_OUTPUT: ("loss_output", ""),
    OUT.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
    OUT.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
    OUT.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", "parameter_name"),
    OUT.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", "user_input_name"),
    OUT.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
    OUT.TOKEN: ("token", ""),
}
TAG_OF_TYPE = {int: "as_int", bool: "as_bool", str: "as_string", float: "as_float"}


# -- writing ------------------------------------------------------------------------------------


def written_constant(value: Any) -> dict[str, Any]:
    """A Python value that needs no node."""
    if value is None:
        return {"as_none": True}
    tag = TAG_OF_TYPE.get(type(value))
    if tag is None:
        raise refuse(f"a constant of type {type(value).__name__} cannot be written")
    return {tag: value}


def written_argument(arg: Any) -> dict[str, Any]:
    if isinstance(arg, (sig.TensorArgument, sig.TokenArgument)):
        return {"as_tensor": {"name": arg.name}}
    if isinstance(arg, sig.ConstantArgument):
        return written_constant(arg.value)
    if isinstance(arg, sig.CustomObjArgument):
        return {"as_custom_obj": {"name": arg.name, "class_fqn": arg.class_fqn}}
    for cls, tag in (
        (sig.SymIntArgument, "as_sym_int"),
        (sig.SymFloatArgument, "as_sym_float"),
        (sig.SymBoolArgument, "as_sym_bool"),
    ):
        if isinstance(arg, cls):
            return {tag: {"as_name": arg.name}}
    raise refuse(f"{arg} cannot be written")


def written_signature(signature: sig.ExportGraphSignature) -> dict[str, Any]:
    return {
        "input_specs": [written_input(spec) for spec in signature.input_specs],
        "output_specs": [written_output(spec) for spec in signature.output_specs],
    }


def written_input(spec: sig.InputSpec) -> dict[str, Any]:
    arg: Any = spec.arg
    if spec.kind is IN.USER_INPUT:
        if isinstance(arg, sig.ConstantArgument):
            value = written_constant(arg.value)
            return {"constant_input": {"name": arg.name, "value": value}}
        return {"user_input": {"arg": written_argument(arg)}}
    tag, field = INPUTS[spec.kind]
    data: dict[str, Any] = {"arg": {"name": arg.name}}
    if spec.kind is IN.CUSTOM_OBJ:
        data["arg"]["class_fqn"] = arg.class_fqn
    if field:
        data[field] = spec.target
    if spec.kind is IN.BUFFER:
        data["persistent"] = spec.persistent
    return {tag: data}


def written_output(spec: sig.OutputSpec) -> dict[str, Any]:
    if spec.kind is OUT.USER_OUTPUT:
        return {"user_output": {"arg": written_argument(spec.arg)}}
    tag, field = OUTPUTS[spec.kind]
    data: dict[str, Any] = {"arg": {"name": spec.arg.name}}
    if field:
        data[field] = spec.target
    return {tag: data}


class CallGraphWriter:
    """Writes how modules were called, and collects the fields of named tuples on the way."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}

    def written(self, entries: list[sig.ModuleCallEntry]) -> list[dict[str, Any]]:
        return [
            {
                "fqn": entry.fqn,
                "signature": None if entry.signature is None else self.signature(entry.signature),
            }
            for entry in entries
        ]

    def signature(self, signature: sig.ModuleCallSignature) -> dict[str, Any]:
        return {
            "inputs": [written_argument(arg) for arg in signature.inputs],
            "outputs": [written_argument(arg) for arg in signature.outputs],
            "in_spec": self.tree(signature.in_spec),
            "out_spec": self.tree(signature.out_spec),
            "forward_arg_names": list(signature.forward_arg_names or ()) or None,
        }

    def tree(self, spec: TreeSpec) -> str:
        self.note_fields(spec)
        return treespec_dumps(spec, TREESPEC_VERSION)

    def note_fields(self, spec: TreeSpec) -> None:
        if spec.is_leaf():
            return
        cls = spec.context if isinstance(spec.context, type) else spec.type
        if hasattr(cls, "_fields"):
            known = SUPPORTED_NODES[spec.type].serialized_type_name
            name = NAMEDTUPLE_NAMES.get(cls, known)
            self.fields[str(name)] = {"field_names": list(cls._fields)}
        for child in spec.children_specs:
            self.note_fields(child)


# -- reading ------------------------------------------------------------------------------------

INPUT_OF_TAG = {tag: (kind, field) for kind, (tag, field) in INPUTS.items()}
OUTPUT_OF_TAG = {tag: (kind, field) for kind, (tag, field) in OUTPUTS.items()}
# What a defaultdict of a file may make.
FACTORIES = frozenset(("list", "dict", "set", "tuple", "int", "float", "bool", "str"))
MOST_TREE_DEPTH = 100


def read_argument(data: Choice) -> Any:
    if data.tag == "as_tensor":
        return sig.TensorArgument(data.value.name)
    if data.tag in NUMBER_TAGS:
        if data.value.tag != "as_name":
            return sig.ConstantArgument("", data.value.value)
        cls: Any = {
            "as_sym_int": sig.SymIntArgument,
            "as_sym_float": sig.SymFloatArgument,
            "as_sym_bool": sig.SymBoolArgument,
        }[data.tag]
        return cls(data.value.value)
    if data.tag == "as_custom_obj":
        return sig.CustomObjArgument(data.value.name, data.value.class_fqn)
    if data.tag == "as_none":
        return sig.ConstantArgument("", None)
    if data.tag in PLAIN_TAGS or data.tag in PLAIN_LISTS:
        return sig.ConstantArgument("", data.value)
    raise refuse(f"a spec has an argument that is {data.tag}")


def read_signature(data: Record) -> sig.ExportGraphSignature:
    return sig.ExportGraphSignature(
        [read_input(spec) for spec in data.input_specs],
        [read_output(spec) for spec in data.output_specs],
    )


def read_input(spec: Choice) -> sig.InputSpec:
    data = spec.value
    if spec.tag == "user_input":
        return sig.InputSpec(IN.USER_INPUT, read_argument(data.arg), None)
    if spec.tag == "constant_input":
        value = None if data.value.tag == "as_none" else data.value.value
        arg = sig.ConstantArgument(check_identifier(data.name), value)
        return sig.InputSpec(IN.USER_INPUT, arg, None)
    kind, field = INPUT_OF_TAG[spec.tag]
    made: Any = sig.TensorArgument(data.arg.name)
    if kind is IN.CUSTOM_OBJ:
        made = sig.CustomObjArgument(data.arg.name, data.arg.class_fqn)
    elif kind is IN.TOKEN:
        made = sig.TokenArgument(data.arg.name)
    target = check_path(getattr(data, field)) if field else None
    return sig.InputSpec(kind, made, target, data.persistent if kind is IN.BUFFER else None)


def read_output(spec: Choice) -> sig.OutputSpec:
    data = spec.value
    if spec.tag == "user_output":
        return sig.OutputSpec(OUT.USER_OUTPUT, read_argument(data.arg), None)
    kind, field = OUTPUT_OF_TAG[spec.tag]
    made: Any = sig.TensorArgument(data.arg.name)
    if kind is OUT.TOKEN:
        made = sig.TokenArgument(data.arg.name)
    return sig.OutputSpec(kind, made, check_path(getattr(data, field)) if field else None)


def read_call_graph(entries: list[Record]) -> list[sig.ModuleCallEntry]:
    found = []
    for entry in entries:
        data, signature = entry.signature, None
        if data is not None:
            names = data.forward_arg_names
            signature = sig.ModuleCallSignature(
                inputs=[read_argument(arg) for arg in data.inputs],
                outputs=[read_argument(arg) for arg in data.outputs],
                in_spec=named_arguments(read_tree(data.in_spec)),
                out_spec=read_tree(data.out_spec),
                forward_arg_names=[check_identifier(name) for name in names] if names else None,
            )
        path, mark, number = entry.fqn.partition("@")
        if mark and not (number.isascii() and number.isdecimal()):
            raise refuse(f"{entry.fqn[:80]!r} is no call of a module")
        found.append(sig.ModuleCallEntry((path and check_path(path)) + mark + number, signature))
    if found and found[0].signature is None:
        raise refuse("it does not say how the program is called")
    return found


def named_arguments(spec: TreeSpec) -> TreeSpec:
    """The spec of (args, kwargs), whose keywords become parameters of code."""
    if spec.is_leaf() or spec.num_children != 2:
        raise refuse("the arguments of a call are not (args, kwargs)")
    keywords = spec.children_specs[1]
    if keywords.type is not dict:
        raise refuse("the keywords of a call are no dict")
    for name in keywords.context or ():
        if type(name) is not str:
            raise refuse("a keyword of a call is no name")
        check_identifier(name)
    return spec


def read_tree(text: str) -> TreeSpec:
    """A tree's spec. Classes are those that are registered; nothing is made by looking it up."""
    try:
        data = json.loads(text)
        if type(data) is not list or len(data) != 2:
            raise refuse("a tree has no version")
        check_tree(data[1], 0)
        return treespec_loads(text)
    except NotImplementedError as failure:
        # torch has the same class for types that nobody registered.
        raise refuse(str(failure)[:300]) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as failure:
        raise refuse(f"a tree's text is damaged ({type(failure).__name__})") from None


def check_tree(data: Any, depth: int) -> None:
    if depth > MOST_TREE_DEPTH:
        raise refuse("a tree is nested too deeply")
    if type(data) is not dict or type(data["children_spec"]) is not list:
        raise refuse("a part of a tree is no node")
    if data["type"] == "collections.defaultdict":
        context = data["context"]
        module, name = context["default_factory_module"], context["default_factory_name"]
        if module is not None and (module != "builtins" or name not in FACTORIES):
            raise refuse(f"a tree has a defaultdict of {str(name)[:80]!r}")
    for child in data["children_spec"]:
        check_tree(child, depth + 1)
