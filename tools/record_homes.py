"""Record where torch defines its public classes and functions: run with a Python that has torch.

    path/to/python tools/record_homes.py

Writes tests/compat/torch_homes.json: public module -> name -> [module, qualified name].
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "rushlight" / "compat" / "public_names.json"
RECORD = ROOT / "tests" / "compat" / "torch_homes.json"


def main() -> None:
    found: dict[str, dict[str, list[str]]] = {}
    for path, names in json.loads(NAMES.read_text()).items():
        if path == "torch.Tensor":
            continue
        try:
            owner = importlib.import_module(path)
        except ImportError:
            continue
        if path == "torch.nn.functional":
            # Those that are made in C++ are not among the names that the module lists.
            names = sorted({*names, *[n for n in dir(owner) if not n.startswith("_")]})
        for name in names:
            value = getattr(owner, name, None)
            try:
                module = getattr(value, "__module__", None)
                qualname = getattr(value, "__qualname__", None)
            except AssertionError:
                # An object that asks for a device.
                continue
            if isinstance(module, str) and isinstance(qualname, str) and module[:5] == "torch":
                found.setdefault(path, {})[name] = [module, qualname]
    RECORD.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    print(f"{sum(map(len, found.values()))} names of PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
