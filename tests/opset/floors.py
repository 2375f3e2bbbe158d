"""A generated test in which no sample ran proves nothing: it fails, unless floors.toml lists it.

The generated tests pass over samples that an op refuses for a dtype. `ran` is told how many were
left; an op that is listed in vain fails too, so the lists can only shrink. To write the lists anew,
run the tests with RUSHLIGHT_FLOORS naming a file, then `python tests/opset/floors.py FILE`.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

LISTS = Path(__file__).with_suffix(".toml")
RECORD = os.environ.get("RUSHLIGHT_FLOORS")
EMPTY = {
    suite: frozenset(names)
    for suite, names in (tomllib.loads(LISTS.read_text()) if LISTS.exists() else {}).items()
}


def ran(suite: str, name: str, count: int) -> None:
    """Say how many samples of an op a test has compared."""
    if RECORD:
        with open(RECORD, "a") as file:
            file.write(f"{suite} {name} {count}\n")
        return
    listed = name in EMPTY.get(suite, ())
    assert count or listed, f"no sample of {name} ran in {suite}"
    assert not (count and listed), f"{name} is listed under {suite} in {LISTS.name}, but it runs"


def main(path: str) -> None:
    empty: dict[str, set[str]] = {}
    for line in Path(path).read_text().splitlines():
        suite, name, count = line.split()
        if count == "0":
            empty.setdefault(suite, set()).add(name)
    lines = ["# Ops of which no sample can run in a generated test: see floors.py.\n"]
    for suite in sorted(empty):
        lines.append(f"{suite} = [")
        lines += [f'    "{name}",' for name in sorted(empty[suite])]
        lines.append("]\n")
    LISTS.write_text("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1])
