"""What a program's module checks of its inputs before it runs: structure, sizes, constants.

The first dim that has a symbol alone, or in a form that can be solved for it, gives its value;
the others must agree. Other relations of several symbols are asserted in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.base import pytree
from rushlight.base.pytree import TreeSpec
from rushlight.core.fake import FakeTensor
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.export.inputs import shown_path
from rushlight.symbolic.numbers import SymInt

__all__ = ["InputCheck", "check_inputs", "flatten_call"]


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
        self.placeholders = list(placeholders)
        self.ranges = ranges

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, received = flatten_call(module._in_spec, args, kwargs)
        check_inputs(self.placeholders, leaves, self.ranges)
        names = received.child(1).context
        if names is not None and list(kwargs) != list(names):
            return args, {name: kwargs[name] for name in names}
        return None


def check_inputs(
    placeholders: Sequence[Any], leaves: Sequence[tuple[Any, Any]], ranges: dict[Any, Any]
) -> None:
    """Raise where a leaf is not what the placeholder for it was traced with."""
    sizes = SizeCheck(ranges)
    for node, (path, leaf) in zip(placeholders, leaves, strict=True):
        expected = node.meta.get("val")
        if isinstance(expected, Tensor):
            check_tensor(node.name, expected, path, leaf, sizes)
        elif isinstance(expected, SymInt):
            where = shown_path(path)
            if type(leaf) is int:
                sizes.check(node.name, where, leaf, expected.node.expr)
            elif not isinstance(leaf, SymInt):
                raise RuntimeError(
                    f"Expected input at {where} to be an integer, but got {type(leaf)}"
                )
        elif isinstance(expected, (int, float, str)) and (
            type(leaf) is not type(expected) or leaf != expected
        ):
            where = shown_path(path)
            raise RuntimeError(
                f"Expected input at {where} to be equal to {expected}, but got {leaf}"
            )
    sizes.finish()


def check_tensor(name: str, expected: Tensor, path: Any, leaf: Any, check: SizeCheck) -> None:
    if not isinstance(leaf, Tensor):
        raise RuntimeError(
            f"Expected input at {shown_path(path)} to be a tensor, but got {type(leaf)}"
        )
    sizes, wanted = tuple(leaf.shape), sizes_of(expected)
    if len(sizes) != len(wanted):
        raise RuntimeError(
            f"Unexpected number of dimensions in input at {shown_path(path)}.shape (expected "
            f"{expected.shape}, got {leaf.shape})"
        )
    if isinstance(leaf, FakeTensor) and any([isinstance(size, SymInt) for size in sizes]):
        return
    for axis, (size, want) in enumerate(zip(sizes, wanted)):
        where = f"{shown_path(path)}.shape[{axis}]"
        if isinstance(want, SymInt):
            check.check(f"{name}.shape[{axis}]", where, size, want.node.expr)
        elif size != want:
            raise RuntimeError(f"Expected input at {where} to be equal to {want}, but got {size}")


class SizeCheck:
    """The values that symbols have in one call."""

    def __init__(self, ranges: dict[Any, Any]) -> None:
        self.ranges = ranges
        self.symbols: dict[Any, int] = {}
        # Sizes that do not tell a symbol: they are compared when all symbols are known.
        self.later: list[tuple[str, int, Any]] = []

    def check(self, name: str, where: str, size: int, expr: Any) -> None:
        """One number that the program has a symbol for."""
        if expr.free_symbols <= self.symbols.keys():
            self.compare(where, size, expr)
        elif not self.tells(name, size, expr):
            self.later.append((where, size, expr))
        found = self.ranges.get(expr)
        if found is None:
            return
        # torch: sizes 0 and 1 are let through wherever 2 is.
        if found.lower > 2 and size < found.lower:
            raise RuntimeError(f"Expected input at {where} to be >= {found.lower}, but got {size}")
        if size > found.upper:
            raise RuntimeError(f"Expected input at {where} to be <= {found.upper}, but got {size}")

    def tells(self, name: str, size: int, expr: Any) -> bool:
        """Learn the value of the one symbol of a linear form; whether it is one."""
        offset, term = expr.as_coeff_Add()
        slope, symbol = term.as_coeff_Mul()
        if not symbol.is_Symbol:
            return False
        value, rest = divmod(size - int(offset), int(slope))
        if rest:
            raise RuntimeError(
                f"Expected input {name} = {size} to be of the form {expr}, where "
                f"{symbol} is an integer"
            )
        self.symbols[symbol] = value
        return True

    def compare(self, where: str, size: int, expr: Any) -> None:
        known = int(expr.xreplace(self.symbols))
        if known != size:
            raise RuntimeError(f"Expected input at {where} to be equal to {known}, but got {size}")

    def finish(self) -> None:
        for where, size, expr in self.later:
            if expr.free_symbols <= self.symbols.keys():
                self.compare(where, size, expr)
