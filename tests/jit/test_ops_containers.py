"""Operators on lists and dicts: as Python has them, seen by everyone who holds the container."""

import random

import pytest

import rushlight as torch
from rushlight.jit.ir.operators import find_operator
from rushlight.jit.ir.parsing import parse_ir
from rushlight.jit.runtime.program import compile_graph


def call(name, *args):
    return find_operator(name).call(*args)


# Operator, Python's own, and the arguments after the list.
READING = {
    "aten::len.t": (lambda v: len(v), 0),
    "aten::list.t": (lambda v: list(v), 0),
    "aten::copy.t": (lambda v: v.copy(), 0),
    "aten::sorted.int": (lambda v: sorted(v), 0),
    "aten::sum.int": (lambda v: sum(v), 0),
    "aten::any.int": (lambda v: any(v), 0),
    "aten::all.int": (lambda v: all(v), 0),
    "aten::count.int": (lambda v, x: v.count(x), 1),
    "aten::index.list_int": (lambda v, x: v.index(x), 1),
    "aten::__contains__.int_list": (lambda v, x: x in v, 1),
    "aten::__getitem__.t": (lambda v, i: v[i], 1),
    "aten::mul.left_t": (lambda v, n: v * n, 1),
    "prim::min.self_int": (lambda v: min(v), 0),
    "prim::max.self_int": (lambda v: max(v), 0),
}
WRITING = {
    "aten::append.t": (lambda v, x: v.append(x), 1),
    "aten::insert.t": (lambda v, i, x: v.insert(i, x), 2),
    "aten::pop.t": (lambda v, i: v.pop(i), 1),
    "aten::remove.int": (lambda v, x: v.remove(x), 1),
    "aten::Delete.t": (lambda v, i: v.__delitem__(i), 1),
    "aten::_set_item.t": (lambda v, i, x: v.__setitem__(i, x), 2),
    "aten::reverse.t": (lambda v: v.reverse(), 0),
    "aten::clear.t": (lambda v: v.clear(), 0),
}


def outcome(run, *args):
    try:
        return run(*args)
    except (IndexError, ValueError, RuntimeError):
        return "refused"


@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_lists_are_pythons(name):
    own, count = {**READING, **WRITING}[name]
    operator = find_operator(name).call
    draw = random.Random(name)
    for _ in range(200):
        values = [draw.randint(-3, 3) for _ in range(draw.randint(0, 5))]
        args = [draw.randint(-4, 4) for _ in range(count)]
        mine, theirs = list(values), list(values)
        result, expected = outcome(operator, mine, *args), outcome(own, theirs, *args)
        if name in READING or "refused" in (result, expected) or name == "aten::pop.t":
            assert result == expected and type(result) is type(expected), (values, args)
        assert mine == theirs, (values, args)


def test_what_writes_gives_the_list_itself_where_its_schema_says_so():
    values = [1]
    assert call("aten::append.t", values, 2) is values
    assert call("aten::add_.t", values, [3]) is values
    assert call("aten::mul_.t", values, 2) is values
    assert values == [1, 2, 3, 1, 2, 3]
    assert call("aten::add.t", values, [9]) is not values


@pytest.mark.parametrize("reverse", [False, True])
def test_sort(reverse):
    values = [3, 1, 2]
    assert call("aten::sort.int", values, reverse) is None
    assert values == sorted([3, 1, 2], reverse=reverse)
    tensors = [torch.tensor(2.0), torch.tensor(1.0)]
    call("aten::sort.Tensor", tensors, reverse)
    assert [t.item() for t in tensors] == ([2, 1] if reverse else [1, 2])


def test_slices_are_pythons():
    draw = random.Random(3)
    values = list(range(6))
    for _ in range(300):
        start, end = [draw.choice([None, *range(-8, 9)]) for _ in range(2)]
        step = draw.choice([1, 2, 3, -1, -2])
        assert call("aten::slice.t", values, start, end, step) == values[start:end:step]
        assert call("aten::slice.str", "abcdef", start, end, step) == "abcdef"[start:end:step]
    with pytest.raises(RuntimeError, match="List slice should have non-zero step"):
        call("aten::slice.t", values, 0, 1, 0)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("aten::__getitem__.t", ([1], 5), "list index out of range"),
        ("aten::_set_item.t", ([1], 4, 1), "list index out of range"),
        ("aten::Delete.t", ([1], 4), "list index out of range"),
        ("aten::pop.t", ([1], 4), "list index out of range"),
        ("aten::pop.t", ([], -1), "pop from empty list"),
        ("aten::remove.int", ([1], 3), "list.remove(x): x not in list"),
        ("aten::index.list_int", ([1], 3), "'3' is not in list"),
        ("aten::index.list_str", (["a"], "k"), "'k' is not in list"),
        ("prim::min.self_int", ([],), "min() arg is an empty sequence"),
        ("aten::popitem.int", ({},), "popitem(): dictionary is empty"),
    ],
)
def test_refusals(name, args, message):
    with pytest.raises((RuntimeError, IndexError)) as caught:
        call(name, *args)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten::__getitem__.Dict_str", ({"a": 1}, "q")),
        ("aten::pop.Dict_str", ({"a": 1}, "q")),
        ("aten::Delete.Dict_str", ({"a": 1}, "q")),
    ],
)
def test_missing_keys(name, args):
    with pytest.raises(RuntimeError) as caught:
        call(name, *args)
    assert str(caught.value) == "KeyError: q"


