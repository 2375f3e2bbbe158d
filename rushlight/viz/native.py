"""`native`: how a function becomes machine code, as one HTML page.

For each graph, forward and backward, in the order in which they are made: its nodes, the kernels
that they are fused into with the lines of the user's source, the loops, LLVM's text, the machine's
instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from rushlight.autograd.backward import grad
from rushlight.base.pytree import tree_leaves
from rushlight.codegen.driver import Compiled
from rushlight.codegen.loops import Kernel
from rushlight.codegen.native import assembly
from rushlight.codegen.reports import memory_report, places_of, summary
from rushlight.compiler import compile, compile_graph
from rushlight.compiler.backends import default_options, through_aot
from rushlight.core.tensor import Tensor
from rushlight.viz.compiled import COLOURS, STYLE, CompiledDrawing
from rushlight.viz.programs import program

__all__ = ["native"]

MORE = """
summary { cursor: pointer; font-weight: 600; padding: .25rem 0; }
.kernel { padding: .25rem .5rem; margin: .25rem 0; }
.kernel pre { margin: .25rem 0; }
.place { color: #555; }
"""


def native(f: Callable[..., Any]) -> Callable[..., CompiledDrawing]:
    """Call the result with arguments to get the page.

    >>> import rushlight as torch
    >>> page = torch.viz.native(lambda x: (x.sin() * 2).sum())(torch.ones(3))
    >>> "fused_sin_mul_sum" in page
    True

    Where results have a gradient, the backward is made and shown too. Needs llvmlite.
    """

    def run(*args: Any, **kwargs: Any) -> CompiledDrawing:
        made: list[tuple[Any, Compiled]] = []
        inputs: list[Tensor] = []

        def compiler(gm: Any, given: Any) -> Any:
            code = compile_graph(gm, given)
            made.append((gm, code))
            return code

        def backend(gm: Any, given: Sequence[Any]) -> Any:
            inputs.extend([x for x in given if isinstance(x, Tensor) and x.requires_grad])
            return through_aot(gm, given, compiler, **default_options())

        results = tree_leaves(compile(f, backend=backend)(*args, **kwargs))
        ends = [r for r in results if isinstance(r, Tensor) and r.requires_grad]
        if ends and inputs:
            grad(ends, inputs, [end.detach() * 0 + 1 for end in ends], allow_unused=True)
        return CompiledDrawing(page(made))

    return run


def page(made: list[tuple[Any, Compiled]]) -> str:
    kernels = sum([isinstance(item, Kernel) for _, code in made for item in code.schedule])
    graphs = f"{len(made)} graph{'' if len(made) == 1 else 's'}"
    title = f"{graphs}, {kernels} kernel{'' if kernels == 1 else 's'}"
    parts = [
        f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{STYLE}{MORE}</style>",
        f"<h1>{title}</h1>",
    ]
    for number, (gm, code) in enumerate(made):
        parts.append(f"<h2>graph {number}</h2>")
        parts.append(folded("nodes", escape(program(gm)), is_open=True))
        parts.append("<details open><summary>kernels</summary>")
        parts += [step(item, at) for at, item in enumerate(code.schedule)]
        parts.append("</details>")
        if code.segments:
            parts.append(folded("memory", escape(memory_report(code))))
        parts.append(folded("Python around them", escape(code.source)))
        if code.ir:
            parts.append(folded("LLVM", escape(code.ir)))
            parts.append(folded("machine code", escape(assembly(code.ir))))
    return "\n".join(parts)


def folded(heading: str, text: str, is_open: bool = False) -> str:
    state = " open" if is_open else ""
    return f"<details{state}><summary>{heading}</summary><pre>{text}</pre></details>"


def step(item: Any, number: int) -> str:
    """A kernel with its loops and where they come from, or a call."""
    if not isinstance(item, Kernel):
        return f'<div class="kernel"><pre>{escape(str(item))}</pre></div>'
    colour = COLOURS[number % len(COLOURS)]
    places = ", ".join(places_of(item))
    where = f' <span class="place">{escape(places)}</span>' if places else ""
    return (
        f'<div class="kernel" style="background: {colour}"><b>{escape(summary(item))}</b>{where}'
        f"<pre>{escape(str(item))}</pre></div>"
    )
