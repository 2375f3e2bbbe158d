"""The assertions that a graph's sizes rely on, as nodes.

Each stands as soon as what it is about is known: ranges of a symbol for data right after the node
that makes it, conditions after the last of their symbols. What a graph asserts already is not
asserted again.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.base.pytree import SequenceKey
from rushlight.core.op import find_overload
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node
from rushlight.symbolic import SymBool, SymInt, SymNode, build
from rushlight.symbolic.bindings import CallMethodKey, ConvertIntKey, DivideByKey
from rushlight.symbolic.numbers import NUMBERS

__all__ = ["insert_deferred_runtime_asserts"]

# What nodes that are put in say of where they come from.
INHERITED = ("stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack")


def insert_deferred_runtime_asserts(
    gm: GraphModule,
    shape_env: Any,
    name: str,
    export: bool = False,
    conditions: Iterable[Any] = (),
) -> None:
    """Let a graph, and the graphs in it, check what its shape environment has put off, and
    `conditions` on the sizes of its inputs. With `export` ranges of data are checked, too."""
    for child in gm.children():
        if isinstance(child, GraphModule):
            insert_deferred_runtime_asserts(child, shape_env, name, export)
    insertion = Insertion(gm, shape_env, export)
    insertion.waiting += [*conditions, *shape_env.deferred_runtime_asserts.get(None, ())]
    insertion.run()
    if insertion.waiting:
        missing = ", ".join([str(one.expr) for one in insertion.waiting])
        raise RuntimeError(f"the graph {name} never computes the sizes in {missing}")
    gm.recompile()


class Reader:
    """How a symbol's value is had from a node; the nodes for it are made when it is needed."""

    def __init__(self, node: Node, path: tuple[Any, ...], factor: int = 1, offset: int = 0) -> None:
        self.node = node
        self.path = path
        # A size that is `factor * symbol + offset`.
        self.factor = factor
        self.offset = offset


