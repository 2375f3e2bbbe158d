"""Writes tests/arrays/drawn.json with PyTorch: python tools/record_random.py"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parent.parent

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from tests.arrays import draws

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for name, (_, dtypes, sizes, scale) in draws.CASES.items():
        for dtype in dtypes:
            for n in sizes:
                values, state = draws.drawn(torch, name, dtype, n)
                array = draws.array_of(torch, values)
                kept = draws.bits_fingerprint(array) if scale is None else draws.picked(array)
                found[f"{name}|{dtype}|{n}"] = [list(values.shape), state, kept]
    for name in draws.LAYERS:
        array = draws.layer_parameters(torch, name).numpy()
        found[f"layer {name}"] = [draws.bits_fingerprint(array), draws.picked(array)]
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    target = ROOT / "tests" / "arrays" / "drawn.json"
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{target}: {len(found)} entries of {len(draws.CASES)} samplers")
