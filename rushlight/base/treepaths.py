"""Where a leaf lies in a tree: paths of keys, and functions that pass them along.

Invariant: `key_get(tree, path) is leaf` for every (path, leaf) of `tree_flatten_with_path(tree)`.
"""

from __future__ import annotations

from collections import deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rushlight.base.errors import fail
from rushlight.base.pytree import (
    DICT_TYPES,
    SUPPORTED_NODES,
    IsLeaf,
    PyTree,
    TreeSpec,
    node_type,
    tree_is_leaf,
    tree_structure,
)


@dataclass(frozen=True)
class SequenceKey:
    """The place of an item in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """The key of an entry of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """The name of an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


# Any object with `get` and a text; these are the ones made here.
KeyEntry = SequenceKey | MappingKey | GetAttrKey
KeyPath = tuple[Any, ...]


def keystr(path: KeyPath) -> str:
    """The path as code that follows the name of the tree."""
    return "".join([str(key) for key in path])


def key_get(tree: PyTree, path: KeyPath) -> Any:
    """What lies at the end of a path."""
    for key in path:
        tree = key.get(tree)
    return tree


def children_with_keys(tree: PyTree) -> list[tuple[Any, Any]]:
    """(key, child) for each child of a node."""
    return children_as(node_type(tree), tree)


def flatten_with_keys_as(cls: Any) -> Callable[[PyTree], tuple[list[tuple[Any, Any]], Any]]:
    """How a built-in container comes apart with keys, for classes that are like it."""
    return lambda tree: (children_as(cls, tree), SUPPORTED_NODES[cls].flatten_fn(tree)[1])


def children_as(cls: Any, tree: PyTree) -> list[tuple[Any, Any]]:
    if cls in DICT_TYPES:
        return [(MappingKey(key), value) for key, value in tree.items()]
    if cls is namedtuple:
        return [(GetAttrKey(name), getattr(tree, name)) for name in tree._fields]
    if cls in (tuple, list, deque):
        return [(SequenceKey(place), item) for place, item in enumerate(tree)]
    with_keys = SUPPORTED_NODES[cls].flatten_with_keys_fn
    if with_keys is None:
        fail("RL0212", ValueError, node=cls)
    return list(with_keys(tree)[0])


def collect(tree: PyTree, path: KeyPath, found: list[tuple[KeyPath, Any]], is_leaf: IsLeaf) -> None:
    if tree_is_leaf(tree, is_leaf):
        found.append((path, tree))
        return
    for key, child in children_with_keys(tree):
        collect(child, (*path, key), found, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """(path, leaf) for every leaf, from left to right."""
    found: list[tuple[KeyPath, Any]] = []
    collect(tree, (), found, is_leaf)
    return found


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """(path, leaf) for every leaf, and the tree's spec."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """The tree of `func(path, leaf, *others)`."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(
        [func(path, leaf, *items) for (path, leaf), *items in zip(pairs, *others, strict=True)]
    )
