"""Signatures of operators, and calls with all their arguments written out."""

from __future__ import annotations

import inspect
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, Optional, get_args, get_origin

from rushlight.base.errors import error
from rushlight.base.schema import Schema, Type, parameter_name
from rushlight.core.device import device, layout, memory_format
from rushlight.core.dtype import dtype
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.rng import Generator
from rushlight.core.tensor import Tensor
from rushlight.graph.node import Node, typename
from rushlight.opset.registry import find_packet

__all__ = [
    "ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint",
    "get_signature_for_torch_op", "normalize_function", "normalize_module", "normalize_node",
    "type_matches",
]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """Arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


# -- signatures ------------------------------------------------------------------------------------

PYTHON_TYPES: dict[str, Any] = {
    "Tensor": Tensor, "int": int, "SymInt": int, "float": float, "SymFloat": float, "bool": bool,
    "SymBool": bool, "str": str, "complex": complex, "Scalar": numbers.Number,
    "number": numbers.Number, "ScalarType": dtype, "Layout": layout, "MemoryFormat": memory_format,
    "Device": device, "Generator": Generator,
}  # fmt: skip


def python_type(given: Type) -> Any:
    """A schema's type as a Python annotation."""
    if given.element is not None:
        found: Any = list[python_type(given.element)]  # type: ignore[misc]
    else:
        found = PYTHON_TYPES.get(given.kind, Any)
    return Optional[found] if given.optional else found  # noqa: UP045


