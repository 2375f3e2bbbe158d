"""`compiled`: what `torch.compile` makes of a call, as one HTML page.

The user's lines have the colour of the graph that holds them; lines where a graph breaks are
marked, with the reason. The graphs follow, as programs.
"""

from __future__ import annotations

import linecache
import os
from collections import defaultdict
from collections.abc import Callable
from html import escape
from typing import Any

from rushlight.compiler.compiling import explain
from rushlight.viz.programs import PLACE, program

__all__ = ["CompiledDrawing", "compiled"]

COLOURS = ("#dae8fc", "#d5e8d4", "#ffe6cc", "#e1d5e7", "#fff2cc", "#f5d5d5", "#d0ece7", "#e8e8e8")
CONTEXT = 3
STYLE = """
body { margin: 1rem; font: 14px system-ui, sans-serif; color: #222; background: #fff; }
pre { font: 12px ui-monospace, monospace; line-height: 1.4; }
pre span { display: block; padding: 0 .5rem; }
.number { display: inline-block; width: 4rem; color: #777; }
.break { box-shadow: inset 4px 0 #c00; }
.reason { color: #c00; padding-left: 4.5rem; }
"""


class CompiledDrawing(str):
    """The text of the page; `save` writes it to a file."""

    __slots__ = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(self + "\n")

    def _repr_html_(self) -> str:
        page = escape(self, quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 32rem; border: 0"></iframe>'


def compiled(f: Callable[..., Any]) -> Callable[..., CompiledDrawing]:
    """Call the result with arguments to get the page.

    >>> import rushlight as torch
    >>> page = torch.viz.compiled(lambda x: x.sin() * 2)(torch.ones(3))
    >>> "1 graph, 0 breaks" in page
    True
    """

    def run(*args: Any, **kwargs: Any) -> CompiledDrawing:
        return CompiledDrawing(page(explain(f)(*args, **kwargs)))

    return run


def page(found: Any) -> str:
    graphs: dict[tuple[str, int], set[int]] = defaultdict(set)
    for number, gm in enumerate(found.graphs):
        for node in gm.graph.nodes:
            for place in PLACE.finditer(node.meta.get("stack_trace") or ""):
                graphs[place["file"], int(place["line"])].add(number)
    breaks: dict[tuple[str, int], list[str]] = defaultdict(list)
    for place, reason in zip(found.break_places, found.break_reasons, strict=True):
        breaks[place].append(reason)
    plural = ["" if count == 1 else "s" for count in (len(found.graphs), len(found.break_reasons))]
    title = (
        f"{len(found.graphs)} graph{plural[0]}, {len(found.break_reasons)} break{plural[1]}, "
        f"{found.op_count} operators"
    )
    parts = [f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"]
    parts.append(f"<h1>{title}</h1>")
    parts += [
        f"<h2>{escape(file)}</h2><pre>{source(file, graphs, breaks)}</pre>"
        for file in sorted({file for file, _ in [*graphs, *breaks]})
    ]
    for number, gm in enumerate(found.graphs):
        colour = COLOURS[number % len(COLOURS)]
        text = escape(program(gm))
        parts.append(f'<h2>graph {number}</h2><pre style="background: {colour}">{text}</pre>')
    return "\n".join(parts)


def source(
    file: str,
    graphs: dict[tuple[str, int], set[int]],
    breaks: dict[tuple[str, int], list[str]],
) -> str:
    """The lines of a file around those that were captured, in their colours."""
    marked = sorted({line for name, line in [*graphs, *breaks] if name == file})
    shown = sorted(
        {n for line in marked for n in range(max(1, line - CONTEXT), line + CONTEXT + 1)}
    )
    out = []
    for before, line in zip([0, *shown], shown, strict=False):
        text = linecache.getline(file, line)
        if not text:
            continue
        if before and line != before + 1:
            out.append("<span>…</span>")
        numbers = sorted(graphs.get((file, line), ()))
        colour = f"background: {COLOURS[numbers[-1] % len(COLOURS)]}" if numbers else ""
        kind = ' class="break"' if (file, line) in breaks else ""
        hint = f' title="graph {", ".join(map(str, numbers))}"' if numbers else ""
        number = f'<i class="number">{line}</i>'
        out.append(f'<span{kind} style="{colour}"{hint}>{number}{escape(text.rstrip())}</span>')
        out += [
            f'<span class="reason">{escape(reason)}</span>'
            for reason in dict.fromkeys(breaks.get((file, line), ()))
        ]
    return "".join(out)
