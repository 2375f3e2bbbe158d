"""Graphs within graphs: branches as `If`, and loops of every kind as `Loop`.

A graph within another sees the values of the outer one; only what changes from turn to turn is
handed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.fx.graph_module import GraphModule
from rushlight.onnx.building import BOOL, INT64, Builder, Value, number_type, told
from rushlight.onnx.refusals import refuse_op

if TYPE_CHECKING:
    from rushlight.graph.node import Node

__all__ = ["translate_hop"]

Inline = Callable[[GraphModule, list[Any], Builder], Any]
Step = Callable[[Builder, Value, list[Value]], tuple[Value, list[Value], list[Value]]]


def as_value(b: Builder, value: Any) -> Value:
    """A result as a value that was made in this graph."""
    found = value if isinstance(value, Value) else b.number(value, number_type(value))
    return b.op("Identity", found)


def translate_hop(name: str, b: Builder, inline: Inline, node: Node, args: list[Any]) -> Any:
    """The results of an op over graphs; `inline` puts a graph's nodes into a builder."""
    likes = node.meta.get("val")
    if name == "cond":
        return told(b, branch(b, inline, likes, *args), likes)
    if name == "while_loop":
        return told(b, while_loop(b, inline, *args), likes)
    if name == "map_impl":
        return told(b, map_rows(b, inline, likes, *args), likes)
    if name == "scan":
        return told(b, scan(b, inline, likes, *args), likes)
    if name in ("wrap_with_set_grad_enabled", "wrap", "wrap_with_autocast"):
        place = next(i for i, each in enumerate(args) if isinstance(each, GraphModule))
        return inline(args[place], args[place + 1 :], b)
    raise refuse_op(f"higher_order.{name}")


def branch(
    b: Builder, inline: Inline, likes: Any, condition: Any, yes: Any, no: Any, operands: Any = ()
) -> Any:
    if not isinstance(condition, Value):
        return inline(yes if condition else no, list(operands), b)
    label = b.label
    graphs = []
    for module in (yes, no):
        inner = Builder(b.opset, b)
        results = inline(module, list(operands), inner)
        outputs = [told(inner, as_value(inner, r), like) for r, like in zip(results, likes)]
        graphs.append(inner.graph(inner.name("branch"), outputs))
    b.label = label
    scalar = b.reshape(condition, []) if condition.rank else condition
    kinds = [output.dtype for output in graphs[0].outputs]
    return b.many("If", [scalar], kinds, then_branch=graphs[0], else_branch=graphs[1])


def looped(
    b: Builder, trips: Value | None, going: Value, carried: Sequence[Value], step: Step
) -> list[Value]:
    """A loop: the last of what is carried, then the rows that each turn gave, stacked."""
    label = b.label
    inner = Builder(b.opset, b)
    place = Value(inner.name("place"), INT64, 0)
    known = Value(inner.name("going"), BOOL, True)
    states = [Value(inner.name("state"), each.dtype, each.like) for each in carried]
    onward, after, rows = step(inner, place, states)
    inner.label = "turn"
    finals = [told(inner, as_value(inner, new), state.like) for new, state in zip(after, states)]
    results = [as_value(inner, onward), *finals, *[as_value(inner, row) for row in rows]]
    for made, source in zip(results[1 + len(finals) :], rows):
        made.like = source.like
    results[0].like = True
    graph = inner.graph(inner.name("turn"), results)
    graph.inputs = [inner.info(each) for each in (place, known, *states)]
    b.label = label
    kinds = [each.dtype for each in results[1:]]
    return b.many("Loop", [trips, going, *carried], kinds, body=graph)


def while_loop(
    b: Builder, inline: Inline, test: Any, body: Any, carried: Any, more: Any = ()
) -> list[Value]:
    start = [as_value(b, each) if not isinstance(each, Value) else each for each in carried]

    def holds(inner: Builder, states: Sequence[Any]) -> Value:
        found = inline(test, [*states, *more], inner)
        found = found[0] if isinstance(found, list) else found
        value = found if isinstance(found, Value) else inner.number(found, BOOL)
        return inner.reshape(value, []) if value.rank else value

    def step(
        inner: Builder, place: Value, states: list[Value]
    ) -> tuple[Value, list[Value], list[Value]]:
        after = inline(body, [*states, *more], inner)
        for new, old in zip(after, states):
            if isinstance(new, Value):
                new.like = old.like
        return holds(inner, after), after, []

    return looped(b, None, holds(b, start), start, step)


def rows_of(inner: Builder, sources: Sequence[Value], place: Value) -> list[Value]:
    """The row of each source that a turn takes."""
    found = []
    for source in sources:
        row = inner.op("Gather", source, place, axis=0)
        row.like = source.like[0] if source.rank else source.like
        found.append(row)
    return found


def map_rows(
    b: Builder, inline: Inline, likes: Any, body: Any, sources: Any, more: Any = ()
) -> list[Value]:
    def step(
        inner: Builder, place: Value, states: list[Value]
    ) -> tuple[Value, list[Value], list[Value]]:
        given = [*rows_of(inner, sources, place), *more]
        return inner.number(True, BOOL), [], inline(body, given, inner)

    return looped(b, b.number(b.size(sources[0], 0), INT64), b.number(True, BOOL), [], step)


def scan(
    b: Builder, inline: Inline, likes: Any, body: Any, first: Any, sources: Any, more: Any = ()
) -> list[Value]:
    def step(
        inner: Builder, place: Value, states: list[Value]
    ) -> tuple[Value, list[Value], list[Value]]:
        given = [*states, *rows_of(inner, sources, place), *more]
        results = inline(body, given, inner)
        count = len(states)
        return inner.number(True, BOOL), results[:count], results[count:]

    trips = b.number(b.size(sources[0], 0), INT64)
    return looped(b, trips, b.number(True, BOOL), list(first), step)
