"""Training over several processes."""

from __future__ import annotations

import pytest

from tests.distributed.launching import needs_mpi, succeed

pytestmark = needs_mpi


@pytest.mark.parametrize("size", [2, 4])
def test_data_parallel(size):
    succeed("training", size)
