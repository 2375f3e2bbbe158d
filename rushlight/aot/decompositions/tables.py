"""The tables: op -> the function that does the same with other ops.

A decomposition is a program that was written for the op (`programs`), what the op's record says
about it already (the body of a composite, the text of an elementwise op), or what a user registers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rushlight.aot.decompositions import (
    creating,
    losses,
    moving,
    normalizing,
    products,
    reducing,
    resizing,
    writing,
    written,
)
from rushlight.aot.decompositions.names import CORE_TABLE, DEFAULT_TABLE, TEXTS
from rushlight.aot.decompositions.texts import from_text
from rushlight.base import pytree
from rushlight.core.device import contiguous_format
from rushlight.core.op import OpOverload, OpOverloadPacket, Tag, find_overload
from rushlight.opset import audit
from rushlight.opset.rules import aten
from rushlight.symbolic.queries import statically_known_true

__all__ = [
    "core_aten_decompositions", "decomposition_table", "default_decompositions",
    "get_decompositions", "global_decomposition_table", "register_decomposition",
    "remove_decompositions", "select_decomp_table",
]  # fmt: skip

# Importing a family keeps its programs.
FAMILIES = (creating, losses, moving, normalizing, products, reducing, resizing, writing)
Decomposition = Callable[..., Any]
Table = dict[Any, Decomposition]

decomposition_table: Table = {}
global_decomposition_table: dict[str, Table] = {
    "post_autograd": decomposition_table,
    "pre_autograd": {},
    "meta": {},
}


def overloads_of(entry: Any) -> list[Any]:
    """The overloads that an op or a packet of ops stands for."""
    if isinstance(entry, OpOverloadPacket):
        return [getattr(entry, name) for name in entry.overloads()]
    return [entry]


def table_of(type: str) -> Table:
    found = global_decomposition_table.get(type)
    if found is None:
        kinds = ", ".join(global_decomposition_table)
        raise AssertionError(f"type must be one of {kinds}, got {type!r}")
    return found


def register_decomposition(
    aten_op: Any,
    registry: Table | None = None,
    *,
    type: str = "post_autograd",
    unsafe: bool = False,
) -> Callable[[Decomposition], Decomposition]:
    """A decorator that puts a function into a table as the decomposition of an op, of all overloads
    of a packet, or of each op in a sequence. No op may have one there already.

    >>> import rushlight as torch
    >>> mine = {}
    >>> @register_decomposition(torch.ops.aten.silu.default, mine)
    ... def silu(x):
    ...     return x * x.sigmoid()
    >>> list(mine)
    [<OpOverload(op='aten.silu', overload='default')>]
    """
    table = table_of(type) if registry is None else registry

    def register(function: Decomposition) -> Decomposition:
        for entry in pytree.tree_leaves(aten_op):
            for op in overloads_of(entry):
                if op in table:
                    raise RuntimeError(f"duplicate registrations for {op}")
                table[op] = function
        return function

    return register


def get_decompositions(aten_ops: Sequence[Any], type: str = "post_autograd") -> Table:
    """The entries of a table for ops and packets; those that have none are left out."""
    table = table_of(type)
    ops = [op for entry in aten_ops for op in overloads_of(entry)]
    return {op: table[op] for op in ops if op in table}


def remove_decompositions(decompositions: Table, aten_ops: Sequence[Any]) -> None:
    """Take ops and packets out of a table."""
    for entry in aten_ops:
        for op in overloads_of(entry):
            decompositions.pop(op, None)


def core_aten_decompositions() -> Table:
    """A new table that leads from all ops to core ops: those that compilers and files expect.

    What has no decomposition into core ops stays as it is.
    """
    named = named_ops(CORE_TABLE)
    composites = [op for op in ops_of_library() if op.composite_body() is not None]
    chosen = {op: decomposition_table[op] for op in named if op in decomposition_table}
    for op in composites:
        if Tag.core not in op.tags:
            chosen.setdefault(op, decomposition_table[op])
    return chosen


def select_decomp_table() -> Table:
    """The table that graphs are compiled with."""
    return decompositions


def named_ops(names: str) -> list[OpOverload]:
    found = []
    for name in names.split():
        base, _, overload = name.partition(".")
        found.append(find_overload("aten", base, overload or "default"))
    return found


def ops_of_library() -> Iterable[OpOverload]:
    """The functional ops of the library."""
    for op in audit.records():
        if op.namespace == "aten" and not op.mutated_positions and not op.out_positions:
            yield op


def fill() -> None:
    """Put what the library says itself into the table."""
    for op in ops_of_library():
        if op.composite_body() is not None:
            decomposition_table[op] = op.decompose
    for op in named_ops(TEXTS):
        decomposition_table[op] = laid_out(op, from_text(op))
    for name, function in written.PROGRAMS.items():
        op = named_ops(name)[0]
        decomposition_table[op] = laid_out(op, function)


def laid_out(op: OpOverload, function: Decomposition) -> Decomposition:
    """A decomposition whose results have the strides that the op gives them."""
    if op.kind.name in ("VIEW", "CREATION", "RANDOM") or op.composite_body() is not None:
        return function

    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if found is NotImplemented:
            return found
        return with_strides(found, op.kind.shells(op, op.bind(*args, **kwargs)))

    return decomposition


def with_strides(found: Any, wanted: Any) -> Any:
    if isinstance(found, (tuple, list)):
        pairs = zip(found, wanted, strict=True)
        return type(found)([with_strides(entry, like) for entry, like in pairs])
    if found is None or not differs(found.stride(), wanted.stride()):
        return found
    if wanted.is_contiguous():
        return aten.clone(found, memory_format=contiguous_format)
    blank = aten.empty_strided(
        wanted.shape, wanted.stride(), dtype=found.dtype, device=found.device
    )
    return aten.copy(blank, found)


def differs(strides: Any, wanted: Any) -> bool:
    """Whether strides are other ones, as far as can be told without a guard."""
    return any([not is_equal(a, b) for a, b in zip(strides, wanted, strict=True)])


def is_equal(a: Any, b: Any) -> bool:
    if type(a) is int and type(b) is int:
        return a == b
    return statically_known_true(a == b)


fill()
# The tables that compilers start from.
default_decompositions: Table = get_decompositions(named_ops(DEFAULT_TABLE))
decompositions: Table = core_aten_decompositions()
