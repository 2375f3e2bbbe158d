"""Random programs: their traces are what they are, forward and backward, on other shapes too."""

from __future__ import annotations

import pytest

from tests.jit.fuzz_trace import compare


@pytest.mark.parametrize("seed", range(80))
def test_programs(seed):
    compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
def test_many_programs(block):
    for seed in range(1000 + block * 100, 1100 + block * 100):
        compare(seed)
