"""`program`: an fx graph as a `ProgramDrawing`, which is a string that can be saved.

What is shown of a node comes from its metadata: `val` or `tensor_meta` for shape and dtype,
`stack_trace` for the line of the source, `nn_module_stack` for the module that it belongs to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node, format_arg
from rushlight.viz.collect import show_shape
from rushlight.viz.graphs import FORMATS, SUFFIXES, quoted

__all__ = ["ProgramDrawing", "Step", "draw_graph", "program", "steps_of"]

PLACE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+)(?:, in (?P<function>.+))?')
# torch: inputs of a joint graph whose names start so are gradients.
TANGENT = "tangents"


class Step:
    """One node, as it is drawn."""

    __slots__ = (
        "call", "dtype", "inputs", "kind", "name", "path", "phase", "shape", "source", "trained"
    )  # fmt: skip

    def __init__(self, node: Node, phase: str) -> None:
        self.name = node.name
        self.kind = node.op
        self.call = call_text(node)
        self.shape, self.dtype = value_text(node)
        self.source = source_text(node)
        self.phase = phase  # "forward" or "backward"
        self.path = module_path(node)
        self.inputs = [given.name for given in node.all_input_nodes]
        self.trained = is_trained(node)

    @property
    def value(self) -> str:
        return f"{self.shape} {self.dtype}".strip()

    def as_dict(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in self.__slots__}


def call_text(node: Node) -> str:
    if node.op == "placeholder":
        return "input"
    if node.op == "output":
        return f"return {format_arg(node.args[0])}"
    target = str(node.target) if node.op != "call_function" else function_text(node.target)
    if node.op == "get_attr":
        return f"self.{target}"
    shown = [format_arg(argument) for argument in node.args]
    shown += [f"{name}={format_arg(value)}" for name, value in node.kwargs.items()]
    prefix = {"call_module": "self.", "call_method": "."}.get(node.op, "")
    return f"{prefix}{target}({', '.join(shown)})"


def function_text(target: Any) -> str:
    overload = getattr(target, "_overloadname", None)
    return str(target) if overload is not None else str(getattr(target, "__name__", target))


def value_text(node: Node) -> tuple[str, str]:
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    if isinstance(value, (list, tuple)) and not hasattr(value, "shape"):
        return f"{len(value)} values", ""
    if not hasattr(value, "shape"):
        return "" if value is None else str(value), ""
    return show_shape(value.shape), str(value.dtype).rpartition(".")[2]


def source_text(node: Node) -> str:
    """file:line of the innermost place that a node came from."""
    found = list(PLACE.finditer(node.stack_trace or ""))
    if not found:
        return ""
    return f"{os.path.basename(found[-1]['file'])}:{found[-1]['line']}"


def is_trained(node: Node) -> bool:
    """Whether a node gives a parameter to the program."""
    if node.op == "get_attr":
        return True
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    return node.op == "placeholder" and bool(getattr(value, "requires_grad", False))


def module_path(node: Node) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    last = list(stack.values())[-1]
    return str(last[0] if isinstance(last, tuple) else last).removeprefix("L['self'].")


def steps_of(graph: Graph) -> list[Step]:
    """The nodes of a graph. Those that a gradient leads to are of the backward."""
    backward: set[Node] = set()
    steps = []
    for node in graph.nodes:
        tangent = node.op == "placeholder" and node.name.startswith(TANGENT)
        tagged = "is_backward" in str(node.meta.get("partitioner_tag", ""))
        marked = bool(node.meta.get("autograd_backward"))
        reached = node.op != "output" and any(given in backward for given in node.all_input_nodes)
        if tangent or tagged or marked or reached:
            backward.add(node)
        steps.append(Step(node, "backward" if node in backward else "forward"))
    return steps


class ProgramDrawing(str):
    """The text of a picture; `save` writes it to a file in the format that its name asks for."""

    __slots__ = ("format", "steps", "title")

    steps: list[Step]
    format: str
    title: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture; `.txt`, `.dot` and `.html` names choose the format."""
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        text = render(self.steps, SUFFIXES.get(suffix, self.format), self.title)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text + "\n")

    def _repr_html_(self) -> str:
        from html import escape

        page = escape(render(self.steps, "html", self.title), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 32rem; border: 0"></iframe>'


def program(module: Any, format: str = "text", *, title: str | None = None) -> ProgramDrawing:
    """Draw an fx graph, or the graph of a graph module.

    `format` is "text", "dot" or "html": one page that needs nothing else, with a search, details of
    nodes, and modules that fold up. Forward and backward have colours of their own.

    >>> import rushlight as torch
    >>> from rushlight.aot.tracing import make_fx
    >>> print(torch.viz.program(make_fx(lambda x: x.sin() * 2)(torch.ones(3))))
    x_1  (3) float32  input
    sin  (3) float32  aten.sin.default(%x_1)
    mul  (3) float32  aten.mul.Tensor(%sin, 2)
    output  return %mul
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {FORMATS}, not {format!r}")
    graph = module.graph if isinstance(module, GraphModule) else module
    if not isinstance(graph, Graph):
        raise TypeError(f"program() draws fx graphs and graph modules, not {type(module).__name__}")
    name = title or (type(module).__name__ if isinstance(module, GraphModule) else "graph")
    steps = steps_of(graph)
    drawing = ProgramDrawing(render(steps, format, name))
    drawing.steps, drawing.format, drawing.title = steps, format, name
    return drawing


def draw_graph(traced: Any, fname: str, figname: str = "fx_graph", **options: Any) -> None:
    """Write a picture of a graph module to a file; without a suffix, as an HTML page."""
    drawing = program(traced, "html", title=figname)
    drawing.save(fname if os.path.splitext(fname)[1] in SUFFIXES else f"{fname}.html")


def render(steps: list[Step], format: str, title: str) -> str:
    if format == "dot":
        return dot(steps, title)
    if format == "html":
        from rushlight.viz.page import page

        return page(steps, title)
    return text(steps)


# -- text ------------------------------------------------------------------------------------------


def text(steps: Iterable[Step]) -> str:
    """A line for each node; a heading where another module, or the backward, begins."""
    lines, before = [], ("", "forward")
    for step in steps:
        here = (step.path, step.phase)
        if here != before and step.kind != "output":
            lines.append(f"-- {' '.join(filter(None, here))}")
            before = here
        lines.append("  ".join(filter(None, [step.name, step.value, step.call, step.source])))
    return "\n".join(lines)


# -- DOT -------------------------------------------------------------------------------------------

COLORS = {
    "forward": "#dae8fc",
    "backward": "#ffe6cc",
    "placeholder": "#d5e8d4",
    "get_attr": "#fff2cc",
}


def dot(steps: list[Step], title: str) -> str:
    """For Graphviz: a box for each node, a frame for each module."""
    lines = [f"digraph {quoted(title)} {{", '  node [fontname="monospace", fontsize=10];']
    frames: dict[str, list[str]] = {}
    for step in steps:
        label = "\n".join(filter(None, [step.name, step.value, step.call, step.source]))
        color = COLORS.get(step.kind, COLORS[step.phase])
        style = f'shape=box, style="rounded,filled", fillcolor="{color}"'
        frames.setdefault(step.path, []).append(
            f"{quoted(step.name)} [label={quoted(label)}, {style}];"
        )
    for number, (path, boxes) in enumerate(frames.items()):
        if not path:
            lines += [f"  {box}" for box in boxes]
            continue
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={quoted(path)};")
        lines += [f"    {box}" for box in boxes]
        lines.append("  }")
    lines += [
        f"  {quoted(given)} -> {quoted(step.name)};" for step in steps for given in step.inputs
    ]
    return "\n".join([*lines, "}"])
