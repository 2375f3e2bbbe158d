"""How often a function is compiled: as often as by PyTorch, call by call, but for what is told."""

from __future__ import annotations

import gc
import json
import pathlib

import pytest

import rushlight as torch
from rushlight.compiler import compiling, config, sizes
from rushlight.compiler.counting import CompileCounter

SOURCE = pathlib.Path(__file__).with_name("recompiles.py")
RECORDED = json.loads(
    (SOURCE.parent.parent / "reference" / "capture" / "recompiles.json").read_text()
)


def load():
    names = {
        "__name__": "tests.capture.loaded_recompiles",
        "torch": torch,
        "config": config,
        "marks": sizes,
        "reset": compiling.reset,
        "CompileCounter": CompileCounter,
    }
    exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), names)
    return names["CASES"], names["outcome"]


CASES, outcome = load()
OTHERS = {
    # A size that got another rank is a symbol in each of its dims; here each rank learns its own.
    "sizes": [1, 1, 2, 2, 2, 3, 4, 5, 5, 6, 6],
    # In inference mode the graph without gradients gives inference tensors.
    "no_grad": [1, 2, 2, 3, 3],
    # One branch has no operator, and no graph.
    "maybe_mark_dynamic specialised": [1, 1],
    # Generated code does not depend on the number of threads.
    "num threads": [1, 1],
    # Integers of modules become symbols like those of other objects.
    "module int attribute": [1, 2, 2, 2],
    "two modules one class": [1, 1, 2, 2],
}


@pytest.fixture(autouse=True)
def clean():
    # The code of modules that are gone goes with the next collection.
    gc.disable()
    yield
    gc.enable()
    compiling.reset()


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
@pytest.mark.parametrize("name", CASES)
def test_counts(name):
    assert outcome(name) == OTHERS.get(name, RECORDED[name])


def test_differences_are_differences():
    assert all(RECORDED[name] != ours for name, ours in OTHERS.items())
    assert len(CASES) >= 70


def test_a_view_that_learns_late_that_it_requires_gradients_is_compiled_once():
    counter = CompileCounter()
    run = torch.compile(lambda x: x * 2, backend=counter)
    base = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        view = base.view(-1)
    for _ in range(4):
        assert run(view).requires_grad
    assert counter.frame_count == 1
    plain = torch.ones(3)
    late = plain.view(-1)
    assert not run(late).requires_grad
    with torch.no_grad():
        pass
    plain.mul_(base)
    assert run(late).requires_grad and (late * 2).requires_grad


def test_keys_of_a_dict_matter_where_they_are_looked_at():
    """A dict of the outside is guarded for the keys that were asked for; for all of them once it is
    iterated, counted, changed or handed on."""
    x = torch.ones(2)

    def asked(x, d):
        return x * d["a"] if "b" not in d else x * d.get("c", 7) + d["b"]

    run = torch.compile(asked, backend="eager")
    tables = [
        {"a": 2}, {"z": 0, "a": 2}, {"a": 3}, {"b": 1}, {"b": 1, "c": 5}, {"a": 2, "b": 4},
        {"c": None, "a": 1},
    ]  # fmt: skip
    for table in [*tables, *tables[::-1]]:
        assert run(x, dict(table)).tolist() == asked(x, dict(table)).tolist(), table
    with pytest.raises(KeyError):
        run(x, {})

    def grown(x, d):
        before = d["a"]
        d["new"] = len(d)
        return x * before + sum(d.values()), list(d)

    run = torch.compile(grown, backend="eager")
    for table in ({"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, {"a": 1, "new": 9}):
        ours, theirs = dict(table), dict(table)
        got, want = run(x, ours), grown(x, theirs)
        assert (got[0].tolist(), got[1]) == (want[0].tolist(), want[1])
        assert list(ours.items()) == list(theirs.items())


def test_a_guard_makes_no_item_of_a_defaultdict():
    import collections

    run = torch.compile(lambda x, d: x * d["a"], backend="eager")
    first = collections.defaultdict(lambda: 3, a=2)
    assert run(torch.ones(1), first).item() == 2
    second = collections.defaultdict(lambda: 3)
    assert run(torch.ones(1), second).item() == 3
    assert dict(second) == {"a": 3}
    third = collections.defaultdict(lambda: 3)
    third["b"] = 1
    torch.compile(lambda x, d: x * d.get("b", 4), backend="eager")(torch.ones(1), third)
    assert dict(third) == {"b": 1}
