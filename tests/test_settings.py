"""Switches, absent devices and libraries, futures."""

from __future__ import annotations

import time

import pytest

import rushlight as torch
from rushlight import settings
from rushlight.arrays import threads
from rushlight.futures import Future, collect_all, wait_all
from rushlight.jit.futures import fork, wait


def test_deterministic_modes():
    torch.set_deterministic_debug_mode("warn")
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_deterministic_debug_mode(0)
    assert torch.get_deterministic_debug_mode() == 0
    with pytest.raises(RuntimeError, match="expected one of"):
        torch.set_deterministic_debug_mode("loud")


def test_threads_and_facts():
    with pytest.raises(RuntimeError, match="positive"):
        torch.set_num_threads(0)
    assert "NumPy" in torch.__config__.show()
    assert torch.version.cuda is None
    assert torch.typename(torch.ones(1)) == "torch.FloatTensor"
    assert torch.typename(3) == "int"


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
    monkeypatch.setattr(settings.Switches, "has_warned_of_threads", False)
    before = torch.get_num_threads()
    with pytest.warns(UserWarning, match="RL0006"):
        torch.set_num_threads(before + 1)
    torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before


def test_no_cuda():
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    torch.cuda.manual_seed_all(0)
    for request in (torch.cuda.current_device, torch.cuda.Stream, torch.cuda.Event):
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            request()
    with torch.cuda.device(None):
        pass


def test_backends_can_be_set_but_are_absent():
    import rushlight.backends.cudnn as cudnn

    with cudnn.flags(enabled=False):
        assert not torch.backends.cudnn.enabled
    assert cudnn.enabled and not cudnn.is_available()
    assert not torch.backends.mkldnn.is_available()


def test_compiler_marks():
    @torch.compiler.disable
    def one():
        return 1

    assert one() == 1 and not torch.compiler.is_compiling()


def test_futures():
    first, second = Future(), Future()
    later = first.then(lambda done: done.value() + 1)
    both = collect_all([first, second])
    first.set_result(1)
    assert later.wait() == 2 and not both.done()
    second.set_exception(KeyError("gone"))
    assert both.done()
    with pytest.raises(KeyError, match="gone"):
        wait_all([first, second])
    with pytest.raises(RuntimeError, match="completed before"):
        first.set_result(2)


def test_fork_keeps_the_callers_modes():
    with torch.no_grad():
        future = fork(torch.is_grad_enabled)
    assert wait(future) is False
    with pytest.raises(ZeroDivisionError):
        wait(fork(lambda: 1 / 0))
