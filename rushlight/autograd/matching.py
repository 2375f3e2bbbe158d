"""Recognising a graph: straight-line code that answers whether a graph is one met before.

`write_matcher` turns a scanned graph into a function of its root that compares every class, edge,
plain value, shape, stride and dtype with what it was, and hands back what the graph's program
needs. It says no to anything it does not expect; the scan then decides.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.node import AccumulateGrad, OpNode, SavedTensor
from rushlight.core.source import compile_source
from rushlight.core.tensor import PLAIN, Tensor

__all__ = ["write_matcher"]

LEAF = """
    t = {source}
    if type(t) is AccumulateGrad:
        if t.node_hooks is not None: return None
        t = t.variable
"""

NEW_LEAF = """
    if (type(t) is not Tensor and type(t) not in PLAIN) or t._ext is not None: return None
    s = t._ag
    if s is not None and (s.hooks is not None or s.post_accumulate): return None
    if t._array.shape != {shape} or t._dtype is not {dtype}: return None
    {name} = t
"""

SAVED = """
    t = s[{position}]
    v = 0
    if type(t) is SavedTensor:
        if t.unpack_hook is not None: return None
        v = t.version
        t = t.tensor
    if (type(t) is not Tensor and type(t) not in PLAIN) or t._ext is not None: return None
    c = t._counter
    if c is not None and c.value != v: return None
    c = t._ag
    if c is not None and c.detached_at: return None
    {name} = t._array
    if {name}.shape != {shape} or t._dtype is not {dtype} or {layout}: return None
"""


class MatcherWriter:
    """Collects the lines of one matcher and the constants they compare with."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {
            "AccumulateGrad": AccumulateGrad,
            "PLAIN": PLAIN,
            "SavedTensor": SavedTensor,
            "Tensor": Tensor,
        }
        self.places: dict[Any, str] = {}
        self.arrays: list[str] = []
        self.leaves: list[str] = []

    def constant(self, value: Any) -> str:
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def edges(self, node: Any, name: str) -> None:
        self.lines.append(f"    e = {name}.next_nodes")
        for position, following in enumerate(node.next_nodes):
            source = f"e[{position}]"
            if following is None:
                self.lines.append(f"    if {source} is not None: return None")
                continue
            if isinstance(following, OpNode):
                known = self.places.get(following)
                if known is not None:
                    self.lines.append(f"    if {source} is not {known}: return None")
                    continue
                found = self.places[following] = f"n{len(self.places)}"
                self.lines.append(f"    {found} = {source}")
                kind = self.constant(type(following))
                self.lines.append(
                    f"    if type({found}) is not {kind} or {found}.node_hooks is not None: "
                    "return None"
                )
                continue
            leaf = following.variable if type(following) is AccumulateGrad else following
            self.lines.append(LEAF.format(source=source))
            known = self.places.get(leaf)
            if known is not None:
                self.lines.append(f"    if t is not {known}: return None")
                continue
            found = self.places[leaf] = f"l{len(self.places)}"
            self.leaves.append(found)
            self.lines.append(
                NEW_LEAF.format(
                    name=found,
                    shape=self.constant(leaf._array.shape),
                    dtype=self.constant(leaf._dtype),
                )
            )
        numbers = self.constant(node.next_nrs)
        self.lines.append(f"    if {name}.next_nrs != {numbers}: return None")

    def slots(self, node: Any, name: str) -> None:
        self.lines.append(f"    s = {name}.saved_slots")
        self.lines.append("    if s is None: return None")
        for position, entry in enumerate(node.saved_slots):
            tensor = entry.tensor if type(entry) is SavedTensor else entry
            if isinstance(tensor, Tensor):
                found = f"a{len(self.arrays)}"
                self.arrays.append(found)
                layout = "not t._contig"
                if not tensor._contig:
                    layout = f"{found}.strides != {self.constant(tensor._array.strides)}"
                self.lines.append(
                    SAVED.format(
                        name=found,
                        position=position,
                        shape=self.constant(tensor._array.shape),
                        dtype=self.constant(tensor._dtype),
                        layout=layout,
                    )
                )
            elif entry is None:
                self.lines.append(f"    if s[{position}] is not None: return None")
            else:
                value, kind = self.constant(entry), self.constant(type(entry))
                self.lines.append(
                    f"    if type(s[{position}]) is not {kind} or s[{position}] != {value}: "
                    "return None"
                )


def write_matcher(nodes: list[Any], number: int) -> Any:
    """The matcher of a graph given by its nodes in the order of a scan.

    It answers None, or (saved arrays, leaves, nodes), each in the order of the scan.
    """
    writer = MatcherWriter()
    writer.places[nodes[0]] = "root"
    writer.lines.append(f"    if number != {number}: return None")
    writer.lines.append("    if root.node_hooks is not None: return None")
    for node in nodes:
        name = writer.places[node]
        writer.edges(node, name)
        writer.slots(node, name)
    names = [writer.places[node] for node in nodes]
    parts = ", ".join(f"({', '.join(part)},)" if part else "()" for part in (
        writer.arrays, writer.leaves, names,
    ))  # fmt: skip
    source = "\n".join(["def match(root, number):", *writer.lines, f"    return {parts}"]) + "\n"
    compile_source(source, "graph matcher", writer.scope)
    return writer.scope["match"]
