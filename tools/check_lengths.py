"""Fails when a Python file of the package or its tests is longer than LIMIT lines."""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT = 900
FOLDERS = ("rushlight", "tests")
# Recorded data, written by a program and read by none but the tests.
GENERATED = ("tests/reference/",)


def too_long(root: Path) -> list[tuple[int, str]]:
    """Length and path of every file over the limit, longest first."""
    found = []
    for folder in FOLDERS:
        for path in (root / folder).rglob("*.py"):
            name = path.relative_to(root).as_posix()
            if name.startswith(GENERATED):
                continue
            with path.open("rb") as lines:
                length = sum(1 for _ in lines)
            if length > LIMIT:
                found.append((length, name))
    return sorted(found, reverse=True)


def main() -> int:
    found = too_long(Path(__file__).resolve().parent.parent)
    for length, name in found:
        print(f"{name}: {length} lines; split it along a real seam (limit {LIMIT})")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
