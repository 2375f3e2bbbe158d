"""torch.multiprocessing: the standard module's names, and processes started together."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import multiprocessing as mp

ROOT = Path(__file__).parents[1]
forked = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="functions are handed over"
)


def test_it_has_the_standard_names():
    assert mp.Queue is multiprocessing.Queue and mp.get_context is multiprocessing.get_context
    assert torch.multiprocessing is mp
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x'"):
        mp.set_sharing_strategy("x")


@forked
def test_tensors_go_through_queues():
    results = mp.get_context("fork").SimpleQueue()
    started = mp.start_processes(
        lambda i, x: results.put(x * i), (torch.ones(2),), 2, join=False, start_method="fork"
    )
    found = sorted(results.get().tolist() for _ in range(2))
    while not started.join():
        pass
    assert found == [[0.0, 0.0], [1.0, 1.0]] and len(started.pids()) == 2


def fail(index):
    if index == 1:
        raise ValueError("bad" * 100_000)  # longer than a pipe holds
    time.sleep(20)


@forked
@pytest.mark.parametrize(
    "function, kind, text",
    [
        (fail, mp.ProcessRaisedException, "\n\n-- Process 1 terminated with the following error:"),
        (lambda i: os._exit(3), mp.ProcessExitedException, "terminated with exit code 3"),
        (lambda i: os.kill(os.getpid(), signal.SIGKILL), mp.ProcessExitedException,
         "terminated with signal SIGKILL"),
    ],
)  # fmt: skip
def test_failures(function, kind, text):
    with pytest.raises(kind) as caught:
        mp.start_processes(function, nprocs=2, start_method="fork")
    assert text in str(caught.value) and multiprocessing.active_children() == []
    again = pickle.loads(pickle.dumps(caught.value))
    assert vars(again) == vars(caught.value)


SCRIPT = """
import torch, torch.multiprocessing as mp

def work(index, queue, tensor):
    queue.put((index, (tensor + index).tolist(), torch.__name__))

if __name__ == "__main__":
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(queue, torch.zeros(1)), nprocs=2)
    print(sorted([queue.get(), queue.get()]))
"""


def test_spawn_in_a_script(tmp_path):
    (tmp_path / "x.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", "x.py"], cwd=tmp_path, text=True,
        capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout == "[(0, [0.0], 'torch'), (1, [1.0], 'torch')]\n", done.stderr
