"""Record the strides of elementwise results of random views: tests/core/stride_cases.json.

Run it with a Python that has PyTorch. A case is (name, operands, strides); an operand is (sizes,
strides), whether its dtype is another.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.core.strides import CALLS, operand  # noqa: E402

COUNT = 1200


def view(rng: random.Random) -> Any:
    """A small tensor, seen in a few ways."""
    sizes = [rng.choice([1, 1, 2, 3, 4]) for _ in range(rng.randint(0, 4))]
    x = torch.empty(sizes)
    for _ in range(rng.randint(0, 3)):
        way = rng.choice(["permute", "unsqueeze", "select", "expand", "step", "squeeze", "last"])
        dim = rng.randrange(x.dim()) if x.dim() else 0
        if way == "unsqueeze":
            x = x.unsqueeze(dim)
        elif way == "squeeze":
            x = x.squeeze()
        elif not x.dim():
            continue
        elif way == "permute":
            x = x.permute(*rng.sample(range(x.dim()), x.dim()))
        elif way == "select":
            x = x.select(dim, 0)
        elif way == "expand":
            x = x.expand([rng.choice([1, 2, 3]) if size == 1 else size for size in x.shape])
        elif way == "step":
            x = x[(slice(None),) * dim + (slice(None, None, 2),)]
        elif x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
    return x


def main() -> None:
    rng = random.Random(0)
    cases: list[Any] = []
    while len(cases) < COUNT:
        name = rng.choice(sorted(CALLS))
        count, call = CALLS[name]
        operands = [
            (tuple(x.shape), x.stride(), rng.random() < 0.1)
            for x in [view(rng) for _ in range(count)]
        ]
        try:
            strides = call(torch, *[operand(torch, *one) for one in operands]).stride()
        except RuntimeError:
            continue
        cases.append((name, operands, strides))
    lines = ",\n".join([json.dumps(case) for case in cases])
    (ROOT / "tests/core/stride_cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
