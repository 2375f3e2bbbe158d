"""Source text of compiled code: where its parts stand, and errors that show them.

An error names the file and line, prints the lines around with the place underlined, and then who
asked for the function to be compiled. `compiling` keeps that chain, one for each thread.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from rushlight.jit.ir.highlight import highlighted
from rushlight.jit.ir.parts import NOWHERE, SourceRange


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a function or class as it stands in its file.

    Its tree is that of the text without `indentation`.
    """

    text: str
    file: str = "<string>"
    first_line: int = 1
    indentation: int = 0
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        place = 0
        for line in self.text.split("\n"):
            self.starts.append(place)
            place += len(line) + 1

    @property
    def bare(self) -> str:
        """The text without its indentation: what can be parsed."""
        return textwrap.dedent(strip_less_indented(self.text)) if self.indentation else self.text

    def offset(self, line: int, column: int) -> int:
        """The place in the text of a line (from 1) and a column in bytes of UTF-8."""
        start = self.starts[line - 1] + self.indentation
        row = self.text[start : start + column]
        if not row.isascii():
            whole = self.text[start:].split("\n", 1)[0].encode()
            column = len(whole[:column].decode(errors="ignore"))
        return start + column

    def range_between(self, start: int, end: int) -> SourceRange:
        line = self.text.count("\n", 0, start)
        return SourceRange(
            self.file,
            self.first_line + line,
            start - self.starts[line],
            self.text,
            start,
            end,
        )

    def range_of(self, node: ast.AST) -> SourceRange:
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return self.range_between(start, max(self.end_of(node), start))

    def short_range(self, node: ast.AST, length: int) -> SourceRange:
        """The first characters of a node: of those that are refused for what they are."""
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return self.range_between(start, start + length)

    def end_of(self, node: Any) -> int:
        """Where the last part that means something ends: closing brackets are not counted."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.offset(node.lineno, node.col_offset) + len(node.value) + 1
        if isinstance(node, ast.Expr | ast.Return) and node.value is not None:
            return self.end_of(node.value)
        if isinstance(node, ast.Subscript):
            return self.end_of(node.slice) + 1
        if isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            return self.end_of(node.generators[-1].iter)
        parts = [part for part in ast.iter_child_nodes(node) if hasattr(part, "lineno")]
        if isinstance(node, ast.List | ast.Dict) and not parts:
            return self.offset(node.lineno, node.col_offset) + 1
        if parts and not isinstance(node, ast.Attribute | ast.Name | ast.arg):
            return max([self.end_of(part) for part in parts])
        return self.offset(node.end_lineno, node.end_col_offset)


def source_of(target: Any) -> SourceText:
    """The text of a Python function or class."""
    try:
        file = inspect.getsourcefile(target) or "<unknown>"
        lines, first = inspect.getsourcelines(target)
    except (OSError, TypeError) as error:
        raise OSError(
            f"Can't get source for {target}. TorchScript requires source access in order to carry "
            f"out compilation, make sure original .py files are available."
        ) from error
    indentation = len(lines[0]) - len(lines[0].lstrip())
    return SourceText("".join(lines), file, first, indentation)


def strip_less_indented(text: str) -> str:
    """Comments that stand further left than the function would keep it from being dedented."""
    lines = text.split("\n")
    depth = len(lines[0]) - len(lines[0].lstrip())
    kept = []
    for line in lines:
        own = len(line) - len(line.lstrip())
        is_stray = line.lstrip().startswith("#") and own < depth
        kept.append(" " * depth + line.lstrip() if is_stray else line)
    return "\n".join(kept)


# -- errors ----------------------------------------------------------------------------------------


class FrontendError(Exception):
    """Python code that is no TorchScript."""

    def __init__(self, source_range: SourceRange, msg: str) -> None:
        super().__init__(source_range, msg)
        self.source_range = source_range
        self.msg = msg
        self.report = f":\n{highlighted(source_range)}{chain_text()}"

    def __str__(self) -> str:
        return self.msg + self.report


class NotSupportedError(FrontendError):
    pass


class UnsupportedNodeError(NotSupportedError):
    """A kind of statement or expression that does not exist in TorchScript."""

    def __init__(
        self, source: SourceText, node: ast.AST, words: str, length: int, reason: str = ""
    ) -> None:
        super().__init__(
            source.short_range(node, length), words + (f": {reason}" if reason else "")
        )


class FrontendTypeError(FrontendError):
    pass


def error_text(message: str, place: SourceRange) -> str:
    return f"\n{message}:\n{highlighted(place)}{chain_text()}"


def fail_at(place: SourceRange, message: str) -> NoReturn:
    """Refuses the code at `place`."""
    raise RuntimeError(error_text(message, place))


# -- who asked for it ------------------------------------------------------------------------------


def nowhere() -> SourceRange:
    return NOWHERE


@dataclass(slots=True)
class Compiling:
    """A function that is being compiled, and the call in it that is looked at."""

    name: str
    place: Callable[[], SourceRange] = nowhere


class Chain(threading.local):
    def __init__(self) -> None:
        self.calls: list[Compiling] = []


CHAIN = Chain()


@contextmanager
def compiling(name: str) -> Iterator[None]:
    CHAIN.calls.append(Compiling(name))
    try:
        yield
    finally:
        CHAIN.calls.pop()


def set_current_call(place: Callable[[], SourceRange]) -> None:
    """Remembers the call that is looked at; its range is only asked for by an error."""
    if CHAIN.calls:
        CHAIN.calls[-1].place = place


def current_call() -> Callable[[], SourceRange]:
    return CHAIN.calls[-1].place if CHAIN.calls else nowhere


def chain_text() -> str:
    calls = CHAIN.calls
    text = ""
    for callee, caller in zip(calls[::-1], calls[-2::-1]):
        text += (
            f"'{callee.name}' is being compiled since it was called from '{caller.name}'\n"
            f"{highlighted(caller.place())}"
        )
    return text


def indentation_of(text: str) -> int:
    """How far the first line that says something is set in."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    return len(first) - len(first.lstrip())
