"""The first page: the README, with links that hold inside the site."""

from __future__ import annotations

import re
from pathlib import Path

from pages import Page

__all__ = ["pages"]

ROOT = Path(__file__).resolve().parent.parent.parent


def pages() -> list[Page]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text.replace("](docs/", "](")
    # Other files of the repository are no pages.
    text = re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)]*)\)", linked, text)
    return [Page("Home", "index.md", text)]


def linked(found: re.Match[str]) -> str:
    target = found[2]
    inside = (ROOT / "docs" / target.partition("#")[0]).exists()
    return found.group() if inside else f"`{target}`"
