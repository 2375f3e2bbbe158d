"""How long `make_fx` takes to trace a training step of GPT-2 small: time against PyTorch's.

    python benchmarks/tracing.py [--seconds 60] [--json FILE]

All parameters are inputs, so that with `symbolic` every size is a symbol. Tracing real tensors
also computes with them: the text is short (1 x 16), so that most of the time is tracing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from harness import Case, arguments, finish, import_torch, report  # noqa: E402
from training import chosen, transformer  # noqa: E402

import rushlight  # noqa: E402
from rushlight.aot.tracing import make_fx as trace_ours  # noqa: E402

MODES = ("real", "fake", "symbolic")
BARS = {"GPT 12x768, real": 0.2, "GPT 12x768, symbolic": 0.1}
SYMBOLS, LENGTH = 512, 16


def tracings(t: Any, make_fx: Any) -> dict[str, Callable[[], Any]]:
    """Forward and backward of the model in each tracing mode."""
    t.manual_seed(0)
    model = transformer(t, SYMBOLS, layers=12, width=768, heads=12, longest=64)
    text = chosen(t, SYMBOLS, 2, LENGTH + 1)[:1]
    before, after = text[:, :-1], text[:, 1:]
    parameters = dict(model.named_parameters())

    def step(parameters: Any, before: Any, after: Any) -> Any:
        scores = t.func.functional_call(model, parameters, (before,))
        loss = t.nn.functional.cross_entropy(scores.flatten(0, 1), after.flatten())
        return loss, t.autograd.grad(loss, list(parameters.values()))

    def trace(mode: str) -> Any:
        return make_fx(step, tracing_mode=mode)(parameters, before, after)

    return {f"GPT 12x768, {mode}": lambda mode=mode: trace(mode) for mode in MODES}


def main() -> None:
    options = arguments(__doc__ or "", seconds=60.0)
    torch = import_torch()
    from torch.fx.experimental.proxy_tensor import make_fx

    ours, theirs = tracings(rushlight, trace_ours), tracings(torch, make_fx)
    table: dict[str, Case] = {
        name: {"rushlight": ours[name], "torch": theirs[name]} for name in ours if options.k in name
    }
    finish(options, report(table, options.seconds, BARS, warm_up=1))


if __name__ == "__main__":
    main()
