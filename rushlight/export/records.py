"""Dataclasses as containers of inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from rushlight.base import pytree
from rushlight.base.pytree import GetAttrKey

__all__ = ["register_dataclass", "register_dataclass_as_pytree_node"]


def register_dataclass(
    cls: type[Any], *, serialized_type_name: str | None = None, field_names: Any = None
) -> None:
    """Let instances of a dataclass be inputs and outputs of programs.

    >>> import rushlight as torch
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Pair:
    ...     left: torch.Tensor
    ...     right: torch.Tensor
    >>> register_dataclass(Pair)
    >>> class Sum(torch.nn.Module):
    ...     def forward(self, pair):
    ...         return pair.left + pair.right
    >>> inputs = (Pair(torch.ones(2), torch.ones(2)),)
    >>> torch.export.export(Sum(), inputs).module()(*inputs)
    tensor([2., 2.])
    """
    register_dataclass_as_pytree_node(cls, serialized_type_name=serialized_type_name)


def register_dataclass_as_pytree_node(
    cls: type[Any],
    flatten_fn: Callable[[Any], Any] | None = None,
    unflatten_fn: Callable[[Any, Any], Any] | None = None,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    return_none_fields: bool = False,
) -> None:
    """As `register_dataclass`, with functions of one's own. Fields that are None are not among the
    leaves unless `return_none_fields`."""
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")

    def flatten_with_keys(record: Any) -> tuple[list[Any], Any]:
        leaves, names, absent = [], [], []
        for field in dataclasses.fields(cls):
            value = getattr(record, field.name)
            if value is not None or return_none_fields:
                leaves.append((GetAttrKey(field.name), value))
                names.append(field.name)
            else:
                absent.append(field.name)
        return leaves, [names, absent]

    def flatten(record: Any) -> tuple[list[Any], Any]:
        leaves, context = flatten_with_keys(record)
        return [value for _, value in leaves], context

    def unflatten(values: Any, context: Any) -> Any:
        names, absent = context
        return cls(**dict(zip(names, values)), **dict.fromkeys(absent))

    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    pytree.register_pytree_node(
        cls,
        flatten_fn or flatten,
        unflatten_fn or unflatten,
        serialized_type_name=serialized_type_name or f"{cls.__module__}.{cls.__qualname__}",
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=None if flatten_fn else flatten_with_keys,
    )
