"""`torch.jit.CompilationUnit`: functions from source text."""

from __future__ import annotations

import ast
import sys
from typing import Any

from rushlight.jit import unit
from rushlight.jit.scripting.frontend import Parsed, check_function, parse_text
from rushlight.jit.scripting.functions import define_function
from rushlight.jit.scripting.recursive import default_values
from rushlight.jit.scripting.resolving import Resolver
from rushlight.jit.scripting.sources import SourceText, indentation_of
from rushlight.jit.unit import Function


class CompilationUnit(unit.CompilationUnit):
    """Functions that are compiled from text; `define` adds more. They are attributes."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        super().__init__()
        self.functions: dict[str, Function] = {}
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Compiles the functions of a source text."""
        frame = sys._getframe(_frames_up + 1)
        scope = {**frame.f_globals, **frame.f_locals}
        source = SourceText(lang, indentation=indentation_of(lang))
        added: dict[str, Function] = {}
        resolver = Resolver({}, {})
        for node in parse_text(source).body:
            if not isinstance(node, ast.FunctionDef):
                raise RuntimeError(
                    f"expected def but found '{ast.unparse(node).split()[0]}' here:\n{lang}"
                )
            check_function(node, source)
            function = self.from_node(node, source, resolver)
            added[node.name] = function
        names = {name: value for name, value in scope.items() if name not in added}
        resolver.scope = names
        resolver.functions = {**self.functions, **added}
        for function in added.values():
            function.ensure_defined()

    def add_function(self, function: Function) -> Function:
        self.functions[function.name] = super().add_function(function)
        return function

    def from_node(self, node: ast.FunctionDef, source: SourceText, resolver: Resolver) -> Function:
        def define(made: Function) -> None:
            parsed = Parsed(node, source, node.name, default_values(node, resolver))
            define_function(made, parsed, resolver)

        return self.add_function(Function(node.name, define=define))

    def __getattr__(self, name: str) -> Any:
        from rushlight.jit.objects.functions import ScriptFunction

        if name.startswith("__") or name not in self.__dict__.get("functions", {}):
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return ScriptFunction(self.functions[name])

    def find_function(self, name: str) -> Any:
        return getattr(self, name) if name in self.functions else None

    def get_functions(self) -> list[Any]:
        return [getattr(self, name) for name in self.functions]
