"""Public operator functions by name, for rules and layers above: `functions.zeros_like(x)`."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace


def _find(name: str) -> Any:
    from rushlight.core.stubs import make_stub
    from rushlight.opset.registry import packet

    try:
        return make_stub(packet(name), name, method=False, named=False, module=__name__)
    except KeyError:
        return None


__getattr__, __dir__ = namespace(__name__, make=_find)
