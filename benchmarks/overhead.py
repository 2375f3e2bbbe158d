"""Eager overhead on tiny tensors: rushlight against torch on one thread, interleaved.

python benchmarks/overhead.py --json overhead.json
"""

from __future__ import annotations

from typing import Any

from harness import Case, arguments, finish, import_torch, report

# isort: split
import numpy as np

import rushlight
from rushlight.base.config import config

BARS = {
    "add": 0.8,
    "mul": 0.8,
    "add, grad": 0.8,
    "view, grad": 0.8,
    "linear 8x64, grad": 0.8,
    "mul add sum backward": 0.5,
    "mul add sum backward, engine": 0.6,
    "MLP step": 0.5,
    "MLP step, engine": 1.0,
}


def cases(t: Any) -> dict[str, Any]:
    """The same programs in the words both systems share."""
    rng = np.random.default_rng(0)

    def data(*shape: int) -> Any:
        return t.tensor(rng.standard_normal(shape).astype(np.float32) * 0.1)

    a, b = data(4), data(4)
    ag, bg = data(4).requires_grad_(), data(4).requires_grad_()
    matrix = data(64, 64).requires_grad_()
    x = data(8, 64)
    weights = [data(64, 64), data(64, 64), data(10, 64)]
    biases = [data(64), data(64), data(10)]
    parameters = [p.requires_grad_() for p in (*weights, *biases)]
    labels = t.tensor(rng.integers(0, 10, 8))
    linear = t.nn.functional.linear
    cross_entropy = t.nn.functional.cross_entropy
    weight, bias = parameters[0], parameters[3]

    def tiny() -> None:
        ag.grad = bg.grad = None
        (ag * bg + ag).sum().backward()

    def chain() -> None:
        ag.grad = bg.grad = None
        value = ag
        for _ in range(20):
            value = value * bg
        value.sum().backward()

    def loss() -> Any:
        hidden = t.relu(linear(x, parameters[0], parameters[3]))
        hidden = t.relu(linear(hidden, parameters[1], parameters[4]))
        return cross_entropy(linear(hidden, parameters[2], parameters[5]), labels)

    def step() -> None:
        for p in parameters:
            p.grad = None
        loss().backward()
        with t.no_grad():
            for p in parameters:
                p.sub_(p.grad, alpha=1e-4)

    return {
        "add": lambda: a + b,
        "mul": lambda: a * b,
        "add, grad": lambda: ag + bg,
        "mul, grad": lambda: ag * bg,
        "mul scalar, grad": lambda: ag * 2.0,
        "torch.add": lambda: t.add(a, b),
        "view, grad": lambda: matrix.view(4096),
        "t, grad": lambda: matrix.t(),
        "index row, grad": lambda: matrix[3],
        "linear 8x64, grad": lambda: linear(x, weight, bias),
        "sum, grad": lambda: ag.sum(),
        "mul add sum backward": tiny,
        "20 muls, backward": chain,
        "MLP forward": loss,
        "MLP step": step,
    }


def engine_alone(function: Any) -> Any:
    """The same without backward programs."""
    settings = vars(config)

    def run() -> None:
        settings["backward_programs"] = False
        function()
        settings["backward_programs"] = True

    return run


def main() -> None:
    options = arguments(__doc__ or "")
    torch = import_torch()
    ours, theirs = cases(rushlight), cases(torch)
    table: dict[str, Case] = {}
    for name in ours:
        table[name] = {"rushlight": ours[name], "torch": theirs[name]}
        if f"{name}, engine" in BARS:
            alone = engine_alone(ours[name])
            table[f"{name}, engine"] = {"rushlight": alone, "torch": theirs[name]}
    table = {name: case for name, case in table.items() if options.k in name}
    finish(options, report(table, options.seconds, BARS))


if __name__ == "__main__":
    main()
