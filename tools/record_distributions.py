"""Writes tests/distributions/recorded.json with PyTorch: python tools/record_distributions.py"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parent.parent


def rounded(value: Any) -> Any:
    """Numbers to the digits that are compared."""
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return float(f"{value:.11g}") if isinstance(value, float) else value


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from tests.distributions import cases

    torch.set_default_dtype(torch.float64)
    found = {name: rounded(value) for name, value in cases.numbers(torch).items()}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    target = ROOT / "tests" / "distributions" / "recorded.json"
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{target}: {len(found)} entries")
