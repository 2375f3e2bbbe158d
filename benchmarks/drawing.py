"""Random numbers: rushlight against torch on one thread, interleaved.

python benchmarks/drawing.py --json drawing.json
"""

from __future__ import annotations

from typing import Any

from harness import arguments, finish, import_torch, report

# isort: split
import rushlight

MILLION = ("rand", "randn", "dropout", "randint", "randperm", "normal_", "bernoulli")
BARS = {f"{name} 1M": 1.0 for name in MILLION}
MANY = 1_000_000


def cases(t: Any) -> dict[str, Any]:
    """The same programs in the words both systems share."""
    ones, few, many = t.ones(MANY), t.empty(3), t.empty(MANY)
    weights = t.ones(1000)
    return {
        "rand 1M": lambda: t.rand(MANY),
        "randn 1M": lambda: t.randn(MANY),
        "dropout 1M": lambda: t.nn.functional.dropout(ones, 0.5),
        "rand 1M, float64": lambda: t.rand(MANY, dtype=t.float64),
        "randn 1M, float64": lambda: t.randn(MANY, dtype=t.float64),
        "randint 1M": lambda: t.randint(10, (MANY,)),
        "randperm 1M": lambda: t.randperm(MANY),
        "normal_ 1M": lambda: many.normal_(0.5, 2.0),
        "bernoulli 1M": lambda: many.bernoulli_(0.3),
        "randperm 10000": lambda: t.randperm(10000),
        "exponential_ 1M": lambda: ones.clone().exponential_(),
        "multinomial 1000": lambda: t.multinomial(weights, 100, True),
        "poisson 1000": lambda: t.poisson(weights),
        "randn 100": lambda: t.randn(100),
        "rand 3": lambda: t.rand(3),
        "randn 3": lambda: t.randn(3),
        "uniform_ 3": lambda: few.uniform_(-1, 1),
        "randint 3": lambda: t.randint(10, (3,)),
    }


def main() -> None:
    options = arguments(__doc__ or "")
    torch = import_torch()
    ours, theirs = cases(rushlight), cases(torch)
    table = {
        name: {"rushlight": ours[name], "torch": theirs[name]} for name in ours if options.k in name
    }
    finish(options, report(table, options.seconds, BARS, warm_up=3))


if __name__ == "__main__":
    main()
