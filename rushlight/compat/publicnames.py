"""Torch's public names, and what became of each: it works, it refuses, or it is missing.

A name works if it leads to an object other than one that can only raise; it refuses if using what
it leads to raises an error with a code; it is missing if looking it up fails.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rushlight import compat
from rushlight.base.lazy import QUIET
from rushlight.base.refusals import is_refused

__all__ = ["WORDS", "as_table", "collect", "state_of"]

WORDS = ("works", "refuses", "missing")
_LIST = Path(__file__).with_name("public_names.json")


def owner_of(path: str) -> Any:
    """The module, or the class `torch.Tensor`, that a list of names belongs to."""
    if path == "torch.Tensor":
        return importlib.import_module("torch").Tensor
    return importlib.import_module(path)


def state_of(path: str, name: str) -> str:
    """One of `WORDS` for the name `path.name`, where `torch` means rushlight."""
    try:
        value = getattr(owner_of(path), name)
    except (ImportError, AttributeError):
        return "missing"
    return "refuses" if is_refused(value) else "works"


def listed() -> dict[str, list[str]]:
    """Module -> torch's public names in it."""
    found: dict[str, list[str]] = json.loads(_LIST.read_text(encoding="utf-8"))
    return found


def star_names() -> list[str]:
    """What `from torch import *` gives: torch's public names that are there."""
    import rushlight

    with QUIET:
        return [name for name in listed()["torch"] if hasattr(rushlight, name)]


def all_return_types() -> list[type]:
    """Every class of results with named fields, as `torch.return_types` lists them."""
    from rushlight.core import return_types

    names = [name for name in listed()["torch.return_types"] if name != "all_return_types"]
    found = [return_types.find_class(name) for name in names]
    return [cls for cls in found if cls is not None]


def collect() -> dict[str, dict[str, list[str]]]:
    """Module -> word -> the names that it is true of."""
    was_installed = compat.is_installed()
    compat.install()
    try:
        found: dict[str, dict[str, list[str]]] = {}
        for path, names in listed().items():
            row = found[path] = {word: [] for word in WORDS}
            for name in names:
                row[state_of(path, name)].append(name)
        return found
    finally:
        if not was_installed:
            compat.uninstall()


def as_table(found: dict[str, dict[str, list[str]]]) -> str:
    """Names per module as text, the totals last, and what is missing."""
    totals = Counter({word: sum(len(row[word]) for row in found.values()) for word in WORDS})
    width = max(len(path) for path in found)
    head = f"{'module':<{width}}  " + "  ".join(f"{word:>7}" for word in WORDS)
    lines = [head]
    for path, row in found.items():
        counts = "  ".join(f"{len(row[word]) or '':>7}" for word in WORDS)
        lines.append(f"{path:<{width}}  {counts}".rstrip())
    every = sum(totals.values())
    lines += ["", f"{'all':<{width}}  " + "  ".join(f"{totals[word]:>7}" for word in WORDS)]
    shares = "  ".join(f"{100 * totals[word] / every:>6.1f}%" for word in WORDS)
    lines.append(f"{'':<{width}}  {shares}")
    missing = [
        f"{path}: {' '.join(row['missing'])}" for path, row in found.items() if row["missing"]
    ]
    return "\n".join([*lines, *(["", "Missing", *missing] if missing else [])])
