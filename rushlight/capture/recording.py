"""A graph while it is captured: nodes of the project's graphs, with examples of their values.

A node of another recording that is used here becomes an input of this one (`lifted`); that is how
the bodies of higher-order calls get what they use of the outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from rushlight.capture.outcomes import Break
from rushlight.capture.sources import Source
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node, map_arg

__all__ = [
    "EXAMPLE",
    "FLOAT",
    "HOOK",
    "NATIVE",
    "PART",
    "WRITES",
    "Recording",
    "contains_node",
    "examples_of",
]

EXAMPLE = "example_value"
# In the meta of a node that takes one result out of several.
PART = "part"
# In the meta of a node that runs as it is, whatever compiles the graph around it.
NATIVE = "native"
# What it is for such a node that puts a hook on a tensor.
HOOK = "hook"
# In the meta of an input: whether it is a float that calls give.
FLOAT = "float"
# In the meta of a call that writes to its arguments.
WRITES = "writes"


class Recording:
    def __init__(self, locate: Callable[[], str], outer: Recording | None = None) -> None:
        # The recording of the call that this is a body of.
        self.outer = outer
        # Where the user's program is, as a node's `stack_trace`.
        self.locate = locate
        self.graph = Graph()
        self.inputs: list[Node] = []
        self.sources: dict[Node, Source] = {}
        # What is done to what a source gives, for it to be an input; None: nothing.
        self.readers: dict[Node, Callable[[Any], Any] | None] = {}
        # Inputs that generated code makes: the variable, and the step that asked for it.
        self.made: dict[Node, tuple[Any, int]] = {}
        self.lifted: dict[Node, Node] = {}
        # Whether it writes to tensors, draws random numbers, or may raise for some values.
        self.writes = False
        self.draws = False
        self.may_raise = False
        self.attributes: dict[str, Any] = {}

    def add_input(self, name: str, example: Any, source: Source | None = None) -> Node:
        graph = self.graph
        taken = {node.target for node in self.inputs}
        if name in taken:
            name = next(
                f"{name}_{n}" for n in range(1, len(taken) + 2) if f"{name}_{n}" not in taken
            )
        with graph.inserting_after(self.inputs[-1]) if self.inputs else graph.inserting_before():
            node = self.graph.placeholder(name)
        node.meta[EXAMPLE] = example
        self.inputs.append(node)
        if source is not None:
            self.sources[node] = source
        return node

    def lift(self, node: Node) -> Node:
        if node.graph is self.graph:
            return node
        if node not in self.lifted:
            if not self.is_within(node.graph):
                raise Break("a tensor that leaves the transformed function it was made in")
            self.lifted[node] = self.add_input(node.name, node.meta[EXAMPLE])
        return self.lifted[node]

    def is_within(self, graph: Graph) -> bool:
        """Whether a graph is that of a recording around this one."""
        outer = self.outer
        while outer is not None and outer.graph is not graph:
            outer = outer.outer
        return outer is not None

    def reorder(self, inputs: list[Node]) -> None:
        """Put the inputs in an order."""
        for before, node in itertools.pairwise(inputs):
            before.append(node)
        self.inputs = inputs

    def add(self, op: str, target: Any, args: Any, kwargs: Any, example: Any) -> Node:
        args, kwargs = map_arg(tuple(args), self.lift), map_arg(dict(kwargs), self.lift)
        node = self.graph.create_node(op, target, args, kwargs)
        node.meta[EXAMPLE] = example
        node.meta["stack_trace"] = self.locate()
        return node

    def add_attribute(self, name: str, value: Any) -> Node:
        """A node that reads a constant of the graph's module."""
        self.attributes[name] = value
        return self.add("get_attr", name, (), {}, value)

    def drop_unused_parts(self) -> None:
        """Results of a call that nobody looks at need not be taken out of it, nor numbers be
        computed."""
        for node in reversed(list(self.graph.nodes)):
            if node.meta.get(PART) and not node.users:
                self.graph.erase_node(node)

    def calls(self) -> list[str]:
        """The names of what is called, in order."""
        return [
            node.target if isinstance(node.target, str) else node.target.__name__
            for node in self.graph.nodes
            if node.op.startswith("call")
        ]


def examples_of(value: Any) -> Any:
    """`value` with the examples in the place of nodes; lists and dicts are plain ones."""
    return map_nodes(value, lambda node: node.meta[EXAMPLE])


def contains_node(value: Any) -> bool:
    found: list[Node] = []
    map_nodes(value, found.append)
    return bool(found)


def map_nodes(value: Any, change: Callable[[Node], Any]) -> Any:
    if isinstance(value, Node):
        return change(value)
    kind = type(value)
    if isinstance(value, tuple | list):
        items = [map_nodes(item, change) for item in value]
        return kind(*items) if hasattr(value, "_fields") else kind(items)
    if kind is dict:
        return {key: map_nodes(item, change) for key, item in value.items()}
    if kind is slice:
        return slice(*[map_nodes(part, change) for part in (value.start, value.stop, value.step)])
    return value
