"""Floats of the outside that change from call to call.

What a program computes from them is computed anew by each call, in front of the graph and as Python
does it; the graph is given what its ops take. A question about one, such as a comparison, has the
answer that it has now, and a guard that asks it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.capture.sources import Source, const
from rushlight.capture.values import NULL, Const, Float, Number, Seq

__all__ = ["computed", "is_large", "large_test", "settled", "without_floats"]

# What a guard compares.
ANSWERS = (bool, int, str)
# Beyond it single precision ends: ops may refuse a number, and the graph has it as a constant.
LARGEST = 3.4028234663852886e38


def computed(t: Any, f: Callable[..., Any], args: Sequence[Any]) -> Any:
    """What `f` gives of numbers one of which changes; NULL where that is no plain value."""
    parts, values = [], []
    for v in map(t.real, args):
        if isinstance(v, Float):
            parts.append(v.source)
            values.append(v.value)
        elif isinstance(v, Number) and v.source is not None and t.is_known(v):
            parts.append(v.source)
            values.append(t.world.hint(v.example))
        elif isinstance(v, Const | Number):
            values.append(t.python(v))
            parts.append(const(values[-1]))
        else:
            return NULL
    try:
        found = f(*values)
    except Exception:
        # The program raises it: by the usual way, of constants.
        return NULL
    source = Source("computed", None, (f, tuple(parts)))
    if type(found) is float:
        return t.float_of(found, source)
    if type(found) not in ANSWERS:
        return NULL
    return t.wrap(found, source)


def settled(t: Any, v: Float) -> float:
    """The value as a constant."""
    t.guard("value", v.source, v.value)
    return v.value


def is_large(value: float) -> bool:
    return LARGEST < abs(value) < math.inf


def large_test(text: str, names: Any) -> str:
    """is no finite number beyond single precision"""
    return f"{LARGEST} < abs({text}) < {names.constant(math.inf)}"


def without_floats(t: Any, values: Any) -> Any:
    """Arguments with constants in the place of floats that change."""
    if isinstance(values, list):
        return [without_floats(t, v) for v in values]
    if isinstance(values, dict):
        return {key: without_floats(t, v) for key, v in values.items()}
    v = t.real(values)
    if isinstance(v, Float):
        return Const(settled(t, v))
    if isinstance(v, Seq) and any(isinstance(t.real(item), Float) for item in v.items):
        return Seq(v.kind, without_floats(t, v.items))
    return v
