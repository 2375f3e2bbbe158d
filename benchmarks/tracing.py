"""How long `make_fx` takes to trace forward and backward of a GPT: time against PyTorch's.

    python benchmarks/tracing.py [--seconds 30] [--json FILE]

All parameters are inputs, so that with `symbolic` every size is a symbol. Tracing real tensors
also computes with them. Both systems do, at a cost that is not tracing's: the text is short
(1 x 16), and a narrow model stands beside that of GPT-2's width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import Case, arguments, finish, import_torch, report
from training import chosen, transformer

import rushlight
from rushlight.aot.tracing import make_fx as trace_ours

# Layers x width, and how it is traced.
CASES = {
    f"GPT 12x{width}, {mode}": (width, mode)
    for width, mode in ((768, "real"), (384, "real"), (768, "fake"), (768, "symbolic"))
}
BARS = {"GPT 12x768, real": 0.2, "GPT 12x384, real": 0.2, "GPT 12x768, symbolic": 0.1}
SYMBOLS, LENGTH = 512, 16


def tracing(t: Any, make_fx: Any, width: int, mode: str) -> Callable[[], Any]:
    """A function that traces a model's loss and gradients."""
    t.manual_seed(0)
    model = transformer(t, SYMBOLS, layers=12, width=width, heads=12, longest=64)
    text = chosen(t, SYMBOLS, 2, LENGTH + 1)[:1]
    before, after = text[:, :-1], text[:, 1:]
    parameters = dict(model.named_parameters())

    def step(parameters: Any, before: Any, after: Any) -> Any:
        scores = t.func.functional_call(model, parameters, (before,))
        loss = t.nn.functional.cross_entropy(scores.flatten(0, 1), after.flatten())
        return loss, t.autograd.grad(loss, list(parameters.values()))

    return lambda: make_fx(step, tracing_mode=mode)(parameters, before, after)


def main() -> None:
    options = arguments(__doc__ or "", seconds=30.0)
    torch = import_torch()
    from torch.fx.experimental.proxy_tensor import make_fx

    table: dict[str, Case] = {
        name: {
            "rushlight": tracing(rushlight, trace_ours, *case),
            "torch": tracing(torch, make_fx, *case),
        }
        for name, case in CASES.items()
        if options.k in name
    }
    finish(options, report(table, options.seconds, BARS, warm_up=1))


if __name__ == "__main__":
    main()
