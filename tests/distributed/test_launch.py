"""Starting scripts in several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.launching import environment, needs_mpi

pytestmark = needs_mpi

PLAIN = """
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
assert rank == dist.get_rank() and dist.get_world_size() == int(os.environ["WORLD_SIZE"])
x = torch.tensor([float(rank + 1)])
dist.all_reduce(x)
print("sum", x.item(), sys.argv[1:])
dist.destroy_process_group()
"""

FAILING = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
open(f"pid{dist.get_rank()}", "w").write(str(os.getpid()))
dist.barrier()
if dist.get_rank() == 1:
    raise KeyError("the first to fail")
dist.all_reduce(torch.ones(1))
time.sleep(60)
"""

LAST = "rushlight launch: rank 1 failed first (exit status 1); the others were ended"

# As programs for torch's gloo are written, word for word.
SPAWNED = """
import os
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, size, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", rank=rank, world_size=size)
    x = torch.ones(1) * rank
    dist.all_reduce(x, op=dist.ReduceOp.SUM)
    sys.stdout.write(f"Rank {rank} has {x[0].item()}\\n")
    sys.stdout.flush()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, args=(3, sys.argv[1]), nprocs=3, join=True)
"""


def command(*words, cwd, timeout=90):
    return subprocess.run(
        [sys.executable, "-m", "rushlight", *words],
        cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if name.startswith("mpich_shm")}


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("how", ["launch", "run"])
def test_launch(how, tmp_path):
    (tmp_path / "script.py").write_text(PLAIN)
    first = ["launch"] if how == "launch" else ["run", "-m", "torch.distributed.run"]
    done = command(*first, "--nproc_per_node=2", "script.py", "--flag", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "[0] sum 3.0 ['--flag']", "[1] sum 3.0 ['--flag']"
    ]  # fmt: skip


def test_a_failing_rank_ends_all(tmp_path):
    (tmp_path / "script.py").write_text(FAILING)
    began = time.monotonic()
    done = command("launch", "-n", "3", "script.py", cwd=tmp_path)
    assert done.returncode == 1 and time.monotonic() - began < 30
    lines = done.stderr.splitlines()
    first = next(line for line in lines if "Traceback" in line)
    assert first.startswith("[1] ") and "[1] KeyError: 'the first to fail'" in lines
    assert lines[-1] == LAST
    pids = [int((tmp_path / f"pid{rank}").read_text()) for rank in range(3)]
    assert not any(map(is_alive, pids))


def test_the_launchers_end_is_everybodys(tmp_path):
    (tmp_path / "script.py").write_text(FAILING.replace("== 1", "== 9"))
    launcher = subprocess.Popen(
        [sys.executable, "-m", "rushlight", "launch", "-n", "2", "script.py"],
        cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        files = [tmp_path / f"pid{rank}" for rank in range(2)]
        until = time.monotonic() + 60
        while not all([file.exists() and file.read_text() for file in files]):
            assert time.monotonic() < until and launcher.poll() is None
            time.sleep(0.05)
    finally:
        launcher.kill()
        launcher.wait()
    until = time.monotonic() + 20
    pids = [int(file.read_text()) for file in files]
    while any(map(is_alive, pids)):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_spawned_processes_meet_by_themselves(tmp_path):
    from rushlight.distributed.run import free_port

    (tmp_path / "script.py").write_text(SPAWNED)
    done = command("run", "script.py", str(free_port()), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"Rank {rank} has 3.0" for rank in range(3)]


def test_mpirun(tmp_path):
    mpirun = Path(sys.executable).with_name("mpirun")
    if not mpirun.exists():
        pytest.skip("NO MPIRUN beside this Python")
    script = "import os; import torch.distributed as d; d.init_process_group('mpi'); "
    script += "o = [None] * 2; d.all_gather_object(o, os.environ['RANK']); print(o)"
    (tmp_path / "script.py").write_text(script)
    done = command("launch", "-n", "2", "--mpirun", str(mpirun), "script.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['0', '1']"] * 2
    left = shared_memory()
    until = time.monotonic() + 20
    while left:  # others' programs have names there while they start
        assert time.monotonic() < until, left
        time.sleep(0.1)
        left &= shared_memory()


def test_the_example_learns_alike_on_any_number_of_processes():
    root = Path(__file__).parents[2]
    found = []
    for count in ("1", "2"):
        done = command("launch", "-n", count, "--no-prefix", "examples/train_ddp.py", cwd=root)
        assert done.returncode == 0, done.stderr
        found.append(float(done.stdout.rsplit("accuracy", 1)[1].split()[0]))
    assert min(found) > 0.9
