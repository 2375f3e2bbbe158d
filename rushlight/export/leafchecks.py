"""What the leaves of a call must be, as plain data, and the check of it.

`checks` makes the records from a program; files of packages carry them. Checking needs neither
symbols nor graphs. The first dim that has a symbol alone, or in a form that can be solved for it,
gives its value; the others must agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base import pytree
from rushlight.core.tensor import Tensor

__all__ = ["LeafChecks", "shown_path"]

# A record is a dict with a `kind`. "tensor": name, shape; "size": name, form; "equal": value;
# "any". A size in a shape is an int or a form. A form is a dict: `shown`, `lower` and `upper`
# (None without a bound), and `symbol` (shown as `root`), `slope` and `offset`, or `text` over
# `symbols`; a form that is no data has a function `value` in place of the text. Symbols have names
# that are given here: those of files are not code.
Record = dict[str, Any]


def shown_path(path: Any) -> str:
    """A leaf's path as errors show it: `*args[1][0]`, or the keyword and the rest."""
    if path[0].idx == 0:
        return f"*args{pytree.keystr(path[1:])}"
    return f"{path[1].key}{pytree.keystr(path[2:])}"


class LeafChecks:
    """The records of a program's inputs, in their order."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = list(records)
        self.codes: dict[str, Any] = {}

    def __call__(self, leaves: Sequence[Any], path_of: Callable[[int], Any]) -> None:
        """Raise where a leaf is not what the program was traced with; `path_of` gives the path of
        one by its number, which only errors ask for."""
        if len(leaves) != len(self.records):
            raise ValueError(f"Expected {len(self.records)} inputs, but got {len(leaves)}")
        call = Checking(self, path_of)
        for at, (record, leaf) in enumerate(zip(self.records, leaves)):
            kind = record["kind"]
            if kind == "tensor":
                call.tensor(at, record, leaf)
            elif kind == "size":
                if is_known(leaf):
                    call.size(record["name"], (at, None), leaf, record["form"])
                elif not hasattr(leaf, "node"):
                    raise RuntimeError(
                        f"Expected input at {call.where((at, None))} to be an integer, "
                        f"but got {type(leaf)}"
                    )
            elif kind == "equal":
                wanted = record["value"]
                if type(leaf) is not type(wanted) or leaf != wanted:
                    raise RuntimeError(
                        f"Expected input at {call.where((at, None))} to be equal to {wanted}, "
                        f"but got {leaf}"
                    )
        call.finish()

    def value(self, form: Record, symbols: dict[str, int]) -> int:
        if "value" in form:
            found: int = form["value"](symbols)
            return found
        text = form["text"]
        code = self.codes.get(text)
        if code is None:
            code = self.codes[text] = compile(text, "<size>", "eval")
        return int(eval(code, {"math": math}, symbols))


def is_known(size: Any) -> bool:
    """Whether a size can be compared: a symbol of a trace is guarded by it, that of data cannot."""
    return type(size) is int or (hasattr(size, "node") and size.node.has_hint())


def shown_shape(shape: Sequence[Any]) -> str:
    sizes = [str(size) if type(size) is int else size["shown"] for size in shape]
    return f"torch.Size([{', '.join(sizes)}])"


# The number of a leaf, and of one of its dims.
Place = tuple[int, int | None]


class Checking:
    """One call: the values that symbols have in it."""

    def __init__(self, checks: LeafChecks, path_of: Callable[[int], Any]) -> None:
        self.checks = checks
        self.path_of = path_of
        self.symbols: dict[str, int] = {}
        # Sizes that do not tell a symbol: they are compared when all symbols are known.
        self.later: list[tuple[Place, int, Record]] = []

    def where(self, place: Place) -> str:
        path = shown_path(self.path_of(place[0]))
        return path if place[1] is None else f"{path}.shape[{place[1]}]"

    def tensor(self, at: int, record: Record, leaf: Any) -> None:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"Expected input at {self.where((at, None))} to be a tensor, but got {type(leaf)}"
            )
        sizes, wanted = tuple(leaf.shape), record["shape"]
        if len(sizes) != len(wanted):
            raise RuntimeError(
                f"Unexpected number of dimensions in input at {self.where((at, None))}.shape "
                f"(expected {shown_shape(wanted)}, got {leaf.shape})"
            )
        for axis, (size, want) in enumerate(zip(sizes, wanted)):
            if not is_known(size):
                continue
            if type(want) is not int:
                self.size(f"{record['name']}.shape[{axis}]", (at, axis), size, want)
            elif size != want:
                raise RuntimeError(
                    f"Expected input at {self.where((at, axis))} to be equal to {want}, "
                    f"but got {size}"
                )

    def size(self, name: str, place: Place, size: int, form: Record) -> None:
        """One number that the program has a form for."""
        if self.knows(form):
            self.compare(place, size, form)
        elif "symbol" in form:
            self.learn(name, size, form)
        else:
            self.later.append((place, size, form))
        lower, upper = form["lower"], form["upper"]
        # torch: sizes 0 and 1 are let through wherever 2 is.
        if lower is not None and lower > 2 and size < lower:
            raise RuntimeError(
                f"Expected input at {self.where(place)} to be >= {lower}, but got {size}"
            )
        if upper is not None and size > upper:
            raise RuntimeError(
                f"Expected input at {self.where(place)} to be <= {upper}, but got {size}"
            )

    def knows(self, form: Record) -> bool:
        needed = [form["symbol"]] if "symbol" in form else form["symbols"]
        return all([symbol in self.symbols for symbol in needed])

    def learn(self, name: str, size: int, form: Record) -> None:
        """The value of the one symbol of a linear form."""
        above, slope = size - form["offset"], form["slope"]
        if slope != 1 and above % slope != 0:
            raise RuntimeError(
                f"Expected input {name} = {size} to be of the form {form['shown']}, where "
                f"{form['root']} is an integer"
            )
        self.symbols[form["symbol"]] = above if slope == 1 else above // slope

    def compare(self, place: Place, size: int, form: Record) -> None:
        if "symbol" in form:
            known = form["slope"] * self.symbols[form["symbol"]] + form["offset"]
        else:
            known = self.checks.value(form, self.symbols)
        if known != size:
            raise RuntimeError(
                f"Expected input at {self.where(place)} to be equal to {known}, but got {size}"
            )

    def finish(self) -> None:
        for place, size, form in self.later:
            if self.knows(form):
                self.compare(place, size, form)
