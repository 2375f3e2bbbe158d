"""`graph`: an autograd graph as a `Drawing`, which is a string that can be saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.viz.collect import Picture, Vertex, collect, show_bytes

__all__ = ["Drawing", "graph"]

FORMATS = ("text", "dot", "html")
SUFFIXES = {".txt": "text", ".dot": "dot", ".gv": "dot", ".html": "html", ".htm": "html"}


class Drawing(str):
    """The text of a picture; `save` writes it to a file in the format that its name asks for."""

    __slots__ = ("format", "picture")

    picture: Picture
    format: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture; `.txt`, `.dot` and `.html` names choose the format."""
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        text = render(self.picture, SUFFIXES.get(suffix, self.format))
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text + "\n")

    def _repr_html_(self) -> str:
        from rushlight.viz.html import svg

        return svg(self.picture)


def graph(
    tensors: Any, params: Any = None, format: str = "text", *, limit: int | None = 500
) -> Drawing:
    """Draw the graph behind a tensor, a sequence of tensors, or a mapping of names to tensors.

    `params` gives leaves their names: a module, a mapping or (name, tensor) pairs such as
    `named_parameters()`. `format` is "text" (a tree in which shared nodes have numbers), "dot"
    or "html" (one file that needs nothing else). At most `limit` nodes are drawn.

    >>> import rushlight as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> print(torch.viz.graph((w * w).sum(), params={"w": w}))
    output () float32
    SumBackward0 ()
    MulBackward0 (2) saves other (2) 8 B, self (2) 8 B
    ├─ #1 w (2) float32
    └─ see #1 w
    2 nodes, 1 leaf, 8 B saved
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {FORMATS}, not {format!r}")
    picture = collect(named_outputs(tensors), params, limit)
    drawing = Drawing(render(picture, format))
    drawing.picture = picture
    drawing.format = format
    return drawing


def named_outputs(tensors: Any) -> list[tuple[str, Any]]:
    if isinstance(tensors, Tensor):
        named: list[tuple[str, Any]] = [("output", tensors)]
    elif isinstance(tensors, Mapping):
        named = [(str(name), tensor) for name, tensor in tensors.items()]
    else:
        named = [(f"output {number}", tensor) for number, tensor in enumerate(tensors)]
    for name, tensor in named:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"graph() draws tensors, but {name} is {type(tensor).__name__}")
    return named


def render(picture: Picture, format: str) -> str:
    if format == "dot":
        return dot(picture)
    if format == "html":
        from rushlight.viz.html import page

        return page(picture)
    return text(picture)


# -- text -----------------------------------------------------------------------------------------


def text(picture: Picture) -> str:
    """A tree from each output; what has several users is drawn once and numbered. An only input
    stands right below its user, so that chains do not wander off to the right."""
    users: dict[int, int] = {}
    for vertex in picture.vertices:
        for target in vertex.inputs:
            users[target.number] = users.get(target.number, 0) + 1
    numbers: dict[int, int] = {}
    lines: list[str] = []
    # (vertex, what precedes it, what precedes its inputs); a stack, as graphs may be deep.
    stack = [(vertex, "", "") for vertex in reversed(picture.outputs)]
    while stack:
        vertex, lead, below = stack.pop()
        if vertex.number in numbers:
            lines.append(f"{lead}see #{numbers[vertex.number]} {vertex.title}")
            continue
        mark = ""
        if users.get(vertex.number, 0) > 1:
            numbers[vertex.number] = len(numbers) + 1
            mark = f"#{numbers[vertex.number]} "
        lines.append(f"{lead}{mark}{vertex.label}{saved_text(vertex)}")
        last = len(vertex.inputs) - 1
        if last == 0:
            stack.append((vertex.inputs[0], below, below))
            continue
        for position in range(last, -1, -1):
            corner, bar = ("└─ ", "   ") if position == last else ("├─ ", "│  ")
            stack.append((vertex.inputs[position], below + corner, below + bar))
    lines.append(picture.summary)
    return "\n".join(lines)


def saved_text(vertex: Vertex) -> str:
    if not vertex.saved:
        return ""
    return " saves " + ", ".join(saved_lines(vertex))


def saved_lines(vertex: Vertex) -> list[str]:
    return [
        f"{entry.name} {entry.text} {show_bytes(entry.nbytes) if entry.nbytes else ''}".rstrip()
        for entry in vertex.saved
    ]


# -- DOT ------------------------------------------------------------------------------------------

SHAPES = {
    "output": 'shape=box, style="rounded,filled", fillcolor="#d5e8d4"',
    "node": 'shape=box, style=filled, fillcolor="#f2f2f2"',
    "function": 'shape=box, style=filled, fillcolor="#ffe6cc"',
    "leaf": 'shape=box, style="rounded,filled", fillcolor="#dae8fc"',
    "more": "shape=plaintext",
}


def dot(picture: Picture) -> str:
    """For Graphviz. Arrows point the way the values flowed."""
    lines = ["digraph autograd {", '  node [fontname="monospace", fontsize=10];']
    lines.append(f"  label={quoted(picture.summary)};")
    for vertex in picture.vertices:
        label = "\n".join([vertex.title, *filter(None, [vertex.shape]), *saved_lines(vertex)])
        lines.append(f"  v{vertex.number} [label={quoted(label)}, {SHAPES[vertex.kind]}];")
    lines += [
        f"  v{target.number} -> v{vertex.number};"
        for vertex in picture.vertices
        for target in vertex.inputs
    ]
    return "\n".join([*lines, "}"])


def quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
