"""Functional collectives."""

from __future__ import annotations

import pytest

from tests.distributed.launching import needs_mpi, succeed

pytestmark = needs_mpi


@pytest.mark.parametrize("size", [2, 3])
def test_functional(size):
    succeed("functional", size)
