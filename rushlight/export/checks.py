"""What a program's module checks of its inputs before it runs: structure, sizes, constants.

The records that `leafchecks` reads are made here, of placeholders. Relations of several symbols
that are no sizes of inputs are asserted in the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rushlight.base import pytree
from rushlight.base.pytree import TreeSpec
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.export.leafchecks import LeafChecks, Record
from rushlight.symbolic.numbers import SymInt

__all__ = ["InputCheck", "check_inputs", "flatten_call", "records_of"]


def flatten_call(
    in_spec: TreeSpec, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[tuple[Any, Any]], TreeSpec]:
    """The leaves of a call's arguments with their paths; keywords may come in any order."""
    names = in_spec.child(1).context if in_spec.num_children == 2 else None
    if names and set(names) == set(kwargs):
        kwargs = {name: kwargs[name] for name in names}
    found, received = pytree.tree_flatten_with_path((tuple(args), kwargs))
    if received != in_spec:
        raise ValueError(
            "Trying to flatten user inputs with exported input tree spec: \n"
            f"{in_spec}\n"
            "but actually got inputs with tree spec of: \n"
            f"{received}.\n"
            "Please check that the inputs have the same number and type of args and kwargs as the "
            "ones you used when tracing."
        )
    return list(found), received


class InputCheck:
    """A hook before a module's forward."""

    def __init__(self, placeholders: Sequence[Any], ranges: dict[Any, Any]) -> None:
        self.checks = LeafChecks(records_of(placeholders, ranges))

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, received = flatten_call(module._in_spec, args, kwargs)
        check_leaves(self.checks, leaves)
        names = received.child(1).context
        if names is not None and list(kwargs) != list(names):
            return args, {name: kwargs[name] for name in names}
        return None


def check_inputs(
    placeholders: Sequence[Any], leaves: Sequence[tuple[Any, Any]], ranges: dict[Any, Any]
) -> None:
    """Raise where a leaf is not what the placeholder for it was traced with."""
    check_leaves(LeafChecks(records_of(placeholders, ranges)), leaves)


def check_leaves(checks: LeafChecks, leaves: Sequence[tuple[Any, Any]]) -> None:
    checks([leaf for _, leaf in leaves], lambda at: leaves[at][0])


# Writes an expression as Python, with the names that symbols have.
Writer = Callable[[Any, Callable[[Any], str]], str]


def records_of(
    placeholders: Sequence[Any], ranges: dict[Any, Any], write: Writer | None = None
) -> list[Record]:
    """What is checked of each placeholder's argument; plain data if `write` is given."""
    forms = Forms(ranges, write)
    found: list[Record] = []
    for node in placeholders:
        expected = node.meta.get("val")
        if isinstance(expected, Tensor):
            shape = [forms.form(size) for size in sizes_of(expected)]
            dtype = expected.dtype.name
            found.append({"kind": "tensor", "name": node.name, "shape": shape, "dtype": dtype})
        elif isinstance(expected, SymInt):
            found.append({"kind": "size", "name": node.name, "form": forms.form(expected)})
        elif isinstance(expected, (int, float, str)):
            found.append({"kind": "equal", "value": expected})
        else:
            found.append({"kind": "any"})
    return found


class Forms:
    """The sizes of one program. Asks no more of expressions than those have that a file is read to
    where there is no sympy."""

    def __init__(self, ranges: dict[Any, Any], write: Writer | None) -> None:
        self.ranges = ranges
        self.write = write
        self.names: dict[Any, str] = {}

    def form(self, size: Any) -> Any:
        """A size as it is, or what tells its symbols."""
        if not isinstance(size, SymInt):
            return size
        expr: Any = size.node.expr
        symbols = sorted(expr.free_symbols, key=str)
        if not symbols:
            return int(expr.xreplace({}))
        names = [self.names.setdefault(symbol, f"v{len(self.names)}") for symbol in symbols]
        bounds = self.ranges.get(expr)
        found: Record = {"shown": str(expr), "lower": None, "upper": None}
        if bounds is not None:
            found["lower"], found["upper"] = bound_of(bounds.lower), bound_of(bounds.upper)
        offset, term = expr.as_coeff_Add()
        slope, symbol = term.as_coeff_Mul()
        if symbol.is_Symbol and int(offset) == offset and int(slope) == slope:
            linear = {"slope": int(slope), "offset": int(offset)}
            return {**found, "symbol": self.names[symbol], "root": str(symbol), **linear}
        found["symbols"] = names
        if self.write is not None:
            return {**found, "text": self.write(expr, self.names.__getitem__)}
        return {**found, "value": partial(value_of, expr, dict(zip(symbols, names)))}


def value_of(expr: Any, names: dict[Any, str], values: dict[str, Any]) -> Any:
    if all([type(values[name]) is int for name in names.values()]):
        return int(expr.xreplace({symbol: values[name] for symbol, name in names.items()}))
    # A program is exported again: what its sizes are stays open.
    from rushlight.symbolic import build

    return build(expr, lambda symbol: values[names[symbol]], lambda apply, *args: apply(*args))


def bound_of(number: Any) -> int | None:
    return int(number) if math.isfinite(number) else None
