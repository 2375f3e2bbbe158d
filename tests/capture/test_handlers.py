"""Breaks and raises in handlers, `finally`, `with`, loops and comprehensions."""

from __future__ import annotations

import sys

import pytest

import rushlight as torch
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter
from tests.capture.handlers import COUNTS, PROGRAMS, outcome


@pytest.fixture(autouse=True)
def clean():
    yield
    assert sys.exc_info() == (None, None, None)
    compiling.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_handlers(program, backend):
    compiled = torch.compile(program, backend=backend)
    x = torch.arange(2.0)
    for _ in range(3):
        assert outcome(compiled, x) == outcome(program, x)


@pytest.mark.parametrize("program", COUNTS, ids=lambda f: f.__name__)
def test_no_frame_is_given_up(program):
    counter = CompileCounter()
    compiled = torch.compile(program, backend=counter)
    x = torch.arange(2.0)
    for _ in range(2):
        assert outcome(compiled, x) == outcome(program, x)
    assert counter.frame_count >= COUNTS[program], counter.frame_count
