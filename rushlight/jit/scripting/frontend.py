"""Python source as a checked syntax tree: what TorchScript does not have is refused here."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field
from typing import Any

from rushlight.jit.scripting.sources import (
    FrontendError,
    NotSupportedError,
    SourceText,
    UnsupportedNodeError,
    source_of,
)

# Kinds of nodes that do not exist, or not everywhere: their words, and how they begin.
WORDS: dict[type[ast.AST], tuple[str, str]] = {
    ast.FunctionDef: ("function definitions", "def"),
    ast.AsyncFunctionDef: ("async function definitions", "async def"),
    ast.AsyncFor: ("async for loops", "async for"),
    ast.AsyncWith: ("async with statements", "async with"),
    ast.ClassDef: ("class definitions", "class"),
    ast.Try: ("try blocks", "try"),
    ast.Import: ("import statements", "import"),
    ast.ImportFrom: ("import statements", "from"),
    ast.Global: ("global variables", "global"),
    ast.Nonlocal: ("nonlocal variables", "nonlocal"),
    ast.AnnAssign: ("annotated assignments", " "),
}
STATEMENTS = (
    *(ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.If, ast.While, ast.For),
    *(ast.Break, ast.Continue, ast.Pass, ast.Assert, ast.Raise, ast.Delete, ast.With),
)
EXPRESSIONS = (
    *(ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.BinOp, ast.UnaryOp),
    *(ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Dict, ast.ListComp),
    *(ast.GeneratorExp, ast.DictComp, ast.JoinedStr, ast.Starred, ast.Slice, ast.FormattedValue),
)
RESERVED = "__jit"
VARIABLE_ARGUMENTS = (
    "Compiled functions can't take variable number of arguments or use keyword-only arguments with "
    "defaults"
)


@dataclass(slots=True)
class Parsed:
    """A function's tree, its text, and the values of its defaults."""

    node: ast.FunctionDef
    source: SourceText
    name: str
    defaults: dict[str, Any] = field(default_factory=dict)


def parse_function(function: Any, owner: type | None = None) -> Parsed:
    """The checked tree of a Python function; errors name the class that it is a method of."""
    source = source_of(function)
    tree = parse_text(source)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise RuntimeError(
            f"Expected a single top-level function: {source.file}:{source.first_line}"
        )
    node = tree.body[0]
    check_function(node, source)
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    name = function.__name__ if owner is None else f"{owner.__name__}.{function.__name__}"
    return Parsed(node, source, name, defaults)


def parse_text(source: SourceText) -> ast.Module:
    """The tree of a text, with comments that give types where they are well-formed."""
    try:
        return ast.parse(source.bare, type_comments=True)
    except SyntaxError:
        return ast.parse(source.bare)


def check_function(node: ast.FunctionDef, source: SourceText) -> None:
    args = node.args
    if args.kwarg is not None:
        refuse_variable(args.kwarg, source)
    if args.vararg is not None:
        refuse_variable(args.vararg, source)
    for default in args.kw_defaults:
        if default is not None:
            raise NotSupportedError(source.range_of(default), VARIABLE_ARGUMENTS)
    Checker(source).statements(node.body)


def refuse_variable(node: ast.arg, source: SourceText) -> None:
    start = source.offset(node.lineno, node.col_offset) - 1
    place = source.range_between(start, start + len(node.arg) + 1)
    raise NotSupportedError(place, VARIABLE_ARGUMENTS)


class Checker:
    """Refuses what cannot be compiled, wherever it stands."""

    def __init__(self, source: SourceText) -> None:
        self.source = source

    def refuse(self, node: ast.AST, reason: str = "") -> None:
        words, start = WORDS.get(type(node), (type(node).__name__, " "))
        extra = f"{reason} " if reason else ""
        raise UnsupportedNodeError(
            self.source, node, f"{words} {extra}aren't supported", len(start)
        )

    def statements(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        if not isinstance(node, STATEMENTS):
            self.refuse(node)
        if isinstance(node, ast.AnnAssign):
            if node.value is None:
                self.refuse(node, "without assigned value")
            self.expression(node.target)
            self.expression(node.value)
            return
        if isinstance(node, ast.AugAssign):
            self.augmented(node)
        if isinstance(node, ast.For | ast.While) and node.orelse:
            word = "for" if isinstance(node, ast.For) else "while"
            raise NotSupportedError(
                self.source.short_range(node, len(word)),
                f"else branches of {word} loops aren't supported",
            )
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                self.statement(part)
            elif isinstance(part, ast.expr):
                self.expression(part)
            elif isinstance(part, ast.withitem):
                self.expression(part.context_expr)

    def augmented(self, node: ast.AugAssign) -> None:
        from rushlight.jit.scripting.emitter import AUGMENTED

        if type(node.op) not in AUGMENTED:
            start = self.source.end_of(node.target) + 2
            raise NotSupportedError(
                self.source.range_between(start, start + 2),
                f"unsupported kind of augmented assignment: {type(node.op).__name__}",
            )

    def expression(self, node: Any) -> None:
        if not isinstance(node, EXPRESSIONS):
            self.refuse(node)
        if isinstance(node, ast.Name) and node.id.startswith(RESERVED):
            raise NotSupportedError(
                self.source.range_of(node),
                "names of variables used in JIT-ed functions can't start with " + RESERVED,
            )
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            self.comprehension(node)
        if isinstance(node, ast.JoinedStr):
            self.joined(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
            raise NotSupportedError(self.source.range_of(node), "unsupported unary operator: UAdd")
        if isinstance(node, ast.Dict) and None in node.keys:
            raise NotSupportedError(
                self.source.short_range(node, 1),
                "Dict expansion (e.g. `{**dict}`) is not supported",
            )
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            raise FrontendError(self.source.range_of(node), "Unknown Constant expression type")
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.keyword):
                if part.arg is None:
                    raise NotSupportedError(
                        self.source.range_of(part.value),
                        "keyword-arg expansion is not supported",
                    )
                self.expression(part.value)
            elif isinstance(part, ast.comprehension):
                self.expression(part.target)
                self.expression(part.iter)
            elif isinstance(part, ast.expr):
                self.expression(part)

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        place = self.source.short_range(node, 0)
        if len(node.generators) != 1:
            raise NotSupportedError(place, "Only a single generator is currently supported")
        if node.generators[0].ifs:
            raise NotSupportedError(place, "Comprehension ifs are not supported yet")

    def joined(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                place = self.source.short_range(node, 1)
                if part.conversion != -1:
                    raise NotSupportedError(place, "Don't support conversion in JoinedStr")
                if part.format_spec is not None:
                    raise NotSupportedError(place, "Don't support formatting in JoinedStr")
