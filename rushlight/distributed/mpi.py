"""The MPI library: finding it, starting it once a process, and what it says of itself.

Processes of mpirun find one another through it. Others meet at a store, where rank 0 leaves the
address of a PMI server (`pmi.py`): MPICH and its kin can start so, Open MPI cannot and is refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from rushlight.base.errors import error
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.stores import Store
from rushlight.distributed.storeserver import is_loopback

__all__ = [
    "Runtime",
    "describe",
    "forget_memory_names",
    "is_found",
    "launched_by_mpirun",
    "start",
    "tell_environment",
]

# What launchers put into the environment of each process: rank, size, rank on this machine.
LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
)
TAG_BITS = 28


# What srun tells each of its processes, and a batch script by itself is not told.
SLURM = ("PROCID", "LOCALID", "STEP_NUM_TASKS", "STEP_NODELIST", "JOB_ID", "STEP_ID")


def launched_by_mpirun() -> tuple[int, int, int | None] | None:
    """(rank, size, rank on this machine) as mpirun or Slurm's MPI support tells them."""
    for rank, size, local in LAUNCHERS:
        if rank in os.environ and size in os.environ:
            near = os.environ.get(local)
            return int(os.environ[rank]), int(os.environ[size]), None if near is None else int(near)
    if "PMIX_RANK" in os.environ and "SLURM_NTASKS" in os.environ:
        near = os.environ.get("SLURM_LOCALID")
        return (
            int(os.environ["PMIX_RANK"]),
            int(os.environ["SLURM_NTASKS"]),
            None if near is None else int(near),
        )
    return None


def first_host(names: str) -> str:
    """The first machine of Slurm's list: of gpu[03-07,11],login it is gpu03."""
    start, bracket, rest = names.partition("[")
    if "," in start or not bracket:
        return names.partition(",")[0]
    inside, _, after = rest.partition("]")
    number = inside.partition(",")[0].partition("-")[0]
    return start + number + after.partition(",")[0]


def told_by_slurm() -> dict[str, str]:
    """What processes of srun find where Slurm has started no MPI: they meet at the first one."""
    given = {name: os.environ.get(f"SLURM_{name}", "") for name in SLURM}
    if not all(given.values()):
        return {}
    # Steps of a job may run side by side.
    port = 15000 + (int(given["JOB_ID"]) * 31 + int(given["STEP_ID"])) % 40000
    return {
        "RANK": given["PROCID"],
        "WORLD_SIZE": given["STEP_NUM_TASKS"],
        "LOCAL_RANK": given["LOCALID"],
        "MASTER_ADDR": first_host(given["STEP_NODELIST"]),
        "MASTER_PORT": str(port),
    }


def tell_environment() -> None:
    """Let a process of mpirun or srun find what torchrun's processes find in the environment."""
    if "RANK" in os.environ:
        return
    given = launched_by_mpirun()
    if given is None:
        for name, value in told_by_slurm().items():
            os.environ.setdefault(name, value)
        return
    rank, size, near = given
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    if near is not None:
        os.environ.setdefault("LOCAL_RANK", str(near))


@cache
def library() -> Any:
    """`mpi4py.MPI`, not started; one error where it is not there."""
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as problem:
        raise error("RL0020", ImportError, cause=str(problem).partition("\n")[0]) from problem
    return MPI


@cache
def is_found() -> bool:
    """Whether mpi4py and an MPI library can be loaded."""
    try:
        library()
    except ImportError:
        return False
    return True


def describe() -> dict[str, str]:
    """What `rushlight doctor` shows."""
    try:
        mpi = library()
    except ImportError as problem:
        return {"mpi4py": "(absent)", "remedy": str(problem).partition(": ")[2] or str(problem)}
    import mpi4py

    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    return {
        "mpi4py": mpi4py.__version__,
        "library": mpi.Get_library_version().strip("\x00\n").splitlines()[0].replace("\t", " "),
        "mpirun": found or "(absent)",
        "without mpirun": "yes" if speaks_pmi(mpi) else "no: start programs by mpirun",
    }


