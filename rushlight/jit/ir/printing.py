"""The text of graphs, which `parsing` reads back: public, and the same as torch's to the letter."""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.jit.ir.graph import Block, Graph, Node, Value

# Tensors of more elements are not written out.
MOST_ELEMENTS = 10
LINE = 80
ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "'": "\\'",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def print_graph(graph: Graph, sources: bool = True) -> str:
    """The text of a graph; graphs that nodes hold follow, under the name of the node."""
    taken = ",\n      ".join([typed(value) for value in graph.inputs()])
    lines = [f"graph({taken}):\n"]
    groups: list[Node] = []
    for node in graph.nodes():
        write_node(node, 1, sources, lines, groups)
    lines.append(f"  return ({names(graph.outputs())})\n")
    for place, node in enumerate(groups):
        inner = print_graph(node.read("g", "Subgraph"), sources)
        lines.append(f"with {node._kind}_{place} = {inner}")
    return "".join(lines)


def print_node(node: Node) -> str:
    lines: list[str] = []
    write_node(node, 0, True, lines)
    return "".join(lines)


def print_block(block: Block) -> str:
    lines: list[str] = []
    for node in block.nodes():
        write_node(node, 0, True, lines)
    return "".join(lines)


def write_node(
    node: Node, depth: int, sources: bool, lines: list[str], groups: list[Node] | None = None
) -> None:
    """`groups` collects the nodes that hold a graph, which is printed later."""
    indent = "  " * depth
    outputs = ", ".join([typed(value) for value in node._outputs])
    text = f"{indent}{outputs} = {operation(node, groups)}"
    if node.scope:
        text += f", scope: {node.scope}"
    if sources and node.source.file:
        text += f" # {node.source}"
    lines.append(text + "\n")
    for place, block in enumerate(node._blocks):
        taken = ", ".join([typed(value) for value in block.inputs()])
        lines.append(f"{indent}  block{place}({taken}):\n")
        for inner in block.nodes():
            write_node(inner, depth + 2, sources, lines, groups)
        lines.append(f"{indent}    -> ({names(block.outputs())})\n")


def operation(node: Node, groups: list[Node] | None = None) -> str:
    """What stands after the `=`: the kind with its attributes and inputs."""
    inputs = f"({names(node._inputs)})"
    if groups is not None and node.python is None and "Subgraph" in node._attributes:
        groups.append(node)
        return f"{node._kind}_{len(groups) - 1}{inputs}"
    if node.python is not None:
        constants = ", ".join([python_text(value) for value in node.python.constants])
        return f"^{node.python.name}{attributes(node) or '[]'}({constants}){inputs}"
    return f"{node._kind}{attributes(node)}{inputs}"


def typed(value: Value) -> str:
    return f"%{value.debugName()} : {value._type.str()}"


def names(values: list[Value]) -> str:
    return ", ".join([f"%{value.debugName()}" for value in values])


def attributes(node: Node) -> str:
    if not node._attributes:
        return ""
    texts = [
        f"{name}={attribute_text(entry.letter, entry.value)}"
        for name, entry in node._attributes.items()
    ]
    return f"[{', '.join(texts)}]"


def attribute_text(letter: str, value: Any) -> str:
    if len(letter) > 1 and letter.endswith("s") and letter != "tys":
        if letter in ("ts", "gs"):
            return "[<Tensors>]" if letter == "ts" else "[<Graphs>]"
        return f"[{', '.join([attribute_text(letter[:-1], item) for item in value])}]"
    if letter == "g":
        return "<Graph>"
    if letter == "ty":
        return str(value.str())
    if letter == "tys":
        return f"[{', '.join([item.str() for item in value])}]"
    if letter == "t":
        return tensor_text(value)
    return value_text(value)


