"""`FxGraphDrawer`: a graph as a picture in the DOT language, without pydot."""

from __future__ import annotations

from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node, format_arg, typename

__all__ = ["Dot", "FxGraphDrawer"]

COLORS = {
    "placeholder": "AliceBlue",
    "call_module": "LemonChiffon1",
    "get_attr": "LightYellow2",
    "call_function": "PowderBlue",
    "call_method": "Thistle1",
    "output": "PowderBlue",
}
BLANK = "_"


class Dot:
    """A picture in the DOT language: nodes with attributes, edges, and pictures inside it."""

    def __init__(self, name: str, label: str = "", kind: str = "digraph") -> None:
        self.name = name
        self.label = label
        self.kind = kind
        self.nodes: dict[str, dict[str, str]] = {}
        self.edges: list[tuple[str, str]] = []
        self.parts: list[Dot] = []

    def get_name(self) -> str:
        return self.name

    def get_node_list(self) -> list[str]:
        return list(self.nodes)

    def get_edge_list(self) -> list[tuple[str, str]]:
        return list(self.edges)

    def to_string(self, indent: str = "") -> str:
        inner = indent + "  "
        lines = [f"{indent}{self.kind} {quoted(self.name)} {{"]
        lines.append(f"{inner}rankdir=TB;")
        if self.label:
            lines.append(f"{inner}label={quoted(self.label)};")
        for name, attributes in self.nodes.items():
            text = ", ".join([f"{key}={quoted(value)}" for key, value in attributes.items()])
            lines.append(f"{inner}{quoted(name)} [{text}];")
        lines += [part.to_string(inner) for part in self.parts]
        lines += [f"{inner}{quoted(a)} -> {quoted(b)};" for a, b in self.edges]
        return "\n".join([*lines, f"{indent}}}"])

    def __str__(self) -> str:
        return self.to_string()

    def write(self, path: Any) -> None:
        """Write the text to a file, for Graphviz to draw."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_string() + "\n")

    write_raw = write_dot = write


def quoted(text: str) -> str:
    escaped = text.replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class FxGraphDrawer:
    """Draws a graph module; called graph modules have pictures of their own.

    >>> import rushlight as torch
    >>> module = torch.fx.symbolic_trace(lambda x: x.relu())
    >>> print(FxGraphDrawer(module, "f").get_dot_graph().to_string().splitlines()[0])
    digraph "f" {
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        self._name = name
        self.ignore_getattr = ignore_getattr
        self.ignore_parameters_and_buffers = ignore_parameters_and_buffers
        self.skip_node_names_in_args = skip_node_names_in_args
        self.parse_stack_trace = parse_stack_trace
        self.shape = "record" if dot_graph_shape is None else dot_graph_shape
        self.normalize_args = normalize_args
        self._dot_graphs: dict[str, Dot] = {name: self.draw(graph_module, name)}
        for path, module in graph_module.named_modules():
            if path and isinstance(module, GraphModule):
                self._dot_graphs[f"{name}_{path}"] = self.draw(module, f"{name}_{path}")

    def get_dot_graph(self, submod_name: str | None = None) -> Dot:
        """The picture of the module, or of a graph module in it."""
        if submod_name is None:
            return self.get_main_dot_graph()
        return self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> Dot:
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Dot:
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Dot]:
        return self._dot_graphs

    def draw(self, module: GraphModule, name: str) -> Dot:
        picture = Dot(name, name)
        for node in module.graph.nodes:
            if self.ignore_getattr and node.op == "get_attr":
                continue
            picture.nodes[node.name] = {
                "label": self.label_of(module, node),
                "shape": self.shape,
                "style": "filled,rounded",
                "fillcolor": COLORS.get(node.op, "white"),
                "fontcolor": "#000000",
            }
            called = getattr(module, str(node.target), None) if node.op == "call_module" else None
            if called is not None and not self.ignore_parameters_and_buffers:
                for path, tensor in (*called.named_parameters(), *called.named_buffers()):
                    key = f"{node.name}.{path}"
                    picture.nodes[key] = {
                        "label": escape(f"{path}\n{describe(tensor)}"),
                        "shape": self.shape,
                        "style": "filled",
                        "fillcolor": "White",
                    }
                    picture.edges.append((key, node.name))
            for given in node.all_input_nodes:
                if not (self.ignore_getattr and given.op == "get_attr"):
                    picture.edges.append((given.name, node.name))
        return picture

    def label_of(self, module: GraphModule, node: Node) -> str:
        rows = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            rows.append(typename(type(module.get_submodule(str(node.target)))))
        else:
            rows.append(f"target={node._pretty_print_target(node.target)}")
        rows += self.arguments_of(module, node)
        rows.append(f"num_users={len(node.users)}")
        value = node.meta.get("tensor_meta", node.meta.get("val"))
        if value is not None:
            rows += [describe(each) for each in (value if is_sequence(value) else [value])]
        if self.parse_stack_trace and node.stack_trace:
            rows.append(node.stack_trace.strip().splitlines()[-1].strip())
        text = "|".join([escape(row) for row in rows])
        return f"{{{text}}}"

    def arguments_of(self, module: GraphModule, node: Node) -> list[str]:
        args, kwargs = node.args, node.kwargs
        if self.normalize_args:
            from rushlight.fx.operator_schemas import normalize_node

            found = normalize_node(module, node, only_kwargs=True)
            if found is not None:
                args, kwargs = found.args, found.kwargs
        shown = []
        for label, value in (("args", args), ("kwargs", kwargs)):
            text = self.argument_text(value)
            if text:
                shown.append(f"{label}={text}")
        return shown

    def argument_text(self, value: Any) -> str:
        if not value:
            return ""
        if not self.skip_node_names_in_args:
            return format_arg(value)
        if isinstance(value, dict):
            rest = {k: v for k, v in value.items() if not isinstance(v, Node)}
            return format_arg(rest) if rest else ""
        return format_arg(tuple([BLANK if isinstance(v, Node) else v for v in value]))


def is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not hasattr(value, "_fields")


def describe(value: Any) -> str:
    """A value's dtype and sizes."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}"
    return str(value)


def escape(text: str) -> str:
    """Text as a field of a DOT record."""
    for character in "\\{}|<>":
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", "\\l")