def schema_signature(schema: Schema) -> inspect.Signature:
    """The signature of the Python function that an operator is; `self` is called `input`."""
    taken = {argument.name for argument in schema.arguments}
    parameters = []
    for argument in schema.arguments:
        is_self = argument.name == "self" and "input" not in taken
        kind = (
            inspect.Parameter.KEYWORD_ONLY
            if argument.kwarg_only
            else inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
        default = argument.default_value if argument.has_default else inspect.Parameter.empty
        parameters.append(
            inspect.Parameter(
                "input" if is_self else parameter_name(argument.name),
                kind,
                default=default,
                annotation=python_type(argument.type),
            )
        )
    results = [python_type(entry.type) for entry in schema.returns]
    returned = results[0] if len(results) == 1 else tuple[tuple(results)]  # type: ignore[misc]
    return inspect.Signature(parameters, return_annotation=returned)


# torch: functions that have other names for arguments than their operator.
PYTHON_NAMES = {
    "split": {
        "input": "tensor",
        "split_size": "split_size_or_sections",
        "split_sizes": "split_size_or_sections",
    }
}


def renamed(signature: inspect.Signature, names: dict[str, str]) -> inspect.Signature:
    parameters = [
        parameter.replace(name=names.get(parameter.name, parameter.name))
        for parameter in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters)


def all_overloads(packet: OpOverloadPacket) -> list[OpOverload]:
    """The overloads of a packet, and the one that writes to `out`, which is derived of them."""
    found = getattr(packet, "out", None)
    known = list(packet.table.values())
    return known if found is None or found in known else [*known, found]


def overloads_of(op: Any) -> list[OpOverload] | None:
    """The overloads that a public function, a packet or an overload stands for."""
    if isinstance(op, OpOverload):
        return [op]
    if isinstance(op, OpOverloadPacket):
        return all_overloads(op)
    if str(getattr(op, "__module__", "")).endswith("nn.functional"):
        # Written in Python: its parameters need not be an operator's.
        return None
    if not inspect.isfunction(op):
        return None
    is_stub = op.__code__.co_filename.startswith("<rushlight")
    if not is_stub and op.__module__ not in ("rushlight", "torch"):
        return None
    try:
        return all_overloads(find_packet("aten", op.__name__))
    except KeyError:
        return None


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of an operator's overloads, None for what is none; with their schemas too."""
    overloads = overloads_of(op)
    if overloads is None:
        return (None, None) if return_schemas else None
    schemas = [overload._schema for overload in overloads]
    signatures = [schema_signature(schema) for schema in schemas]
    if inspect.isfunction(op) and op.__name__ in PYTHON_NAMES:
        signatures = [renamed(signature, PYTHON_NAMES[op.__name__]) for signature in signatures]
    return (signatures, schemas) if return_schemas else signatures


def check_for_mutable_operation(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise where a call writes to what it is given, which a traced graph cannot say."""
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    if not signatures:
        return
    found = []
    for signature, schema in zip(signatures, schemas, strict=True):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        found.append(schema)
    if found and all(schema.is_mutable for schema in found):
        raise error("RL0715", schema=found[0])


# -- types -----------------------------------------------------------------------------------------


def create_type_hint(x: Any) -> Any:
    """The type of a list or tuple of types; anything else as it is."""
    if isinstance(x, (list, tuple)):
        origin: Any = list if isinstance(x, list) else tuple
        if not x:
            return origin[Any] if origin is list else tuple[Any, ...]
        base: Any = x[0]
        for other in x[1:]:
            if not (isinstance(base, type) and isinstance(other, type)):
                return origin[Any] if origin is list else tuple[Any, ...]
            if issubclass(other, base):
                continue
            base = other if issubclass(base, other) else Any
        return list[base] if origin is list else tuple[base, ...]
    return x


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of one type may be given where a signature has another."""
    origin = get_origin(signature_type)
    if signature_type is argument_type or signature_type is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        if signature_type == argument_type:
            return True
        return any(type_matches(each, argument_type) for each in get_args(signature_type))
    if origin is list:
        inner = get_args(signature_type)[0]
        if inner is int and argument_type is int:
            # An int for a list of ints: each of them.
            return True
        if get_origin(argument_type) is list:
            return type_matches(inner, get_args(argument_type)[0])
        if get_origin(argument_type) is tuple:
            parts = [part for part in get_args(argument_type) if part is not Ellipsis]
            return all(type_matches(inner, part) for part in parts)
        return False
    if signature_type is int and argument_type is dtype:
        return True
    if signature_type is numbers.Number and argument_type in (int, float, bool, complex):
        return True
    if signature_type is float and argument_type is int:
        return True
    return (
        isinstance(signature_type, type)
        and isinstance(argument_type, type)
        and issubclass(argument_type, signature_type)
    )


# -- calls -----------------------------------------------------------------------------------------


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """A call's arguments with the defaults written out, positional ones by position or all by name.

    None where the function has no signature. Where several overloads take the call, the types of
    the arguments must be given.

    >>> import rushlight as torch
    >>> normalize_function(torch.nn.functional.relu, (1,))
    ArgsKwargsPair(args=(1,), kwargs={'inplace': False})
    """
    kwargs = kwargs or {}
    signatures = get_signature_for_torch_op(target)
    matched = [signature for signature in signatures or () if binds(signature, args, kwargs)]
    if len(matched) > 1:
        if arg_types is None and kwarg_types is None:
            listing = "\n".join([str(signature) for signature in signatures])
            raise RuntimeError(
                f"Tried to normalize arguments to {typename(target)} but the schema match was "
                "ambiguous! Please provide argument types to the normalize_arguments() call. "
                f"Available schemas:\n{listing}"
            )
        hints = tuple([create_type_hint(kind) for kind in arg_types or ()])
        named = {name: create_type_hint(kind) for name, kind in (kwarg_types or {}).items()}
        matched = [signature for signature in matched if accepts(signature, hints, named)]
        if not matched:
            return None
    if not matched:
        # Functions of `nn.functional` may take more than the operator that they are called after.
        return of_python_function(target, args, kwargs, normalize_to_only_use_kwargs)
    return written_out(matched[0], args, kwargs, normalize_to_only_use_kwargs)


def binds(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def accepts(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a signature takes arguments of these types."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return all(
        kind is None or type_matches(signature.parameters[name].annotation, kind)
        for name, kind in bound.arguments.items()
    )


def of_python_function(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], only_kwargs: bool
) -> ArgsKwargsPair | None:
    """The call of a function that is written in Python, such as those of `nn.functional`."""
    module = getattr(target, "__module__", None) or ""
    if not module.startswith(("rushlight.", "torch.")) or not inspect.isfunction(target):
        return None
    signature = inspect.signature(inspect.unwrap(target))
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    starred = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if kinds & starred or not binds(signature, args, kwargs):
        return None
    return written_out(signature, args, kwargs, only_kwargs)


def written_out(
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    only_kwargs: bool,
) -> ArgsKwargsPair:
    """The arguments as the call gives them, by name where it does, and the defaults by name."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for place, name in enumerate(signature.parameters):
        if not only_kwargs and place < len(args):
            positional.append(bound.arguments[name])
        else:
            named[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(positional), named)


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The same for a call of a module of `nn` below `root`; None for others."""
    try:
        module = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from None
    if not type(module).__module__.startswith(("rushlight.nn", "torch.nn")):
        return None
    signature = inspect.signature(module.forward)
    return written_out(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_node(root: Any, node: Node, only_kwargs: bool = False) -> ArgsKwargsPair | None:
    """The arguments of a node's call; None where there is no signature to go by."""
    if node.op == "call_function":
        kinds = [type_of(argument) for argument in node.args]
        named = {name: type_of(value) for name, value in node.kwargs.items()}
        target: Any = node.target
        return normalize_function(
            target, node.args, dict(node.kwargs), tuple(kinds), named, only_kwargs
        )
    if node.op == "call_module":
        return normalize_module(root, str(node.target), node.args, dict(node.kwargs), only_kwargs)
    return None


def type_of(argument: Any) -> Any:
    """What is known of an argument's type."""
    if not isinstance(argument, Node):
        return type(argument)
    value = argument.meta.get("val")
    return argument.meta.get("type") or (None if value is None else type(value))
