"""Hostile files are refused or read as inert records, and nothing else happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MAX_SECONDS = 1.0
MAX_BYTES = 64 << 20
KINDS = (
    "opcodes",
    "names",
    "containers",
    "storage lies",
    "tensor lies",
    "sparse lies",
    "recursion",
    "bombs",
    "values",
    "zip",
    "mapped zip",
    "stream",
    "safetensors",
)


def read_all(*options: str) -> dict[str, list[dict]]:
    """The results by class; from another process, because an audit hook cannot be taken back."""
    done = subprocess.run(
        [sys.executable, HERE / "read_hostile.py", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[dict]] = {}
    for line in done.stdout.splitlines():
        entry = json.loads(line)
        found.setdefault(entry["kind"], []).append(entry)
    return found


@pytest.fixture(scope="module")
def results() -> dict[str, list[dict]]:
    return read_all()


def complaints(entries: list[dict]) -> list[str]:
    found = []
    for entry in entries:
        what = f"{entry['kind']} / {entry['name']}: "
        if entry["outcome"] == "raised":
            found.append(what + entry["detail"])
        if entry["expect"] != "any" and entry["outcome"] != entry["expect"]:
            found.append(
                what + f"{entry['outcome']}, {entry['expect']} expected: {entry['detail']}"
            )
        if entry["events"]:
            found.append(what + str(entry["events"]))
        if entry["seconds"] > MAX_SECONDS:
            found.append(what + f"{entry['seconds']:.2f} s")
        if entry["peak"] > MAX_BYTES + 2 * entry["size"]:
            found.append(what + f"{entry['peak']} bytes for a file of {entry['size']}")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_happens(results, kind):
    assert not complaints(results[kind])


def test_there_are_enough(results):
    assert set(results) == set(KINDS)
    assert sum(map(len, results.values())) >= 1000
    assert all(len(entries) >= 20 for entries in results.values())


def test_messages_are_short_and_tell_what(results):
    for entries in results.values():
        for entry in entries:
            if entry["outcome"] == "refused":
                assert 20 <= len(entry["detail"]) < 300, entry


def test_the_files_are_always_the_same():
    sys.path.insert(0, str(HERE))
    try:
        import hostile
    finally:
        sys.path.remove(str(HERE))
    once, again = ([case.data for case in hostile.cases()] for _ in range(2))
    assert once == again


@pytest.mark.slow
def test_memory_of_the_slow_ones():
    for entries in read_all("all").values():
        assert not complaints(entries)
