"""Where nodes come from: entries of `meta["from_node"]`, and the node that is run again."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

__all__ = [
    "NodeSource", "NodeSourceAction", "get_current_replay_node", "get_graph_provenance_json",
    "set_current_replay_node",
]  # fmt: skip

# What is deeper than this is not shown.
DEEPEST = 9
REPLAYED: list[Any] = [None]


class NodeSourceAction(Enum):
    """How a node came about."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """The node that another one was made from, by which pass and how; and where that came from."""

    class NodeInfo:
        def __init__(self, name: str, target: str, graph_id: int) -> None:
            self.name = name
            self.target = target
            self.graph_id = graph_id

    def __init__(self, node: Any, pass_name: str = "", action: Any = None) -> None:
        actions = [] if action is None else action if isinstance(action, list) else [action]
        for each in actions:
            if not isinstance(each, NodeSourceAction):
                raise AssertionError(f"Expected NodeSourceAction, got {type(each)}")
        self.pass_name = pass_name
        self.action = actions
        self.node_info = None
        self.from_node: list[NodeSource] = []
        if node:
            self.node_info = self.NodeInfo(node.name, str(node.target), id(node.graph))
            self.from_node = copy.deepcopy(node.meta.get("from_node", []))

    @property
    def name(self) -> str:
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        return self.node_info.graph_id if self.node_info else -1

    def _get_action_string(self) -> str:
        return "+".join([each.name.lower() for each in self.action])

    def print_readable(self, indent: int = 0) -> str:
        if indent > DEEPEST:
            return ""
        line = (
            f"{'    ' * indent}(name={self.name}, pass_name={self.pass_name}, "
            f"action={self._get_action_string()}, graph_id={self.graph_id})\n"
        )
        return line + "".join([each.print_readable(indent + 1) for each in self.from_node])

    __repr__ = print_readable

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [each.to_dict() for each in self.from_node],
        }

    @classmethod
    def _from_dict(cls, d: dict[str, Any] | None) -> NodeSource | None:
        if d is None:
            return None
        made = cls(None, d.get("pass_name", ""))
        actions = [word for word in d.get("action", "").split("+") if word]
        made.action = [NodeSourceAction(word) for word in actions]
        if d.get("name") or d.get("target"):
            made.node_info = cls.NodeInfo(d["name"], d["target"], d["graph_id"])
        made.from_node = [part for each in d.get("from_node", []) if (part := cls._from_dict(each))]
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.print_readable())


@contextmanager
def set_current_replay_node(node: Any) -> Iterator[None]:
    """Within it, `node` is the one that is run again."""
    REPLAYED.append(node)
    try:
        yield
    finally:
        REPLAYED.pop()


def get_current_replay_node() -> Any:
    return REPLAYED[-1]


def get_graph_provenance_json(graph: Any) -> dict[str, Any]:
    """Where the calls of functions in a graph come from, by their names."""
    return {
        node.name: [source.to_dict() for source in node.meta.get("from_node", [])]
        for node in graph.nodes
        if node.op == "call_function"
    }
