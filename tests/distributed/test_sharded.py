"""Meshes, DTensors and models that are spread over processes."""

from __future__ import annotations

import pytest

from tests.distributed.launching import needs_mpi, succeed

pytestmark = needs_mpi


@pytest.mark.parametrize("size", [2, 4])
def test_sharded(size):
    succeed("sharded", size)


@pytest.mark.parametrize("size", [2, 4])
def test_fully_sharded(size):
    succeed("fullysharded", size)


@pytest.mark.parametrize("size", [2, 4])
def test_overlapping(size):
    succeed("overlapping", size)
