"""Capture of plain Python over a toy tensor: results, effects, counts, identity, threads."""

from __future__ import annotations

import sys
import threading
import traceback

import pytest

from rushlight.base.callthrough import callback
from rushlight.capture.exc import FailOnRecompileLimitHit, Unsupported
from tests.capture import programs
from tests.capture.profiles import called
from tests.capture.programs import Cfg, b_for, b_print, blind, f_global, f_range, noisy_native
from tests.capture.toy import Toy, check, toy_capture


@pytest.mark.parametrize("case", programs.FULL, ids=lambda case: case[0].__name__)
def test_programs_that_are_one_graph(case):
    fn, *calls = case
    check(fn, *calls, fullgraph=True)


@pytest.mark.parametrize("case", programs.BREAKS, ids=lambda case: case[0].__name__)
def test_programs_with_breaks(case):
    fn, graphs, breaks, *calls = case
    check(fn, *calls, graphs=graphs, breaks=breaks)


def test_a_changed_global_recompiles(monkeypatch):
    capture = toy_capture()
    compiled = capture.function(f_global)
    assert compiled(Toy(2)).v == 6
    monkeypatch.setattr(programs, "SCALE", 5)
    assert compiled(Toy(2)).v == 10
    assert capture.captures == 2
    monkeypatch.setattr(programs, "SCALE", 3)
    assert compiled(Toy(2)).v == 6
    assert capture.captures == 2


def test_a_number_that_changes_becomes_dynamic():
    capture = toy_capture()
    compiled = capture.function(lambda x, n: x * n + n * 2)
    counts = []
    for n in (1, 1, 2, 3, 4, 5):
        assert compiled(Toy(2), n).v == 2 * n + 2 * n
        counts.append(capture.captures)
    assert counts == [1, 1, 2, 2, 2, 2]
    compiled = capture.function(f_range)
    for n in (2, 3, 4):
        assert compiled(Toy(1), n) == f_range(Toy(1), n)


def test_a_long_loop_with_a_break_has_few_entries():
    capture = toy_capture()
    compiled = capture.function(b_for)
    assert compiled(Toy(1), [0] * 3000) == b_for(Toy(1), [0] * 3000)
    assert capture.captures < 12


def test_no_user_code_runs_on_a_hit():
    def user(x, cfg):
        return cfg.apply(x * 2) + cfg.double

    compiled = toy_capture().function(user)
    cfg = Cfg(3)
    want = compiled(Toy(2), cfg)
    codes = {user.__code__, Cfg.apply.__code__, Cfg.double.fget.__code__}
    with called() as seen:
        got = compiled(Toy(2), cfg)
    assert got == want
    # The name of the dispatcher is the user's; the code is not.
    assert seen and not codes & set(seen)


def test_callbacks_of_a_library_reach_the_cache():
    def user_forward(x):
        y = x * 3
        noisy_native(y)
        return y + 1

    library = blind(lambda f, x: callback(f, x))

    def user(x):
        return library(user_forward, x + 1)

    capture = toy_capture()
    compiled = capture.function(user)
    assert compiled(Toy(2)) == user(Toy(2)) == Toy(10)
    assert [g.calls() for g in capture.graphs] == [["add"], ["mul"], ["add"]]


@pytest.mark.skipif(sys.platform == "emscripten", reason="it has no threads")
def test_threads_and_recursion():
    def fact(x, n):
        noisy_native(x)
        return x if n == 0 else x * fact(x, n - 1)

    capture = toy_capture()
    assert capture.function(fact)(Toy(2), 5) == fact(Toy(2), 5)
    compiled = capture.function(b_for)
    want = [b_for(Toy(i), [1, 2, 3]) for i in range(8)]
    out = {}

    def work(i):
        out[i] = compiled(Toy(i), [1, 2, 3])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [out[i] for i in range(8)] == want
    # Who waits for another thread's compilation uses it.
    assert len(capture.code(b_for).entries) == 1


def test_objects_keep_their_identity():
    def user(x, items, table):
        made = [x + 1]
        table["m"] = made
        items.append(made)
        return made, made, x, items, (table, table["m"])

    compiled = toy_capture(fullgraph=True).function(user)
    for _ in range(2):
        x, items, table = Toy(1), [], {}
        a, b, y, same, (also, c) = compiled(x, items, table)
        assert a is b is c is table["m"] is items[0]
        assert y is x and same is items and also is table


def test_fullgraph_names_the_reason_and_the_place():
    with pytest.raises(Unsupported, match="disabled") as caught:
        toy_capture(fullgraph=True).function(b_print)(Toy(1))
    assert "programs.py:" in str(caught.value)


def test_tracebacks_show_the_users_line():
    def user(x):
        y = x + 1
        noisy_native(y)
        return 1 / 0

    with pytest.raises(ZeroDivisionError) as caught:
        toy_capture().function(user)(Toy(1))
    lines = [frame.lineno for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert user.__code__.co_firstlineno + 3 in lines


def test_closures_of_one_code_share_entries():
    def make(k):
        return lambda x, y=k: x * k + y

    capture = toy_capture()
    for _ in range(3):
        for k in (2, 3):
            f = make(k)
            assert capture.function(f)(Toy(2)) == f(Toy(2))
    # The second value makes both the cell and the default dynamic.
    assert capture.captures == 2


def test_cells_are_written_through():
    def make():
        total = Toy(0)

        def add(x):
            nonlocal total
            total = total + x
            noisy_native(total)
            total = total + 1
            return total

        return add, lambda: total

    add, read = make()
    compiled = toy_capture().function(add)
    for _ in range(3):
        compiled(Toy(2))
    assert read() == Toy(9)


def test_different_inputs_must_stay_different():
    def user(a, b):
        a.append(1)
        return len(b), a is b

    compiled = toy_capture(fullgraph=True).function(user)
    first: list[int] = []
    assert compiled(first, []) == (0, False)
    same: list[int] = []
    assert compiled(same, same) == (1, True)


def test_an_attribute_of_the_instance_hides_the_method():
    def user(x, cfg):
        return cfg.apply(x)

    compiled = toy_capture().function(user)
    cfg = Cfg(3)
    assert compiled(Toy(2), cfg) == Toy(7)
    cfg.apply = lambda x: x * 100
    assert compiled(Toy(2), cfg) == Toy(200)


def test_what_a_graph_raises_reaches_the_users_handler():
    def user(x, log):
        log.append("before")
        try:
            y = x.inverse()
        except ZeroDivisionError:
            log.append("caught")
            y = x
        log.append("after")
        return y + 1

    capture = check(user, (Toy(2), []), (Toy(0), []))
    assert len(capture.graphs) == 1


def test_effects_before_a_graph_that_raises_are_written():
    def user(x, log):
        log.append("before")
        return x.inverse()

    check(user, (Toy(2), []), (Toy(0), []))


def test_the_limit_of_entries():
    def user(x, name):
        return x + len(name)

    compiled = toy_capture(limit=3).function(user)
    for n in range(3):
        compiled(Toy(1), "a" * n)
    with pytest.warns(
        UserWarning, match=r"recompile_limit.*last was for L\['name'\] is 'aa'; it is"
    ):
        assert compiled(Toy(1), "aaaa") == Toy(5)
    compiled = toy_capture(limit=1, fullgraph=True).function(user)
    compiled(Toy(1), "a")
    with pytest.raises(FailOnRecompileLimitHit):
        compiled(Toy(1), "b")
