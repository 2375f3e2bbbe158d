"""What a program's module checks of its inputs before it runs: structure, sizes, constants.

The records that `leafchecks` reads are made here, of placeholders. Relations of several symbols
that are no sizes of inputs are asserted in the graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight.base import pytree
from rushlight.base.pytree import TreeSpec
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.export.leafchecks import LeafChecks, Record
from rushlight.export.serde.plain import PlainExpr
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


def records_of(placeholders: Sequence[Any], ranges: dict[Any, Any]) -> list[Record]:
    """What is checked of each placeholder's argument, as plain data."""
    names: dict[Any, str] = {}
    found: list[Record] = []
    for node in placeholders:
        expected = node.meta.get("val")
        if isinstance(expected, Tensor):
            shape = [form_of(size, ranges, names) for size in sizes_of(expected)]
            dtype = expected.dtype.name
            found.append({"kind": "tensor", "name": node.name, "shape": shape, "dtype": dtype})
        elif isinstance(expected, SymInt):
            form = form_of(expected, ranges, names)
            found.append({"kind": "size", "name": node.name, "form": form})
        elif isinstance(expected, (int, float, str)):
            found.append({"kind": "equal", "value": expected})
        else:
            found.append({"kind": "any"})
    return found


def form_of(size: Any, ranges: dict[Any, Any], names: dict[Any, str]) -> Any:
    """A size as it is, or what tells its symbols. `names` are those that symbols have so far."""
    if not isinstance(size, SymInt):
        return size
    expr: Any = size.node.expr
    if not expr.free_symbols:
        return int(expr.xreplace({}))
    for symbol in sorted(expr.free_symbols, key=str):
        names.setdefault(symbol, f"v{len(names)}")
    bounds = ranges.get(expr)
    form: Record = {"shown": str(expr), "lower": None, "upper": None}
    if bounds is not None:
        form["lower"], form["upper"] = bound_of(bounds.lower), bound_of(bounds.upper)
    offset, term = expr.as_coeff_Add()
    slope, symbol = term.as_coeff_Mul()
    if symbol.is_Symbol and int(offset) == offset and int(slope) == slope:
        linear = {"slope": int(slope), "offset": int(offset)}
        return {**form, "symbol": names[symbol], "root": str(symbol), **linear}
    own = {symbol: names[symbol] for symbol in expr.free_symbols}
    form["symbols"] = sorted(own.values())
    if isinstance(expr, PlainExpr):
        form["value"] = lambda known: expr.xreplace({s: known[name] for s, name in own.items()})
        return form
    from rushlight.symbolic.guards import python_text

    return {**form, "text": python_text(expr, own.__getitem__)}


def bound_of(number: Any) -> int | None:
    return int(number) if math.isfinite(number) else None
