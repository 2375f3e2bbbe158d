"""Switches, absent devices and libraries, futures."""

from __future__ import annotations

import pytest

import rushlight as torch
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
    before = torch.get_num_threads()
    assert before >= 1
    with pytest.raises(RuntimeError, match="positive"):
        torch.set_num_threads(0)
    assert "NumPy" in torch.__config__.show()
    assert torch.version.cuda is None
    assert torch.typename(torch.ones(1)) == "torch.FloatTensor"
    assert torch.typename(3) == "int"


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
