"""Lists and dicts that refuse to be changed: what a node's arguments are made of.

A node counts the uses of other nodes; arguments that changed behind its back would falsify that.
"""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.base import pytree

__all__ = ["immutable_dict", "immutable_list"]

ADVICE = (
    "If you are attempting to modify the kwargs or args of a torch.fx.Node object,\n"
    "instead create a new copy of it and assign the copy to the node:\n\n"
    "    new_args = ...  # copy and mutate args\n"
    "    node.args = new_args"
)


def refuse_mutation(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {ADVICE}")


class immutable_list(list[Any]):
    """A list that cannot be changed."""

    __module__ = "rushlight.fx.immutable_collections"

    __delitem__ = refuse_mutation
    __iadd__ = refuse_mutation
    __imul__ = refuse_mutation
    __setitem__ = refuse_mutation
    append = refuse_mutation
    clear = refuse_mutation
    extend = refuse_mutation
    insert = refuse_mutation
    pop = refuse_mutation
    remove = refuse_mutation
    reverse = refuse_mutation
    sort = refuse_mutation

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that cannot be changed."""

    __module__ = "rushlight.fx.immutable_collections"

    __delitem__ = refuse_mutation
    __ior__ = refuse_mutation
    __setitem__ = refuse_mutation
    clear = refuse_mutation
    pop = refuse_mutation
    popitem = refuse_mutation
    setdefault = refuse_mutation
    update = refuse_mutation

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self.items()),)


def list_with_keys(tree: immutable_list) -> Any:
    return [(pytree.SequenceKey(place), child) for place, child in enumerate(tree)], None


def dict_with_keys(tree: immutable_dict) -> Any:
    return [(pytree.MappingKey(key), child) for key, child in tree.items()], list(tree)


pytree.register_pytree_node(
    immutable_list,
    lambda tree: (list(tree), None),
    lambda leaves, _: immutable_list(leaves),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=list_with_keys,
)
pytree.register_pytree_node(
    immutable_dict,
    lambda tree: (list(tree.values()), list(tree)),
    lambda leaves, keys: immutable_dict(zip(keys, leaves)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=dict_with_keys,
)
