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
    "associative_scan": "higher_order.scans",
    "auto_functionalized": "higher_order.writes",
    "autograd_function_apply": "higher_order.regions",
    "cond": "higher_order.cond",
    "flex_attention": "higher_order.attention",
    "map_impl": "higher_order.mapping",
    "out_dtype": "higher_order.precision",
    "scan": "higher_order.scans",
    "strict_mode": "higher_order.regions",
    "tag_activation_checkpoint": "higher_order.regions",
    "while_loop": "higher_order.loops",
    "with_effects": "higher_order.effects",
    "wrap": "higher_order.regions",
    "wrap_activation_checkpoint": "higher_order.regions",
    "wrap_with_autocast": "amp.regions",
    "wrap_with_set_grad_enabled": "higher_order.regions",
}


def find_op(name: str) -> Any:
    """A higher-order op by its name, users' ops included; None for names nobody has."""
    home = HOMES.get(name)
    if name not in HOPS and home is not None:
        load(f"rushlight.{home}")
    return HOPS.get(name)
