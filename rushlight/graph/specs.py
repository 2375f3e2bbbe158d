"""Flattening by a given spec: what generated code calls on nested inputs.

Unlike `pytree.tree_flatten`, the spec decides: the input may hold more than the spec asks for,
and a leaf of the spec may stand for a container.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from rushlight.base import pytree
from rushlight.base.pytree import TreeSpec

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

FlattenBySpec = Callable[[Any, TreeSpec], list[Any]]

SUPPORTED_NODES: dict[Any, FlattenBySpec] = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: FlattenBySpec,
    flatten_fn_exact_match_spec: Callable[[Any, TreeSpec], bool] | None = None,
) -> None:
    """Let `cls` be flattened by a spec: `flatten_fn_spec(tree, spec)` lists the children."""
    SUPPORTED_NODES[cls] = flatten_fn_spec


def flatten_sequence(tree: Any, spec: TreeSpec) -> list[Any]:
    return [tree[i] for i in range(spec.num_children)]


SUPPORTED_NODES[list] = SUPPORTED_NODES[tuple] = flatten_sequence
SUPPORTED_NODES[namedtuple] = flatten_sequence
SUPPORTED_NODES[dict] = lambda tree, spec: [tree[key] for key in spec.context]


def tree_flatten_spec(tree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of `tree`, as `spec` divides it."""
    if spec.is_leaf():
        return [tree]
    flatten = SUPPORTED_NODES.get(spec.type)
    if flatten is None:
        leaves, found = pytree.tree_flatten(tree)
        if found != spec:
            raise RuntimeError(
                f"Real spec {found} of object {tree} is different from expected spec {spec}."
            )
        return leaves
    result: list[Any] = []
    for child, child_spec in zip(flatten(tree, spec), spec.children()):
        result += tree_flatten_spec(child, child_spec)
    return result
