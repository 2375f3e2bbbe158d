"""The pickle walker: what pickle writes comes back, and nothing is looked up or called."""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict

import numpy as np
import pytest

from rushlight.base.errors import CheckpointError
from rushlight.io.rebuild import find_name
from rushlight.io.walker import CallerError, Inert, Known, Walker, shown


def no_storage(pid):
    raise AssertionError(pid)


def read(data, names=find_name, persistent=no_storage, encoding="utf-8"):
    walker = Walker(data, names, persistent, encoding=encoding)
    found = walker.read()
    assert walker.position == len(data)
    return found


VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    255,
    256,
    65536,
    -(1 << 31),
    1 << 31,
    1 << 200,
    -(1 << 200),
    0.0,
    -1.5,
    float("inf"),
    "",
    "text",
    "é☃\U0001f600",
    "a\nb\\c'd\"e",
    "x" * 300,
    b"",
    b"bytes\xff\n",
    b"x" * 300,
    bytearray(b"xy"),
    (),
    (1,),
    (1, 2),
    (1, 2, 3),
    (1, 2, 3, 4),
    [],
    [1, [2, [3]]],
    {},
    {"a": {"b": (1, 2)}, 3: None, (1, "x"): 4, None: 5, 1.5: 6},
    set(),
    {1, "a"},
    frozenset((1, 2)),
    1 + 2j,
    slice(1, None, 2),
    OrderedDict([("a", 1), ("b", [2])]),
    Counter("aab"),
    list(range(3000)),
    {n: str(n) for n in range(3000)},
]


@pytest.mark.parametrize("protocol", range(6))
def test_what_pickle_writes_comes_back(protocol):
    for value in VALUES:
        if isinstance(value, (bytes, bytearray)) and protocol < 3 and value[-1:] != b"y":
            # bytes() has a name of its own in these protocols where they are empty.
            value = value or b"-"
        found = read(pickle.dumps(value, protocol))
        assert found == value and type(found) is type(value), value


@pytest.mark.parametrize("protocol", range(6))
def test_shared_and_cyclic_objects(protocol):
    inner = [1]
    cyclic: list = [inner, inner]
    cyclic.append(cyclic)
    found = read(pickle.dumps(cyclic, protocol))
    assert found[0] is found[1] and found[2] is found


@pytest.mark.parametrize("protocol", range(2, 6))
def test_numpy(protocol):
    for value in (np.float32(1.5), np.int64(-3), np.bool_(True), np.complex128(1j)):
        found = read(pickle.dumps(value, protocol))
        assert type(found) is type(value) and found == value
    for array in (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.ones((2, 3), ">i2"))):
        found = read(pickle.dumps(array, min(protocol, 4)))
        assert found.tolist() == array.tolist()
        assert found.dtype == array.dtype.newbyteorder("=")
    found = read(pickle.dumps(np.datetime64("2020-01-01"), protocol))
    assert isinstance(found, Inert)


class Thing:
    def __init__(self):
        raise AssertionError("never called")

    def __setstate__(self, state):
        raise AssertionError("never called")


def thing(state):
    made = object.__new__(Thing)
    made.__dict__.update(state)
    return made


@pytest.mark.parametrize("protocol", range(2, 6))
def test_objects_are_inert(protocol):
    walker = Walker(pickle.dumps([thing({"x": 1})], protocol), find_name, no_storage)
    (found,) = walker.read()
    assert isinstance(found, Inert)
    assert (found.module, found.name) == (__name__, "Thing")
    assert (found.args, found.state) == ((), {"x": 1})
    assert walker.inert == {f"{__name__}.Thing"}


class Listed(list):
    pass


class Mapped(dict):
    pass


def test_inert_records_keep_items_and_pairs():
    found = read(pickle.dumps(Listed([1, 2]), 2))
    assert isinstance(found, Inert) and found.items == [1, 2]
    found = read(pickle.dumps(Mapped(a=1), 2))
    assert isinstance(found, Inert) and found.pairs == [("a", 1)]


class WithKeywords:
    def __getnewargs_ex__(self):
        return (1,), {"b": 2}


def test_inert_records_keep_arguments():
    found = read(pickle.dumps(WithKeywords(), 4))
    assert (found.args, found.kwargs) == ((1,), {"b": 2})


