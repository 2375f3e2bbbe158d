"""One run of a Python function with a recorder on: from example inputs to a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.base.garbage import Undisturbed
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.graph import Graph
from rushlight.jit.passes.inlining import inline_calls
from rushlight.jit.scripting.cleanup import normalize_ops
from rushlight.jit.settings import get_inline_everything
from rushlight.jit.tracing.inputs import add_input, check_inputs
from rushlight.jit.tracing.lifting import ATTRIBUTE, lift_calls
from rushlight.jit.tracing.outputs import output_value
from rushlight.jit.tracing.recorder import Recorder
from rushlight.jit.tracing.standins import StandingIn
from rushlight.jit.unit import CompilationUnit, Instance


class Example:
    """What a function is traced on: positional arguments, or keywords in the graph's order."""

    def __init__(
        self,
        args: tuple[Any, ...] = (),
        keywords: Mapping[str, Any] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        if keywords is None:
            self.values = tuple(args)
            self.keys: tuple[str, ...] = ()
            # Names that do not reach for all inputs are used for none.
            self.names = list(names) if len(names) >= len(self.values) else []
        else:
            ordered = [name for name in names if name in keywords]
            self.keys = (*ordered, *[name for name in keywords if name not in ordered])
            self.values = tuple([keywords[name] for name in self.keys])
            self.names = list(self.keys)

    def cloned(self) -> Example:
        """The same with tensors of its own."""
        from rushlight.jit.tracing.checker import clone_inputs

        copy = object.__new__(Example)
        copy.values = clone_inputs(self.values)
        copy.keys, copy.names = self.keys, self.names
        return copy

    def call(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        if self.keys:
            return function(**dict(zip(self.keys, values, strict=True)))
        return function(*values)


def argument_names(function: Callable[..., Any]) -> list[str]:
    """The names under which a function takes arguments by position; none where it does not say."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    return [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]


def run_trace(
    function: Callable[..., Any],
    example: Example,
    strict: bool = True,
    force_outplace: bool = False,
    module: Instance | None = None,
    unit: CompilationUnit | None = None,
    paths: Mapping[Any, str] | None = None,
) -> tuple[Graph, Any]:
    """The graph of a function, and what it returned. `module` is the graph's first input, and
    `paths` says where in it submodules lie."""
    with Undisturbed():
        graph, result = record(function, example, strict, force_outplace, module, paths)
        lift_calls(graph, unit)
        if get_inline_everything():
            inline_calls(graph)
        normalize_ops(graph.top)
    return graph, result


def record(
    function: Callable[..., Any],
    example: Example,
    strict: bool,
    force_outplace: bool,
    module: Instance | None,
    paths: Mapping[Any, str] | None,
) -> tuple[Graph, Any]:
    """What happens in a call, as one graph: calls of submodules are regions of it."""
    if LOCAL.state.tracer is not None:
        raise RuntimeError("Tracing can't be nested")
    types = check_inputs(example.values)
    recorder = Recorder(strict, force_outplace)
    recorder.module_paths = dict(paths or {})
    graph = recorder.graph
    if module is not None:
        graph.addInput("self").setType(module.type)
        add_attributes(recorder, module, "__module")
    seen = []
    for place, (given, type_) in enumerate(zip(example.values, types, strict=True)):
        value = graph.addInput(example.names[place] if example.names else "")
        seen.append(add_input(recorder, given, type_, value))
    with StandingIn(), recorder:
        result = example.call(function, seen)
    if result is None:
        raise RuntimeError(
            "The traced function didn't return any values! Side-effects are not captured in "
            "traces, so it would be a no-op."
        )
    graph.registerOutput(output_value(recorder, result, 1))
    return graph, result


def add_attributes(recorder: Recorder, module: Instance, path: str) -> None:
    """Makes tensors and modules that a module holds known by their paths."""
    for name, value in module.values.items():
        if not isinstance(value, Tensor | Instance):
            continue
        node = recorder.graph.insertNode(recorder.graph.create(ATTRIBUTE, []))
        node.s_("scope", f"{path}.{name}")  # type: ignore[attr-defined]
        output = node.output().setType(module.type.attributes[name])
        if isinstance(value, Tensor):
            # What several modules share is read where it was found first.
            if not recorder.has_value(value):
                recorder.set_value(value, output.inferTypeFrom(value))
        elif isinstance(value, Instance):
            recorder.set_value(value, output)
            add_attributes(recorder, value, f"{path}.{name}")
