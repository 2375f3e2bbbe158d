"""Compiled functions and methods as Python sees them."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

from rushlight.core.state import PROCESS, active_tracer
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.schemas import FunctionSchema
from rushlight.jit.ir.types import TensorType
from rushlight.jit.objects.binding import bind_arguments
from rushlight.jit.unit import Function, Instance


class Callable:
    """What functions and methods have in common: a graph, and a call that runs it."""

    __slots__ = ("__weakref__", "_answer", "_tensors", "function")

    def __init__(self, function: Function) -> None:
        self.function = function
        # How many tensors the function takes, where it takes nothing else.
        self._tensors: int | None = None
        self._answer: Any = None

    @property
    def name(self) -> str:
        return self.function.short_name

    @property
    def qualified_name(self) -> str:
        return self.function.name

    @property
    def schema(self) -> FunctionSchema:
        return self.function.schema

    @property
    def graph(self) -> Graph:
        return self.function.graph

    @property
    def inlined_graph(self) -> Graph:
        from rushlight.jit.passes.inlining import inline_calls

        graph = self.graph.copy()
        inline_calls(graph)
        return graph

    @property
    def code(self) -> str:
        return self.code_with_constants[0]

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        from rushlight.jit.archive.code import function_code

        return function_code(self.function)

    def owner(self) -> tuple[Any, ...]:
        """What stands before the arguments of a call: the object of a method."""
        return ()

    def prepare(self) -> None:
        """Reads off the signature what calls need to know."""
        from rushlight.jit.objects.results import converter

        schema = self.function.schema
        self._answer = converter(schema.returns[0].type) if schema.returns else None
        own = schema.arguments[len(self.owner()) :]
        tensors = all([isinstance(argument.type, TensorType) for argument in own])
        self._tensors = len(own) if tensors else -1

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._tensors is None:
            self.prepare()
        if PROCESS.special and active_tracer() is not None:
            return self.call_in_trace(args, kwargs)
        if len(args) == self._tensors and not kwargs:
            for value in args:
                if not isinstance(value, Tensor):
                    break
            else:
                result = self.function.program(*self.owner(), *args)
                return result if self._answer is None else self._answer(result)
        bound = bind_arguments(self.function.schema, (*self.owner(), *args), kwargs)
        result = self.function.program(*bound)
        return result if self._answer is None else self._answer(result)

    def call_in_trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from rushlight.jit.tracing.calls import record_call

        bound = bind_arguments(self.function.schema, (*self.owner(), *args), kwargs)
        result = record_call(active_tracer(), self.function, bound, bool(self.owner()))
        return result if self._answer is None else self._answer(result)

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that runs for these arguments: calls expanded, numbers plain and shared."""
        from rushlight.jit.passes.executed import executed_graph

        self(*args, **kwargs)
        return executed_graph(self.graph)


class ScriptFunction(Callable):
    """A function that was traced or compiled: `jit.trace(f, inputs)`, `jit.script(f)`."""

    __slots__ = ("__dict__",)

    __name__: str
    __qualname__: str
    _torchdynamo_inline: Any

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        from rushlight.jit.archive.writing import save

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        buffer = BytesIO()
        self.save(buffer, _extra_files)
        return buffer.getvalue()

    def __reduce__(self) -> Any:
        raise pickle.PickleError("ScriptFunction cannot be pickled")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise pickle.PickleError("ScriptFunction cannot be pickled")

    def __copy__(self) -> Any:
        raise pickle.PickleError("ScriptFunction cannot be pickled")

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction object at {id(self):#x}>"


class ScriptMethod(Callable):
    """A method of a compiled object, bound to it."""

    __slots__ = ("instance",)

    def __init__(self, function: Function, instance: Instance) -> None:
        super().__init__(function)
        self.instance = instance

    def owner(self) -> tuple[Any, ...]:
        return (self.instance,)

    @property
    def __self__(self) -> Instance:
        return self.instance

    def __repr__(self) -> str:
        return f"<torch.ScriptMethod object at {id(self):#x}>"


class OverloadedMethod:
    """A method that was compiled once for each of its signatures: the first that fits is called."""

    def __init__(self, methods: list[ScriptMethod]) -> None:
        self.methods = methods

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for method in self.methods[:-1]:
            try:
                bind_arguments(method.function.schema, (*method.owner(), *args), kwargs)
            except RuntimeError:
                continue
            return method(*args, **kwargs)
        return self.methods[-1](*args, **kwargs)
