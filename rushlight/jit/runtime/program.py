"""Graphs as Python functions: `compile_graph` writes one function over eager ops.

A node is a line, a block is a block: an `if`, a loop. Values are local names, which are deleted
after their last use, so that a tensor lives no longer than in the code that the graph stands for.
Constants and ops are globals of the function, converted once.
Invariant: running the function does what running the nodes one after another would.
"""

from __future__ import annotations

import itertools
import linecache
import math
import re
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.base.errors import fail
from rushlight.core.dispatch import call
from rushlight.core.op import REPLACED, is_replaced
from rushlight.core.source import function_of
from rushlight.core.state import PROCESS
from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.numbers import is_wrapped_number, unwrapped_number
from rushlight.jit.ir.operators import Operator, match_node
from rushlight.jit.ir.types import (
    BoolType,
    DeviceObjType,
    FloatType,
    FunctionType,
    IntType,
    NoneType,
    StringType,
)
from rushlight.jit.runtime.arguments import as_device, converter, result_converter, takes_numbers
from rushlight.jit.runtime.errors import PROGRAM, translated
from rushlight.jit.runtime.forms import ALIASES, FORMS, root
from rushlight.jit.unit import without_mangles

# Values of these types hold no memory to speak of: their names are left alone.
SMALL = (IntType, FloatType, BoolType, StringType, NoneType, DeviceObjType, FunctionType)
# What a name of Python does not have.
NO_NAME = re.compile(r"\W")
LITERALS = (int, float, bool, str, type(None))
# Graphs that are being compiled by this thread, by identity.
COMPILING = threading.local()
# Blocks that lie deeper are functions of their own.
DEEPEST = 15
# The global of a program that holds the names of the ops it calls.
OPS = "__ops__"
# Programs have numbers: several may have one name.
NUMBERS = itertools.count(1)


def compile_graph(graph: Graph, name: str) -> Callable[..., Any]:
    """A function of the graph's inputs; several outputs are a tuple, none is None.

    Errors inside are told in terms of the graph's sources. Its attribute `raw` leaves them alone:
    for calls from other programs.
    """
    raw = compile_raw(graph, name)

    def run(*args: Any) -> Any:
        if PROCESS.special and REPLACED != BOUND_WITH:
            rebind_ops()
        try:
            return raw(*args)
        except Exception as error:
            # The text of the first one is part of the new one.
            raise translated(error) from None

    run.raw = raw  # type: ignore[attr-defined]
    run.__name__ = run.__qualname__ = name
    return run


def compile_raw(graph: Graph, name: str) -> Callable[..., Any]:
    running: set[int] = COMPILING.__dict__.setdefault("graphs", set())
    running.add(id(graph))
    try:
        writer = Writer(name)
        writer.write_function(graph)
    finally:
        running.discard(id(graph))
    return writer.compile()


# -- ops -------------------------------------------------------------------------------------------

# All programs, for as long as somebody holds them.
PROGRAMS: weakref.WeakSet[Any] = weakref.WeakSet()
# The ops with kernels of a user's that all programs know of.
BOUND_WITH: set[Any] = set()


def op_function(op: Any) -> Callable[..., Any]:
    """The op as a function of bound arguments; through the dispatcher where users have a say."""
    if op.namespace != "aten" or is_replaced(op.packet):
        return lambda *args: call(op, args)
    direct: Callable[..., Any] = op.direct
    return direct


def rebind_ops() -> None:
    """Lets every program call what ops are now: a user has registered a kernel for some."""
    BOUND_WITH.clear()
    BOUND_WITH.update(REPLACED)
    for program in list(PROGRAMS):
        scope = program.__globals__
        for name, op in scope[OPS].items():
            scope[name] = op_function(op)


def raw_program(function: Any) -> Callable[..., Any]:
    """What a call of a compiled function runs. One that is being compiled is found when it runs."""
    if id(function.graph) in COMPILING.__dict__.setdefault("graphs", set()):
        return lambda *args: function.program.raw(*args)
    program: Callable[..., Any] = function.program.raw
    return program


