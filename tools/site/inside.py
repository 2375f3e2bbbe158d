"""Pictures of what goes on inside, drawn by `rushlight.viz` while the site is built."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pages import Page

import rushlight as torch
from rushlight.aot.tracing import make_fx

__all__ = ["pages"]

# As docs/architecture.md tells them, with who sits there.
LAYERS = (
    ("overrides", "__torch_function__ of modes and subclasses"),
    ("transforms", "vmap, grad, jvp, functionalize: levels of one stack"),
    ("pre-dispatch", "tracers that see composite ops whole"),
    ("autocast", "chooses dtypes"),
    ("autograd", "saves inputs, records the node, pushes tangents, tracks views and versions"),
    ("dispatch modes", "TorchDispatchMode, then __torch_dispatch__ of subclasses"),
    ("functionalization", "writes and views become values"),
    ("recording", "a node in a graph"),
    ("fake", "the shape rule alone"),
    ("kernel", "NumPy, or native code"),
)

TEXT = """# Pictures

Drawn while this page was built, by the functions that anybody can call: `torch.viz.graph`,
`torch.viz.program`, `torch.viz.compiled`.

## The layers that a call passes

Each handles the call, and continues below itself. Plain eager calls, with nothing special in any
layer, skip them all: one flag is tested.

![Layers of a call](pictures/layers.svg)

## An autograd graph

A loss of a small network, as `torch.viz.graph` draws it.

<iframe src="graph.html" width="100%" height="520" title="An autograd graph"></iframe>

## A training step as a program

Forward, backward and update, recorded by `make_fx`: nodes with shapes, source lines and modules.

<iframe src="program.html" width="100%" height="640" title="A training step"></iframe>

## What compiling did

The code of a function, its graphs, where it broke and why.

<iframe src="compiled.html" width="100%" height="640" title="A compiled function"></iframe>
"""


@cache
def pages() -> tuple[Page, ...]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 2)
    )
    x, labels = torch.randn(16, 4), torch.randint(2, (16,))
    with TemporaryDirectory() as place:
        draw(Path(place), model, x, labels)
        beside = {f"pictures/{path.name}": path.read_bytes() for path in Path(place).iterdir()}
    return (Page("Pictures", "pictures.md", TEXT, beside),)


def draw(place: Path, model: torch.nn.Module, x: torch.Tensor, labels: torch.Tensor) -> None:
    loss = torch.nn.functional.cross_entropy(model(x), labels)
    torch.viz.graph(loss, params=model, format="html").save(place / "graph.html")

    def step(parameters, x, labels):
        scores = torch.func.functional_call(model, parameters, (x,))
        loss = torch.nn.functional.cross_entropy(scores, labels)
        found = torch.autograd.grad(loss, list(parameters.values()))
        return [p - 0.1 * g for p, g in zip(parameters.values(), found, strict=True)]

    parameters = {name: p.detach().requires_grad_() for name, p in model.named_parameters()}
    traced = make_fx(step)(parameters, x, labels)
    torch.viz.program(traced, format="html", title="A training step").save(place / "program.html")

    def broken(x):
        hidden = model(x)
        print(end="")
        return hidden.softmax(-1)

    torch.viz.compiled(broken)(x).save(place / "compiled.html")
    (place / "layers.svg").write_text(layers(), encoding="utf-8")


def layers() -> str:
    """The layers as a stack of boxes, as SVG."""
    height = 46
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 {height * len(LAYERS) + 8}"'
        ' font-family="sans-serif" font-size="15">'
    ]
    for number, (name, what) in enumerate(LAYERS):
        y = number * height + 4
        shade = 92 - 4 * number
        out.append(
            f'<rect x="4" y="{y}" width="812" height="{height - 6}" rx="6"'
            f' fill="hsl(20 80% {shade}%)" stroke="#b5651d"/>'
            f'<text x="20" y="{y + 25}" font-weight="bold" fill="#222">{name}</text>'
            f'<text x="200" y="{y + 25}" fill="#222">{what}</text>'
        )
    return "\n".join([*out, "</svg>"])
