"""Calls of compiled code: which schema the arguments fit, and the node that comes of it.

A call tries schemas in order, first with the arguments as they are, then with what torch converts
by itself: a tensor where a number is wanted, a string for a device. Nothing is added to the graph
before a schema is found to fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from rushlight.jit.ir.binding import Bindings, bind, evaluate, type_name
from rushlight.jit.ir.constants import type_of
from rushlight.jit.ir.graph import Graph, Value
from rushlight.jit.ir.highlight import highlighted
from rushlight.jit.ir.operators import overloads
from rushlight.jit.ir.parts import NOWHERE, SourceRange
from rushlight.jit.ir.relations import is_subtype, why_not_interface
from rushlight.jit.ir.schemas import Argument, FunctionSchema
from rushlight.jit.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NUMBER,
    STR,
    TENSOR,
    InterfaceType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    VarType,
)

# A value of the graph, or a constant that is not in it yet.
Given = Any


class MatchError(RuntimeError):
    """No schema takes the arguments; `message` is the text without the lines of the source."""

    def __init__(self, message: str, source: SourceRange) -> None:
        super().__init__(f"\n{message}:\n{highlighted(source)}")
        self.message = message
        self.source = source


@dataclass(frozen=True, slots=True)
class Planned:
    """An argument: its type, and how its value comes into the graph."""

    type: Type
    make: Callable[[], Value]


@dataclass(frozen=True, slots=True)
class Match:
    """A schema that fits: its inputs in order, and what it gives for them."""

    schema: FunctionSchema
    planned: list[Planned]
    return_types: list[Type]

    def inputs(self) -> list[Value]:
        """The values of the inputs; conversions are inserted now."""
        return [each.make() for each in self.planned]


class Mismatch(Exception):
    """Why a schema does not take the arguments."""


# -- one schema ------------------------------------------------------------------------------------


def match_schema(
    schema: FunctionSchema,
    graph: Graph,
    args: Sequence[Given],
    kwargs: Mapping[str, Given],
    source: SourceRange = NOWHERE,
    self: Given = None,
    allow_conversions: bool = True,
) -> Match | str:
    """How the arguments fit a schema, or the reason why they do not.

    `self` is what stands for an argument of that name, for methods.
    """
    try:
        return Matcher(graph, source, allow_conversions).match(schema, args, kwargs, self)
    except Mismatch as error:
        return str(error)


class Matcher:
    def __init__(self, graph: Graph, source: SourceRange, allow_conversions: bool) -> None:
        self.graph = graph
        self.source = source
        self.allow_conversions = allow_conversions
        self.bindings: Bindings = {}

    def match(
        self,
        schema: FunctionSchema,
        args: Sequence[Given],
        kwargs: Mapping[str, Given],
        owner: Given,
    ) -> Match:
        used = 0
        named: set[str] = set()
        planned: list[Planned] = []
        for place, argument in enumerate(schema.arguments):
            if argument.name == "self" and owner is not None:
                given, owner = self.plan(owner), None
            elif not argument.kwarg_only and used < len(args):
                if takes_rest(schema, place) and not self.is_list(args[used], argument.type):
                    planned.append(self.rest_as_list(argument, args[used:]))
                    used = len(args)
                    continue
                given = self.plan(args[used])
                used += 1
            elif argument.name in kwargs:
                given = self.plan(kwargs[argument.name])
                named.add(argument.name)
            elif argument.has_default_value():
                given = self.plan_default(argument)
            else:
                raise Mismatch(f"Argument {argument.name} not provided.\n")
            planned.append(self.fit(argument, given))
        if owner is not None:
            raise Mismatch("Provided self argument not used in schema.\n")
        if schema.is_vararg:
            planned += [self.plan(value) for value in args[used:]]
            used = len(args)
        if used < len(args):
            raise Mismatch(
                f"Expected at most {used} arguments but found {len(args)} positional arguments.\n"
            )
        for name in kwargs:
            if name not in named:
                known = any([argument.name == name for argument in schema.arguments])
                what = "specified twice" if known else "unknown"
                raise Mismatch(f"Keyword argument {name} {what}.\n")
        returns = [evaluate(result.type, self.bindings) or ANY for result in schema.returns]
        return Match(schema, planned, returns)

    def plan(self, given: Given) -> Planned:
        if isinstance(given, Value):
            return Planned(given.type(), lambda: given)
        return Planned(type_of(given), lambda: self.graph.insertConstant(given, self.source))

    def plan_default(self, argument: Argument) -> Planned:
        value = argument.default_value
        type_ = without_optional(argument.type)
        if not isinstance(type_, ListType) or value is None:
            return self.plan(value)
        values = list(argument.broadcast(value))
        return Planned(type_, lambda: self.graph.insertConstant(values, self.source).setType(type_))

    def fit(self, argument: Argument, given: Planned) -> Planned:
        """An argument as the schema wants it."""
        if is_single_of_list(argument, given.type):
            assert argument.size is not None
            given = self.listed(given.type, [given] * argument.size)
        reason = bind(argument.type, given.type, self.bindings)
        if reason:
            raise Mismatch(
                f"Could not match type {type_name(given.type)} to {type_name(argument.type)} in "
                f"argument '{argument.name}': {reason}.\n"
            )
        wanted = evaluate(argument.type, self.bindings)
        if wanted is None:
            raise Mismatch(
                f"Type variables in type {type_name(argument.type)} could not be inferred from "
                f"actual type {type_name(given.type)}"
            )
        found = convert(self, given, wanted)
        if not is_subtype(found.type, wanted):
            raise Mismatch(mismatch_text(argument.name, wanted, found.type))
        return found

    def is_list(self, given: Given, formal: Type) -> bool:
        type_ = self.plan(given).type
        return isinstance(type_, ListType) or is_tuple_for_list(type_, without_optional(formal))

    def rest_as_list(self, argument: Argument, args: Sequence[Given]) -> Planned:
        """What is left of the positional arguments as the list that is wanted last."""
        formal = without_optional(argument.type)
        assert isinstance(formal, ListType)
        element = Argument("<varargs>", formal.element)
        items = [self.fit(element, self.plan(value)) for value in args]
        return self.listed(formal.element, items)

    def listed(self, element: Type, items: Sequence[Planned]) -> Planned:
        return Planned(ListType(element), lambda: self.make_list(element, items))

    def make_list(self, element: Type, items: Sequence[Planned]) -> Value:
        values = [item.make() for item in items]
        return self.insert("prim::ListConstruct", values, ListType(element))

    def insert(self, kind: str, values: Sequence[Value], type_: Type) -> Value:
        node = self.graph.create(kind, values)
        node.source = self.source
        return self.graph.insertNode(node).output().setType(type_)

    def unpacked(self, given: Planned) -> list[Value]:
        """The items of a tuple."""
        value = given.make()
        if value.node().kind() == "prim::TupleConstruct":
            return value.node().inputs()
        assert isinstance(given.type, TupleType)
        node = self.graph.create("prim::TupleUnpack", [value], len(given.type.items))
        node.source = self.source
        for output, type_ in zip(node.outputs(), given.type.items):
            output.setType(type_)
        return self.graph.insertNode(node).outputs()


def takes_rest(schema: FunctionSchema, place: int) -> bool:
    """Whether an argument takes `f(x, 2, 3)` as `f(x, [2, 3])`: the last one, and a list."""
    arguments = schema.arguments
    if place + 1 < len(arguments) and not arguments[place + 1].kwarg_only:
        return False
    type_ = arguments[place].type
    return (
        isinstance(type_, ListType)
        and not isinstance(type_.element, VarType)
        and arguments[place].size is None
    )


def is_single_of_list(argument: Argument, type_: Type) -> bool:
    """Whether one number is given where `int[N]` or `float[N]` is wanted."""
    formal = without_optional(argument.type)
    return (
        argument.size is not None
        and isinstance(formal, ListType)
        and formal.element in (INT, FLOAT)
        and type_ == formal.element
    )


def is_tuple_for_list(type_: Type, formal: Type) -> bool:
    return (
        isinstance(type_, TupleType)
        and isinstance(formal, ListType)
        and all([is_subtype(item, formal.element) for item in type_.items])
    )


def without_optional(type_: Type) -> Type:
    return type_.element if isinstance(type_, OptionalType) else type_


def mismatch_text(name: str, wanted: Type, actual: Type) -> str:
    text = (
        f"Expected a value of type '{type_name(wanted)}' for argument '{name}' but instead found "
        f"type '{type_name(actual)}'.\n"
    )
    if isinstance(actual, TensorType) and actual.inferred:
        text += (
            f"Inferred the value for argument '{name}' to be of type 'Tensor' because it was not "
            "annotated with an explicit type.\n"
        )
    if isinstance(actual, ListType) and isinstance(actual.element, TensorType):
        text += (
            "Empty lists default to List[Tensor]. Add a variable annotation to the assignment to "
            "create an empty list of another type (torch.jit.annotate(List[T, []]) where T is the "
            "type of elements in the list for Python 2)\n"
        )
    if isinstance(wanted, InterfaceType):
        text += why_not_interface(actual, wanted)
    return text


# -- conversions -----------------------------------------------------------------------------------

# What is inserted where a tensor, any number, or a bool stands for a number of some type.
# Warnings of compiled code have numbers.
WARNINGS = itertools.count()
FROM_TENSOR = {
    FLOAT: "aten::FloatImplicit",
    COMPLEX: "aten::ComplexImplicit",
    INT: "aten::IntImplicit",
    NUMBER: "aten::ScalarImplicit",
}
FROM_NUMBER = {FLOAT: "aten::Float", COMPLEX: "aten::Complex", INT: "aten::Int"}
FROM_BOOL = {FLOAT: "aten::Float", INT: "aten::Int", NUMBER: "aten::Int"}


def convert(matcher: Matcher, given: Planned, wanted: Type) -> Planned:
    """The argument as the wanted type, as far as that is done without being asked for."""
    formal = without_optional(wanted)
    if is_tuple_for_list(given.type, formal):
        assert isinstance(formal, ListType)
        element = formal.element
        return Planned(
            ListType(element),
            lambda: matcher.insert(
                "prim::ListConstruct", matcher.unpacked(given), ListType(element)
            ),
        )
    if isinstance(given.type, TupleType) and isinstance(wanted, TupleType):
        return convert_items(matcher, given, wanted)
    if not matcher.allow_conversions:
        return given
    if is_subtype(given.type, TENSOR):
        return inserted(matcher, given, FROM_TENSOR.get(wanted), wanted)
    if given.type == NUMBER:
        return inserted(matcher, given, FROM_NUMBER.get(wanted), wanted)
    if given.type == BOOL:
        kind = FROM_BOOL.get(wanted)
        return inserted(matcher, given, kind, INT if wanted == NUMBER else wanted)
    if given.type == STR and formal == DEVICE:
        return inserted(matcher, given, "aten::device", DEVICE)
    return given


def inserted(matcher: Matcher, given: Planned, kind: str | None, result: Type) -> Planned:
    if kind is None:
        return given
    return Planned(result, lambda: matcher.insert(kind, [given.make()], result))


def convert_items(matcher: Matcher, given: Planned, wanted: TupleType) -> Planned:
    """A tuple with each item as it is wanted; as it is where nothing is to be done."""
    assert isinstance(given.type, TupleType)
    if len(given.type.items) != len(wanted.items):
        return given
    # Items are read once, when the first of them is needed.
    read: list[Value] = []

    def item(place: int) -> Value:
        if not read:
            read.extend(matcher.unpacked(given))
        return read[place]

    items = [
        convert(matcher, Planned(type_, lambda place=place: item(place)), part)  # type: ignore[misc]
        for place, (type_, part) in enumerate(zip(given.type.items, wanted.items))
    ]
    types = [each.type for each in items]
    if types == list(given.type.items):
        return given
    result = TupleType(types, wanted.name, wanted.fields)
    return Planned(
        result,
        lambda: matcher.insert("prim::TupleConstruct", [each.make() for each in items], result),
    )


def convert_value(
    graph: Graph, value: Value, wanted: Type, source: SourceRange = NOWHERE, implicit: bool = False
) -> Value:
    """A value as the wanted type, where tuples stand for lists; the value itself where not.

    `implicit` allows what calls convert by themselves as well.
    """
    matcher = Matcher(graph, source, implicit)
    return convert(matcher, Planned(value.type(), lambda: value), wanted).make()


# -- calls -----------------------------------------------------------------------------------------


def match_any(
    graph: Graph,
    schemas: Sequence[FunctionSchema],
    args: Sequence[Given],
    kwargs: Mapping[str, Given],
    source: SourceRange = NOWHERE,
    self: Given = None,
) -> tuple[int, Match]:
    """The first schema that takes the arguments, by its place; an error says why none does."""
    reasons: list[str] = []
    for allow_conversions in (False, True) if len(schemas) > 1 else (True,):
        reasons.clear()
        for place, schema in enumerate(schemas):
            found = match_schema(schema, graph, args, kwargs, source, self, allow_conversions)
            if isinstance(found, Match):
                return place, found
            reasons.append(f"\n{schema}:\n{found}")
    if len(schemas) == 1:
        raise MatchError(reasons[0], source)
    variants = "".join([f"  {line}\n" for line in "".join(reasons).split("\n")[:-1]])
    raise MatchError(
        "Arguments for call are not valid.\nThe following variants are available:\n"
        f"{variants}\nThe original call is",
        source,
    )


def emit_builtin(
    graph: Graph,
    kind: str,
    args: Sequence[Given],
    kwargs: Mapping[str, Given] | None = None,
    source: SourceRange = NOWHERE,
    self: Given = None,
) -> Value:
    """Inserts a call of an operator; several results are a tuple, none is an empty one."""
    from rushlight.jit.ops.builtins import FUNCTIONS

    kwargs = {} if kwargs is None else kwargs
    operators = overloads(kind)
    functions = FUNCTIONS.get(kind, [])
    schemas = [*[op.schema for op in operators], *[function.schema for function in functions]]
    if not schemas:
        fail_unknown(kind, source)
    place, match = match_any(graph, schemas, args, kwargs, source, self)
    if place >= len(operators):
        return functions[place - len(operators)].emit(graph, match.inputs(), source)
    node = graph.create(kind, match.inputs(), len(match.return_types))
    node.source = source
    if kind == "aten::warn":
        node.write("i", "warn_id", next(WARNINGS))
    for output, type_ in zip(node.outputs(), match.return_types):
        output.setType(type_)
    graph.insertNode(node)
    return pack(graph, node.outputs(), match.schema, source)


def pack(
    graph: Graph, outputs: Sequence[Value], schema: FunctionSchema, source: SourceRange
) -> Value:
    """The results of a call as one value; fields have names where the schema gives all of them."""
    if len(outputs) == 1:
        return outputs[0]
    names = [result.name for result in schema.returns]
    fields = names if names and all(names) else []
    node = graph.create("prim::TupleConstruct", outputs)
    node.source = source
    node.output().setType(TupleType([value.type() for value in outputs], "", fields))
    return graph.insertNode(node).output()


def fail_unknown(kind: str, source: SourceRange) -> NoReturn:
    """No operator has that name: those that have nearly the same are named."""
    from rushlight.jit.ops.builtins import near_kinds

    near = near_kinds(kind)
    text = f"Unknown builtin op: {kind}.\n"
    if near:
        listed = "".join([f"\t{name}\n" for name in near])
        text += f"Here are some suggestions: \n{listed}"
    raise MatchError(f"{text}\nThe original call is", source)


def binds_self(schema: FunctionSchema, type_: Type) -> bool:
    """Whether a value of the type can be the argument `self`: whether it has the method."""
    place = next((at for at, each in enumerate(schema.arguments) if each.name == "self"), None)
    if place is None:
        return False
    formal = schema.arguments[place].type
    bindings: Bindings = {}
    if bind(formal, type_, bindings):
        return False
    wanted = evaluate(formal, bindings)
    return wanted is not None and is_subtype(type_, wanted)
