"""The texts of expressions, taken apart by a parser of its own.

A text is nested calls of heads, as files have them, or sums, products and comparisons as people
write them. What is made of the parts is the caller's matter: `number`, `symbol` and `call` do it.
Length, depth and the digits of numbers are bounded before anything is computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rushlight.export.serde.schema import refuse

__all__ = ["ASSUMPTIONS", "Parser"]

MOST_LENGTH = 1 << 14
MOST_TOKENS = 8000
MOST_DEPTH = 60
MOST_DIGITS = 80

ASSUMPTIONS = ("positive", "nonnegative", "integer", "real")
TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\d+(?:[eE][+-]?\d+)?|\.\d+)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<text>'[^'\\]*'|\"[^\"\\]*\")"
    r"|(?P<mark>\*\*|//|<=|>=|==|!=|[-+*/%<>(),=&|~]))"
)
NAME = re.compile(r"[A-Za-z_]\w{0,63}\Z", re.ASCII)
# Marks between operands: how tightly they bind, and the head that they stand for.
BETWEEN: dict[str, tuple[int, str]] = {
    "|": (1, "Or"),
    "&": (2, "And"),
    "==": (3, "Equality"),
    "!=": (3, "Unequality"),
    "<": (3, "StrictLessThan"),
    "<=": (3, "LessThan"),
    ">": (3, "StrictGreaterThan"),
    ">=": (3, "GreaterThan"),
    "+": (4, "Add"),
    "-": (4, "Sub"),
    "*": (5, "Mul"),
    "/": (5, "Div"),
    "//": (5, "FloorDiv"),
    "%": (5, "PythonMod"),
}
SIGN_BINDING = 6
WORDS = {"true": True, "True": True, "false": False, "False": False}


class Parser:
    """One expression; operators by how tightly they bind."""

    def __init__(
        self,
        text: str,
        number: Callable[[Any], Any],
        symbol: Callable[[str, dict[str, bool]], Any],
        call: Callable[[str, list[Any]], Any],
    ) -> None:
        if len(text) > MOST_LENGTH:
            raise refuse("an expression is too long")
        self.text = text
        self.number = number
        self.symbol = symbol
        self.call = call
        self.tokens = self.split()
        self.place = 0
        self.depth = 0

    def split(self) -> list[tuple[str, str]]:
        tokens: list[tuple[str, str]] = []
        place, text = 0, self.text.rstrip()
        while place < len(text):
            match = TOKEN.match(text, place)
            if match is None:
                raise self.wrong()
            kind = str(match.lastgroup)
            tokens.append((kind, match.group(kind)))
            place = match.end()
        if len(tokens) > MOST_TOKENS:
            raise refuse("an expression has too many parts")
        return [*tokens, ("end", "")]

    def wrong(self) -> Exception:
        return refuse(f"{self.text[:80]!r} is no expression")

    def peek(self) -> str:
        kind, text = self.tokens[self.place]
        return text if kind == "mark" else ""

    def take(self, mark: str = "") -> str:
        kind, text = self.tokens[self.place]
        if mark and (kind != "mark" or text != mark):
            raise self.wrong()
        self.place += 1
        return text

    def parse(self) -> Any:
        result = self.operation(0)
        if self.tokens[self.place][0] != "end":
            raise self.wrong()
        return result

    def operation(self, binding: int) -> Any:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise refuse("an expression is nested too deeply")
        left = self.operand()
        while True:
            known = BETWEEN.get(self.peek())
            if known is None or known[0] <= binding:
                break
            self.take()
            left = self.call(known[1], [left, self.operation(known[0])])
        self.depth -= 1
        return left

    def operand(self) -> Any:
        kind, text = self.tokens[self.place]
        self.place += 1
        if kind == "mark" and text in "+-~":
            value = self.operation(SIGN_BINDING)
            return value if text == "+" else self.call("Neg" if text == "-" else "Not", [value])
        if kind == "mark" and text == "(":
            value = self.operation(0)
            self.take(")")
        elif kind == "number":
            value = self.number(self.plain_number(text))
        elif kind == "name":
            value = self.named(text)
        else:
            raise self.wrong()
        if self.peek() == "**":
            self.take()
            # The power of a power is taken first, and a sign may stand before it.
            value = self.call("Pow", [value, self.operation(SIGN_BINDING)])
        return value

    def plain_number(self, text: str) -> Any:
        if len(text) > MOST_DIGITS:
            raise refuse("a number of an expression is too large")
        return int(text) if text.isdigit() else float(text)

    def named(self, name: str) -> Any:
        if self.peek() != "(":
            return self.number(WORDS[name]) if name in WORDS else self.symbol(name, {})
        self.take("(")
        if name in ("Symbol", "Integer", "Float", "Rational"):
            return self.literal(name)
        arguments: list[Any] = []
        while self.peek() != ")":
            arguments.append(self.operation(0))
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        return self.call(name, arguments)

    def literal(self, name: str) -> Any:
        """`Symbol('s0', integer=True)`, `Integer(3)`, `Rational(1, 2)`, `Float('0.5', ...)`."""
        values: list[Any] = []
        options: dict[str, Any] = {}
        while self.peek() != ")":
            option = ""
            if self.tokens[self.place][0] == "name" and self.tokens[self.place + 1][1] == "=":
                option = self.take()
                self.take("=")
            value = self.plain()
            if option:
                options[option] = value
            else:
                values.append(value)
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        if name == "Symbol":
            return self.made_symbol(values, options)
        if name == "Float" and len(values) == 1:
            return self.number(float(values[0]))
        if name == "Integer" and len(values) == 1 and type(values[0]) is int:
            return self.number(values[0])
        if name == "Rational" and len(values) == 2 and all(type(each) is int for each in values):
            return self.call("Div", [self.number(each) for each in values])
        raise self.wrong()

    def made_symbol(self, values: list[Any], options: dict[str, Any]) -> Any:
        given = {key: value for key, value in options.items() if key in ASSUMPTIONS}
        if len(values) != 1 or type(values[0]) is not str or not NAME.match(values[0]):
            raise self.wrong()
        if any(type(value) is not bool for value in given.values()):
            raise self.wrong()
        return self.symbol(values[0], given)

    def plain(self) -> Any:
        """A number, text or truth value inside a literal."""
        sign = 1
        while self.peek() == "-":
            self.take()
            sign = -sign
        kind, text = self.tokens[self.place]
        self.place += 1
        if kind == "text" and len(text) <= MOST_DIGITS and sign == 1:
            return text[1:-1]
        if kind == "name" and text in ("True", "False") and sign == 1:
            return WORDS[text]
        if kind == "number":
            return sign * self.plain_number(text)
        raise self.wrong()
