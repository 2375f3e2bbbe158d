"""Programs of several processes, for tests: started together, killed together.

Each process runs functions of a module in `ranks/`; an assertion that fails in one of them is shown
with its rank. Whatever happens, no process outlives the call.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rushlight.distributed import mpi

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

needs_mpi = pytest.mark.skipif(
    not mpi.is_found() or not mpi.speaks_pmi(mpi.library()),
    reason="NO MPI: these tests need mpi4py and MPICH; install them: pip install '.[mpi]'",
)

STARTER = """
import sys, datetime, importlib.util
import rushlight.distributed as dist
path, rank, size, meeting, seconds, *names = sys.argv[1:]
spec = importlib.util.spec_from_file_location("program", path)
program = importlib.util.module_from_spec(spec)
sys.modules["program"] = program
spec.loader.exec_module(program)
dist.init_process_group(
    "mpi", init_method="file://" + meeting, rank=int(rank), world_size=int(size),
    timeout=datetime.timedelta(seconds=60),
)
# Machines that are busy start processes at different times.
dist.group.WORLD._set_default_timeout(datetime.timedelta(seconds=float(seconds)))
for name in names or [n for n in vars(program) if n.startswith("check_")]:
    getattr(program, name)(int(rank), int(size))
if dist.is_initialized():
    dist.destroy_process_group()
"""


class Ended:
    """How a process has ended."""

    def __init__(self, rank: int, code: int | None, text: str) -> None:
        self.rank = rank
        self.code = code
        self.text = text


def environment() -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "RUSHLIGHT_NUM_THREADS": "1",
    }


def start(command: list[str], log: Path, **options: object) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=environment(), **options
        )


def run(
    program: str,
    size: int,
    *names: str,
    seconds: float = 30,
    patience: float = 90,
) -> list[Ended]:
    """Run functions of `ranks/PROGRAM.py` in `size` processes; how each has ended."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        logs = [Path(folder) / f"log{rank}" for rank in range(size)]
        path = str(HERE / "ranks" / f"{program}.py")
        processes = [
            start(
                [sys.executable, "-c", STARTER, path, str(rank), str(size), str(meeting),
                 str(seconds), *names],
                logs[rank],
            )
            for rank in range(size)
        ]  # fmt: skip
        return end_all(processes, logs, patience)


def end_all(
    processes: list[subprocess.Popen[bytes]], logs: list[Path], patience: float
) -> list[Ended]:
    until = time.monotonic() + patience
    try:
        for process in processes:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                break
    finally:
        hung = [process.poll() is None for process in processes]
        for process in processes:
            process.kill()
            process.wait()
    return [
        Ended(rank, None if hung[rank] else process.returncode, log.read_text(errors="replace"))
        for rank, (process, log) in enumerate(zip(processes, logs))
    ]


def succeed(program: str, size: int, *names: str, **options: float) -> list[Ended]:
    """Run functions in all processes; none may fail."""
    ended = run(program, size, *names, **options)
    bad = [f"rank {one.rank} ended with {one.code}:\n{one.text}" for one in ended if one.code != 0]
    assert not bad, "\n".join(bad)
    return ended
