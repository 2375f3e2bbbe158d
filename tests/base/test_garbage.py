"""Python's search for garbage rests while graphs are made, and is afterwards what it was."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import rushlight as torch
from rushlight.aot.tracing import make_fx
from rushlight.base.garbage import Undisturbed


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.parametrize("is_on", [True, False])
def test_it_is_what_it_was_after_nested_blocks_and_errors(is_on: bool) -> None:
    if not is_on:
        gc.disable()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), Undisturbed():
            with Undisturbed():
                assert not gc.isenabled()
            assert not gc.isenabled()
            1 / 0
        assert gc.isenabled() is is_on


@contextmanager
def another_thread_inside() -> Iterator[None]:
    inside, go = threading.Event(), threading.Event()

    def work() -> None:
        with Undisturbed():
            inside.set()
            go.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(10)
    yield
    go.set()
    thread.join()


def test_it_rests_until_the_last_thread_is_done() -> None:
    with another_thread_inside():
        with Undisturbed():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_forked_child_looks_for_garbage_again() -> None:
    with another_thread_inside():
        pid = os.fork()
        if pid == 0:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(pid, 0)
    assert status == 0


def test_graphs_are_made_without_it() -> None:
    seen = []

    def f(x):
        seen.append(gc.isenabled())
        return x.sin()

    make_fx(f)(torch.ones(2))
    make_fx(f, tracing_mode="symbolic")(torch.ones(2))
    assert seen == [False, False]
    assert gc.isenabled()
