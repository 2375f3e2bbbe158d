"""Versions of archives. torch: what some operators mean depends on the version of a file.

A file has the least version that its operators need, so that no reader takes one for its older
namesake.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.types import TensorType

OLDEST = 3
# From this version on the number stands in a folder of its own.
MOVED = 6
SINCE = {
    **dict.fromkeys(("aten::div", "aten::div_"), 4),
    "aten::full": 5,
    "aten::linspace": 8,
    "aten::logspace": 9,
    "aten::gelu": 10,
}
# Those that give something else in older files: whole numbers by whole numbers, and whole fillings.
CHANGED = frozenset(("aten::div", "aten::div_", "aten::full"))


def needed_version(kinds: Iterable[str]) -> int:
    return max([SINCE.get(kind, OLDEST) for kind in kinds], default=OLDEST)


def version_path(version: int) -> str:
    return "version" if version < MOVED else ".data/version"


def changed_since(graph: Graph, version: int) -> str | None:
    """An operator of a graph that meant something else in files of a version."""
    for node in graph.all_nodes():
        if node._kind in CHANGED and SINCE[node._kind] > version:
            takes_tensor = isinstance(node._inputs[0]._type, TensorType)
            if takes_tensor or node._kind == "aten::full":
                return node._kind
        if node.hasAttribute("Subgraph"):
            inner = changed_since(node.read("g", "Subgraph"), version)
            if inner is not None:
                return inner
    return None
