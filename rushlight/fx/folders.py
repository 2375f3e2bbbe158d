"""A graph module as a Python package: code, tensors, and the modules that code cannot say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rushlight import serialization

__all__ = ["write_package"]

HEAD = """\
from math import inf, nan
from pathlib import Path

import rushlight as torch
from rushlight import device
from rushlight.base import pytree
from rushlight.graph import specs as fx_pytree
from rushlight.nn import *

NoneType = type(None)


"""


def write_package(module: Any, folder: str | os.PathLike[str], name: str) -> None:
    """Write `module.py`, `__init__.py` and the tensors of a graph module to a folder."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    serialization.save(module.state_dict(), place / "state_dict.pt")
    lines = [f"class {name}(torch.nn.Module):", "    def __init__(self):"]
    lines += ["        super().__init__()", "        folder = Path(__file__).parent"]
    for child_name, child in module.named_children():
        made = child_text(place, child_name, child)
        lines.append(f"        self.add_module({child_name!r}, {made})")
    for kind in ("buffer", "parameter"):
        for tensor_name, tensor in getattr(module, f"_{kind}s").items():
            if tensor is None:
                continue
            value = f"torch.empty({list(tensor.shape)}, dtype={tensor.dtype})"
            if kind == "parameter":
                value = f"torch.nn.Parameter({value}, requires_grad={tensor.requires_grad})"
            lines.append(f"        self.register_{kind}({tensor_name!r}, {value})")
    lines.append('        self.load_state_dict(torch.load(folder / "state_dict.pt"))')
    body = "\n".join([f"    {line}" if line else "" for line in module.code.strip().split("\n")])
    text = HEAD + "\n".join(lines) + "\n\n" + body.rstrip() + "\n"
    (place / "module.py").write_text(text, encoding="utf-8")
    (place / "__init__.py").write_text("from .module import *\n", encoding="utf-8")


def child_text(place: Path, name: str, child: Any) -> str:
    """The expression that makes a submodule."""
    text = repr(child)
    plain = "\n" not in text and not list(child.children())
    if plain and type(child).__module__.startswith(("rushlight.nn", "torch.nn")):
        return text
    serialization.save(child, place / f"{name}.pt")
    return f'torch.load(folder / "{name}.pt", weights_only=False)'