def test_tensors_in_lists_are_compared_as_python_compares_them():
    one, same, other = torch.ones(()), torch.ones(1), torch.zeros(())
    assert call("aten::count.Tensor", [one, other, same], same) == 2
    assert call("aten::index.list_Tensor", [other, one], same) == 1
    values = [other, one]
    call("aten::remove.Tensor", values, same)
    assert len(values) == 1 and values[0] is other
    assert call("aten::eq.Tensor_list", [one], [same])
    assert call("aten::ne.Tensor_list", [one], [other])


@pytest.mark.parametrize("kind", ["eq.Tensor_list", "index.list_Tensor", "count.Tensor"])
def test_tensors_of_several_elements_are_not_compared_in_lists(kind):
    values = torch.ones(2)
    other = [values] if kind == "eq.Tensor_list" else values
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value"):
        call(f"aten::{kind}", [torch.ones(2)], other)


def test_sums_have_the_type_of_the_elements():
    assert repr(call("aten::sum.float", [])) == "0.0"
    assert repr(call("aten::sum.complex", [])) == "0j"
    assert repr(call("aten::sum.bool", [True, True])) == "2"


def test_dicts_are_pythons():
    draw = random.Random(5)
    mine, theirs = {}, {}
    for _ in range(500):
        key, value = draw.choice("abcdef"), draw.randint(0, 9)
        name = draw.choice(["set", "get", "default", "setdefault", "pop", "update", "contains"])
        if name == "set":
            call("aten::_set_item.str", mine, key, value)
            theirs[key] = value
        elif name == "get":
            assert call("aten::get.str", mine, key) == theirs.get(key)
        elif name == "default":
            assert call("aten::get.default_str", mine, key, value) == theirs.get(key, value)
        elif name == "setdefault":
            found = call("aten::setdefault.str", mine, key, value)
            assert found == theirs.setdefault(key, value)
        elif name == "pop":
            found = call("aten::pop.Dict_default_str", mine, key, -1)
            assert found == theirs.pop(key, -1)
        elif name == "update":
            call("aten::update.str", mine, {key: value})
            theirs.update({key: value})
        else:
            assert call("aten::__contains__.str", mine, key) == (key in theirs)
        assert list(mine.items()) == list(theirs.items())
        assert call("aten::keys.str", mine) == list(theirs)
        assert call("aten::values.str", mine) == list(theirs.values())
        assert call("aten::items.str", mine) == list(theirs.items())
        assert call("aten::len.Dict_str", mine) == len(theirs)
        assert call("aten::copy.Dict_str", mine) == theirs
        assert call("aten::copy.Dict_str", mine) is not mine


def test_dicts_are_made_of_pairs():
    assert call("aten::dict.int", [(1, "a"), (2, "b")]) == {1: "a", 2: "b"}
    assert call("aten::dict") == {}


def test_tensors_as_keys_are_known_by_identity():
    key = torch.ones(1)
    table = {key: 1}
    assert call("aten::__getitem__.Dict_Tensor", table, key) == 1
    assert not call("aten::__contains__.Tensor", table, torch.ones(1))


def test_everyone_who_holds_a_list_sees_what_is_written():
    run = compile_graph(
        parse_ir(
            """graph(%l : int[]):
              %one : int = prim::Constant[value=1]()
              %t : (int[], int[]) = prim::TupleConstruct(%l, %l)
              %a : int[], %b : int[] = prim::TupleUnpack(%t)
              %c : int[] = aten::append(%a, %one)
               = aten::extend(%b, %c)
              return (%b)"""
        ),
        "f",
    )
    given = [7]
    assert run(given) is given and given == [7, 1, 7, 1]
