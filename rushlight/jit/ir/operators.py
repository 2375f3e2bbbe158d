"""Operators of graphs: those of the registry, and those that only graphs have.

`overloads(kind)` lists what nodes of a kind may mean, in the order in which a call tries them.
Operators of graphs alone are written in `rushlight.jit.ops`: a schema with a Python function over
the values of a graph, or with a text where Python has an operator for it.
Invariant: a node's operator follows from its kind and the types of its inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base.schema import Schema, compose
from rushlight.core import ports
from rushlight.core.op import OpOverload, Tag
from rushlight.jit.ir.binding import Bindings, evaluate, takes
from rushlight.jit.ir.graph import Node, Value
from rushlight.jit.ir.schemas import FunctionSchema, of_operator
from rushlight.jit.ir.types import ANY, NONE, BoolType, TupleType, Type


class Operator:
    """What a node does: `call` takes and gives what its inputs and outputs stand for.

    `op` is the record of the registry, if it has one. `text` is the call as Python, with `{0}` for
    the first argument, where that is shorter than a call.
    """

    __slots__ = ("_call", "_schema", "op", "source", "text")

    def __init__(
        self,
        source: Schema,
        op: OpOverload | None = None,
        call: Callable[..., Any] | None = None,
        text: str = "",
    ) -> None:
        self.source = source
        self.op = op
        self.text = text
        self._call = call
        self._schema: FunctionSchema | None = None

    @property
    def schema(self) -> FunctionSchema:
        if self._schema is None:
            self._schema = of_operator(self.source)
        return self._schema

    @property
    def kind(self) -> str:
        return self.source.name

    @property
    def name(self) -> str:
        """`aten::add.Tensor`."""
        overload = self.source.overload_name
        return self.source.name + (f".{overload}" if overload else "")

    @property
    def call(self) -> Callable[..., Any]:
        """The operator as a function of values of a graph."""
        if self._call is None:
            if self.op is not None:
                from rushlight.jit.runtime.arguments import over_values

                self._call = over_values(self.op, [a.name for a in self.source.arguments])
            else:
                self._call = text_function(self.text, len(self.source.arguments))
        return self._call

    def fits(self, types: Sequence[Type]) -> Bindings | None:
        """The names of the schema as bound by arguments of these types; None if it takes others."""
        arguments = self.schema.arguments
        if len(types) != len(arguments) and (
            len(types) < len(arguments) or not self.schema.is_vararg
        ):
            return None
        bindings: Bindings = {}
        for argument, type_ in zip(arguments, types):
            if not takes(argument.type, type_, bindings):
                return None
        return bindings

    def result_types(self, types: Sequence[Type]) -> list[Type]:
        """The types of the results for arguments of these types."""
        bindings = self.fits(types) or {}
        return [evaluate(result.type, bindings) or ANY for result in self.schema.returns]

    def result_type(self, node: Node) -> Type:
        """The type of what the node gives: a tuple for several results, None for none."""
        results = self.result_types([value.type() for value in node._inputs])
        if len(results) == 1:
            return results[0]
        return TupleType(results) if results else NONE

    @property
    def is_random(self) -> bool:
        op = self.op
        return op is not None and Tag.nondeterministic_seeded in op.tags

    def __repr__(self) -> str:
        return f"Operator({self.source})"


def text_function(text: str, count: int) -> Callable[..., Any]:
    names = [f"x{place}" for place in range(count)]
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text.format(*names)}")
    return made


# -- the registry ----------------------------------------------------------------------------------

# Kind -> operators that only graphs have.
GRAPH_ONLY: dict[str, list[Operator]] = {}
OF_RECORD: dict[tuple[OpOverload, str], Operator] = {}


def graph_op(*schemas: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Define an operator of graphs by its function, once for every schema."""

    def attach(function: Callable[..., Any]) -> Callable[..., Any]:
        for schema in schemas:
            add_operator(Operator(Schema(schema), call=function))
        return function

    return attach


def graph_text(text: str, *schemas: str) -> None:
    """Define an operator of graphs that is an expression of Python, once for every schema."""
    for schema in schemas:
        add_operator(Operator(Schema(schema), text=text))


def add_operator(operator: Operator) -> None:
    GRAPH_ONLY.setdefault(operator.kind, []).append(operator)


def load_graph_only() -> None:
    """Import what defines operators of graphs; all at once, since any node may be the first."""
    from rushlight.jit.ops import (  # noqa: F401
        comparison,
        conversions,
        dicts,
        functions,
        lists,
        mathematics,
        numbers,
        objects,
        strings,
        tensors,
    )


# What an out= form of a factory does not take: the tensor has it all.
GIVEN_BY_OUT = ("dtype", "layout", "device", "pin_memory")


