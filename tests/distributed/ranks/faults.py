"""Faults: in each, the others raise an error that names rank and collective, within the timeout."""

from __future__ import annotations

import os
import signal
import time

import pytest

import rushlight as torch
import rushlight.distributed as dist


def told(match, function):
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=match) as found:
        function()
    # A lost rank is noticed before the time is up.
    assert time.monotonic() - began < 12, time.monotonic() - began
    with pytest.raises(RuntimeError, match="has failed before"):
        dist.barrier()
    return str(found.value)


def killed(rank, size):
    dist.barrier()
    if rank == 1:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    text = told(r"waits in all_reduce\(SUM, float32\[4\]\)", lambda: dist.all_reduce(torch.ones(4)))
    assert "rank 1 is gone" in text, text


def killed_first(rank, size):
    """Rank 0 serves the store."""
    dist.barrier()
    if rank == 0:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    text = told(r"all_reduce", lambda: dist.all_reduce(torch.ones(4)))
    assert "rank 0" in text and "is gone" in text, text


def hung(rank, size):
    dist.barrier()
    if rank == 1:
        time.sleep(3)
        return
    text = told(r"timed out after 1 s in all_reduce", lambda: dist.all_reduce(torch.ones(4)))
    assert "rank 1 has not joined (last seen in barrier()" in text, text


def stopped(rank, size):
    dist.barrier()
    if rank == 1:
        if os.fork() == 0:
            time.sleep(3)
            os.kill(os.getppid(), signal.SIGCONT)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    text = told(r"timed out after 1 s in all_reduce", lambda: dist.all_reduce(torch.ones(4)))
    assert "rank 1 has not joined" in text, text


def skipped(rank, size):
    dist.barrier()
    if rank != 1:
        text = told(r"do not match", lambda: dist.all_reduce(torch.ones(4)))
    else:
        text = told(r"do not match", lambda: dist.broadcast(torch.ones(4), src=0))
    assert "all_reduce(SUM, float32[4])" in text and "broadcast(from 0, float32[4])" in text, text


def mismatched(rank, size):
    dist.barrier()
    mine = torch.ones(4 + (rank == 1))
    text = told(r"do not match", lambda: dist.all_reduce(mine))
    assert "float32[4]" in text and "float32[5]" in text and "rank 1" in text, text


def silent_sender(rank, size):
    if rank == 1:
        time.sleep(3)
        return
    if rank == 0:
        text = told(r"recv\(float32\[2\]\)", lambda: dist.recv(torch.ones(2), 1))
        assert "rank 1 has not joined" in text, text


def wrong_length(rank, size):
    if rank == 1:
        dist.send(torch.ones(3), 0)
    elif rank == 0:
        told(r"message has 12 bytes, the tensor 16", lambda: dist.recv(torch.ones(4), 1))


def late_at_monitored_barrier(rank, size):
    if rank == 1:
        time.sleep(3)
        return
    if rank == 0:
        told(
            r"\[Rank 0\]: Rank 1 failed to pass monitoredBarrier in 1000 ms", dist.monitored_barrier
        )