def speaks_pmi(mpi: Any) -> bool:
    """Whether processes can start the library without mpirun."""
    version = mpi.Get_library_version()
    return any([name in version for name in ("MPICH", "Intel", "MVAPICH")])


class Runtime:
    """The started library: this process's rank, all processes' number, one communicator."""

    def __init__(self, mpi: Any, by_mpirun: bool) -> None:
        self.mpi = mpi
        self.by_mpirun = by_mpirun
        self.process = os.getpid()
        world = mpi.COMM_WORLD
        self.rank: int = world.Get_rank()
        self.size: int = world.Get_size()
        world.Set_errhandler(mpi.ERRORS_RETURN)
        self.comm = world
        largest = world.Get_attr(mpi.TAG_UB) or 0
        if largest < (1 << TAG_BITS) - 1:
            raise error("RL0021", DistBackendError, what=f"its tags end at {largest}")


STARTED: list[Runtime] = []
# The PMI server, kept so that it is reaped when this process ends.
HELPERS: list[Any] = []


def start(store: Store | None, rank: int, size: int, host: str, limit: timedelta) -> Runtime:
    """The started library; the first call of a process starts it.

    Without a store, mpirun has started this process.
    """
    if STARTED:
        runtime = STARTED[0]
        if (runtime.rank, runtime.size) != (rank, size):
            raise error(
                "RL0022",
                DistBackendError,
                before=f"rank {runtime.rank} of {runtime.size}",
                now=f"rank {rank} of {size}",
            )
        return runtime
    mpi = library()
    if mpi.Is_initialized():
        pass  # by the program itself
    elif store is None:
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
    else:
        if not speaks_pmi(mpi):
            name = mpi.Get_library_version().partition(",")[0].strip()
            raise error("RL0023", DistBackendError, library=name, size=size)
        bootstrap(mpi, store, rank, size, host, limit)
    runtime = Runtime(mpi, store is None)
    if (runtime.rank, runtime.size) != (rank, size):
        raise error(
            "RL0021",
            DistBackendError,
            what=f"it says rank {runtime.rank} of {runtime.size}, not {rank} of {size}",
        )
    STARTED.append(runtime)
    return runtime


def bootstrap(mpi: Any, store: Store, rank: int, size: int, host: str, limit: timedelta) -> None:
    """Start MPI in processes that meet at a store."""
    if rank == 0:
        store.set("rushlight/pmi", serve_addresses(size, host))
    address = store.get("rushlight/pmi").decode()
    # Starting MPI holds the interpreter: a store of this process answers nobody meanwhile.
    store.add("rushlight/pmi/ready", 1)
    until = time.monotonic() + limit.total_seconds()
    while rank == 0 and (ready := store.add("rushlight/pmi/ready", 0)) < size:
        if time.monotonic() > until:
            raise DistBackendError(
                f"init_process_group: {size - ready} of {size} ranks have not come within "
                f"{limit.total_seconds():g} s"
            )
        time.sleep(0.002)
    given = {"PMI_PORT": address, "PMI_ID": str(rank)}
    hidden = ("PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_SPAWNED")
    before = {name: os.environ.get(name) for name in (*given, *hidden)}
    for name in hidden:
        os.environ.pop(name, None)
    os.environ.update(given)
    try:
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def forget_memory_names() -> None:
    """Take the names off memory that MPI shares on this machine, once all have opened it.

    It goes with the last process that holds it then, however that ends.
    """
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return
    for name in set(re.findall(r"/dev/shm/mpich_shm_\w+", maps)):
        with contextlib.suppress(OSError):
            os.unlink(name)


def serve_addresses(size: int, host: str) -> str:
    """Start the PMI server; answers where it is."""
    place = "127.0.0.1" if is_loopback(host) else ""
    helper = subprocess.Popen(
        [sys.executable, "-S", "-E", str(Path(__file__).with_name("pmi.py")), str(size), place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    HELPERS.append(helper)
    assert helper.stdout is not None
    port = helper.stdout.readline().decode().strip()
    if not port:
        raise error("RL0021", DistBackendError, what="its start could not be served")
    return f"{place or host}:{port}"
