"""Training for long leaves nothing behind: tensors alive and resident memory stay constant."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

import rushlight as torch

STATM = Path("/proc/self/statm")


def live_tensors() -> int:
    gc.collect()
    return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())


def resident() -> int:
    """Bytes of this process that lie in memory."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Training:
    """A small network with everything that keeps state: batch norm, dropout, Adam's moments."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(16, 32),
            torch.nn.BatchNorm1d(32),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.2),
            torch.nn.Linear(32, 4),
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            x, y = torch.randn(32, 16), torch.randint(4, (32,))
            loss = torch.nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def check(warm_up: int, steps: int, parts: int) -> None:
    training = Training()
    training.run(warm_up)
    tensors, memory = live_tensors(), resident()
    for _ in range(parts):
        training.run(steps // parts)
        assert live_tensors() == tensors
        assert resident() < memory * 1.01


needs_statm = pytest.mark.skipif(not STATM.exists(), reason="reads /proc/self/statm")


@needs_statm
def test_five_hundred_steps_leave_nothing_behind():
    check(100, 500, 2)


@needs_statm
@pytest.mark.slow
def test_ten_thousand_steps_leave_nothing_behind():
    check(500, 10_000, 10)


def test_a_step_leaves_no_cycles():
    """Graphs are freed by counting references: nothing waits for the collector."""
    training = Training()
    training.run(20)
    gc.collect()
    gc.disable()
    try:
        tensors = sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())
        training.run(20)
        after = sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())
    finally:
        gc.enable()
    assert after == tensors


def test_the_count_sees_a_kept_tensor():
    before = live_tensors()
    kept = [torch.ones(1) for _ in range(3)]
    assert live_tensors() == before + len(kept)
