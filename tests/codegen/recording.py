"""Graphs written by hand for the tests of the code generator."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import rushlight
from rushlight.core import device as devices
from rushlight.core.tensor import Tensor, shell, strides_of
from rushlight.graph.graph import Graph
from rushlight.graph.node import map_arg

pytest.importorskip("llvmlite")

aten = rushlight.ops.aten


def without_values(value: Any) -> Any:
    if isinstance(value, Tensor):
        return shell(tuple(value.shape), strides_of(value), value.dtype, devices.meta)
    if isinstance(value, (list, tuple)):
        return type(value)([without_values(item) for item in value])
    return value


class Recording:
    """A module-like holder of a graph, and of what its nodes are worth in an eager run."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.inputs: list[Tensor] = []
        self.known: dict[Any, Any] = {}

    def input(self, tensor: Tensor) -> Any:
        node = self.graph.placeholder(f"a{len(self.inputs)}")
        node.meta["val"] = without_values(tensor)
        self.inputs.append(tensor)
        self.known[node] = tensor
        return node

    def constant(self, name: str, tensor: Tensor) -> Any:
        setattr(self, name, tensor)
        node = self.graph.create_node("get_attr", name, (), {})
        node.meta["val"] = without_values(tensor)
        self.known[node] = tensor
        return node

    def call(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        node = self.graph.call_function(op, args, kwargs)
        given = map_arg(args, lambda n: self.known[n])
        named = map_arg(kwargs, lambda n: self.known[n])
        found = given[0][given[1]] if op is operator.getitem else op(*given, **named)
        self.known[node] = found
        node.meta["val"] = without_values(found)
        return node

    def output(self, *nodes: Any) -> Recording:
        self.graph.output(tuple(nodes))
        self.results = tuple([self.known[node] for node in nodes])
        return self


def flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]
