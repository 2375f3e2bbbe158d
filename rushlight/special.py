"""torch.special: special functions under their own names. Each is the op `special_<name>`."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace
from rushlight.opset import families, registry


def _find(name: str) -> Any:
    if name.startswith("__"):
        return None
    # torch: the ops' own names are known too, as torch._C._special has them.
    return registry.public(f"special_{name.removeprefix('special_')}")


def _every_name() -> list[str]:
    families.load_all()
    known = {*registry.PACKETS["aten"], *registry.ALIASES}
    return [name.removeprefix("special_") for name in known if name.startswith("special_")]


__getattr__, __dir__ = namespace(__name__, make=_find, names=_every_name)
