"""Graphs as Python: what `.code` shows and what archives hold.

The text is a dialect of TorchScript in which types are written out and operators are called by
name: `torch.add(x, y)`, `ops.prim.dtype(x)`. A value that is used once, right after it is made,
stands where it is used; others get names. Constants that cannot be written down are `CONSTANTS.c0`.
Invariant: compiling the text gives a graph that computes the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from keyword import iskeyword
from typing import Any

from rushlight.base.errors import fail
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.printing import float_text, quoted
from rushlight.jit.ir.relations import without_facts
from rushlight.jit.ir.schemas import NO_DEFAULT, FunctionSchema
from rushlight.jit.ir.types import (
    NONE,
    TENSOR,
    ClassType,
    DictType,
    EnumType,
    FunctionType,
    InterfaceType,
    ListType,
    NamedType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

# Longer lines are kept from growing: what stands in them gets a name.
LINE = 40
# Names that a variable may not have in the text.
RESERVED = frozenset(
    (
        *("torch", "ops", "CONSTANTS", "fork", "annotate", "getattr", "inf", "nan", "infj", "nanj"),
        *("print", "bool", "int", "float", "complex", "str", "len", "range", "list", "dict"),
        *("uninitialized", "unchecked_cast", "unchecked_unwrap_optional", "awaitable", "Tensor"),
    )
)
PLAIN_CASTS = {
    "aten::Bool": "bool",
    "aten::Int": "int",
    "aten::Float": "float",
    "aten::Complex": "complex",
    "aten::str": "str",
}


class Constants:
    """What a text refers to as `CONSTANTS.c0` and so on, by these names."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    @property
    def const_mapping(self) -> dict[str, Any]:
        return {f"c{number}": value for number, value in enumerate(self.values)}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("c") and name[1:].isdigit() and int(name[1:]) < len(self.values):
            return self.values[int(name[1:])]
        raise AttributeError(f"CONSTANTS has no attribute {name!r}")


def function_code(function: Any) -> tuple[str, Constants]:
    """The text of a function, and the constants that it cannot hold."""
    values: list[Any] = []
    text = Printer(values).function(function.short_name, function.graph, function.schema)
    return text, Constants(values)


# Calls that run later: what makes them, and what their functions are called.
CLOSURES = {
    "prim::fork": ("fork", "__forked_function"),
    "prim::awaitable": ("awaitable", "__awaitable_function"),
}
# Nodes that never stand inside an expression.
STATEMENTS = frozenset(
    (
        *("prim::Param", "prim::Loop", "prim::If", "prim::PythonOp", *CLOSURES),
        *("prim::TupleUnpack", "prim::ListUnpack", "prim::Enter", "prim::Exit", "prim::isinstance"),
        "prim::ModuleContainerIndex",
    )
)


def type_text(type_: Type, named: Callable[[NamedType | TupleType], str] | None = None) -> str:
    """A type as an annotation."""
    if isinstance(type_, TupleType) and type_.name:
        return named(type_) if named else type_.name
    if isinstance(type_, NamedType):
        return named(type_) if named else type_.dotted
    if isinstance(type_, TensorType):
        return "Tensor"
    parts = [type_text(part, named) for part in type_.containedTypes()]
    if isinstance(type_, ListType):
        return f"List[{parts[0]}]"
    if isinstance(type_, OptionalType):
        return f"Optional[{parts[0]}]"
    if isinstance(type_, DictType):
        return f"Dict[{', '.join(parts)}]"
    if isinstance(type_, TupleType):
        return f"Tuple[{', '.join(parts) or '()'}]"
    if isinstance(type_, UnionType):
        return f"Union[{', '.join(parts)}]"
    return type_.annotation_str


