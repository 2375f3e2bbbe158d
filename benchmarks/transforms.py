"""Function transforms: rushlight against torch on one thread, interleaved.

python benchmarks/transforms.py --json transforms.json
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from harness import Case, arguments, finish, import_torch, report

# isort: split
import numpy as np

import rushlight

# Derivatives as quick as torch's; batched special functions within twice its time.
BARS = {
    "vmap(grad), MLP": 1.0,
    "vmap(grad), 20 muls": 1.0,
    "grad, MLP": 1.0,
    "jacrev, MLP": 1.0,
    "jacrev, 20 ops": 1.0,
    "jacfwd, MLP": 1.0,
    "jacfwd, 20 ops": 1.0,
    "hessian, MLP": 1.0,
    "hessian, 20 ops": 1.0,
    "vmap(jvp), MLP": 1.0,
    "vmap(jvp), 20 ops": 1.0,
    "vmap, erfinv": 2.0,
    "vmap, erfc": 2.0,
    "vmap, lgamma": 2.0,
    "vmap, polygamma": 2.0,
    "vmap, grid_sample": 2.0,
}


def cases(t: Any) -> dict[str, Any]:
    """The same programs in the words both systems share."""
    rng = np.random.default_rng(0)
    func, functional = t.func, t.nn.functional

    def data(*shape: int) -> Any:
        return t.tensor(rng.standard_normal(shape).astype(np.float32) * 0.1)

    sizes = (32, 64, 64, 10)
    parameters = {}
    for place, (inner, outer) in enumerate(pairwise(sizes)):
        parameters[f"weight{place}"] = data(outer, inner)
        parameters[f"bias{place}"] = data(outer)
    samples, labels = data(64, 32), t.tensor(rng.integers(0, 10, 64))
    factors = data(64, 16)
    small = [(data(16, 16), data(16)), (data(16, 16), data(16))]
    point, points, tangents = data(16), data(64, 16), data(64, 16)
    matrix = data(64, 256)
    inside, positive = matrix.clamp(-0.9, 0.9), matrix.abs() + 0.5
    images, grids = data(16, 2, 3, 16, 16), data(16, 2, 16, 16, 2)

    def loss(given: Any, sample: Any, label: Any) -> Any:
        hidden = t.relu(functional.linear(sample, given["weight0"], given["bias0"]))
        hidden = t.relu(functional.linear(hidden, given["weight1"], given["bias1"]))
        scores = functional.linear(hidden, given["weight2"], given["bias2"])
        return functional.cross_entropy(scores, label)

    def scaled(first: Any, second: Any) -> Any:
        for _ in range(20):
            first = first * second
        return first.sum()

    def network(x: Any) -> Any:
        for weight, bias in small:
            x = t.tanh(functional.linear(x, weight, bias))
        return x

    def chain(x: Any) -> Any:
        for _ in range(5):
            x = t.sin(x) * x + t.exp(x) - 1.0
        return x

    def pushed(function: Any) -> Any:
        return func.vmap(lambda x, v: func.jvp(function, (x,), (v,))[1])

    per_sample = func.vmap(func.grad(loss), in_dims=(None, 0, 0))
    lone = func.grad(loss)
    one, label = samples[0], labels[0]
    muls = func.vmap(func.grad(scaled))
    found: dict[str, Any] = {
        "vmap(grad), MLP": lambda: per_sample(parameters, samples, labels),
        "vmap(grad), 20 muls": lambda: muls(points, factors),
        "grad, MLP": lambda: lone(parameters, one, label),
    }
    for name, function in (("MLP", network), ("20 ops", chain)):
        for transform in (func.jacrev, func.jacfwd):
            made = transform(function)
            found[f"{transform.__name__}, {name}"] = lambda made=made: made(point)
        second = func.hessian(lambda x, function=function: function(x).sum())
        found[f"hessian, {name}"] = lambda second=second: second(point)
        push = pushed(function)
        found[f"vmap(jvp), {name}"] = lambda push=push: push(points, tangents)
    mapped = {
        "vmap, erfinv": (t.erfinv, inside),
        "vmap, erfc": (t.erfc, matrix),
        "vmap, lgamma": (t.lgamma, positive),
        "vmap, polygamma": (lambda x: t.polygamma(2, x), positive),
    }
    for name, (function, values) in mapped.items():
        batched = func.vmap(function)
        found[name] = lambda batched=batched, values=values: batched(values)
    sampled = func.vmap(lambda x, grid: functional.grid_sample(x, grid, align_corners=False))
    found["vmap, grid_sample"] = lambda: sampled(images, grids)
    return found


def main() -> None:
    options = arguments(__doc__ or "")
    torch = import_torch()
    ours, theirs = cases(rushlight), cases(torch)
    table: dict[str, Case] = {
        name: {"rushlight": ours[name], "torch": theirs[name]} for name in ours if options.k in name
    }
    finish(options, report(table, options.seconds, BARS))


if __name__ == "__main__":
    main()
