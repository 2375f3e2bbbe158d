"""Operators that take functions: control flow, regions, effects (`torch.ops.higher_order`).

`find_op` gives an op by its name, and imports the module that defines it.
"""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import load
from rushlight.core.hop import HOPS

__all__ = ["HOMES", "find_op"]

# Op -> the module that defines it.
HOMES = {
    "associative_scan": "scans",
    "cond": "cond",
    "map_impl": "mapping",
    "scan": "scans",
    "while_loop": "loops",
}


def find_op(name: str) -> Any:
    """A higher-order op by its name, users' ops included; None for names nobody has."""
    home = HOMES.get(name)
    if name not in HOPS and home is not None:
        load(f"{__name__}.{home}")
    return HOPS.get(name)