def of_record(op: OpOverload, kind: str = "") -> Operator:
    """The operator of a record of the registry; `kind` is another name that it goes by."""
    key = (op, kind or op._schema.name)
    found = OF_RECORD.get(key)
    if found is None:
        found = OF_RECORD.setdefault(key, Operator(graph_schema(op, key[1]), op))
    return found


def graph_schema(op: OpOverload, kind: str) -> Schema:
    """The schema of a record as graphs have it."""
    schema = op._schema
    arguments = schema.arguments
    if op.out_positions and set(GIVEN_BY_OUT) <= set(op.argument_names):
        arguments = tuple([a for a in arguments if a.name not in GIVEN_BY_OUT])
    if schema.name == kind and arguments is schema.arguments:
        return schema
    namespace, _, name = kind.partition("::")
    return compose(namespace, name, schema.overload_name, arguments, schema.returns)


def records_of(kind: str) -> list[OpOverload]:
    """The records of the registry by a node's kind: those a call tries, then their out= forms."""
    from rushlight.jit.ops.order import WITHOUT_OUT

    namespace, _, name = kind.partition("::")
    try:
        packet = ports.find_packet(namespace, name)
    except KeyError:
        return []
    records = list(packet.candidates)
    if namespace == "aten" and name in WITHOUT_OUT.split():
        return records
    outs = [ports.out_overload(op) for op in records]
    return records + [op for op in outs if op is not None]


# Kind -> (how many overloads the registry had, all operators).
KNOWN: dict[str, tuple[int, list[Operator]]] = {}


def overloads(kind: str) -> list[Operator]:
    """All operators of a kind such as `aten::add`, those of the registry first."""
    if not GRAPH_ONLY:
        load_graph_only()
    namespace, _, name = kind.partition("::")
    try:
        count = len(ports.find_packet(namespace, name).candidates)
    except KeyError:
        count = 0
    known = KNOWN.get(kind)
    if known is None or known[0] != count:
        own = GRAPH_ONLY.get(kind, [])
        names = {operator.source.overload_name for operator in own}
        # Where graphs say themselves what an operator does, they run that.
        records = [op for op in records_of(kind) if op._schema.overload_name not in names]
        found = [of_record(op, kind) for op in records] + own
        known = KNOWN[kind] = (count, ordered(kind, found))
    return known[1]


def ordered(kind: str, operators: list[Operator]) -> list[Operator]:
    """Operators in the order in which a call tries them."""
    from rushlight.jit.ops.order import ORDER

    names = ORDER.get(kind, "").split()
    places = {"" if name == "default" else name: place for place, name in enumerate(names)}
    return sorted(operators, key=lambda each: places.get(each.source.overload_name, len(places)))


def find_operator(name: str) -> Operator | None:
    """The operator of a full name such as `aten::add.Tensor`."""
    kind, _, overload = name.partition(".")
    return next((o for o in overloads(kind) if o.source.overload_name == overload), None)


def match_node(node: Node) -> Operator | None:
    """The operator that the inputs of a node fit."""
    types = [value._type for value in node._inputs]
    for operator in overloads(node._kind):
        if operator.fits(types) is not None:
            return operator
    return None


# -- facts about nodes -----------------------------------------------------------------------------

# Kinds that do what no output shows, besides writing to their arguments.
EFFECTS = frozenset(
    (
        *("prim::PythonOp", "prim::IgnoredPythonOp", "prim::Print", "prim::RaiseException"),
        *("prim::SetAttr", "prim::CallFunction", "prim::CallMethod", "prim::Enter", "prim::Exit"),
        *("prim::fork", "prim::awaitable", "prim::TimePoint", "prim::AddStatValue"),
        *("aten::warn", "aten::save", "aten::manual_seed", "aten::wait", "aten::set_grad_enabled"),
        *("profiler::_record_function_enter", "profiler::_record_function_enter_new"),
        "prim::awaitable_wait",
        *("aten::backward", "aten::_assert_async", "aten::_assert_tensor_metadata", "aten::seed"),
    )
)


def is_random(node: Node) -> bool:
    """Whether the node draws random numbers; dropout that is known not to train does not."""
    operator = match_node(node)
    if operator is None or not operator.is_random:
        return False
    train = constant_argument(node, operator, "train")
    return train is None or bool(train._node.constant_value())


def constant_argument(node: Node, operator: Operator, name: str) -> Value | None:
    """The constant that a node has for a flag of that name; None where it is computed."""
    for argument, value in zip(operator.schema.arguments, node._inputs):
        if argument.name == name and isinstance(argument.type, BoolType):
            return value if value._node._kind == "prim::Constant" else None
    return None


def has_side_effects(node: Node) -> bool:
    """Whether the node does something beside its results and the arguments it writes to."""
    if node._kind in EFFECTS:
        return True
    if node._kind.startswith(("aten::", "prim::")):
        return False
    # What a user's op does beside its results is known to nobody, where its schema is silent.
    operator = match_node(node)
    return operator is not None and not operator.schema.returns
