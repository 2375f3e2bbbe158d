"""torch.special: special functions under their own names. Each is the op `special_<name>`."""

from __future__ import annotations

from typing import Any

from rushlight.opset import families, registry


def __getattr__(name: str) -> Any:
    found = None if name.startswith("__") else registry.public(f"special_{name}")
    if found is None:
        raise AttributeError(f"module 'rushlight.special' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    families.load_all()
    known = {*registry.PACKETS["aten"], *registry.ALIASES}
    names = [name.removeprefix("special_") for name in known if name.startswith("special_")]
    return sorted({*globals(), *names})
