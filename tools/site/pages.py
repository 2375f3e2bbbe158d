"""A page that is written while the site is built, and the texts that all pages use."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

__all__ = ["Page", "fenced", "prose"]


@dataclass
class Page:
    """`beside` holds files that belong to it, by their paths in the site."""

    title: str
    path: str
    text: str
    beside: dict[str, bytes | str] = field(default_factory=dict)


def fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: its examples become code."""
    text = inspect.cleandoc(docstring or "") + "\n"
    parts: list[str] = []
    lines: list[str] = []
    in_example = False
    for line in text.splitlines():
        begins = line.startswith(">>> ")
        if begins and not in_example:
            parts.append("\n".join(lines))
            lines, in_example = [], True
        elif in_example and not line.strip():
            parts.append(fenced("\n".join(lines), "pycon"))
            lines, in_example = [], False
        lines.append(line)
    parts.append(fenced("\n".join(lines), "pycon") if in_example else "\n".join(lines))
    return "\n".join(part for part in parts if part.strip()) + "\n"
