"""Schemas read off the annotations of a function."""

from __future__ import annotations

import inspect
import types
import typing
from collections import abc
from numbers import Number
from typing import Any

from rushlight.core import device, dtype
from rushlight.core.tensor import Tensor

__all__ = ["infer_schema"]


def annotation_types() -> dict[Any, str]:
    return {
        Tensor: "Tensor",
        int: "SymInt",
        float: "float",
        bool: "bool",
        str: "str",
        int | float | bool: "Scalar",
        Number: "Scalar",
        dtype.dtype: "ScalarType",
        device.device: "Device",
    }


def schema_type(annotation: Any, known: dict[Any, str]) -> str | None:
    """A parameter annotation as a schema type; None when it has none."""
    found = known.get(annotation)
    if found is not None:
        return found
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [entry for entry in inner if entry is not type(None)]
        if len(rest) < len(inner):
            chosen = rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007
            base = schema_type(chosen, known)
            return None if base is None else f"{base}?"
        if set(rest) <= {int, float, bool}:
            return "Scalar"
        return None
    if origin in (list, abc.Sequence):
        element = schema_type(inner[0], known)
        return None if element is None else f"{element}[]"
    return None


def return_type(annotation: Any, known: dict[Any, str]) -> str | None:
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        parts = [schema_type(entry, known) for entry in typing.get_args(annotation)]
        return None if None in parts else f"({', '.join([str(part) for part in parts])})"
    return schema_type(annotation, known)


def default_text(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dtype.dtype):
        return str(value.name)
    if isinstance(value, device.device):
        return f'"{value}"'
    return str(value)


def infer_schema(
    prototype_function: Any, /, *, mutates_args: Any, op_name: str | None = None
) -> str:
    """The schema that a function's annotations describe.

    >>> def f(x: Tensor, n: int = 2) -> Tensor: ...
    >>> infer_schema(f, mutates_args=())
    '(Tensor x, SymInt n=2) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError:
        hints = {}

    def refuse(text: str) -> None:
        raise ValueError(f"infer_schema(func): {text} Got func with signature {signature})")

    known = annotation_types()
    parts: list[str] = []
    starred = False
    unknown = mutates_args == "unknown"
    written = () if unknown else tuple(mutates_args)
    for number, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        ):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if parameter.annotation is parameter.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        kind = schema_type(hints.get(name, parameter.annotation), known)
        if kind is None:
            refuse(
                f"Parameter {name} has unsupported type {parameter.annotation}. The valid types "
                "are Tensor, int, float, bool, str, Number, dtype, device, and lists and optional "
                "forms of them."
            )
            continue
        if name in written or (unknown and kind.startswith("Tensor")):
            if not kind.startswith("Tensor"):
                refuse(
                    f"Parameter {name} is in mutates_args but only Tensors or collections of "
                    "Tensors can be mutated."
                )
            kind = kind.replace("Tensor", f"Tensor(a{number}!)", 1)
        text = f"{kind} {name}"
        if parameter.default is not parameter.empty:
            text += f"={default_text(parameter.default)}"
        parts.append(text)
    missing = set(written) - set(signature.parameters)
    if missing:
        refuse(
            f"mutates_args should contain the names of all args that the custom op mutates, but "
            f"{sorted(missing)} are not among the parameters."
        )
    if signature.return_annotation is signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    answer = return_type(hints.get("return", signature.return_annotation), known)
    if answer is None:
        refuse(
            f"Return has unsupported type {signature.return_annotation}. The valid types are "
            "Tensor, list[Tensor], int, float, bool, Number, None and tuples of them."
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {answer}"
