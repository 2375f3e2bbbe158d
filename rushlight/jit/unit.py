"""What compiled code consists of: functions with graphs, classes, objects, and their unit.

A unit owns names: no two functions and no two classes of it have one name.
Invariant: a function's graph and schema never change once somebody has read them; passes that
change a graph work on a copy or are asked for by the user.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from rushlight.base.errors import fail
from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.schemas import FunctionSchema
from rushlight.jit.ir.types import ClassType, NamedType

MANGLE = re.compile(r"___torch_mangle_(\d+)")
MANGLED = re.compile(MANGLE.pattern + r"\.")


class Function:
    """A compiled function or method. A method's first argument is the object.

    `define` fills graph and schema when one of them is first needed, so that functions may call one
    another; asking for the graph of a function that is being defined is an error.
    """

    __slots__ = ("_graph", "_program", "_schema", "define", "is_being_defined", "name", "unit")

    def __init__(
        self,
        name: str,
        graph: Graph | None = None,
        schema: FunctionSchema | None = None,
        define: Callable[[Function], None] | None = None,
        unit: CompilationUnit | None = None,
    ) -> None:
        self.name = name
        self._graph = graph
        self._schema = schema
        self.define = define
        self.unit = unit
        self.is_being_defined = False
        self._program: Callable[..., Any] | None = None

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def graph(self) -> Graph:
        self.ensure_defined()
        assert self._graph is not None
        return self._graph

    @property
    def schema(self) -> FunctionSchema:
        if self._schema is None:
            self.ensure_defined()
        assert self._schema is not None
        return self._schema

    def set(self, graph: Graph, schema: FunctionSchema) -> None:
        self._graph = graph
        self._schema = schema

    def set_schema(self, schema: FunctionSchema) -> None:
        """A schema known before the body is: the user has annotated the result."""
        self._schema = schema

    def ensure_defined(self) -> None:
        define = self.define
        if define is None:
            return
        if self.is_being_defined:
            fail("RL1408", name=self.short_name)
        self.is_being_defined = True
        try:
            define(self)
        finally:
            self.is_being_defined = False
        self.define = None

    @property
    def program(self) -> Callable[..., Any]:
        """The graph as a Python function of all its inputs."""
        if self._program is None:
            from rushlight.jit.runtime.program import compile_graph

            self._program = compile_graph(self.graph, self.short_name)
        return self._program

    def run(self, *args: Any) -> Any:
        """Runs the graph; arguments are as the schema has them, all given."""
        return self.program(*args)

    def __repr__(self) -> str:
        return f"Function({self.name!r})"


class CompilationUnit:
    """Functions and classes that know one another by name.

    It holds their names and not them: what nobody can call any more is gone, its name stays taken.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        # Names that somebody has asked for and will use; several threads may compile at once.
        self.claimed: set[str] = set()
        self.mangles = 0
        self.lock = threading.Lock()

    def add_function(self, function: Function) -> Function:
        self.take(function.name)
        function.unit = self
        return function

    def add_type(self, type_: NamedType) -> NamedType:
        self.take(type_.dotted)
        return type_

    def take(self, name: str) -> None:
        with self.lock:
            if name in self.claimed:
                self.claimed.remove(name)
            elif name in self.names:
                fail("RL1409", name=name)
            self.names.add(name)

    def claim(self, name: str) -> str:
        """`name`, or where it is taken, one with a number in its package; nobody else gets it."""
        with self.lock:
            while name in self.names:
                name = self.mangled(name)
            self.names.add(name)
            self.claimed.add(name)
        return name

    def mangled(self, name: str) -> str:
        mark = f"___torch_mangle_{self.mangles}"
        self.mangles += 1
        if MANGLE.search(name):
            return MANGLE.sub(mark, name)
        package, dot, last = name.rpartition(".")
        return f"{package}{dot}{mark}.{last}"


def without_mangles(text: str) -> str:
    """A text without the numbers that keep names apart."""
    return MANGLED.sub("", text)


class Instance:
    """An object of compiled code: values by attribute name, of a class."""

    __slots__ = ("__weakref__", "type", "values")

    def __init__(self, type_: ClassType, values: dict[str, Any] | None = None) -> None:
        self.type = type_
        self.values: dict[str, Any] = values if values is not None else {}

    def method(self, name: str) -> Function:
        found: Function = self.type.methods[name]
        return found

    def call(self, name: str, *args: Any) -> Any:
        return self.method(name).run(self, *args)

    def __repr__(self) -> str:
        return f"<{self.type.dotted} object>"


# Where functions and classes of Python code go unless somebody says otherwise.
PYTHON_UNIT = CompilationUnit()
