"""Switches of the process: determinism and threads."""

from __future__ import annotations

import pytest

import rushlight as torch


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
