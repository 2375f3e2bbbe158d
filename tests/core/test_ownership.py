"""Reference counts: calibrated, and of no effect on results where they cannot be."""

from __future__ import annotations

from sys import getrefcount

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.core import ownership
from rushlight.core.ownership import COUNTS, NEVER, Counts


class Holder:
    __slots__ = ("held",)


def test_counts_of_this_interpreter_add_up():
    # Counted outside of `assert`, which holds what it looks at.
    box = [object()]
    value = box.pop()
    alone = getrefcount(value)
    box.append(value)
    shared = getrefcount(value)
    assert (alone, shared) == (COUNTS.local, COUNTS.local + 1)
    holder = Holder()
    holder.held = object()
    alone = getrefcount(holder.held)
    box.append(holder.held)
    shared = getrefcount(holder.held)
    assert (alone, shared) == (COUNTS.slot, COUNTS.slot + 1)


@pytest.mark.parametrize(
    "measured", [[(2, 2)], [(2, 3), (1, 2)], [(1, 3)]], ids=["lent", "wavering", "two more"]
)
def test_counts_that_do_not_add_up_are_not_used(monkeypatch, measured):
    calls = iter(range(1 << 20))
    monkeypatch.setattr(ownership, "measure_local", lambda: measured[next(calls) % len(measured)])
    found = Counts()
    assert (found.local, found.slot) == (NEVER, NEVER)


def test_without_the_interpreter_lock_nobody_is_alone(monkeypatch):
    monkeypatch.setattr(ownership.sys, "_is_gil_enabled", lambda: False, raising=False)
    found = Counts()
    assert (found.local, found.slot) == (NEVER, NEVER)


def train() -> list[bytes]:
    """A few steps with dense, transposed and sparse gradients."""
    weight = torch.arange(6.0).reshape(2, 3).div(7).requires_grad_()
    turned = torch.arange(6.0).reshape(3, 2).t().div(5).requires_grad_()
    table = torch.ones(4, 3, requires_grad=True)
    found = []
    for step in range(8):
        rows = torch.nn.functional.embedding(torch.tensor([1, step % 4]), table, sparse=True)
        loss = (weight * turned).sin().sum() + (rows * weight).sum() + (turned @ weight.t()).sum()
        loss.backward()
        assert not np.shares_memory(weight.grad._array, turned.grad._array)
        for leaf in (weight, turned, table):
            grad = leaf.grad.to_dense() if leaf.grad.is_sparse else leaf.grad
            assert grad.stride() == leaf.stride()
            found.append(grad.contiguous()._array.tobytes())
            with torch.no_grad():
                leaf.sub_(leaf.grad.to_dense() * 0.1)
            if step % 2:
                leaf.grad = None
    return found


@pytest.mark.parametrize("with_programs", [True, False])
def test_results_are_the_same_where_counts_say_nothing(monkeypatch, with_programs):
    with config.patch(backward_programs=with_programs):
        expected = train()
        monkeypatch.setattr(COUNTS, "local", NEVER)
        monkeypatch.setattr(COUNTS, "slot", NEVER)
        assert train() == expected


def test_memory_is_not_shared_where_counts_say_nothing(monkeypatch):
    monkeypatch.setattr(COUNTS, "local", NEVER)
    with pytest.raises(RuntimeError, match="views of the same memory"):
        torch.ones(3).share_memory_()