class Insertion:
    """One pass over one graph."""

    def __init__(self, gm: GraphModule, env: Any, with_ranges: bool) -> None:
        self.graph = gm.graph
        # The node that was reached, and the one that new nodes stand before.
        self.place = self.before = gm.graph.output_node()
        self.env = env
        self.with_ranges = with_ranges
        self.readers: dict[Any, Reader] = {}
        self.values: dict[Any, Node] = {}
        self.waiting: list[Any] = []
        self.bound: list[Any] = []
        self.asserted: set[Any] = set()
        self.constrained: set[tuple[Any, Any]] = set()
        self.assertion = find_overload("aten", "_assert_scalar", "default")
        self.range_op = find_overload("aten", "sym_constrain_range", "default")
        self.size_op = find_overload("aten", "sym_constrain_range_for_size", "default")

    def run(self) -> None:
        nodes = list(self.graph.nodes)
        self.note_existing(nodes)
        for node, following in itertools.pairwise(nodes):
            self.bind(node)
            if following.op != "placeholder":
                self.place, self.before = node, node.next
                self.insert_known()

    def note_existing(self, nodes: list[Node]) -> None:
        """What the graph asserts already."""
        for node in nodes:
            if node.target is self.assertion:
                condition: Any = node.args[0]
                value = condition.meta.get("val") if isinstance(condition, Node) else None
                if isinstance(value, SymBool):
                    self.asserted.add(self.canonical(value.node._expr))
            elif node.target in (self.range_op, self.size_op):
                number: Any = node.args[0]
                if isinstance(number, Node) and isinstance(number.meta.get("val"), SymInt):
                    self.constrained.add((node.target, number.meta["val"].node._expr))

    def canonical(self, expr: Any) -> Any:
        from rushlight.symbolic import expressions

        return expressions.canonical(expr)

    # ------------------------------------------------------------ symbols

    def bind(self, node: Node) -> None:
        """Note the symbols that a node's value makes known."""
        for symbol, path in (node.meta.get("unbacked_bindings") or {}).items():
            if symbol not in self.readers:
                self.readers[symbol] = Reader(node, path)
                self.bound.append(symbol)
                self.waiting += self.env.deferred_runtime_asserts.get(symbol, ())
        value = node.meta.get("val", node.meta.get("example_value"))
        if isinstance(value, SymInt):
            self.bind_number(value.node.expr, Reader(node, ()))
            if value.node.expr.is_Symbol and value.node.expr not in self.values:
                self.values[value.node.expr] = node
        elif isinstance(value, Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, SymInt):
                    path = (CallMethodKey("size"), SequenceKey(dim))
                    self.bind_number(size.node.expr, Reader(node, path))

    def bind_number(self, expr: Any, reader: Reader) -> None:
        offset, terms = expr.as_coeff_Add()
        factor, symbol = terms.as_coeff_Mul()
        if not symbol.is_Symbol or not factor.is_Integer or not offset.is_Integer:
            return
        if symbol in self.readers and (factor != 1 or offset != 0 or self.is_plain(symbol)):
            return
        reader.factor, reader.offset = factor.p, offset.p
        if symbol not in self.readers and symbol in self.env.unbacked_symbols:
            self.waiting += self.env.deferred_runtime_asserts.get(symbol, ())
        self.readers[symbol] = reader

    def is_plain(self, symbol: Any) -> bool:
        reader = self.readers[symbol]
        return reader.factor == 1 and reader.offset == 0

    def value_of(self, symbol: Any) -> Node:
        """The node whose value a symbol is."""
        found = self.values.get(symbol)
        if found is None:
            reader = self.readers[symbol]
            found = self.follow(reader.node, reader.path)
            if reader.offset:
                found = self.call(operator.sub, found, reader.offset)
            if reader.factor != 1:
                found = self.call(operator.floordiv, found, reader.factor)
            self.values[symbol] = found
        return found

    def follow(self, node: Node, path: tuple[Any, ...]) -> Node:
        """The node for what lies at a path of a node's value."""
        while path:
            key, *rest = path
            if isinstance(key, CallMethodKey) and rest and key.name in ("size", "stride"):
                query = find_overload("aten", f"sym_{key.name}", "int")
                node = self.known_query(query, node, rest[0].idx)
                path = tuple(rest[1:])
                continue
            if isinstance(key, CallMethodKey):
                node = self.call(find_overload("aten", f"sym_{key.name}", "default"), node)
            elif isinstance(key, ConvertIntKey):
                from rushlight.symbolic.numbers import sym_ite

                node = self.call(sym_ite, node, 1, 0)
            elif isinstance(key, DivideByKey):
                node = self.call(operator.floordiv, node, key.divisor)
            else:
                node = self.call(operator.getitem, node, key.idx)
            path = tuple(rest)
        return node

    def known_query(self, query: Any, node: Node, dim: int) -> Node:
        """The node that asks for a size; one that the graph has further down is moved here."""
        for user in node.users:
            if user.target is query and user.args == (node, dim):
                if user is self.before:
                    self.before = user.next
                else:
                    self.before.prepend(user)
                return user
        return self.call(query, node, dim)

    # ------------------------------------------------------------ nodes

    def insert(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Node:
        with self.graph.inserting_before(self.before):
            node = self.graph.call_function(function, args, kwargs)
        for key in INHERITED:
            if key in self.place.meta:
                node.meta[key] = self.place.meta[key]
        return node

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        node = self.insert(function, args, kwargs)
        values = [arg.meta.get("val") if isinstance(arg, Node) else arg for arg in args]
        value = self.symbolic(function, values)
        if value is not None:
            node.meta["val"] = value
        return node

    def symbolic(self, function: Callable[..., Any], values: list[Any]) -> Any:
        """The value of a node among symbols. A comparison stays one: that it holds is asserted."""
        from rushlight.symbolic import expressions

        heads = {python: head for head, python in expressions.RELATIONS.items()}
        if function in heads:
            left, right = (
                value.node.expr if isinstance(value, NUMBERS) else expressions.constant(value)
                for value in values
            )
            relation = heads[function](left, right, evaluate=False)
            return SymBool(SymNode(relation, self.env, bool))
        if any(value is None for value in values):
            return None
        with self.env.suppress_guards():
            return (
                function(*values)
                if not isinstance(values[0], Tensor)
                else self.read(function, values)
            )

    def read(self, function: Callable[..., Any], values: list[Any]) -> Any:
        name = getattr(function, "_opname", "")
        found = getattr(values[0], name.removeprefix("sym_"))()
        return found[values[1]] if len(values) > 1 else found

    # ------------------------------------------------------------ insertion

    def insert_known(self) -> None:
        """All that became known with the node that was reached."""
        if self.with_ranges:
            for symbol in self.bound:
                self.insert_ranges(symbol)
        self.bound.clear()
        ready = [one for one in self.waiting if one.expr.free_symbols <= self.readers.keys()]
        self.waiting = [one for one in self.waiting if one not in ready]
        for one in ready:
            self.insert_assertion(one)

    def insert_ranges(self, symbol: Any) -> None:
        """That data is a size, and the range it must be in."""
        known = self.env.facts.ranges.get(symbol)
        if known is None or known.is_float or symbol.name.startswith("z"):
            return
        bounds = [None if abs(b) == float("inf") else b for b in (known.lower, known.upper)]
        is_size = symbol in self.env.size_like
        if not is_size and bounds == [None, None]:
            return
        if is_size:
            self.constrain(self.size_op, symbol, {})
        if bounds != [None, None]:
            self.constrain(self.range_op, symbol, {"min": bounds[0], "max": bounds[1]})

    def constrain(self, op: Any, symbol: Any, limits: dict[str, Any]) -> None:
        if (op, symbol) not in self.constrained:
            self.constrained.add((op, symbol))
            self.insert(op, (self.value_of(symbol),), limits)

    def insert_assertion(self, one: Any) -> None:
        canonical = self.canonical(one.expr)
        if canonical in self.asserted:
            return
        self.asserted.add(canonical)
        condition = build(one.written, self.value_of, self.call)
        if not isinstance(condition, Node):
            condition = self.call(operator.truth, condition)
        text = f"Runtime assertion failed for expression {one.expr} on node '{condition}'"
        self.insert(self.assertion, (condition, text), {})