def value_text(value: Any) -> str:
    """A Python value that lies in an attribute."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, complex):
        return f"{float_text(value.real)}+{float_text(value.imag)}j"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, enum.Enum):
        from rushlight.jit.naming import qualified_name

        return f"{qualified_name(type(value))}.{value.name}"
    if isinstance(value, Tensor):
        return "<Tensor>"
    if isinstance(value, list):
        if value and isinstance(value[0], Tensor):
            return "[<Tensors>]"
        return f"[{', '.join([value_text(item) for item in value])}]"
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join([value_text(item) for item in value])}{comma})"
    if isinstance(value, dict):
        pairs = [f"{value_text(key)}: {value_text(item)}" for key, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    return str(value)


def float_text(value: float) -> str:
    """Seventeen digits, and a point where nothing else says that it is a float."""
    text = f"{value:.17g}"
    return text if set(text) & set(".enai") else text + "."


def quoted(text: str) -> str:
    return '"' + "".join([ESCAPES.get(letter, letter) for letter in text]) + '"'


def python_text(value: Any) -> str:
    """An argument of a call of Python."""
    if isinstance(value, tuple | list):
        return f"[{', '.join([python_text(item) for item in value])}]"
    return str(value)


# -- tensors ---------------------------------------------------------------------------------------


def tensor_text(tensor: Tensor) -> str:
    """Small tensors with their elements, others by their class."""
    count = tensor.numel()
    if count == 1:
        return f"{{{element_text(tensor)}}}"
    if count > MOST_ELEMENTS:
        return "<Tensor>"
    return " ".join(tensor_lines(tensor))


def element_text(tensor: Tensor) -> str:
    value = tensor.item()
    if isinstance(value, complex):
        return f"({value.real:g},{value.imag:g})"
    return f"{value:g}" if isinstance(value, float) else str(int(value))


def tensor_lines(tensor: Tensor) -> list[str]:
    """A tensor as torch's C++ prints it: every matrix with its elements in columns."""
    if not tensor.dim():
        return [element_text(tensor), f"[ CPU{tensor.dtype.scalar_type_name}Type{{}} ]"]
    numbers = [real_part(value) for value in tensor.detach().flatten().tolist()]
    sizes = [int(size) for size in tensor.shape]
    lines: list[str] = []
    if len(sizes) == 1:
        scale, texts, _ = formatted(numbers)
        lines += [*scale, *texts]
    elif numbers:
        rows, columns = sizes[-2:]
        for place in range(len(numbers) // (rows * columns)):
            part = numbers[place * rows * columns : (place + 1) * rows * columns]
            indent = ""
            if len(sizes) > 2:
                lines += ["", heading(place, sizes[:-2])] if place else [heading(0, sizes[:-2])]
                indent = " "
            # torch: every matrix has a scale and a width of its own.
            scale, texts, width = formatted(part)
            lines += [*scale, *matrix_lines(texts, columns, width, indent)]
    word = tensor.dtype.scalar_type_name
    return [*lines, f"[ CPU{word}Type{{{','.join([str(size) for size in sizes])}}} ]"]


def formatted(numbers: list[float]) -> tuple[list[str], list[str], int]:
    """The line with the scale where there is one, the numbers, and how wide each is."""
    scale, width, style = number_format(numbers)
    lines = [] if scale == 1 else [f"{scale:g} *"]
    return lines, [format_number(number / scale, width, style) for number in numbers], width


def real_part(value: Any) -> float:
    return float(value.real)


def heading(place: int, sizes: list[int]) -> str:
    """Which matrix follows: `(1,2,.,.) =`."""
    steps = []
    for size in reversed(sizes):
        steps.append(place % size + 1)
        place //= size
    return f"({','.join([str(step) for step in reversed(steps)])},.,.) = "


def matrix_lines(texts: list[str], columns: int, width: int, indent: str) -> list[str]:
    most = max((LINE - len(indent)) // (width + 1), 1)
    lines = []
    for first in range(0, columns, most):
        last = min(first + most, columns)
        own = [" ".join(texts[row + first : row + last]) for row in range(0, len(texts), columns)]
        # torch: the first row is not set off, and stands behind the numbers of the columns.
        if most < columns:
            lines += [""] if first else []
            own[0] = f"Columns {first + 1} to {last}{own[0]}"
        lines += [own[0], *[indent + row for row in own[1:]]]
    return lines


def number_format(numbers: list[float]) -> tuple[float, int, str]:
    """A factor for all numbers, their width, and how they are written: g, e or f."""
    finite = [number for number in numbers if math.isfinite(number)]
    whole = all([number == math.ceil(number) for number in finite])
    low = high = 1
    if finite:
        low, high = exponent(min(map(abs, finite))), exponent(max(map(abs, finite)))
    if whole:
        return (1, 11, "e") if high > 9 else (1, high + 1, "g")
    if high - low > 4:
        return 1, 12 if max(abs(high), abs(low)) > 99 else 11, "e"
    if high > 5 or high < 0:
        return 10.0 ** (high - 1), 7, "f"
    return 1, 7 if high == 0 else high + 6, "f"


def exponent(number: float) -> int:
    return math.floor(math.log10(number)) + 1 if number else 1


def format_number(number: float, width: int, style: str) -> str:
    if not math.isfinite(number):
        return f"{number:>{width}}"
    return f"{number:>{width}{'' if style == 'g' else '.4'}{style}}"
