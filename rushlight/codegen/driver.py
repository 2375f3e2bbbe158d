"""`lower`: from a functional graph to a function that calls native code.

The steps: read the graph, drop what nobody reads, fuse, write, compile. Each prints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from rushlight.codegen import native
from rushlight.codegen.extents import hint_of, is_static
from rushlight.codegen.fusion import fuse, shrink_buffers
from rushlight.codegen.inplace import place_writes
from rushlight.codegen.loops import Buffer, Kernel, Statement
from rushlight.codegen.program import LoopProgram, read_graph
from rushlight.codegen.writer import RunWriter
from rushlight.core import spans
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.printing import _PyTreeCodeGen

__all__ = ["Compiled", "lower", "scheduled"]

# Loops over no more points than this are not worth LLVM's full attention.
TINY = 64


class Compiled:
    """A compiled graph: call it with the graph's inputs."""

    def __init__(self, program: LoopProgram, schedule: list[Any]) -> None:
        self.schedule = schedule
        self.library: native.Library | None = None
        self.ir = ""
        writer = RunWriter(program, schedule)
        self.source = writer.source()
        self.scope = writer.scope
        # Entry point -> the kernels that it runs, and where their temporaries lie.
        self.segments = writer.native_segments
        if writer.entries:
            self.ir = writer.module.text()
            sizes = [k.sizes for k in schedule if isinstance(k, Kernel)]
            points = [prod([hint_of(size) for size in each]) for each in sizes]
            thorough = max(points, default=0) > TINY or not all(map(is_static, sizes))
            self.library = native.compile_text(self.ir, writer.entries, thorough)
            for name in writer.entries:
                self.scope[name] = self.library.function(name)
        self.reporters = self.make_reporters(writer.backends)
        exec(compile(self.source, "<rushlight compiled graph>", "exec"), self.scope)
        self.run: Callable[..., Any] = self.scope["run"]
        # The same of one list of inputs, which it empties.
        self.run_boxed: Callable[[list[Any]], Any] | None = self.scope["run_boxed"]
        self.scope["run_boxed"].sees_to_modes = True
        spans.register(self)

    def make_reporters(self, backends: dict[str, str]) -> dict[str, tuple[Any, str]]:
        """What the code calls by name without the dispatcher, and what profilers call that."""
        labels = {
            entry: " ".join(dict.fromkeys([kernel.label for kernel in kernels]))
            for entry, (kernels, _) in self.segments.items()
        }
        labels |= {"dot": "aten::mm", "matmul": "aten::bmm", **backends}
        return {name: (self.scope[name], label) for name, label in labels.items()}

    def report(self, is_wanted: bool) -> None:
        """Tell profilers of what the code calls, or do not."""
        for name, (function, label) in self.reporters.items():
            self.scope[name] = spans.reported(function, label) if is_wanted else function

    def __call__(self, *inputs: Any) -> Any:
        return self.run(*inputs)

    def __str__(self) -> str:
        """The loop program."""
        return "\n\n".join([str(item) for item in self.schedule])


def lower(module: GraphModule, example_inputs: Sequence[Any] | None) -> Compiled:
    """Compile a functional graph. The result takes and returns what the graph does; its inputs
    must have the sizes, strides and dtypes that the graph was captured with, where symbols stand
    for what guards allow."""
    if example_inputs is not None:
        example_inputs = module.graph.process_inputs(*example_inputs)
    compiled = Compiled(*scheduled(module, example_inputs, native.this_host().converts_half))
    codegen = module.graph._codegen
    if isinstance(codegen, _PyTreeCodeGen):
        compiled.run = nested(compiled.run, codegen)
        compiled.run_boxed = None
    return compiled


def scheduled(
    module: GraphModule,
    example_inputs: Sequence[Any] | None,
    converts_half: bool,
    runs_steps: bool = True,
) -> tuple[LoopProgram, list[Any]]:
    """A graph's program, and its steps in the order and the groups that they run in; `runs_steps`:
    those may call kernels of this process."""
    program = read_graph(module, example_inputs, converts_half, runs_steps)
    schedule = fuse(live_steps(program.steps))
    shrink_buffers(schedule)
    return program, place_writes(program, schedule)


def nested(run: Callable[..., Any], codegen: _PyTreeCodeGen) -> Callable[..., Any]:
    """A function of flat inputs as one that takes and returns what the graph does."""
    return lambda *inputs: codegen.process_outputs(run(*codegen.process_inputs(*inputs)))


def live_steps(steps: list[Any]) -> list[Any]:
    """Without statements whose value nobody reads."""
    wanted: set[Buffer] = set()
    kept: list[Any] = []
    for step in reversed(steps):
        inner = isinstance(step, Statement) and step.target.role == "temporary"
        if inner and step.target not in wanted:
            continue
        kept.append(step)
        wanted |= step.reads()
    return kept[::-1]
