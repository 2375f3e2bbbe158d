"""Graphs and types read from their text.

`parse_ir` reads what `printing` writes. As in torch, inputs keep their names and other values get
numbers; sources and scopes are comments and are dropped. Tensors that the text does not hold
(`<Tensor>`) are refused unless the caller asks for random ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from rushlight.base.errors import fail
from rushlight.base.schema import Schema
from rushlight.core.dtype import BY_NAME
from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.relations import optional, union
from rushlight.jit.ir.schemas import SIMPLE, FunctionSchema, of_operator
from rushlight.jit.ir.types import (
    BOOL,
    DTYPE_NAMES,
    FLOAT,
    TENSOR,
    AwaitType,
    DictType,
    FutureType,
    ListType,
    RRefType,
    TensorType,
    TupleType,
    Type,
)

TOKEN = re.compile(
    r"""\s*(?:
    (?P<comment>\#[^\n]*|,\s*scope:[^\n]*)
  | (?P<name>%[\w.]+)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<number>[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|inf\b|nan\b))
  | (?P<word>[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*)
  | (?P<tensor>\{[^}"]*\}|<\w+>)
  | (?P<mark>->|[()\[\]:,=?*^])
  )""",
    re.VERBOSE,
)
# A tensor's elements and its description: ` 1  2 [ CPULongType{2} ]`.
ELEMENTS = re.compile(
    r"(?P<elements>[^\[\]]*)\[ CPU(?P<word>\w+)Type\{(?P<sizes>[\d,]*)\} \]", re.DOTALL
)
WRAPPED = {"Future": FutureType, "Await": AwaitType, "RRef": RRefType, "List": ListType}


class Reader:
    """A text and the place that has been read to."""

    def __init__(self, text: str, classes: Mapping[str, Type] | None = None) -> None:
        self.text = text
        self.place = 0
        self.classes = classes or {}

    def peek(self) -> tuple[str, str]:
        """The next token and what it is; ("", "end") at the end."""
        while True:
            found = TOKEN.match(self.text, self.place)
            if found is None:
                if self.text[self.place :].strip():
                    self.refuse("a token")
                return "", "end"
            what = str(found.lastgroup)
            if what != "comment":
                return found[what], what
            self.place = found.end()

    def take(self) -> tuple[str, str]:
        token = self.peek()
        found = TOKEN.match(self.text, self.place)
        if found is not None:
            self.place = found.end()
        return token

    def takes(self, token: str) -> bool:
        """Whether the next token is this one, which is then read."""
        if self.peek()[0] != token:
            return False
        self.take()
        return True

    def expect(self, token: str) -> None:
        if not self.takes(token):
            self.refuse(repr(token))

    def name(self) -> str:
        token, what = self.take()
        if what != "name":
            self.refuse("a value")
        return token[1:]

    def word(self) -> str:
        token, what = self.take()
        if what != "word":
            self.refuse("a name")
        return token

    def refuse(self, expected: str) -> NoReturn:
        line = self.text.count("\n", 0, self.place)
        fail(
            "RL1410",
            expected=expected,
            line=line + 1,
            text=self.text.splitlines()[line].strip() if self.text.strip() else "",
        )

    def listed(self, close: str, read: Any) -> list[Any]:
        """What `read` gives, again and again between commas, up to `close`."""
        items: list[Any] = []
        while not self.takes(close):
            if items:
                self.expect(",")
                if self.takes(close):
                    break
            items.append(read())
        return items

    # -- types

    def type(self) -> Type:
        found = self.plain_type()
        while True:
            if self.takes("?"):
                found = optional(found)
            elif self.peek()[0] == "[" and self.text[self.place :].lstrip()[1:].lstrip()[:1] == "]":
                self.take()
                self.take()
                found = ListType(found)
            else:
                return found

    def plain_type(self) -> Type:
        if self.takes("("):
            return TupleType(self.listed(")", self.type))
        place = self.place
        word = self.word()
        if word == "NamedTuple":
            self.expect("(")
            fields = self.listed(")", self.field)
            return TupleType([t for _, t in fields], "NamedTuple", [name for name, _ in fields])
        if word in ("Dict", "Union", "Optional", "Tuple", *WRAPPED):
            parts = self.parts()
            if word == "Dict":
                return DictType(*parts)
            if word == "Union":
                return union(parts)
            if word == "Optional":
                return optional(*parts)
            return TupleType(parts) if word == "Tuple" else WRAPPED[word](*parts)
        if word == "Tensor" or word.removesuffix("Tensor") in DTYPE_NAMES:
            return self.tensor_type(word)
        found = SIMPLE.get(word) or self.classes.get(word)
        if found is None:
            self.place = place
            self.refuse("a type")
        return found

    def field(self) -> tuple[str, Type]:
        name = self.word()
        self.expect(":")
        return name, self.type()

    def parts(self) -> list[Type]:
        close = ")" if self.takes("(") else "]"
        if close == "]":
            self.expect("[")
        return self.listed(close, self.type)

    def tensor_type(self, word: str) -> Type:
        if not self.takes("("):
            name = DTYPE_NAMES.get(word.removesuffix("Tensor")) if word != "Tensor" else None
            return TENSOR if name is None else TensorType(name)
        facts: dict[str, Any] = {"sizes": [], "dtype_name": DTYPE_NAMES.get(word)}
        self.listed(")", lambda: self.tensor_fact(facts))
        if word.endswith("Tensor") and not facts["sizes"]:
            facts["sizes"] = None
            facts["dtype_name"] = DTYPE_NAMES.get(word.removesuffix("Tensor"))
        if facts["sizes"] == [] and "strides" not in facts:
            facts["strides"] = []
        return TensorType(**facts)

    def tensor_fact(self, facts: dict[str, Any]) -> None:
        token, what = self.take()
        if what == "number":
            facts["sizes"].append(int(token))
        elif token == "*":
            facts["sizes"].append(None)
        elif token == "strides":
            self.expect("=")
            self.expect("[")
            facts["strides"] = self.listed("]", self.size)
        elif token == "requires_grad":
            self.expect("=")
            facts["requires_grad"] = self.take()[0] == "1"
        elif token == "device":
            self.expect("=")
            device = self.word()
            facts["device"] = f"{device}:{self.take()[0]}" if self.takes(":") else device
        else:
            self.refuse("a fact about a tensor")

    def size(self) -> int | None:
        token, _ = self.take()
        return None if token == "*" else int(token)


class GraphReader(Reader):
    """Reads one graph."""

    def __init__(self, text: str, classes: Mapping[str, Type] | None, random: bool) -> None:
        super().__init__(text, classes)
        self.graph = Graph()
        self.values: dict[str, Value] = {}
        self.random = random

    def read(self) -> Graph:
        self.expect("graph")
        self.inputs(self.graph.top)
        self.nodes(self.graph.top)
        self.expect("return")
        self.outputs(self.graph.top)
        if self.peek()[1] != "end":
            self.refuse("the end of the graph")
        return self.graph

    def inputs(self, block: Block) -> None:
        self.expect("(")
        for name, type_ in self.listed(")", self.typed):
            value = block.addInput()
            if not name.isdigit():
                value.setDebugName(name)
            if type_ is not None:
                value.setType(type_)
            self.values[name] = value
        self.expect(":")

    def outputs(self, block: Block) -> None:
        self.expect("(")
        for name in self.listed(")", self.name):
            block.registerOutput(self.value(name))

    def value(self, name: str) -> Value:
        found = self.values.get(name)
        if found is None:
            self.refuse(f"a value made before, which %{name} is not,")
        return found

    def typed(self) -> tuple[str, Type | None]:
        name = self.name()
        return name, self.type() if self.takes(":") else None

    def nodes(self, block: Block) -> None:
        while self.peek()[0] not in ("return", "->", ""):
            self.node(block)

    def node(self, block: Block) -> None:
        results: list[tuple[str, Type | None]] = []
        while self.peek()[1] == "name":
            results.append(self.typed())
            if not self.takes(","):
                break
        self.expect("=")
        if self.peek()[0] == "^":
            self.refuse("an operator; a call of Python cannot be read from text, so something else")
        node = self.graph.create(self.word(), 0)
        for name, type_ in results:
            value = node.addOutput(type_)
            self.values[name] = value
        if self.takes("["):
            self.attributes(node)
        self.expect("(")
        for name in self.listed(")", self.name):
            node.addInput(self.value(name))
        block.appendNode(node)
        while self.peek()[0].startswith("block") and self.peek()[1] == "word":
            self.take()
            inner = node.addBlock()
            self.inputs(inner)
            self.nodes(inner)
            self.expect("->")
            self.outputs(inner)

    # -- attributes

    def attributes(self, node: Node) -> None:
        while True:
            name = self.word()
            self.expect("=")
            elements = ELEMENTS.match(self.text, self.place)
            if elements is not None and not re.search(r"[\w\]]=|\"", elements["elements"]):
                self.place = elements.end()
                node.write("t", name, written_tensor(elements))
            else:
                node.write(*self.attribute(node, name))
            if self.takes("]"):
                return
            self.expect(",")

    def attribute(self, node: Node, name: str) -> tuple[str, str, Any]:
        token, what = self.peek()
        if what == "tensor":
            self.take()
            return "t", name, self.tensor(token, node)
        if token in ("[", "(") or (token == "{"):
            value = self.literal()
            if isinstance(value, list) and node._kind != "prim::Constant":
                return list_letter(value), name, value
            return "ival", name, value
        value = self.literal()
        if node._kind == "prim::Constant" and node._outputs:
            type_ = node._outputs[0].type()
            if type_ is FLOAT:
                value = float(value)
            elif type_ is BOOL:
                value = int(value)
        return list_letter([value])[0], name, value

    def literal(self) -> Any:
        token, what = self.take()
        if what == "string":
            return unquoted(token)
        if what == "number":
            return number(token)
        if token == "[":
            return self.listed("]", self.literal)
        if token == "(":
            return tuple(self.listed(")", self.literal))
        if token in ("True", "False", "None", "inf", "nan"):
            return {"True": True, "False": False, "None": None}.get(token, float("nan"))
        self.refuse("a constant")

    def tensor(self, token: str, node: Node) -> Any:
        from rushlight import opset  # noqa: F401  the ops that make tensors
        from rushlight.core.construct import tensor

        type_ = node._outputs[0].type() if node._outputs else TENSOR
        if token.startswith("{"):
            dtype = type_.dtype() if isinstance(type_, TensorType) else None
            element = number(token[1:-1].strip())
            made = tensor(element, dtype=dtype)
            sizes = type_.sizes() if isinstance(type_, TensorType) else None
            return made.reshape(sizes) if sizes else made
        if not self.random or not isinstance(type_, TensorType) or type_.sizes() is None:
            fail("RL1411", text=token)
        from rushlight.ops import aten

        return aten.rand.default(type_.sizes()).to(type_.dtype())


def list_letter(values: list[Any]) -> str:
    """The letter of an attribute that holds these values."""
    first = values[0] if values else 0
    if isinstance(first, str):
        return "ss"
    return "fs" if isinstance(first, float) else "is"


def number(token: str) -> Any:
    try:
        return int(token)
    except ValueError:
        return float(token)


def unquoted(token: str) -> str:
    return re.sub(
        r"\\(.)",
        lambda found: {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f",
                       "v": "\v"}.get(found[1], found[1]),
        token[1:-1],
    )  # fmt: skip


def written_tensor(found: re.Match[str]) -> Any:
    """A tensor whose elements the text holds."""
    from rushlight.core.construct import tensor

    text = found["elements"]
    factor, star, rest = text.partition("*")
    scale, text = (float(factor), rest) if star else (1.0, text)
    text = re.sub(r"\([\d,]+,\.,\.\) =|Columns \d+ to \d+", " ", text)
    numbers = [number(token) for token in text.split()]
    if scale != 1:
        numbers = [value * scale for value in numbers]
    sizes = [int(size) for size in found["sizes"].split(",") if size]
    return tensor(numbers, dtype=BY_NAME[DTYPE_NAMES[found["word"]]]).reshape(sizes)


def parse_ir(
    text: str, parse_tensor_constants: bool = False, classes: Mapping[str, Type] | None = None
) -> Graph:
    """The graph of a text. `classes` gives the classes that it names."""
    return GraphReader(text, classes, parse_tensor_constants).read()


def parse_type(text: str, classes: Mapping[str, Type] | None = None) -> Type:
    """The type of its text in graphs."""
    reader = Reader(text, classes)
    found = reader.type()
    if reader.peek()[1] != "end":
        reader.refuse("the end of the type")
    return found


def parse_schema(text: str) -> FunctionSchema:
    """The signature of its text."""
    return of_operator(Schema(text))
