"""The op families: those imported with the package, and where all other names are defined.

`where` is the index, written by `make index`. Looking a name up imports the module that defines
it, with what that module imports, and nothing else; a name that is not there imports nothing.
Invariant: whoever finds a name this way finds it complete. The import system sees to that: an
import that another thread has begun is waited for. No lock of ours is held meanwhile, for a module
that is being imported looks names up too, and each thread would wait for the other.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

from rushlight.core import ports
from rushlight.opset import where

PACKAGE = "rushlight.opset."
FOUNDATION = (
    "pointwise.arithmetic",
    "pointwise.choice",
    "pointwise.comparison",
    "pointwise.elementary",
    "reduction.reduce",
    "view.view",
    "view.axes",
    "view.restride",
    "creation.copy",
    "creation.create",
)


def homes(index: dict[str, str]) -> dict[str, str]:
    """Name -> the module that defines it."""
    found: dict[str, str] = {}
    for module, names in index.items():
        found.update(dict.fromkeys(names.split(), PACKAGE + module))
    return found


# Of the families that are not part of the foundation: op, in-place form or alias -> module.
OPS = homes(where.OPS)
# Namespace of ops that is not aten -> modules.
NAMESPACES: dict[str, list[str]] = {}
for _module, _names in where.NAMESPACES.items():
    for _name in _names.split():
        NAMESPACES.setdefault(_name, []).append(PACKAGE + _module)
# Tensor attribute -> module.
ATTRIBUTES = homes(where.ATTRIBUTES)
# Public function that is written in Python -> module.
FUNCTIONS = homes(where.FUNCTIONS)


def load() -> None:
    """Register the families that every program may use."""
    # Records are made by the hundred and none of them is garbage: looking for some in between
    # would take three milliseconds.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for name in FOUNDATION:
            import_module(PACKAGE + name)
    finally:
        if collecting:
            gc.enable()


def load_op(name: str) -> None:
    """Import what defines an op, an in-place form or an alias."""
    module = OPS.get(name)
    if module is not None:
        import_module(module)


def load_namespace(name: str) -> None:
    """Import what defines the ops of a namespace beside aten."""
    for module in (*NAMESPACES.get(name, ()), *ports.namespace_modules.get(name, ())):
        import_module(module)


def load_attribute(name: str) -> None:
    """Import what defines an attribute of Tensor."""
    import_module(ATTRIBUTES[name])


def load_all() -> None:
    """Register every family."""
    for module in (*where.OPS, *where.NAMESPACES):
        import_module(PACKAGE + module)


FAMILIES: dict[str, str] = {}


def family_of(op: Any) -> str:
    """The module of this package that an op is written in; "" for ops of users."""
    if op.functional is not None:
        return family_of(op.functional)
    if op.namespace != "aten":
        return ""
    if not FAMILIES:
        # A second thread writes the same entries.
        for index in (where.FOUNDATION_OPS, where.OPS):
            for module, names in index.items():
                FAMILIES.update(dict.fromkeys(names.split(), module))
    name = op.base_name
    return FAMILIES.get(f"{name}.{op._overloadname}") or FAMILIES.get(name, "")
