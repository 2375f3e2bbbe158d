"""What happens while a profile runs: spans of operators, backward nodes and labels.

A `SpanRecorder` sits in `ThreadState.profiler`; threads that take over a snapshot of the state
write to the same one. Spans keep the order in which they were opened, which also settles equal
times. Nothing here is imported before the first profile or label.
"""

from __future__ import annotations

import itertools
import threading
from contextlib import nullcontext
from functools import wraps
from time import perf_counter_ns
from typing import Any

from rushlight.core import spans
from rushlight.core.node import AccumulateGrad, next_sequence
from rushlight.core.state import LOCAL, PROCESS, active_tracer
from rushlight.core.tensor import Tensor, storage_of

__all__ = ["Span", "SpanRecorder", "profiler_enabled", "record_function"]

FUNCTION, BACKWARD, LABEL = 0, 1, 7  # torch: values of its RecordScope

thread_numbers = itertools.count(1)


class ThreadNumber(threading.local):
    """A small number for each thread."""

    def __init__(self) -> None:
        self.value = next(thread_numbers)


THREAD = ThreadNumber()


class Span:
    """One event: times in nanoseconds, `stop` is None while it is open."""

    __slots__ = (
        "allocated",
        "flops",
        "fwd_thread",
        "name",
        "overload",
        "parent",
        "scope",
        "sequence",
        "shapes",
        "stack",
        "start",
        "stop",
        "thread",
    )

    def __init__(self, name: str, scope: int, parent: Span | None) -> None:
        self.name = name
        self.scope = scope
        self.parent = parent
        self.overload = ""
        self.thread = THREAD.value
        self.fwd_thread = 0
        self.sequence = -1
        self.shapes: Any = None
        self.stack: Any = None
        self.allocated = 0
        self.flops = 0
        self.stop: int | None = None
        self.start = perf_counter_ns()


class SpanRecorder:
    """Collects spans from every thread that has it installed."""

    def __init__(
        self,
        shapes: bool = False,
        stacks: bool = False,
        memory: bool = False,
        flops: bool = False,
        ops: bool = True,
    ) -> None:
        self.shapes = shapes
        self.stacks = stacks
        self.memory = memory
        self.flops = flops
        self.ops = ops
        self.spans: list[Span] = []
        self.open: dict[int, list[Span]] = {}
        # Sequence number of a node -> thread that ran the op which made it.
        self.forward_threads: dict[int, int] = {}
        self.first_sequence = next_sequence()
        self.began = perf_counter_ns()
        self.ended = self.began
        self.outer: Any = None

    # -- running -----------------------------------------------------------------------------------

    def install(self) -> None:
        state = LOCAL.state
        self.outer = state.profiler
        state.profiler = self
        state.refresh()
        spans.start()

    def remove(self) -> None:
        self.ended = perf_counter_ns()
        spans.stop()
        state = LOCAL.state
        state.profiler = self.outer
        state.refresh()
        for stack in self.open.values():
            for span in stack:
                span.stop = self.ended
        self.open.clear()

    def begin(self, name: str, scope: int = FUNCTION) -> Span:
        stack = self.open.setdefault(THREAD.value, [])
        span = Span(name, scope, stack[-1] if stack else None)
        if self.stacks:
            span.stack = caller_lines()
            span.start = perf_counter_ns()
        stack.append(span)
        self.spans.append(span)
        return span

    def end(self, span: Span) -> None:
        """Close a span. Labels may end in any order, and in another thread."""
        if span.stop is not None:
            return
        span.stop = perf_counter_ns()
        stack = self.open.get(span.thread)
        if stack and span in stack:
            stack.remove(span)
        parent = span.parent
        if (
            parent is not None
            and span.sequence >= 0
            and parent.sequence < 0
            and parent.scope == span.scope == FUNCTION
        ):
            # A composite carries the number of the first node that its body made.
            parent.sequence = span.sequence

    # -- what calls it -----------------------------------------------------------------------------

    def record(self, op: Any, args: tuple[Any, ...], run: Any) -> Any:
        """Run an operator inside a span of its own."""
        if not self.ops:
            return run()
        span = self.begin(op._schema.name)
        span.overload = op._schema.overload_name
        if self.shapes:
            span.shapes = [shape_of(value) for value in args]
        if self.flops:
            span.flops = count_flops(op.base_name, args)
        try:
            if op.kind.name == "RANDOM" and op.body is None and not op.tensor_positions:
                # torch: a random tensor is an empty one that is filled.
                self.end(self.begin("aten::empty"))
            result = run()
            if op.body is None:
                self.note_result(span, args, result)
            return result
        finally:
            self.end(span)

    def note_result(self, span: Span, args: tuple[Any, ...], result: Any) -> None:
        results = result if isinstance(result, (tuple, list)) else (result,)
        for value in results:
            if not isinstance(value, Tensor):
                continue
            node = value.grad_fn
            if node is not None and span.sequence < 0:
                number = node.sequence_nr
                if number > self.first_sequence and number not in self.forward_threads:
                    span.sequence = number
                    self.forward_threads[number] = span.thread
            if self.memory and value._array is not None and not shares(value, args):
                span.allocated += value._array.nbytes
        if self.memory and span.parent is not None:
            above: Span | None = span.parent
            while above is not None:
                above.allocated += span.allocated
                above = above.parent

    def evaluate(self, node: Any, run: Any, *args: Any) -> Any:
        """Run everything that belongs to a backward node: hooks, formula, accumulation."""
        return self.around(
            f"autograd::engine::evaluate_function: {node_name(node)}", node, run, args
        )

    def apply(self, node: Any, grads: Any, run: Any, *args: Any) -> Any:
        """Run a node's formula."""
        return self.around(node_name(node), node, run, args, BACKWARD, grads)

    def around(
        self, name: str, node: Any, run: Any, args: Any, scope: int = FUNCTION, grads: Any = ()
    ) -> Any:
        span = self.begin(name, scope)
        if self.shapes:
            span.shapes = [shape_of(grad) for grad in grads]
        if type(node) is not AccumulateGrad:
            span.sequence = node.sequence_nr
            span.fwd_thread = self.forward_threads.get(node.sequence_nr, 0)
        try:
            return run(*args)
        finally:
            self.end(span)


