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


RESTARTED = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), dist.get_rank()
x = torch.ones(1)
dist.all_reduce(x)
open(f"pid{rank}-{attempt}", "w").write(str(os.getpid()))
assert os.environ["TORCHELASTIC_MAX_RESTARTS"] == "2"
if attempt < 2 and rank == attempt:
    raise KeyError(f"attempt {attempt}")
dist.barrier()
print("ended", attempt, x.item())
dist.destroy_process_group()
"""


def test_all_are_started_again_after_a_failure(tmp_path):
    (tmp_path / "script.py").write_text(RESTARTED)
    words = ("launch", "-n", "2", "--max-restarts", "2", "script.py")
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] ended 2 2.0", "[1] ended 2 2.0"]
    told = [line for line in done.stderr.splitlines() if line.startswith("rushlight launch")]
    assert [line.rpartition("; ")[2] for line in told] == ["restart 1 of 2", "restart 2 of 2"]
    assert "[0] KeyError: 'attempt 0'" in done.stderr and "[1] KeyError" in done.stderr
    pids = [int(path.read_text()) for path in tmp_path.glob("pid*")]
    assert len(set(pids)) == 6 and not any(map(is_alive, pids))
    # No more often than it was asked for.
    (tmp_path / "script.py").write_text("raise SystemExit(3)")
    done = command("launch", "-n", "1", "--max-restarts", "1", "script.py", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "rushlight launch: rank 0 failed first (exit status 3)"


def test_machines_are_numbered_as_they_meet(tmp_path):
    """Two launchers, each as on a machine of its own; both start again when one rank fails."""
    from rushlight.distributed.run import free_port

    (tmp_path / "script.py").write_text(RESTARTED.replace("attempt < 2", "attempt < 1"))
    words = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=job",
             f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--max-restarts=2"]  # fmt: skip
    machines = [
        subprocess.Popen(
            [sys.executable, "-m", "rushlight", "launch", *words, "script.py"],
            cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        found = [machine.communicate(timeout=90) for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
    assert [machine.returncode for machine in machines] == [0, 0], found
    assert sorted([out for out, _ in found]) == ["[0] ended 1 2.0\n", "[1] ended 1 2.0\n"]


def test_machines_that_come_and_go_are_refused(tmp_path):
    (tmp_path / "script.py").write_text("print('started')")
    for option in ("--nnodes=1:4", "--rdzv-backend=etcd"):
        done = command("launch", option, "script.py", cwd=tmp_path)
        assert done.returncode != 0 and "RL0013" in done.stderr and option in done.stderr
        assert not done.stdout
    done = command("launch", "--standalone", "--nnodes=1:4", "script.py", cwd=tmp_path)
    assert done.stdout == "started\n"


def test_outputs_go_where_they_are_sent(tmp_path):
    (tmp_path / "script.py").write_text(
        "import os, sys; print('out', os.environ['RANK']); print('err', file=sys.stderr)"
    )
    words = ("--log-dir", "logs", "--rdzv-id", "job", "-r", "1:3", "-t", "0:1",
             "--local-ranks-filter", "0,1")  # fmt: skip
    done = command("launch", "-n", "2", *words, "script.py", cwd=tmp_path)
    assert done.stdout == "[0] out 0\n" and done.stderr == "[0] err\n"
    logs = tmp_path / "logs" / "job" / "attempt_0"
    assert (logs / "0" / "stdout.log").read_text() == "out 0\n"
    assert (logs / "1" / "stdout.log").read_text() == "out 1\n"
    assert (logs / "1" / "stderr.log").read_text() == "err\n"
    done = command("launch", "-n", "2", "--local-ranks-filter", "1", "script.py", cwd=tmp_path)
    assert done.stdout == "[1] out 1\n"


SLURM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1) * dist.get_rank()
dist.all_reduce(x)
print(dist.get_rank(), dist.get_world_size(), dist.get_node_local_rank(), x.item())
"""


def test_slurm_without_mpi(tmp_path):
    """srun tells its processes who they are; that is enough for them to meet."""
    (tmp_path / "script.py").write_text(SLURM)
    told = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_ID": "4711",
            "SLURM_STEP_ID": str(os.getpid() % 1000), "SLURM_NTASKS": "2"}  # fmt: skip
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "rushlight", "run", "script.py"], cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment() | told | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        found = [process.communicate(timeout=90) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [out for out, _ in found] == ["0 2 0 1.0\n", "1 2 1 1.0\n"], found


def test_slurms_lists_of_machines():
    from rushlight.distributed.mpi import first_host

    lists = {"a": "a", "a,b": "a", "gpu[03-07,11],x": "gpu03", "n[1,4]-ib": "n1-ib",
             "login,n[1-2]": "login"}  # fmt: skip
    for names, first in lists.items():
        assert first_host(names) == first, names


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
    script = "import os, sys; import torch.distributed as d; d.init_process_group('mpi'); "
    script += (
        "o = [None] * 2; d.all_gather_object(o, os.environ['RANK']); sys.stdout.write(f'{o}\\n')"
    )
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
