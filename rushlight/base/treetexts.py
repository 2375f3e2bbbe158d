"""Specs of trees as text, in PyTorch's format, and back.

A type is known by the name it was registered under; a context is JSON unless its type says how it
is written.
"""

from __future__ import annotations

import json
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

from rushlight.base.errors import fail
from rushlight.base.pytree import LEAF, NAMEDTUPLE_NAMES, SUPPORTED_NODES, TreeSpec, tree_map

PROTOCOL = 1
BUILTIN_NAMES: dict[Any, str] = {
    tuple: "builtins.tuple",
    list: "builtins.list",
    dict: "builtins.dict",
    OrderedDict: "collections.OrderedDict",
    defaultdict: "collections.defaultdict",
    deque: "collections.deque",
    namedtuple: "collections.namedtuple",
}


def name_of(kind: Any) -> str:
    if kind in BUILTIN_NAMES:
        return BUILTIN_NAMES[kind]
    name = SUPPORTED_NODES[kind].serialized_type_name
    if name is None:
        fail("RL0213", NotImplementedError, node=kind)
    return name


def namedtuple_name(cls: Any) -> str:
    """The name of a class of named tuples, which the context of a spec holds."""
    name = NAMEDTUPLE_NAMES.get(cls)
    if name is None:
        fail("RL0213", NotImplementedError, node=cls)
    return name


def namedtuple_called(name: Any) -> Any:
    for cls, known in NAMEDTUPLE_NAMES.items():
        if known == name:
            return cls
    fail("RL0214", NotImplementedError, name=name)


def type_named(name: str) -> Any:
    for kind, known in BUILTIN_NAMES.items():
        if known == name:
            return kind
    for kind, node in SUPPORTED_NODES.items():
        if node.serialized_type_name == name:
            return kind
    fail("RL0214", NotImplementedError, name=name)


def as_data(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    name = name_of(spec.type)
    to_data = SUPPORTED_NODES[spec.type].to_dumpable_context
    context: Any
    if spec.type is defaultdict:
        factory, keys = spec.context
        context = {
            "default_factory_module": getattr(factory, "__module__", None),
            "default_factory_name": getattr(factory, "__qualname__", None),
            "dict_context": keys,
        }
    elif spec.type is namedtuple:
        context = namedtuple_name(spec.context)
    elif to_data is not None:
        context = to_data(spec.context)
    else:
        try:
            context = json.dumps(spec.context)
        except TypeError as error:
            fail("RL0215", TypeError, node=spec.type, reason=error)
    return {
        "type": name,
        "context": context,
        "children_spec": [as_data(child) for child in spec.children_specs],
    }


def from_data(data: Any) -> TreeSpec:
    if data["type"] is None:
        return LEAF
    kind, context = type_named(data["type"]), data["context"]
    from_context = SUPPORTED_NODES[kind].from_dumpable_context
    if kind is defaultdict:
        module, name = context["default_factory_module"], context["default_factory_name"]
        # Nothing is imported because a text says so.
        home = sys.modules.get(module or "")
        if module is not None and home is None:
            fail("RL0218", ImportError, module=module, name=name)
        factory = None if home is None else getattr(home, name)
        context = [factory, context["dict_context"]]
    elif kind is namedtuple:
        context = namedtuple_called(context)
    elif from_context is not None:
        context = from_context(context)
    else:
        context = json.loads(context)
    return TreeSpec(kind, context, [from_data(child) for child in data["children_spec"]])


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A spec as JSON text."""
    if not isinstance(treespec, TreeSpec):
        fail("RL0210", TypeError, found=type(treespec))
    check_protocol(PROTOCOL if protocol is None else protocol)
    return json.dumps((PROTOCOL, as_data(treespec)))


def treespec_loads(serialized: str) -> TreeSpec:
    """The spec that `treespec_dumps` wrote."""
    protocol, data = json.loads(serialized)
    check_protocol(protocol)
    return from_data(data)


def check_protocol(protocol: Any) -> None:
    if protocol != PROTOCOL:
        fail("RL0216", ValueError, protocol=protocol, known=[PROTOCOL])


class Star:
    """Shown where a leaf stands."""

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The tree that a spec describes, with stars for leaves."""
    stars = treespec.unflatten([Star() for _ in range(treespec.num_leaves)])
    return repr(tree_map(lambda leaf: leaf, stars))
