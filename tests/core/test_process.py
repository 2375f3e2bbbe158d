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
        assert blas_cpu_share() < 1.3
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
