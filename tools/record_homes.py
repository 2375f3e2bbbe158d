"""Record where torch defines its public classes and functions: run with a Python that has torch.

    path/to/python tools/record_homes.py

Writes tests/compat/torch_homes.json: public module -> name -> [module, qualified name].
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import warnings
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "rushlight" / "compat" / "public_names.json"
RECORD = ROOT / "tests" / "compat" / "torch_homes.json"


# Packages that the list of public names leaves out: each class is said to be in its own module.
PACKAGES = ("torch.ao.quantization", "torch.ao.nn")


def names_of_packages() -> dict[str, list[str]]:
    """Module of the packages -> the public names that it defines itself."""
    found = {}
    for root in PACKAGES:
        package = importlib.import_module(root)
        inner = pkgutil.walk_packages(package.__path__, root + ".", onerror=lambda name: None)
        for path in [root, *[each.name for each in inner]]:
            if ".fx" in path or "sparse" in path or "backend_config" in path:
                continue
            importlib.import_module(path)
            own = vars(sys.modules[path])
            found[path] = sorted(
                name
                for name, value in own.items()
                if not name.startswith("__") and getattr(value, "__module__", None) == path
            )
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, list[str]]] = {}
    listed = {**json.loads(NAMES.read_text()), **names_of_packages()}
    for path, names in listed.items():
        if path == "torch.Tensor":
            continue
        try:
            importlib.import_module(path)
        except ImportError:
            continue
        # A function may stand before the module of its name.
        owner = sys.modules[path]
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
