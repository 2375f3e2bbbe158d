"""Dotted names of compiled classes and functions: `__torch__.package.Name`."""

from __future__ import annotations

import re
from typing import Any

ROOT = "__torch__"
NAMELESS = re.compile(r"^_\d*$")

# Modules of the package by the names that files of compiled code know them by.
HOMES = {
    "rushlight.nn.containers": "torch.nn.modules.container",
    "rushlight.nn.conv": "torch.nn.modules.conv",
    "rushlight.nn.embedding": "torch.nn.modules.sparse",
    "rushlight.nn.losses": "torch.nn.modules.loss",
    "rushlight.nn.norm": "torch.nn.modules.normalization",
    "rushlight.nn.recurrent": "torch.nn.modules.rnn",
    "rushlight.jit.script.library.functions": "torch.nn.functional",
}
NORMS = {"BatchNorm1d": "batchnorm", "BatchNorm2d": "batchnorm", "BatchNorm3d": "batchnorm",
         "SyncBatchNorm": "batchnorm", "InstanceNorm1d": "instancenorm",
         "InstanceNorm2d": "instancenorm", "InstanceNorm3d": "instancenorm"}  # fmt: skip


def qualified_name(target: Any) -> str:
    """The name of a class or function in compiled code."""
    name = target.__name__
    if name == "<lambda>":
        name = "_lambda"
    home = str(getattr(target, "__module__", None) or "")
    if home == "__main__":
        return f"{ROOT}.{name}"
    if home == "rushlight.nn.norm" and name in NORMS:
        home = f"torch.nn.modules.{NORMS[name]}"
    elif home in HOMES:
        home = HOMES[home]
    elif home.startswith("rushlight.nn."):
        home = "torch.nn.modules." + home.removeprefix("rushlight.nn.")
    elif home.startswith("rushlight."):
        home = "torch." + home.removeprefix("rushlight.")
    home = ".".join([f"{part[1:-1]}_" if part.startswith("<") else part for part in home.split(".")])
    return f"{ROOT}.{home}.{name}" if home else f"{ROOT}.{name}"


def is_meaningful(name: str) -> bool:
    """Whether a variable's name tells anything: `_`, `_1` and the compiler's own do not."""
    return bool(name) and name[0] != "$" and not NAMELESS.match(name)


def attribute_value_name(name: str) -> str:
    """What the value read from an attribute is called: names of values are no numbers."""
    return f"_{name}" if name[:1].isdigit() else name
