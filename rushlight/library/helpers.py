"""Small questions about schemas and calls that programs ask when they wrap operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rushlight.base.schema import Argument, Schema, Type
from rushlight.core.binding import default_value
from rushlight.core.op import OpOverload, Tag

__all__ = ["fill_defaults", "is_builtin", "is_functional_schema", "zip_schema"]


def is_builtin(op: OpOverload) -> bool:
    return op.namespace in ("aten", "prim", "prims")


def is_tensor_like_type(kind: Type) -> bool:
    """Whether values are tensors, optional ones included."""
    return kind.kind == "Tensor"


def is_tensorlist_like_type(kind: Type) -> bool:
    """Whether values are lists of tensors."""
    return kind.is_tensor_like and kind.kind != "Tensor"


def is_functional_schema(schema: Schema | str, *, allow_valid_view: bool = False) -> bool:
    """Whether an operator writes nothing, returns no view of an argument, and returns something."""
    found = Schema(schema, "") if isinstance(schema, str) else schema
    if found.is_mutable or not found.returns:
        return False
    aliases = [entry for entry in found.returns if entry.alias_info is not None]
    return allow_valid_view or not aliases


def mutates_and_returns_first_arg(op: OpOverload) -> bool:
    """Whether an operator is an in-place one: it writes to its first argument alone, and that is
    what it returns."""
    schema = op._schema
    if op.namespace != "aten" and len(schema.returns) != 1:
        return False
    if len(schema.returns) != 1 or not schema.arguments:
        return False
    first, result = schema.arguments[0].alias_info, schema.returns[0].alias_info
    if first is None or result is None or not first.is_write or first.names != result.names:
        return False
    return not any([argument.is_write for argument in schema.arguments[1:]])


def fill_defaults(
    schema: Schema, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call with the defaults of those left out."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for place, argument in enumerate(schema.arguments):
        if argument.kwarg_only:
            given = argument.name in kwargs
            keywords[argument.name] = kwargs[argument.name] if given else default_value(argument)
        elif place < len(args):
            positional.append(args[place])
        elif argument.name in kwargs:
            positional.append(kwargs[argument.name])
        else:
            positional.append(default_value(argument))
    return tuple(positional), keywords


def zip_schema(
    schema: Schema, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[Argument, Any]]:
    """Pairs of a schema's argument and the value given for it."""
    if len(schema.arguments) < len(args) + len(kwargs):
        raise AssertionError(
            f"{schema.name} takes {len(schema.arguments)} arguments, got {len(args) + len(kwargs)}"
        )
    for place, argument in enumerate(schema.arguments):
        if argument.name in kwargs:
            yield argument, kwargs[argument.name]
        elif not argument.kwarg_only and place < len(args):
            yield argument, args[place]


def mutated_args_kwargs(schema: Schema) -> tuple[list[int], list[str]]:
    """Places of the written positional arguments, and names of the written keyword-only ones."""
    places = [i for i, a in enumerate(schema.arguments) if a.is_write and not a.kwarg_only]
    return places, [a.name for a in schema.arguments if a.is_write and a.kwarg_only]


def has_kwarg_only_args(schema: Schema) -> bool:
    return any([argument.kwarg_only for argument in schema.arguments])


def has_kwarg_only_tensors(schema: Schema) -> bool:
    return any([a.kwarg_only and a.type.is_tensor_like for a in schema.arguments])


def has_tensor_arg(schema: Schema) -> bool:
    return any([argument.type.is_tensor_like for argument in schema.arguments])


def get_device_arg_index(schema: Schema) -> int | None:
    """The place of the argument named `device`."""
    names = [argument.name for argument in schema.arguments]
    return names.index("device") if "device" in names else None


def can_generate_trivial_fake_impl(op: OpOverload) -> bool:
    """Whether an operator only writes, so that without values it does nothing."""
    return (
        not is_builtin(op)
        and op._schema.is_mutable
        and not op._schema.returns
        and Tag.dynamic_output_shape not in op.tags
    )
