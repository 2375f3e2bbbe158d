"""Public operator functions by name, for rules and layers above: `functions.zeros_like(x)`."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from rushlight.core.stubs import make_stub
    from rushlight.opset.registry import packet

    try:
        found = make_stub(packet(name), name, method=False, named=False)
    except KeyError:
        raise AttributeError(f"no operator '{name}'") from None
    globals()[name] = found
    return found