def node_name(node: Any) -> str:
    # torch: leaves appear with the name of the C++ class.
    return "torch::autograd::AccumulateGrad" if type(node) is AccumulateGrad else str(node.name())


def shape_of(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        # torch: nested tensors have none; to ask for it would run operators.
        return [] if value.is_nested else list(value.shape)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        return [shape_of(item) for item in value]
    return []


def shares(value: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether a result lies in memory that existed before the call."""
    storage = value._storage
    if storage is None:
        return any(value is other for other in args)
    return any(isinstance(other, Tensor) and storage_of(other) is storage for other in args)


def count_flops(name: str, args: tuple[Any, ...]) -> int:
    """Multiplications and additions, for the operators where they say something."""
    if name in ("mm", "bmm"):
        return int(2 * args[0].numel() * args[1].shape[-1])
    if name in ("addmm", "baddbmm"):
        return int(2 * args[1].numel() * args[2].shape[-1])
    if name in ("mul", "add") and isinstance(args[0], Tensor):
        return int(args[0].numel())
    return 0


def caller_lines() -> list[str]:
    """The Python stack outside this package, innermost call first."""
    import sys

    lines: list[str] = []
    frame: Any = sys._getframe(2)
    inside = __name__.split(".", 1)[0]
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith(inside):
            code = frame.f_code
            lines.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return lines


def profiler_enabled() -> bool:
    """Whether a profile is being recorded in this thread."""
    return LOCAL.state.profiler is not None


class record_function:
    """A named span around a block, or around every call of a decorated function.

    >>> with record_function("load"):
    ...     pass
    """

    # torch: compiled code has no such spans.
    _captured_as = nullcontext

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.spans: list[tuple[SpanRecorder, Span] | None] = []
        # Handles of spans that a trace is to open whenever it runs.
        self.traced: list[Tensor] = []

    def __enter__(self) -> record_function:
        if PROCESS.special and active_tracer() is not None:
            from rushlight.opset.other.profiling import record_function_enter_new

            self.traced.append(record_function_enter_new(self.name, self.args))
            return self
        recorder = LOCAL.state.profiler if PROCESS.special else None
        self.spans.append(
            None if recorder is None else (recorder, recorder.begin(self.name, LABEL))
        )
        return self

    def __exit__(self, *details: Any) -> None:
        if self.traced:
            from rushlight.opset.other.profiling import record_function_exit

            record_function_exit(self.traced.pop())
            return
        entry = self.spans.pop() if self.spans else None
        if entry is not None:
            entry[0].end(entry[1])

    def __call__(self, function: Any) -> Any:
        @wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return labelled

    def _call_end_callbacks_on_future(self, future: Any) -> Any:
        """End the span when a future is done instead of at the end of the block."""
        entry = self.spans.pop() if self.spans else None
        if entry is None:
            return future

        def finish(done: Any) -> Any:
            entry[0].end(entry[1])
            return done.value()

        return future.then(finish)


# Labels opened by operator calls, by the number in the handle.
handles: dict[int, record_function] = {}
handle_numbers = itertools.count(1)


def enter_by_handle(name: str, args: str | None) -> int:
    number = next(handle_numbers)
    handles[number] = record_function(name, args)
    handles[number].__enter__()
    return number


def exit_by_handle(number: int) -> None:
    label = handles.pop(number, None)
    if label is not None:
        label.__exit__(None, None, None)
