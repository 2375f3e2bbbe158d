"""Which nodes a backend can run: what partitioners ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.graph.names import qualified_name, type_name
from rushlight.graph.node import Node

__all__ = [
    "OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain",
    "create_op_support",
]  # fmt: skip

Modules = Mapping[str, Any]
# Per positional argument and per keyword the dtypes that are fine; None: all are.
SupportedDtypes = tuple[Sequence[Sequence[Any]], dict[str, Sequence[Any]]]


class OperatorSupportBase(ABC):
    """Says whether a node can be run."""

    @abstractmethod
    def is_node_supported(self, submodules: Modules, node: Node) -> bool:
        """Whether this node can be run; `submodules` are those of its graph's module, by path."""


class OperatorSupport(OperatorSupportBase):
    """Says it by the names of targets: {name: None, or the dtypes of arguments that are fine}."""

    def __init__(self, support_dict: Mapping[str, SupportedDtypes | None] | None = None) -> None:
        self._support_dict = dict(support_dict or {})

    def is_node_supported(self, submodules: Modules, node: Node) -> bool:
        if node.op not in ("call_function", "call_method", "call_module"):
            return True
        name = target_name(submodules, node)
        if name not in self._support_dict:
            return False
        rule = self._support_dict[name]
        if rule is None:
            return True
        positional, keywords = rule
        for allowed, argument in zip(positional, node.args):
            if not fits(argument, allowed):
                return False
        return all(fits(node.kwargs.get(key), allowed) for key, allowed in keywords.items())


def target_name(submodules: Modules, node: Node) -> str:
    if node.op == "call_function":
        return qualified_name(node.target)
    if node.op == "call_module":
        return type_name(type(submodules[str(node.target)]))
    return str(node.target)


def fits(argument: Any, allowed: Sequence[Any]) -> bool:
    """Whether a node's dtype is among these; what is no node always fits."""
    return not isinstance(argument, Node) or _get_arg_dtype(argument) in allowed


def _get_arg_dtype(arg: Node) -> Any:
    meta = arg.meta.get("tensor_meta")
    return getattr(meta, "dtype", None) or getattr(arg.meta.get("val"), "dtype", None)


class FunctionalSupport(OperatorSupportBase):
    """What a function says."""

    def __init__(self, function: Callable[[Modules, Node], bool]) -> None:
        self.function = function

    def is_node_supported(self, submodules: Modules, node: Node) -> bool:
        return self.function(submodules, node)


def create_op_support(function: Callable[[Modules, Node], bool]) -> OperatorSupportBase:
    """A function of (submodules, node) as an OperatorSupportBase."""
    return FunctionalSupport(function)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Nodes that all of these can run."""
    return create_op_support(
        lambda modules, node: all(each.is_node_supported(modules, node) for each in op_support)
    )


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Nodes that any of these can run."""
    return create_op_support(
        lambda modules, node: any(each.is_node_supported(modules, node) for each in op_support)
    )


class OpSupports:
    """Common conditions."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: Any) -> OperatorSupportBase:
        """All nodes but those with an input of this dtype."""
        return create_op_support(
            lambda modules, node: all(
                _get_arg_dtype(given) != dtype for given in node.all_input_nodes
            )
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """All nodes but those with these names."""
        return create_op_support(lambda modules, node: node.name not in disallow_set)
