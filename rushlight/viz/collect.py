"""What a picture of an autograd graph shows, gathered without touching the graph.

Saved tensors are described, never unpacked: unpacking would run hooks, or recompute a
checkpointed region. Vertices are found breadth first from the outputs, so that a limit keeps the
part nearest to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from rushlight.core.node import AccumulateGrad, SavedTensor, gradient_node
from rushlight.core.tensor import Tensor

__all__ = ["Picture", "Saved", "Vertex", "collect"]


class Saved:
    """One tensor that a node keeps for backward."""

    __slots__ = ("name", "nbytes", "text")

    def __init__(self, name: str, text: str, nbytes: int) -> None:
        self.name = name
        self.text = text
        self.nbytes = nbytes


class Vertex:
    """A box of the picture. `inputs` are the vertices its gradient flows to."""

    __slots__ = ("inputs", "kind", "number", "saved", "shape", "title")

    def __init__(self, number: int, kind: str, title: str, shape: str) -> None:
        self.number = number
        self.kind = kind  # "output", "node", "function", "leaf" or "more"
        self.title = title
        self.shape = shape
        self.saved: list[Saved] = []
        self.inputs: list[Vertex] = []

    @property
    def label(self) -> str:
        return f"{self.title} {self.shape}".rstrip()


class Picture:
    """All vertices, outputs first, and the totals."""

    def __init__(self) -> None:
        self.vertices: list[Vertex] = []
        self.outputs: list[Vertex] = []
        self.nbytes = 0
        self.nodes = 0
        self.left_out = 0

    def add(self, kind: str, title: str, shape: str) -> Vertex:
        vertex = Vertex(len(self.vertices), kind, title, shape)
        self.vertices.append(vertex)
        self.nodes += kind in ("node", "function")
        return vertex

    @property
    def summary(self) -> str:
        nodes = self.nodes
        leaves = sum(vertex.kind == "leaf" for vertex in self.vertices)
        text = (
            f"{nodes} node{'' if nodes == 1 else 's'}, {leaves} lea{'f' if leaves == 1 else 'ves'}"
            f", {show_bytes(self.nbytes)} saved"
        )
        return f"{text}; {self.left_out} more not shown" if self.left_out else text


def show_shape(sizes: Any) -> str:
    return f"({', '.join(str(size) for size in sizes)})"


def show_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def show_tensor(tensor: Any) -> str:
    return f"{show_shape(tensor.shape)} {str(tensor.dtype).rpartition('.')[2]}"


def names_of(params: Any) -> dict[int, str]:
    """Names of leaves by identity, from a mapping, (name, tensor) pairs or a module."""
    if params is None:
        return {}
    if hasattr(params, "named_parameters"):
        params = params.named_parameters()
    elif isinstance(params, Mapping):
        params = params.items()
    elif not isinstance(params, Iterable):
        raise TypeError(
            "params must be a module, a mapping of names to tensors or an iterable of (name, "
            f"tensor) pairs, not {type(params).__name__}"
        )
    return {id(tensor): str(name) for name, tensor in params}


def collect(outputs: list[tuple[str, Any]], params: Any, limit: int | None) -> Picture:
    """The graph behind named output tensors, at most `limit` nodes of it."""
    names = names_of(params)
    picture = Picture()
    found: dict[int, Vertex] = {}
    memory: set[int] = set()
    waiting: deque[tuple[Vertex, Any]] = deque()
    cut: set[int] = set()

    def vertex_for(target: Any) -> Vertex | None:
        """The vertex of a node or leaf; None where the limit cuts it off."""
        leaf = target.variable if type(target) is AccumulateGrad else target
        if id(leaf) in found:
            return found[id(leaf)]
        if isinstance(leaf, Tensor):
            vertex = picture.add("leaf", names.get(id(leaf), "leaf"), show_tensor(leaf))
        elif limit is not None and picture.nodes >= limit:
            cut.add(id(leaf))
            return None
        else:
            vertex = node_vertex(picture, leaf, memory)
            waiting.append((vertex, leaf))
        found[id(leaf)] = vertex
        return vertex

    for name, tensor in outputs:
        vertex = picture.add("output", name, show_tensor(tensor))
        picture.outputs.append(vertex)
        target = gradient_node(tensor)
        if target is not None:
            link(picture, vertex, vertex_for(target))
    while waiting:
        vertex, node = waiting.popleft()
        for target in node.next_nodes:
            if target is not None:
                link(picture, vertex, vertex_for(target))
    picture.left_out = len(cut)
    return picture


def link(picture: Picture, vertex: Vertex, target: Vertex | None) -> None:
    if target is None:
        target = picture.add("more", "...", "")
    vertex.inputs.append(target)


def node_vertex(picture: Picture, node: Any, memory: set[int]) -> Vertex:
    shapes = [show_shape(meta[0]) for meta in node.output_metas if meta is not None]
    kind = "function" if hasattr(type(node), "_forward_cls") else "node"
    vertex = picture.add(kind, node.name().rpartition("::")[2], " ".join(shapes))
    inner = getattr(node, "inner", None)
    if inner is not None:
        # CopySlices: what was saved belongs to the op that wrote through the view.
        vertex.title += f" of {inner.name()}"
        node = inner
    slots = node.saved_slots
    if slots is None:
        return vertex
    names = getattr(type(node), "saved_names", ())
    for position, entry in enumerate(slots):
        name = names[position] if position < len(names) else f"[{position}]"
        items = entry if isinstance(entry, (list, tuple)) else (entry,)
        for number, item in enumerate(items):
            label = name if items is not entry else f"{name}[{number}]"
            saved = describe(label, item, picture, memory)
            if saved is not None:
                vertex.saved.append(saved)
    return vertex


def describe(name: str, entry: Any, picture: Picture, memory: set[int]) -> Saved | None:
    """A saved slot, if it holds a tensor. Memory is added to the total once."""
    if type(entry) is SavedTensor:
        if entry.unpack_hook is not None:
            return Saved(name, "packed by a hook", 0)
        entry = entry.tensor
    if not isinstance(entry, Tensor):
        return None
    nbytes = int(entry.nbytes)
    owner = id(memory_of(entry))
    if owner not in memory:
        memory.add(owner)
        picture.nbytes += nbytes
    return Saved(name, show_shape(entry.shape), nbytes)


def memory_of(tensor: Any) -> Any:
    """The object that holds a tensor's memory, found without making a Storage."""
    array = tensor._array
    while getattr(array, "base", None) is not None:
        array = array.base
    return tensor if array is None else array
