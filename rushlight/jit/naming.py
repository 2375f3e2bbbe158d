"""What compiled code calls the functions and classes of Python: `__torch__.package.Name`.

Modules of this package have the names under which torch has them, so that graphs and files of
both read the same.
"""

from __future__ import annotations

import inspect
from typing import Any

from rushlight.nn.homes import HOME_OF


def qualified_name(target: Any) -> str:
    """The dotted name of a function or class in compiled code."""
    own = getattr(target, "_jit_override_qualname", None)
    if own is not None:
        return str(own)
    name = getattr(target, "qualified_name", None)
    if isinstance(name, str):
        return name
    name = getattr(target, "__name__", None)
    if not isinstance(name, str):
        raise RuntimeError("Could not get name of python class object")
    if name == "<lambda>":
        name = "_lambda"
    if "." in name:
        raise RuntimeError(f"Could not get qualified name for class '{name}': '{name}' is not a "
                           "valid identifier")  # fmt: skip
    # Code that was executed from a text may belong to no module.
    module = getattr(target, "__module__", None) or "__main__"
    return f"{package_name(module, name)}.{name}"


def package_name(module: str, name: str) -> str:
    if module == "__main__":
        return "__torch__"
    if module.startswith(("rushlight.nn.", "torch.nn.")) and name in HOME_OF:
        return f"__torch__.torch.nn.modules.{HOME_OF[name]}"
    if module == "rushlight" or module.startswith("rushlight."):
        module = f"torch{module.removeprefix('rushlight')}"
    return f"__torch__.{module}"


def is_named_tuple(cls: Any) -> bool:
    return (
        inspect.isclass(cls)
        and issubclass(cls, tuple)
        and hasattr(cls, "_fields")
        and hasattr(cls, "_make")
    )
