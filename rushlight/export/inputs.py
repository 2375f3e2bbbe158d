"""The arguments of an export: checked, named and flattened.

The leaves stand in the order of `tree_flatten((args, kwargs))`, here and in every program.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.base import pytree
from rushlight.base.pytree import GetAttrKey, MappingKey, SequenceKey, TreeSpec
from rushlight.capture.exc import UserError, UserErrorType
from rushlight.core.tensor import Tensor
from rushlight.export.leafchecks import shown_path
from rushlight.nn.module import Module
from rushlight.symbolic.numbers import NUMBERS

__all__ = ["CallInputs", "collect_inputs", "forward_names", "signature_of"]

PLAIN = (int, float, bool, str, type(None))
ILLEGAL = re.compile(r"[^a-zA-Z0-9]")


@dataclass
class CallInputs:
    """A call's arguments and what is known of their leaves."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[Any]
    paths: list[Any]
    structure: TreeSpec
    # Of the parameters that the arguments are for.
    forward_names: list[str]
    # Of the placeholders, before collisions are settled.
    names: list[str]


def collect_inputs(mod: Any, args: Any, kwargs: Any) -> CallInputs:
    """Check what `export` was given and flatten it."""
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}",
        )
    kwargs = dict(kwargs or {})
    found, structure = pytree.tree_flatten_with_path((args, kwargs))
    for path, leaf in found:
        if not isinstance(leaf, (Tensor, *PLAIN, *NUMBERS)) and not is_known_leaf(leaf):
            raise ValueError(
                f"Unsupported input type {type(leaf)} at {shown_path(path)}. Export only supports "
                "pytree containers of basic types (Tensor, int, float, ...) as input. To register "
                "a custom dataclass, use torch.export.register_dataclass. To register a custom "
                "container type, use torch.utils._pytree.register_pytree_node. To register a "
                "constant input, use torch.utils._pytree.register_constant"
            )
    names = forward_names(mod, args, kwargs)
    return CallInputs(
        args,
        kwargs,
        [leaf for _, leaf in found],
        [path for path, _ in found],
        structure,
        names,
        [leaf_name(path, names) for path, _ in found],
    )


def is_known_leaf(leaf: Any) -> bool:
    """Whether a leaf is a value that ops take as it is."""
    from rushlight.core.device import device, layout, memory_format
    from rushlight.core.dtype import dtype

    return isinstance(leaf, (device, dtype, layout, memory_format))


def signature_of(mod: Module) -> inspect.Signature:
    """The parameters of a module's forward; compiled ones state them in a schema."""
    forward: Any = mod.forward
    if not hasattr(forward, "schema") or not hasattr(forward, "owner"):
        return inspect.signature(forward)
    arguments = forward.schema.arguments[len(forward.owner()) :]
    return inspect.Signature(
        [
            inspect.Parameter(
                argument.name,
                inspect.Parameter.KEYWORD_ONLY
                if argument.kwarg_only
                else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=argument.default_value
                if argument.has_default_value()
                else inspect.Parameter.empty,
            )
            for argument in arguments
        ]
    )


def forward_names(mod: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """The names of the parameters that these arguments are for; those that one parameter takes
    together are numbered."""
    names: list[str] = []
    variable = "args"
    try:
        parameters = list(signature_of(mod).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            variable = parameter.name
    names = names[: len(args)]
    names += [f"{variable}_{number}" for number in range(len(args) - len(names))]
    return [*names, *kwargs]


def leaf_name(path: Any, names: Sequence[str]) -> str:
    """The name of a placeholder: of its parameter, then the way to the leaf."""
    side, place = path[0].idx, path[1]
    first = names[place.idx] if side == 0 else str(place.key)
    parts = [first, *[key_name(key) for key in path[2:]]]
    return "_".join([ILLEGAL.sub("_", part) for part in parts]).lower()


def key_name(key: Any) -> str:
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, MappingKey):
        return str(key.key)
    if isinstance(key, GetAttrKey):
        return str(key.name)
    raise AssertionError(f"A container of the inputs has keys of type {type(key)}")
