"""Lists and dicts that Python and compiled code share."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as torch


def appended(values: list[int]) -> list[int]:
    values.append(100)
    return values


def entered(values: dict[str, int]) -> dict[str, int]:
    values["new"] = 1
    return values


def test_compiled_code_writes_to_shared_containers():
    numbers, table = torch.jit.script([1, 2]), torch.jit.script({"a": 1})
    found = torch.jit.script(appended)(numbers)
    assert list(numbers) == [1, 2, 100]
    found.append(7)
    assert list(numbers) == [1, 2, 100]
    assert torch.jit.script(entered)(table) == {"a": 1, "new": 1}
    assert list(table.items()) == [("a", 1), ("new", 1)]


def test_plain_containers_are_copied():
    numbers = [1]
    assert torch.jit.script(appended)(numbers) == [1, 100]
    assert numbers == [1]


def test_lists():
    numbers = torch.jit.script([3, 1, 2])
    assert (repr(numbers), len(numbers), bool(numbers)) == ("[3, 1, 2]", 3, True)
    numbers.append(5)
    numbers.extend((6, 7))
    numbers.insert(0, 9)
    assert (numbers.pop(), numbers.pop(0), numbers.count(5), 6 in numbers) == (7, 9, 1, True)
    numbers.remove(5)
    numbers[0] = 8
    numbers[1:2] = [4, 4]
    del numbers[-1]
    assert list(numbers) == [8, 4, 4, 2]
    assert list(numbers[1:]) == [4, 4, 2]
    assert type(numbers[1:]) is type(numbers)
    assert list(copy.deepcopy(numbers)) == list(pickle.loads(pickle.dumps(numbers)))
    numbers.clear()
    assert not numbers
    assert repr(torch.jit.script([1.0, 2.5])) == "[1., 2.5]"


def test_dicts():
    table = torch.jit.script({"a": [1], "b": [2]})
    assert (repr(table), len(table), "a" in table) == ("{a: [1], b: [2]}", 2, True)
    table["c"] = [3]
    del table["a"]
    assert (list(table), list(table.keys()), table["c"]) == (["b", "c"], ["b", "c"], [3])
    # What is read is a copy.
    table["c"].append(4)
    assert table["c"] == [3]


def test_elements_keep_their_type():
    numbers, table = torch.jit.script([1]), torch.jit.script({"a": 1})
    for write in (
        lambda: numbers.append("a"),
        lambda: numbers.__setitem__(0, "a"),
        lambda: numbers.extend(["a"]),
        lambda: table.__setitem__(1, 1),
        lambda: table.__setitem__("a", "b"),
    ):
        with pytest.raises(TypeError, match="Expected a value of type"):
            write()
    with pytest.raises(torch.jit.Error, match="Found int and str"):
        torch.jit.script([1, "a"])
    with pytest.raises(RuntimeError, match=r"Expected a value of type 'List\[int\]'"):
        torch.jit.script(appended)(torch.jit.script(["a"]))
    with pytest.raises(IndexError):
        numbers[3]
    with pytest.raises(KeyError):
        table["b"]


def test_lists_of_results_are_the_callers():
    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = [1, 2]

        def forward(self) -> list[int]:
            return self.kept

    scripted = torch.jit.script(Holder())
    scripted().append(3)
    assert scripted() == [1, 2]
