"""Facts about the build, absent devices and libraries, futures."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.futures import Future, collect_all, wait_all
from rushlight.jit.futures import fork, wait


def test_facts():
    assert "NumPy" in torch.__config__.show()
    assert torch.version.cuda is None
    assert torch.get_device_module("cpu") is torch.cpu


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