def test_known_names_are_called_with_what_the_file_says():
    calls = []
    known = Known("m.f", lambda *args: calls.append(args) or len(calls))
    assert read(b"cm\nf\n(K\x01K\x02tR.", lambda module, name: known) == 1
    assert calls == [(1, 2)]
    with pytest.raises(CheckpointError, match="m.f takes no keywords"):
        read(b"cm\nf\n)}(K\x01K\x02u\x92.", lambda module, name: known)


def test_errors_of_a_known_function_are_the_files():
    def fails(*args):
        raise KeyError("x" * 1000)

    with pytest.raises(CheckpointError, match="KeyError at byte 7") as caught:
        read(b"cm\nf\n)R.", lambda module, name: Known("m.f", fails))
    assert len(str(caught.value)) < 400 and isinstance(caught.value.__cause__, KeyError)


def test_errors_of_the_caller_stay_what_they_are():
    def fails(pid):
        raise CallerError(LookupError("mine"))

    with pytest.raises(LookupError, match="mine"):
        read(b"K\x01Q.", persistent=fails)


def test_old_strings():
    assert read(b"U\x02ab.") == "ab"
    assert read(b"U\x02\xe9a.", encoding="latin1") == "éa"
    assert read(b"U\x02\xe9a.", encoding="bytes") == b"\xe9a"
    assert read(b"S'a\\x41\\n\\'\\101'\n.") == "aA\n'A"
    with pytest.raises(CheckpointError, match="unknown escape"):
        read(b"S'\\q'\n.")


@pytest.mark.parametrize(
    "data, match",
    [
        (b"", "ends in the middle of an object"),
        (b"K", "ends in the middle of a value"),
        (b"I12", "ends in the middle of a line"),
        (b"\xff.", "unknown opcode 0xff at byte 0"),
        (b".", "missing on the stack"),
        (b"K\x01t.", "a mark is missing"),
        (b"h\x05.", "entry 5 of the memo is used before it is made"),
        (b"]K\x01K\x02s.", "entries are added to a list"),
        (b"}K\x01a.", "items are added to a dict"),
        (b"}]Ns.", "a list is a key"),
        (b"K\x01)R.", "1 is called"),
        (b"\x82\x01.", "extension registry"),
        (b"\x97.", "outside of the file"),
        (b"\x80\x09.", "unknown pickle protocol"),
        (b"(K\x01d.", "a key has no value"),
    ],
)
def test_messages(data, match):
    with pytest.raises(CheckpointError, match=match):
        read(data)


def test_budget_grows_with_the_pickle():
    with pytest.raises(CheckpointError, match="far more memory"):
        read(b"(" + b"\x8f" * 250_000 + b"t.")
    rows = [{"a": 1, "b": [2, 3], "c": ()} for _ in range(100_000)]
    assert len(read(pickle.dumps(rows, 4))) == 100_000


def test_colliding_keys():
    prime = (1 << 61) - 1
    few = {n * prime: n for n in range(50)}
    assert read(pickle.dumps(few, 2)) == few
    with pytest.raises(CheckpointError, match="collide"):
        read(pickle.dumps({n * prime: n for n in range(200)}, 2))
    grid = {(i, j): 0 for i in range(100) for j in range(100)}
    assert read(pickle.dumps([grid, grid, dict(grid)], 2))[2] == grid


def test_deep_objects_come_and_go():
    found = read(b")" + b"\x85" * 200_000 + b".")
    depth = 0
    while found:
        found, depth = found[0], depth + 1
    assert depth == 200_000
    read(b"cm\nn\n)R" * 50_000 + b"b" * 49_999 + b".")


def test_memo_numbers_may_jump():
    big = struct.pack("<I", 1 << 31)
    assert read(b"K\x07r" + big + b"0j" + big + b".") == 7
    assert read(b"K\x01q\x010K\x02q\x000K\x03q\x020h\x00h\x01h\x02\x87.") == (2, 1, 3)


def test_shown_stays_short():
    doubled: list = []
    for _ in range(100):
        doubled = [doubled, doubled]
    for value in (doubled, "x" * 10_000, b"x" * 10_000, 1 << 100_000, 1.5, None, 7):
        assert len(shown(value)) < 100