class Printer:
    """Writes functions; one for every file, so that its constants are shared.

    `used` are the classes and functions that the text names, in the order of their first use.
    """

    def __init__(self, constants: list[Any], must_be_readable: bool = False) -> None:
        self.constants = constants
        self.must_be_readable = must_be_readable
        self.used: list[Any] = []
        # The kinds of nodes that were written.
        self.kinds: set[str] = set()
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.inlined: set[Node] = set()
        self.texts: dict[Value, str] = {}
        self.depth = 0

    # -- names

    def needs(self, thing: Any) -> None:
        if thing not in self.used:
            self.used.append(thing)

    def type(self, type_: Type) -> str:
        return type_text(type_, self.named)

    def named(self, type_: NamedType | TupleType) -> str:
        self.needs(type_)
        return type_.name if isinstance(type_, TupleType) else type_.dotted

    def free_name(self, wanted: str) -> str:
        base = re.sub(r"\W", "_", wanted) or "_"
        if base[0].isdigit():
            base = f"_{base}"
        name, number = base, 0
        while name in self.taken or name in RESERVED or iskeyword(name):
            name = f"{base}{number}"
            number += 1
        self.taken.add(name)
        return name

    def name(self, value: Value) -> str:
        """The variable that holds a value."""
        found = self.names.get(value)
        if found is None:
            if value.has_name():
                found = self.free_name(value.name_base())
            else:
                found = self.free_number()
            self.names[value] = found
        return found

    def free_number(self) -> str:
        number = sum([1 for name in self.taken if re.fullmatch(r"_\d+", name)])
        while f"_{number}" in self.taken:
            number += 1
        self.taken.add(f"_{number}")
        return f"_{number}"

    # -- functions

    def function(
        self, name: str, graph: Graph, schema: FunctionSchema, first: str = "", depth: int = 0
    ) -> str:
        """`first` is the annotation of `self`, which `.code` leaves out; `depth` that of a method
        in a class."""
        self.names, self.texts, self.inlined = {}, {}, set()
        self.taken = set()
        self.lines = []
        of_class = bool(first) or is_method(name, graph, schema)
        graph = self.prepared(graph)
        self.kinds.update([node._kind for node in graph.all_nodes()])
        for value, argument in zip(graph.inputs(), schema.arguments):
            self.names[value] = self.free_name(argument.name)
        header = f"{'  ' * depth}def {name}("
        entries = []
        for place, (value, argument) in enumerate(zip(graph.inputs(), schema.arguments)):
            text = self.names[value]
            is_self = place == 0 and of_class
            if is_self and not first:
                entries.append(text)
                continue
            text += f": {first if is_self else self.type(argument.type)}"
            default = argument.default_value
            if default is not NO_DEFAULT:
                if argument.size is not None and default is not None:
                    # One value stands for all.
                    default = default if isinstance(default, list) else [default] * argument.size
                text += f"={self.constant(default, argument.type)}"
            entries.append(text)
        result = self.type(schema.returns[0].type) if schema.returns else "NoneType"
        header += ",\n    ".join(entries) + f") -> {result}:"
        self.lines.append(header)
        self.depth = depth + 1
        self.scan(graph.top)
        self.block(graph.top)
        self.finish(graph)
        return "\n".join(self.lines) + "\n"

    def prepared(self, graph: Graph) -> Graph:
        """A copy in which what has no outputs returns None."""
        copy = graph.copy()
        if len(copy.outputs()) != 1:
            copy.makeMultiOutputIntoTuple()
        return copy

    def finish(self, graph: Graph) -> None:
        outputs = graph.outputs()
        self.keep_short(outputs)
        if outputs and not (outputs[0].type() is NONE and outputs[0].mustBeNone()):
            self.statement(f"return {self.use(outputs[0])}")
        elif outputs:
            self.statement("return None")

    def statement(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    # -- what stands where it is used

    def scan(self, block: Block) -> None:
        """Finds the nodes that stand where their value is used."""
        self.scan_node(block.exit)
        for node in block.reversed_nodes():
            if node not in self.inlined:
                self.scan_node(node)
                for inner in node._blocks:
                    self.scan(inner)

    def scan_node(self, node: Node) -> None:
        if node._kind == "prim::Loop":
            # What a loop carries gets a variable before it.
            for value in reversed(node._inputs[:2]):
                self.scan_value(node, value)
            return
        if node._kind in CLOSURES:
            # What a closure captures has a name.
            return
        point = node
        for value in reversed(node._inputs):
            point = self.scan_value(point, value)

    def scan_value(self, point: Node, value: Value) -> Node:
        """Lets the maker of a value stand inside, if it comes right before `point`."""
        maker = value._node
        before = point.previous
        while before is not None and (before in self.inlined or is_silent(before)):
            before = before.previous
        if before is not maker or not self.may_stand_inside(value, point):
            return point
        self.inlined.add(maker)
        point = maker
        for inner in reversed(maker._inputs):
            point = self.scan_value(point, inner)
        return point

    def may_stand_inside(self, value: Value, point: Node) -> bool:
        maker = value._node
        return (
            len(maker._outputs) == 1
            and len(value._uses) == 1
            # What a block gives has the name of what it is given to.
            and (not value.has_name() or value._uses[0].user._kind == "prim::Return")
            and not maker._blocks
            and maker.block is point.block
            and maker._kind not in STATEMENTS
        )

    # -- statements

    def block(self, block: Block) -> None:
        for node in block.nodes():
            if node in self.inlined or is_silent(node):
                continue
            self.node(node)

    def use(self, value: Value) -> str:
        """A value where it is used: its name, its constant, or the call that makes it."""
        maker = value._node
        if maker._kind == "prim::Constant":
            return self.constant_node(maker)
        if maker in self.inlined:
            text = self.texts.get(value)
            if text is None:
                text = self.texts[value] = self.expression(maker)
            return text
        return self.name(value)

    def keep_short(self, values: Iterable[Value]) -> None:
        """Long expressions, and those before them, get lines of their own."""
        inside = [value for value in values if value._node in self.inlined]
        for value in inside:
            self.keep_short(value._node._inputs)
        texts = [self.use(value) for value in inside]
        long = [n for n, text in enumerate(texts) if len(text) + 2 * self.depth >= LINE]
        for value, text in list(zip(inside, texts))[: max(long, default=-1) + 1]:
            if text != self.names.get(value):
                name = self.name(value)
                self.statement(f"{name} = {text}")
                self.texts[value] = name

    def node(self, node: Node) -> None:
        kind = node._kind
        self.keep_short(node._inputs)
        if kind == "prim::If":
            self.branch(node)
        elif kind == "prim::Loop":
            self.loop(node)
        elif kind == "prim::SetAttr":
            target, value = [self.use(each) for each in node._inputs]
            self.statement(f"{attribute(target, read(node, 'name'))} = {value}")
        elif kind == "prim::ModuleContainerIndex":
            held, index = [self.use(each) for each in node._inputs]
            item = node.output()
            self.statement(f"{self.name(item)} : {self.type(item.type())} = {held}[{index}]")
        elif kind in ("prim::TupleUnpack", "prim::ListUnpack"):
            source = self.use(node._inputs[0])
            names = [self.name(value) for value in node._outputs]
            if not names:
                return
            self.statement(f"{', '.join(names)}, = {source}")
        elif kind == "prim::Print":
            self.statement(f"print({self.arguments(node._inputs)})")
        elif kind in ("prim::Enter", "prim::Exit"):
            self.context(node)
        elif kind in CLOSURES:
            self.closure(node)
        elif not node._outputs:
            self.statement(self.expression(node))
        else:
            text = self.expression(node)
            made = ", ".join([self.name(value) for value in node._outputs])
            self.statement(f"{made} = {text}")

    def context(self, node: Node) -> None:
        if node._kind == "prim::Enter":
            self.statement(f"with {self.use(node._inputs[0])}:")
            self.depth += 1
            if node.next is not None and node.next._kind == "prim::Exit":
                self.statement("pass")
        else:
            self.depth -= 1

    def branch(self, node: Node) -> None:
        condition = self.use(node._inputs[0])
        names = [self.name(value) for value in node._outputs]
        self.statement(f"if {condition}:")
        self.arm(node._blocks[0], names)
        self.statement("else:")
        self.arm(node._blocks[1], names)

    def arm(self, block: Block, names: list[str]) -> None:
        self.depth += 1
        before = len(self.lines)
        self.block(block)
        self.keep_short(block.outputs())
        self.assign(names, [self.use(value) for value in block.outputs()])
        if len(self.lines) == before:
            self.statement("pass")
        self.depth -= 1

    def assign(self, names: list[str], texts: list[str]) -> None:
        pairs = [(name, text) for name, text in zip(names, texts) if name != text]
        if pairs:
            left = ", ".join([name for name, _ in pairs])
            self.statement(f"{left} = {', '.join([text for _, text in pairs])}")

    def loop(self, node: Node) -> None:
        body = node._blocks[0]
        count, condition = node._inputs[:2]
        index, *inner = body.inputs()
        is_for = is_true(condition) and is_true(body.outputs()[0])
        is_while = count.toIValue() == 2**63 - 1
        if not is_for and not is_while:
            fail("RL1490", what="a loop that has both a count and a condition")
        starts = [self.use(value) for value in node._inputs[2:]]
        names = [self.name(value) for value in node._outputs]
        for name, start, value in zip(names, starts, node._outputs):
            # What it is first does not tell all that it can be.
            is_open = isinstance(value.type(), OptionalType | UnionType)
            typed = f": {self.type(value.type())}" if is_open else ""
            self.statement(f"{name}{typed} = {start}")
        for value, name in zip(inner, names):
            self.names[value] = name
        if is_for:
            limit = self.use(count)
            self.statement(f"for {self.name(index)} in range({limit}):")
            self.carried(body, names, None)
            return
        test = self.free_number()
        self.statement(f"{test} = {self.use(condition)}")
        self.statement(f"while {test}:")
        self.carried(body, names, test)

    def carried(self, body: Block, names: list[str], test: str | None) -> None:
        self.depth += 1
        before = len(self.lines)
        self.block(body)
        outputs = body.outputs() if test is not None else body.outputs()[1:]
        self.keep_short(outputs)
        texts = [self.use(value) for value in outputs]
        self.assign([test, *names] if test is not None else names, texts)
        if len(self.lines) == before:
            self.statement("pass")
        self.depth -= 1

    def closure(self, node: Node) -> None:
        """A call that runs later: a function without arguments over the names outside."""
        word, name = CLOSURES[node._kind]
        graph = read(node, "Subgraph")
        name = self.free_name(name)
        inner = Printer(self.constants, self.must_be_readable)
        inner.used, inner.taken, inner.kinds = self.used, self.taken, self.kinds
        self.kinds.update([each._kind for each in graph.all_nodes()])
        inner.names = {v: self.use(given) for v, given in zip(graph.inputs(), node._inputs)}
        inner.depth = self.depth + 1
        inner.scan(graph.top)
        inner.block(graph.top)
        inner.finish(graph)
        self.statement(f"def {name}():")
        self.lines += inner.lines
        self.statement(f"{self.name(node.output())} = {word}({name})")

    # -- expressions

    def arguments(self, values: Iterable[Value]) -> str:
        return ", ".join([self.use(value) for value in values])

    def expression(self, node: Node) -> str:
        special = SPECIAL.get(node._kind)
        if special is not None:
            return special(self, node)
        if node.python is not None:
            if self.must_be_readable:
                name = node.python.name
                fail("RL1491", name=name)
            return f"^{node.python.name}()({self.arguments(node._inputs)})"
        if node._kind in PLAIN_CASTS and len(node._inputs) == 1:
            return f"{PLAIN_CASTS[node._kind]}({self.use(node._inputs[0])})"
        return self.operator(node)

    def operator(self, node: Node) -> str:
        """A call of an operator: what equals its default at the end is left out."""
        namespace, _, name = node._kind.partition("::")
        found = node.matched()
        texts: list[str] = []
        if found is None:
            texts = [self.use(value) for value in node._inputs]
        else:
            entries = list(zip(found.schema.arguments, node._inputs))
            rest = node._inputs[len(entries) :]
            while entries and not rest and self.is_default(*entries[-1]):
                entries.pop()
            for argument, value in entries:
                text = self.use(value)
                if argument.kwarg_only:
                    text = f"{argument.name}={text}"
                texts.append(text)
            texts += [self.use(value) for value in rest]
        head = f"torch.{name}" if namespace == "aten" else f"ops.{namespace}.{name}"
        if not name.isidentifier() or iskeyword(name):
            head = f'getattr({head.rpartition(".")[0]}, "{name}")'
        return f"{head}({', '.join(texts)})"

    def is_default(self, argument: Any, value: Value) -> bool:
        if argument.default_value is NO_DEFAULT:
            return False
        maker = value._node
        default = argument.default_value
        if maker._kind == "prim::ListConstruct" and isinstance(default, list | tuple):
            items = [each.toIValue() for each in maker._inputs]
            return items == list(default) and None not in items
        if maker._kind != "prim::Constant":
            return False
        held = maker.constant_value()
        if argument.size is not None and isinstance(default, int) and isinstance(held, list):
            return held == [default] * argument.size
        return type(held) is type(default) and not isinstance(held, Tensor) and held == default

    def constant_node(self, node: Node) -> str:
        output = node.output()
        if isinstance(output.type(), FunctionType):
            function = output.type().function  # type: ignore[attr-defined]
            self.needs(function)
            return str(function.name)
        return self.constant(node.constant_value(), output.type())

    def constant(self, value: Any, type_: Type) -> str:
        if value is None or isinstance(value, bool | int):
            return str(value)
        if isinstance(value, float):
            return float_text(value)
        if isinstance(value, complex):
            return f"{float_text(value.real)}+{float_text(value.imag)}j"
        if isinstance(value, str):
            if type_.kind() == "DeviceObjType":
                return f"torch.device({quoted(value)})"
            return quoted(value)
        if isinstance(type_, EnumType):
            self.needs(type_)
            return f"{type_.dotted}.{value.name}"
        return self.compound(value, type_)

    def compound(self, value: Any, type_: Type) -> str:
        if isinstance(value, Tensor) or holds_tensor(value):
            return self.kept(value)
        if isinstance(value, list) and isinstance(type_, ListType):
            if not value:
                return f"annotate({self.type(type_)}, [])"
            return f"[{', '.join([self.constant(item, type_.element) for item in value])}]"
        if isinstance(value, tuple) and isinstance(type_, TupleType):
            items = [self.constant(item, t) for item, t in zip(value, type_.items)]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if isinstance(value, dict) and isinstance(type_, DictType):
            pairs = [
                f"{self.constant(key, type_.key)}: {self.constant(item, type_.value)}"
                for key, item in value.items()
            ]
            return f"{{{', '.join(pairs)}}}" if pairs else f"annotate({self.type(type_)}, {{}})"
        return self.kept(value)

    def kept(self, value: Any) -> str:
        """A constant that the text refers to by number."""
        for number, known in enumerate(self.constants):
            if known is value:
                return f"CONSTANTS.c{number}"
        self.constants.append(value)
        return f"CONSTANTS.c{len(self.constants) - 1}"


def holds_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any([isinstance(item, Tensor) or holds_tensor(item) for item in value])
    return isinstance(value, dict) and holds_tensor(list(value.values()))


def is_silent(node: Node) -> bool:
    """Whether a node has no statement: constants stand where they are used."""
    return node._kind == "prim::Constant"


def is_true(value: Value) -> bool:
    return value._node._kind == "prim::Constant" and value._node.constant_value() is True


def read(node: Node, name: str) -> Any:
    return node.attribute(name).value


def attribute(target: str, name: str) -> str:
    """An attribute of an object; those that are no names are read by a string."""
    if name.isidentifier() and not iskeyword(name):
        return f"{target}.{name}" if target.isidentifier() else f"({target}).{name}"
    return f'getattr({target}, "{name}")'


# -- nodes that are written in a way of their own --------------------------------------------------

SPECIAL: dict[str, Callable[[Printer, Node], str]] = {}


def special(*kinds: str) -> Callable[[Any], Any]:
    def take(function: Any) -> Any:
        SPECIAL.update(dict.fromkeys(kinds, function))
        return function

    return take


@special("prim::GetAttr")
def _(printer: Printer, node: Node) -> str:
    return attribute(printer.use(node._inputs[0]), read(node, "name"))


@special("prim::CallMethod")
def _(printer: Printer, node: Node) -> str:
    target, *rest = node._inputs
    owner = target.type()
    if isinstance(owner, ClassType | InterfaceType):
        printer.needs(owner)
    texts = "".join([f"{printer.use(value)}, " for value in rest])
    return f"({printer.use(target)}).{read(node, 'name')}({texts})"


@special("prim::CallFunction")
def _(printer: Printer, node: Node) -> str:
    target, *rest = node._inputs
    texts = "".join([f"{printer.use(value)}, " for value in rest])
    return f"{printer.use(target)}({texts})"


@special("prim::TupleConstruct")
def _(printer: Printer, node: Node) -> str:
    type_ = node.output().type()
    inner = printer.arguments(node._inputs)
    if isinstance(type_, TupleType) and type_.name:
        return f"{printer.named(type_)}({inner})"
    return f"({inner}{',' if len(node._inputs) == 1 else ''})"


@special("prim::TupleIndex")
def _(printer: Printer, node: Node) -> str:
    return f"({printer.use(node._inputs[0])})[{printer.use(node._inputs[1])}]"


@special("prim::TupleSlice")
def _(printer: Printer, node: Node) -> str:
    start, end = read(node, "beg"), read(node, "end")
    return f"({printer.use(node._inputs[0])})[{start}:{end}]"


@special("prim::ListConstruct")
def _(printer: Printer, node: Node) -> str:
    type_ = node.output().type()
    inner = printer.arguments(node._inputs)
    if not isinstance(type_, ListType):
        return f"[{inner}]"
    plain = type_.element == TENSOR or (
        node._inputs and all([value.type() == type_.element for value in node._inputs])
    )
    if node._inputs and plain:
        return f"[{inner}]"
    if not node._inputs and type_.element == TENSOR:
        return f"annotate({printer.type(type_)}, [])"
    return f"annotate({printer.type(type_)}, [{inner}])"


@special("prim::DictConstruct")
def _(printer: Printer, node: Node) -> str:
    pairs = [
        f"{printer.use(key)}: {printer.use(value)}"
        for key, value in zip(node._inputs[::2], node._inputs[1::2])
    ]
    text = f"{{{', '.join(pairs)}}}"
    type_ = node.output().type()
    exact = isinstance(type_, DictType) and all(
        [without_facts(value.type()) == type_.value for value in node._inputs[1::2]]
    )
    return text if pairs and exact else f"annotate({printer.type(type_)}, {text})"


@special("prim::CreateObject")
def _(printer: Printer, node: Node) -> str:
    type_ = node.output().type()
    assert isinstance(type_, ClassType)
    return f"{printer.named(type_)}.__new__({printer.named(type_)})"


@special("prim::Uninitialized")
def _(printer: Printer, node: Node) -> str:
    return f"uninitialized({printer.type(node.output().type())})"


@special("prim::unchecked_cast")
def _(printer: Printer, node: Node) -> str:
    return f"unchecked_cast({printer.type(node.output().type())}, {printer.use(node._inputs[0])})"


@special("prim::unchecked_unwrap_optional")
def _(printer: Printer, node: Node) -> str:
    return f"unchecked_unwrap_optional({printer.use(node._inputs[0])})"


@special("prim::isinstance")
def _(printer: Printer, node: Node) -> str:
    types = [printer.type(type_) for type_ in read(node, "types")]
    wanted = types[0] if len(types) == 1 else f"({', '.join(types)})"
    return f"isinstance({printer.use(node._inputs[0])}, {wanted})"


@special("prim::tolist")
def _(printer: Printer, node: Node) -> str:
    wanted = printer.type(node.output().type())
    return f"annotate({wanted}, {printer.use(node._inputs[0])}.tolist())"


@special("prim::EnumValue", "prim::EnumName")
def _(printer: Printer, node: Node) -> str:
    field = "value" if node._kind == "prim::EnumValue" else "name"
    return f"({printer.use(node._inputs[0])}).{field}"


@special("prim::data")
def _(printer: Printer, node: Node) -> str:
    return f"ops.prim.data({printer.use(node._inputs[0])})"


@special("aten::__getitem__")
def _(printer: Printer, node: Node) -> str:
    target = printer.use(node._inputs[0])
    if not target.isidentifier():
        target = f"({target})"
    return f"{target}[{printer.use(node._inputs[1])}]"


@special("aten::IntImplicit", "aten::FloatImplicit", "aten::ComplexImplicit")
def _(printer: Printer, node: Node) -> str:
    wanted = {"I": "int", "F": "float", "C": "complex"}[node._kind[6]]
    return f"annotate({wanted}, {printer.use(node._inputs[0])})"


@special("aten::ScalarImplicit")
def _(printer: Printer, node: Node) -> str:
    return f"annotate(number, {printer.use(node._inputs[0])})"


def is_method(name: str, graph: Graph, schema: FunctionSchema) -> bool:
    """Whether a function is one of the class of its first argument."""
    owner = schema.arguments[0].type if schema.arguments else None
    if not isinstance(owner, ClassType):
        return False
    found = (owner.methods.get(name), *owner.hooks, *owner.pre_hooks)
    return any([each is not None and each.graph is graph for each in found])
