"""Names of values: which names of variables are worth keeping."""

from __future__ import annotations

import re

NAMELESS = re.compile(r"^_\d*$")


def is_meaningful(name: str) -> bool:
    """Whether a variable's name tells anything: `_`, `_1` and the compiler's own do not."""
    return bool(name) and name[0] != "$" and not NAMELESS.match(name)


def attribute_value_name(name: str) -> str:
    """What the value read from an attribute is called: names of values are no numbers."""
    return f"_{name}" if name[:1].isdigit() else name
