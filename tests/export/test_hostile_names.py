"""Texts of files that would be code: none is run, wherever in a program it stands."""

from __future__ import annotations

import builtins
import io
import json
import random
import zipfile
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError

HOME = Path(__file__).parent.parent / "reference" / "export"
# Each runs `caught` if it ends up in generated Python, in an expression or behind a quote.
CODE = "caught.append(1)"
TEXTS = (
    CODE,
    f"x); {CODE} #",
    f"x'); {CODE} #",
    f'x"); {CODE} #',
    f"x\\'); {CODE} #",
    f"x\n    {CODE}\n    y",
    f"x\r{CODE}",
    f"x\u2028{CODE}",
    f"x={CODE}",
    f"{{{CODE}}}",
    f"s0 + {CODE}",
    f"Eq(s0, {CODE})",
    f"__import__('builtins').{CODE}",
    CODE.replace("c", "\uff43", 1),
)


def places(data, path=()):
    """The ways to all texts, and to all keys of dicts."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield (*path, (key,))
            yield from places(value, (*path, key))
    elif isinstance(data, list):
        for at, value in enumerate(data):
            yield from places(value, (*path, at))
    elif isinstance(data, str):
        yield path


def old_text(data, path):
    for step in path:
        if isinstance(step, tuple):
            return step[0]
        data = data[step]
    return data


def replaced(data, path, text, everywhere):
    """The data with a text put in one place, or wherever the same text stood."""
    old = old_text(data, path)

    def change(value, at):
        if isinstance(value, dict):
            named = {}
            for key, inner in value.items():
                hit = key == old if everywhere else (*at, (key,)) == path
                named[text if hit else key] = change(inner, (*at, key))
            return named
        if isinstance(value, list):
            return [change(inner, (*at, place)) for place, inner in enumerate(value)]
        return text if value == old and (everywhere or at == path) else value

    return change(data, ())


def uses(program):
    """All that makes or prints Python of a program."""
    str(program)
    module = program.module()
    module.print_readable(print_output=False)
    yield lambda: torch.export.unflatten(program)
    yield program.run_decompositions
    yield lambda: torch.export.save(program, io.BytesIO())
    args, kwargs = program.example_inputs or ((), {})
    yield lambda: module(*args, **kwargs)


@pytest.mark.parametrize("name", ["counter", "branches", "by_size", "gru", "from_data", "nested"])
def test_no_text_of_a_file_is_run(name, monkeypatch):
    caught: list[int] = []
    monkeypatch.setattr(builtins, "caught", caught, raising=False)
    with zipfile.ZipFile(HOME / f"{name}.pt2") as archive:
        parts = {entry: archive.read(entry) for entry in archive.namelist()}
    (label,) = [entry for entry in parts if "/models/" in entry]
    data = json.loads(parts[label])
    chance = random.Random(name)
    known = list(places(data))
    opened = 0
    for _ in range(150):
        path, text = chance.choice(known), chance.choice(TEXTS)
        changed = replaced(data, path, text, chance.random() < 0.5)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for entry, content in parts.items():
                archive.writestr(entry, json.dumps(changed) if entry == label else content)
        file.seek(0)
        try:
            program = torch.export.load(file)
        except CheckpointError:
            continue
        opened += 1
        for use in uses(program):
            try:
                use()
            except (RuntimeError, ValueError, AttributeError, NotImplementedError):
                # A program of renamed parts may mean nothing any more.
                continue
        assert not caught, (path, text)
    assert opened
    assert not caught
