"""What happens when a process fails: the others tell which and where, and none stays behind.

RUSHLIGHT_FAULTS=50 repeats each fault so many times.
"""

from __future__ import annotations

import os
import signal

import pytest

from tests.distributed.launching import needs_mpi, run

pytestmark = needs_mpi

TIMES = int(os.environ.get("RUSHLIGHT_FAULTS", "1"))
FAULTS = {
    "killed": 1, "killed_first": 0, "hung": None, "stopped": None, "skipped": None,
    "mismatched": None, "silent_sender": None, "wrong_length": None,
    "late_at_monitored_barrier": None,
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault):
    for _ in range(TIMES):
        for one in run("faults", 3, fault, seconds=1, patience=40):
            dead = one.rank == FAULTS[fault]
            assert one.code == (-signal.SIGKILL if dead else 0), f"rank {one.rank}: {one.text}"
