"""The checks of a fresh trace: it is run beside the Python function, and traced once more.

Outputs that differ are warned about. Graphs that differ from one trace to the next, or hold other
constants, say that the trace depends on something it did not record: an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.base.garbage import Undisturbed
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.graph import Graph, Node
from rushlight.jit.objects.functions import Callable as Compiled
from rushlight.jit.passes.equality import Comparison
from rushlight.jit.passes.inlining import inline_calls
from rushlight.jit.passes.settled import is_settled
from rushlight.jit.passes.simple import canonicalize, erase_shapes
from rushlight.jit.tracing.run import Example, run_trace
from rushlight.jit.tracing.warnings import warn
from rushlight.jit.unit import CompilationUnit, without_mangles

# How many random nodes a warning names.
MOST_NODES = 20


class TracingCheckError(Exception):
    """A trace that does not say what the program does."""

    def __init__(
        self, graph_diff_error: str | None, tensor_compare_error: str | None, extra_msg: str = ""
    ) -> None:
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg:
            self.message += f"{extra_msg}\n"
        if graph_diff_error is not None:
            self.message += (
                f"ERROR: Graphs differed across invocations!\n{indent(graph_diff_error)}\n"
            )
        if tensor_compare_error is not None:
            self.message += (
                "ERROR: Tensor-valued Constant nodes differed in value across invocations. This "
                "often indicates that the tracer has encountered untraceable code.\n"
                f"{indent(tensor_compare_error)}\n"
            )
        super().__init__(self.message)


def indent(text: str) -> str:
    return "\n".join(["\t" + line for line in text.splitlines()])


def clone_inputs(value: Any) -> Any:
    """Copies of all tensors, so that no run sees what another has written."""
    if isinstance(value, Tensor):
        from rushlight.core.device import preserve_format

        made = value.detach().clone(memory_format=preserve_format)
        made.requires_grad_(value.requires_grad)
        if value.grad is not None:
            made.grad = clone_inputs(value.grad)
        return made
    if isinstance(value, tuple):
        items = [clone_inputs(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [clone_inputs(item) for item in value]
    if isinstance(value, dict):
        return {key: clone_inputs(item) for key, item in value.items()}
    return value


def check_trace(
    examples: Sequence[Example],
    function: Callable[..., Any],
    traced: Compiled,
    tolerance: float,
    strict: bool,
    force_outplace: bool,
    module: Any = None,
    method: str = "",
) -> None:
    """Checks a trace on each of the examples."""
    for example in examples:
        checker = Checker(function, traced, tolerance, strict, force_outplace, module, method)
        with no_grad():
            checker.check(example)


class Checker:
    """The checks on one example."""

    def __init__(
        self,
        function: Callable[..., Any],
        traced: Compiled,
        tolerance: float,
        strict: bool,
        force_outplace: bool,
        module: Any,
        method: str,
    ) -> None:
        self.function = function
        self.traced = traced
        self.tolerance = tolerance
        self.strict = strict
        self.force_outplace = force_outplace
        self.module = module
        self.method = method
        self.has_warned = False
        # Whether the second trace is known to be the first one.
        self.is_repeated = False

    def check(self, example: Example) -> None:
        again = self.trace_again(example.cloned())
        self.is_repeated = Comparison().graphs(self.traced.graph, again.graph)
        if self.is_repeated:
            # The same program twice: one of them is compiled, and nothing is to be said.
            again = self.traced
        first = self.run(self.traced, example, "trace", again)
        expected = self.run(self.function, example, "Python function", again)
        same = self.compare(first, expected, "Python function")
        # A second run of one program that keeps nothing tells nothing new.
        if same and not (self.is_repeated and is_settled(self.traced.graph)):
            repeated = self.run(again, example, "repeated trace", again)
            self.compare(first, repeated, "repeated trace")
        differences = self.diagnose(again)
        if differences != (None, None):
            raise TracingCheckError(*differences)

    def trace_again(self, example: Example) -> Compiled:
        """A second trace, in a unit that nobody else sees."""
        from rushlight.jit.objects.functions import ScriptFunction, ScriptMethod
        from rushlight.jit.tracing.modules import instance_of, make_module, submodule_paths
        from rushlight.jit.tracing.schemas import default_schema
        from rushlight.jit.unit import Function

        if self.module is None:
            graph, _ = run_trace(self.function, example, self.strict, self.force_outplace)
            return ScriptFunction(Function("check", graph, default_schema("check", graph)))
        unit = CompilationUnit()
        with Undisturbed():
            instance = instance_of(make_module(self.module, None, unit))
        paths = submodule_paths(self.module)
        graph, _ = run_trace(
            self.function, example, self.strict, self.force_outplace, instance, unit, paths
        )
        made = Function(self.method, graph, default_schema(self.method, graph))
        instance.type.methods[self.method] = made
        return ScriptMethod(made, instance)

    def run(
        self, function: Callable[..., Any], example: Example, what: str, again: Compiled
    ) -> list[Tensor]:
        copy = example.cloned()
        try:
            result = copy.call(function, copy.values)
        except Exception as failure:
            message = (
                f"encountered an exception while running the {what} with test inputs.\nException:\n"
                f"{indent(str(failure))}"
            )
            raise TracingCheckError(*self.diagnose(again), message) from failure
        results = result if isinstance(result, tuple) else (result,)
        return [value for value in results if isinstance(value, Tensor)]

    # -- outputs

    def compare(self, first: list[Tensor], second: list[Tensor], what: str) -> bool:
        same = True
        for number, (mine, other) in enumerate(zip(first, second), 1):
            reason = why_not_close(mine, other, self.tolerance)
            if reason:
                self.warn_of_randomness()
                warn(
                    f"Output nr {number}. of the traced function does not match the corresponding "
                    f"output of the {what}. Detailed error:\n{reason}"
                )
                same = False
        return same

    def warn_of_randomness(self) -> None:
        if self.has_warned:
            return
        self.has_warned = True
        found = [node for node in self.traced.graph.nodes() if node.isNondeterministic()]
        if found:
            shown = "\n".join([indent(str(node)) for node in found[:MOST_NODES]])
            warn(
                "Trace had nondeterministic nodes. Did you forget call .eval() on your model? "
                f"Nodes:\n{shown}\nThis may cause errors in trace checking. To disable trace "
                "checking, pass check_trace=False to torch.jit.trace()"
            )

    # -- graphs

    def diagnose(self, again: Compiled) -> tuple[str | None, str | None]:
        """How the two traces differ: in their graphs, in their constants."""
        if self.is_repeated:
            return None, None
        mine, other = comparable(self.traced.graph), comparable(again.graph)
        return graph_difference(mine, other), constant_difference(mine, other)


def comparable(graph: Graph) -> Graph:
    """A graph with calls expanded and shapes forgotten."""
    copy = canonicalize(graph)
    inline_calls(copy)
    erase_shapes(copy)
    return copy


def why_not_close(a: Tensor, b: Tensor, tolerance: float) -> str:
    """How two outputs differ; empty where they do not."""
    from rushlight.core.dtype import complex128
    from rushlight.testing.comparison import TOLERANCES, assert_close

    if getattr(a, "is_nested", False) or getattr(b, "is_nested", False):
        pairs = zip(a.unbind(), b.unbind())
        return next((r for x, y in pairs if (r := why_not_close(x, y, tolerance))), "")
    absolute = max([TOLERANCES.get(tensor.dtype, (0.0, 0.0))[1] for tensor in (a, b)])
    if a.is_complex() or b.is_complex():
        a, b = a.to(complex128), b.to(complex128)
    else:
        a, b = a.double(), b.double()
    try:
        assert_close(a, b, rtol=tolerance, atol=absolute, equal_nan=True)
    except AssertionError as failure:
        return str(failure)
    return ""


def graph_difference(mine: Graph, other: Graph) -> str | None:
    first, second = without_mangles(str(mine)), without_mangles(str(other))
    if first == second:
        return None
    text = f"Graph diff:\n{indent(line_diff(first, second))}\n"
    for a, b in zip(mine.nodes(), other.nodes()):
        if str(a) != str(b):
            text += f"First diverging operator:\nNode diff:\n{indent(line_diff(str(a), str(b)))}\n"
            for label, node in (("Trace", a), ("Check", b)):
                if node.source.text:
                    text += f"{label} source location:\n{indent(node.source.text)}\n"
            break
    return text


def line_diff(a: str, b: str) -> str:
    return "".join(difflib.ndiff(a.splitlines(True), b.splitlines(True)))


def constant_difference(mine: Graph, other: Graph) -> str | None:
    from rushlight.testing.comparison import assert_close

    for a, b in zip(mine.nodes(), other.nodes()):
        if a.kind() != b.kind():
            break
        if not (holds_tensor(a) and holds_tensor(b)):
            continue
        first, second = a.t("value"), b.t("value")  # type: ignore[attr-defined]
        try:
            assert_close(first, second, equal_nan=True)
        except (RuntimeError, AssertionError) as failure:
            text = f"Node:\n{indent(str(a))}\n"
            if a.source.text:
                text += f"Source Location:\n{indent(a.source.text)}\n"
            return f"{text}Comparison exception: {indent(str(failure))}"
    return None


def holds_tensor(node: Node) -> bool:
    return (
        node.kind() == "prim::Constant"
        and node.hasAttribute("value")
        and node.kindOf("value") == "t"
    )
