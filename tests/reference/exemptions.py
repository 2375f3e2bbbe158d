"""The one list of differences that are meant to stay: exemptions.toml."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ENTRIES: list[dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("exemptions.toml").read_text()
).get("exempt", [])


def is_exempt(op: str, dtype: str, what: str, sample: Any) -> bool:
    """Whether an entry covers a difference; `op` without its namespace."""
    return any(
        fnmatchcase(op, entry["op"])
        and among(dtype, entry.get("dtype", "*"))
        and among(what, entry.get("what", "*"))
        and re.search(entry.get("sample", ""), repr(sample))
        for entry in ENTRIES
    )


def among(word: str, words: str) -> bool:
    return words == "*" or word in words.split()
