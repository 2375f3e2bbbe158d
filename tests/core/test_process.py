"""Switches of the process: determinism and threads."""

from __future__ import annotations

import time

import pytest

import rushlight as torch
from rushlight.arrays import threads
from rushlight.core import process


def test_deterministic_modes():
    torch.set_deterministic_debug_mode("warn")
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_deterministic_debug_mode(0)
    assert torch.get_deterministic_debug_mode() == 0
    with pytest.raises(RuntimeError, match="expected one of"):
        torch.set_deterministic_debug_mode("loud")


def test_threads():
    before = torch.get_num_threads()
    assert before >= 1
    with pytest.raises(RuntimeError, match="positive"):
        torch.set_num_threads(0)


def test_blas_uses_as_many_threads_as_it_is_told():
    before = torch.get_num_threads()
    assert before >= 1
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            assert torch.get_num_threads() == number
        torch.set_num_threads(1)
        # Threads that have just had work may look for more for a while.
        assert min(blas_cpu_share() for _ in range(8)) < 1.3
    finally:
        torch.set_num_threads(before)


def blas_cpu_share():
    """CPU time of a product over its duration: the threads that worked on it."""
    x = torch.ones(700, 700)
    start = time.perf_counter(), time.process_time()
    for _ in range(3):
        x @ x
    return (time.process_time() - start[1]) / (time.perf_counter() - start[0])


def test_a_blas_that_cannot_be_told_says_so_once(monkeypatch):
    monkeypatch.setattr(threads, "controls", list)
    monkeypatch.setattr(process.Switches, "has_warned_of_threads", False)
    before = torch.get_num_threads()
    with pytest.warns(UserWarning, match="RL0006"):
        torch.set_num_threads(before + 1)
    torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before


@pytest.fixture
def repeatable():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


UNWRITTEN = {
    "empty": lambda kind: torch.empty(3, dtype=kind),
    "empty_like": lambda kind: torch.empty_like(torch.ones(3, dtype=kind)),
    "empty_strided": lambda kind: torch.empty_strided((3,), (2,), dtype=kind),
    "empty_permuted": lambda kind: torch.empty_permuted((3, 1), (1, 0), dtype=kind),
    "new_empty": lambda kind: torch.ones(1, dtype=kind).new_empty(3),
    "new": lambda kind: torch.ones(1, dtype=kind).new(3),
    "out": lambda kind: torch.empty(3, out=torch.ones(3, dtype=kind)),
    "resize_": lambda kind: torch.ones(1, dtype=kind).resize_(4)[1:],
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_memory_that_is_not_set_is_filled(repeatable, name):
    make = UNWRITTEN[name]
    for kind in (torch.float32, torch.bfloat16, torch.complex64):
        assert make(kind).isnan().all()
    assert make(torch.int32).flatten().tolist() == [2**31 - 1] * 3
    assert make(torch.uint8).flatten().tolist() == [255] * 3
    assert make(torch.bool).all()


def test_filling_can_be_left_out(repeatable):
    assert torch.utils.deterministic.fill_uninitialized_memory is True
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        assert not torch.empty(1000).isnan().all()
        with pytest.raises(RuntimeError, match="expected a bool"):
            torch.utils.deterministic.fill_uninitialized_memory = 1
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


def test_ops_without_a_said_order_are_refused(repeatable):
    index, ones = torch.tensor([0, 0]), torch.ones(2)
    pooled = torch.nn.functional.max_pool2d(torch.ones(1, 2, 2), 2, return_indices=True)
    calls = {
        "put_": lambda: torch.zeros(2).put_(index, ones),
        "max_unpooling2d": lambda: torch.nn.functional.max_unpool2d(*pooled, 2),
    }
    for name, call in calls.items():
        with pytest.raises(RuntimeError, match=f"{name}.* does not have a deterministic"):
            call()
    assert torch.zeros(2).put_(index, ones, accumulate=True).tolist() == [2, 0]
    torch.use_deterministic_algorithms(True, warn_only=True)
    for name, call in calls.items():
        with pytest.warns(UserWarning, match=f"{name}.* does not have a deterministic"):
            call()
    torch.use_deterministic_algorithms(False)
    calls["put_"]()
