"""Sizes that may differ, as callers of `torch.onnx.export` say it: `dynamic_axes` by the names of
inputs, texts for dims, and inputs under the names that the model gives them.

All become `dynamic_shapes` of `torch.export`; a text is the name of a size that may be any.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rushlight.base import pytree
from rushlight.export.dimensions import Dim, DimHint, DimHintType
from rushlight.export.inputs import collect_inputs
from rushlight.export.shapes import NOTHING, Walker, bound_arguments, parameters_of, process

__all__ = ["NamedSize", "shapes_of_axes", "split_keywords", "with_named_sizes", "with_room"]


class NamedSize(DimHint):
    """A size that must be able to vary, with the name that the model shows for it."""

    def __init__(self, name: str | None) -> None:
        super().__init__(DimHintType.DYNAMIC)
        self.name = name


def split_keywords(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments. torch: a dict of parameters that ends the positional
    arguments has keywords."""
    if kwargs is None and args and isinstance(args[-1], dict):
        known = parameters_of(model).parameters
        if all([isinstance(key, str) and key in known for key in args[-1]]):
            return args[:-1], dict(args[-1])
    return args, dict(kwargs or {})


def with_named_sizes(
    model: Any, shapes: Any, input_names: Sequence[str], args: Any, kwargs: dict[str, Any]
) -> Any:
    """`dynamic_shapes` without texts, by the names of parameters."""
    if isinstance(shapes, Mapping) and input_names:
        parameters = list(bound_arguments(model, args, kwargs))
        renamed = dict(zip(input_names, parameters))
        if not set(shapes) <= set(parameters) and set(shapes) <= set(renamed):
            shapes = {renamed[name]: spec for name, spec in shapes.items()}
    return pytree.tree_map_only(str, NamedSize, shapes)


def shapes_of_axes(
    model: Any,
    axes: Mapping[str, Any],
    input_names: Sequence[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    """`dynamic_shapes` that say what `dynamic_axes` says of inputs; those of results follow."""
    bound = bound_arguments(model, args, kwargs)
    names = names_by_parameter(model, bound, input_names, args, kwargs)

    def visit(value: Any, spec: Any, path: str) -> Any:
        said = axes.get(next(place), {})
        dims = said.items() if isinstance(said, Mapping) else [(dim, None) for dim in said]
        return {dim: NamedSize(name) for dim, name in dims} or None

    found = {}
    for parameter, value in bound.items():
        place = names[parameter]
        found[parameter] = Walker(visit).walk(value, NOTHING, "")
    return found


def names_by_parameter(
    model: Any,
    bound: dict[str, Any],
    input_names: Sequence[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[str, Iterator[str]]:
    """The names of the leaves of each parameter. Leaves stand in the order of a call's arguments:
    those that are given by keyword come last, in the order of the call."""
    own = collect_inputs(model, args, kwargs).names
    names = iter([*input_names, *own[len(input_names) :]])
    kinds = parameters_of(model).parameters
    last = [name for name in bound if kinds[name].kind is inspect.Parameter.VAR_KEYWORD]
    by_keyword = [name for name in kwargs if name in bound]
    first = [name for name in bound if name not in by_keyword and name not in last]
    found = {}
    for parameter in (*first, *by_keyword, *last):
        count = len(pytree.tree_leaves(bound[parameter]))
        found[parameter] = iter([next(names) for _ in range(count)])
    return found


def with_room(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments for tracing: a size of one that may be any is two there, since programs that are
    made for one hold for one."""
    if shapes is None:
        return args, kwargs
    _, structure = pytree.tree_flatten((args, kwargs))
    leaves = []
    for leaf in process(model, args, kwargs, shapes).leaves:
        value = leaf.value
        for dim, entry in enumerate(leaf.entries):
            if value.shape[dim] == 1 and may_be_two(entry):
                value = value.detach().repeat_interleave(2, dim)
        leaves.append(value)
    found: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(leaves, structure)
    return found


def may_be_two(entry: Any) -> bool:
    if isinstance(entry, Dim):
        return entry.root is entry and entry.min <= 2 <= entry.max
    return isinstance(entry, DimHint) and entry.type is DimHintType.DYNAMIC