class Writer:
    """The lines of one function, and what they mention."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.nodes: dict[int, Node] = {}
        self.scope: dict[str, Any] = {}
        # Objects of the scope, by identity: one name for each.
        self.bound: dict[int, str] = {}
        # Text of values, by the value that they are another name of.
        self.texts: dict[Value, str] = {}
        self.taken: set[str] = set()
        # The last number that names of one beginning have.
        self.counts: dict[str, int] = {}
        self.operators: dict[Node, Operator] = {}
        self.op_names: dict[Any, str] = {}
        # Lists that are written where they are used.
        self.inlined: set[Value] = set()
        self.depth = 1

    # -- names

    def bind(self, hint: str, thing: Any) -> str:
        """A name in the function's scope for an object."""
        found = self.bound.get(id(thing))
        if found is None:
            found = self.free_name("g_", hint)
            self.scope[found] = thing
            self.bound[id(thing)] = found
        return found

    def name_of(self, value: Value) -> str:
        """The local name of a value that a line makes."""
        given = self.texts.get(value)
        if given is not None:
            return given
        name = self.texts[value] = self.free_name("v_", value.name_base())
        return name

    def free_name(self, prefix: str, hint: str) -> str:
        """A name that nothing has. The graph's numbers are left out: equal graphs have one text."""
        base = prefix + NO_NAME.sub("_", without_mangles(hint))
        number = self.counts.get(base, 0) + 1
        name = base if number == 1 else f"{base}_{number}"
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.counts[base] = number
        self.taken.add(name)
        return name

    def text(self, value: Value) -> str:
        """What stands for a value in a line."""
        value = root(value)
        known = self.texts.get(value)
        if known is not None:
            return known
        node = value._node
        if value in self.inlined:
            return self.list_text(node, as_tuple=False)
        assert node._kind == "prim::Constant", f"{value.debugName()} is used before it is made"
        text = self.texts[value] = self.constant_text(node)
        return text

    def constant_text(self, node: Node) -> str:
        value = node.constant_value()
        if isinstance(node._outputs[0]._type, DeviceObjType):
            value = as_device(value)
        return self.literal(value)

    def literal(self, value: Any) -> str:
        if type(value) in LITERALS and (type(value) is not float or math.isfinite(value)):
            text = repr(value)
            return f"({text})" if text.startswith("-") else text
        return self.bind("constant", value)

    def list_text(self, node: Node, as_tuple: bool) -> str:
        items = [self.text(value) for value in node._inputs]
        if as_tuple:
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        return f"[{', '.join(items)}]"

    # -- lines

    def add(self, line: str, node: Node | None = None) -> None:
        self.lines.append("    " * self.depth + line)
        if node is not None:
            self.nodes[len(self.lines)] = node

    def assign(self, node: Node, expression: str) -> None:
        """A line that makes the outputs of a node."""
        if not any([value._uses for value in node._outputs]):
            self.add(expression, node)
            return
        # What nobody uses is dropped at once, all under one name.
        names = [self.name_of(value) if value._uses else "_" for value in node._outputs]
        self.add(f"{', '.join(names)} = {expression}", node)
        if "_" in names:
            self.add("del _")

    def write_function(self, graph: Graph) -> None:
        self.prepare(graph)
        parameters = ", ".join([self.name_of(value) for value in graph.inputs()])
        self.lines.append(f"def program({parameters}):")
        self.write_block(graph.top)
        results = [self.text(value) for value in graph.outputs()]
        self.add(f"return {results[0] if len(results) == 1 else ', '.join(results)}".rstrip())

    def prepare(self, graph: Graph) -> None:
        """Finds the operators of nodes, and the lists that need not be made."""
        for node in graph.all_nodes():
            if node._kind not in FORMS:
                operator = match_node(node)
                if operator is None:
                    fail("RL1420", node=str(node).strip())
                self.operators[node] = operator
        for node in graph.all_nodes():
            if node._kind == "prim::ListConstruct" and self.is_argument_only(node._outputs[0]):
                self.inlined.add(node._outputs[0])

    def is_argument_only(self, value: Value) -> bool:
        """Whether a list is nothing but an argument of ops, which do not keep it."""
        for use in value._uses:
            operator = self.operators.get(use.user)
            if operator is None or operator.op is None:
                return False
            argument = operator.source.arguments[use.offset]
            if argument.is_write or argument.type.kind != "List":
                return False
        return bool(value._uses)

    def write_block(self, block: Block) -> None:
        """The lines of a block's nodes; what is not used later is deleted."""
        ends = self.last_uses(block)
        for node in block.nodes():
            if node._kind == "prim::Constant" or node._kind in ALIASES:
                continue
            if node._outputs and node._outputs[0] in self.inlined:
                continue
            write = FORMS.get(node._kind)
            if write is None:
                self.assign(node, self.operation(node))
            elif node._blocks and self.depth > DEEPEST:
                self.write_apart(node)
            else:
                write(self, node)
            ended = [self.texts[value] for value in ends.get(node, ())]
            if ended:
                self.add(f"del {', '.join(ended)}")

    def write_apart(self, node: Node) -> None:
        """A node with blocks as a function of its own: Python takes only so many inside another."""
        inner = Writer(self.name)
        inner.operators, inner.inlined = self.operators, self.inlined
        known = [value for value in dict.fromkeys(self.used_by(node)) if value in self.texts]
        taken = [value for value in known if value._node._kind != "prim::Constant"]
        parameters = ", ".join([inner.name_of(value) for value in taken])
        inner.lines.append(f"def program({parameters}):")
        FORMS[node._kind](inner, node)
        given = [inner.texts[value] for value in node._outputs if value._uses]
        inner.add(f"return {given[0] if len(given) == 1 else ', '.join(given)}".rstrip())
        call = f"{self.bind('part', inner.compile())}({', '.join([self.texts[v] for v in taken])})"
        names = [self.name_of(value) for value in node._outputs if value._uses]
        self.add(f"{', '.join(names)} = {call}" if names else call, node)

    def last_uses(self, block: Block) -> dict[Node, list[Value]]:
        """For each node the values of this block that nobody uses after it."""
        later: set[Value] = set()
        for value in block.outputs():
            later.update(self.parts_of(value))
        ends: dict[Node, list[Value]] = {}
        for node in block.reversed_nodes():
            if node._kind == "prim::Constant":
                continue
            used = dict.fromkeys(self.used_by(node))
            ended = [v for v in used if v not in later and self.is_made_in(v, block)]
            if ended:
                ends[node] = ended
            later.update(used)
        return ends

    def is_made_in(self, value: Value, block: Block) -> bool:
        """Whether a line of this block makes the value, and it may hold memory."""
        return self.is_named_in(value, block) and not isinstance(value._type, SMALL)

    def is_named_in(self, value: Value, block: Block) -> bool:
        """Whether a line of this block makes the value, under a name of its own."""
        node = value._node
        return (
            node.block is block
            and node is not block.entry
            and node._kind != "prim::Constant"
            and value not in self.inlined
        )

    def used_by(self, node: Node) -> Iterable[Value]:
        """The values that the lines of a node mention, its blocks included."""
        if node._kind in ALIASES or (node._outputs and node._outputs[0] in self.inlined):
            return
        for value in node._inputs:
            yield from self.parts_of(value)
        for block in node._blocks:
            for inner in block.nodes():
                yield from self.used_by(inner)
            for value in block.outputs():
                yield from self.parts_of(value)

    def parts_of(self, value: Value) -> Iterable[Value]:
        """A value as lines mention it: lists that are written out are what they hold."""
        value = root(value)
        if value not in self.inlined:
            yield value
            return
        for item in value._node._inputs:
            yield from self.parts_of(item)

    # -- operators

    def operation(self, node: Node) -> str:
        """The call that a node stands for."""
        operator = self.operators[node]
        if operator.op is None:
            texts = [self.text(value) for value in node._inputs]
            if operator.text:
                return operator.text.format(*texts)
            return f"{self.bind(operator.name, operator.call)}({', '.join(texts)})"
        op = operator.op
        names = [argument.name for argument in operator.source.arguments]
        given = dict(zip(names, node._inputs, strict=True))
        texts = [
            self.argument(op, place, given[name]) if name in given else "None"
            for place, name in enumerate(op.argument_names)
        ]
        call = f"{self.bind_op(op)}({', '.join(texts)})"
        answer = result_converter(op)
        return call if answer is None else f"{self.bind(answer.__name__, answer)}({call})"

    def bind_op(self, op: Any) -> str:
        name = self.op_names.get(op)
        if name is None:
            name = self.op_names[op] = self.bind(op.name(), op_function(op))
        return name

    def argument(self, op: Any, place: int, value: Value) -> str:
        """An argument of an op as the op takes it."""
        value = root(value)
        node = value._node
        type_ = op._schema.arguments[place].type
        convert = converter(type_)
        is_constant = node._kind == "prim::Constant"
        if convert is None:
            if (
                is_constant
                and is_wrapped_number(node.constant_value())
                and takes_numbers(op, place)
            ):
                return self.literal(unwrapped_number(node.constant_value()))
            return self.text(value)
        if is_constant:
            return self.literal(convert(node.constant_value()))
        if value in self.inlined:
            as_tuple = type_.element.kind not in ("Tensor", "List")
            return self.list_text(node, as_tuple)
        return f"{self.bind(convert.__name__, convert)}({self.text(value)})"

    def compile(self) -> Callable[..., Any]:
        source = "\n".join(self.lines) + "\n"
        self.scope[PROGRAM] = (self.name, self.nodes)
        self.scope[OPS] = {name: op for op, name in self.op_names.items()}
        program: Callable[..., Any] = function_of(
            source, f"program of {self.name}, {next(NUMBERS)}", self.scope
        )
        PROGRAMS.add(program)
        weakref.finalize(program, linecache.cache.pop, program.__code__.co_filename, None)
        return program
