"""Deques in captured code, those that hold no more than so many items among them."""

from __future__ import annotations

from collections import deque
from copy import copy, deepcopy

import pytest

import rushlight as torch
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def filled(x, window):
    for n in range(4):
        window.append(x + n)
    window.appendleft(x * 2)
    return sum(window), len(window), window.maxlen


def extended(x, window):
    same = window
    window.extend([x, x + 1, x + 2])
    window += [x * 3]
    return window[0] if window else None, window is same, list(window)


def made(x, window):
    short, empty = deque([x, x + 1, x + 2], maxlen=2), deque(maxlen=0)
    empty.append(x)
    short.append(window[0] if window else x)
    return short, empty, copy(short), short.copy(), deepcopy(deque([1, 2], 2)), short + short


def inserted(x, window):
    try:
        window.insert(0, x)
    except IndexError as error:
        return str(error), window
    return window.pop(), window.popleft() if window else None


def shown(value):
    if isinstance(value, deque):
        return "deque", value.maxlen, [shown(item) for item in value]
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("limit", [None, 0, 1, 3, 10])
@pytest.mark.parametrize("function", [filled, extended, made, inserted])
def test_values_and_effects_are_those_of_eager_code(function, limit):
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    ours, theirs = (deque([torch.zeros(2)] * (limit != 0), limit) for _ in range(2))
    for step in range(4):
        x = torch.ones(2) * step
        assert shown(run_or_error(compiled, x, ours)) == shown(run_or_error(function, x, theirs))
        assert shown(ours) == shown(theirs)


def run_or_error(function, *args):
    try:
        return function(*args)
    except IndexError as error:
        return str(error)


def test_the_limit_is_guarded():
    counter = CompileCounter()
    compiled = torch.compile(lambda x, w: (w.append(x), x * len(w))[1], backend=counter)
    assert compiled(torch.ones(1), deque([1, 2], 2)).item() == 2
    assert compiled(torch.ones(1), deque([3, 4], 2)).item() == 2
    assert compiled(torch.ones(1), deque([3, 4], 3)).item() == 3
    assert compiled(torch.ones(1), deque([3, 4])).item() == 3
    assert counter.frame_count == 3
