"""TorchScript: what a call of a traced model costs beside the model itself, and how long tracing
takes beside PyTorch's.

    python benchmarks/scripting.py [--seconds 5] [--json FILE]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from harness import Case, arguments, finish, import_torch, report

import rushlight

CALLS = {"ResNet-18, 32x32": 1.05, "LSTM, 20 steps": 1.05, "MLP, batch 8": 1.05}
TRACES = {"trace of ResNet-50": 0.5}


def residual(t: Any, inside: int, width: int, stride: int, expansion: int) -> Any:
    """A block of a residual network: two convolutions, or three where the last one expands."""
    nn = t.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            sizes = [(inside, width, 3, stride), (width, width, 3, 1)]
            if expansion > 1:
                sizes = [(inside, width, 1, 1), (width, width, 3, stride)]
                sizes.append((width, width * expansion, 1, 1))
            layers: list[Any] = []
            for taken, given, size, step in sizes:
                layers += [nn.Conv2d(taken, given, size, step, size // 2, bias=False)]
                layers += [nn.BatchNorm2d(given), nn.ReLU()]
            self.body = nn.Sequential(*layers[:-1])
            outside = width * expansion
            self.shortcut = nn.Identity()
            if stride != 1 or inside != outside:
                conv = nn.Conv2d(inside, outside, 1, stride, bias=False)
                self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outside))
            self.relu = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.relu(self.body(x) + self.shortcut(x))

    return Block()


def resnet(t: Any, counts: tuple[int, ...], expansion: int, width: int) -> Any:
    nn = t.nn
    layers: list[Any] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inside = width
    for stage, count in enumerate(counts):
        for number in range(count):
            stride = 2 if stage and not number else 1
            layers.append(residual(t, inside, width << stage, stride, expansion))
            inside = (width << stage) * expansion
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 10)]
    return nn.Sequential(*layers).eval()


def recurrent(t: Any) -> Any:
    class Tagger(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = t.nn.LSTM(32, 64)
            self.out = t.nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.lstm(x)[0])

    return Tagger().eval()


def calls(t: Any) -> dict[str, Case]:
    """A model, and the same model traced; the model is what the trace is compared with."""
    models = {
        "ResNet-18, 32x32": (resnet(t, (2, 2, 2, 2), 1, 16), t.rand(1, 3, 32, 32)),
        "LSTM, 20 steps": (recurrent(t), t.rand(20, 2, 32)),
        "MLP, batch 8": (
            t.nn.Sequential(t.nn.Linear(16, 16), t.nn.ReLU(), t.nn.Linear(16, 4)),
            t.rand(8, 16),
        ),
    }
    table: dict[str, Case] = {}
    for name, (model, x) in models.items():
        traced = t.jit.trace(model, (x,), check_trace=False)
        table[name] = {"rushlight": call(traced, x), "eager": call(model, x)}
    return table


def call(function: Any, x: Any) -> Callable[[], Any]:
    return lambda: function(x)


def tracing(t: Any) -> Callable[[], Any]:
    model = resnet(t, (3, 4, 6, 3), 4, 16)
    x = t.rand(1, 3, 32, 32)
    return lambda: t.jit.trace(model, (x,), check_trace=False)


def main() -> None:
    options = arguments(__doc__ or "", seconds=5.0)
    warnings.simplefilter("ignore")
    torch = import_torch()
    table = report(calls(rushlight), options.seconds, CALLS, baseline="eager")
    traces = {"trace of ResNet-50": {"rushlight": tracing(rushlight), "torch": tracing(torch)}}
    table |= report(traces, 3 * options.seconds, TRACES, warm_up=1)
    finish(options, table)


if __name__ == "__main__":
    main()
