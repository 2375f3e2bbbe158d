"""Record, with PyTorch, how many graphs there are after each call of the programs in
tests/capture/recompiles.py. Writes tests/reference/capture/recompiles.json."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import pathlib
import warnings

import torch
import torch._dynamo as marks
from torch._dynamo import config
from torch._dynamo.testing import CompileCounter

ROOT = pathlib.Path(__file__).parent.parent
SOURCE = ROOT / "tests" / "capture" / "recompiles.py"
TARGET = ROOT / "tests" / "reference" / "capture" / "recompiles.json"


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    names = {
        "__name__": "recompiles",
        "torch": torch,
        "config": config,
        "marks": marks,
        "reset": torch._dynamo.reset,
        "CompileCounter": CompileCounter,
    }
    exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), names)
    found = {"": {"torch": importlib.metadata.version("torch")}}
    found |= {name: names["outcome"](name) for name in names["CASES"]}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found) - 1} programs")


if __name__ == "__main__":
    main()
