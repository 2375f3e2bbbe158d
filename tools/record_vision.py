"""Write tests/opset/vision/recorded.json: what torchvision's compiled operators answer.

PYTHON tools/record_vision.py        with a Python that has PyTorch and torchvision
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torchvision  # noqa: F401

PLACE = Path(__file__).resolve().parent.parent / "tests" / "opset" / "vision"


def main() -> None:
    scope: dict[str, object] = {"torch": torch}
    exec((PLACE / "calls.py").read_text(), scope)
    found = scope["answers"](torch.ops.torchvision)  # type: ignore[operator]
    (PLACE / "recorded.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
