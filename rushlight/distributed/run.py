"""Starting a script in several processes: `rushlight launch`, and torch.distributed.run by its
words.

Each process is `rushlight run` of the script, with RANK, WORLD_SIZE, MASTER_ADDR and their like in
its environment. What they print is passed on with their ranks. The first one that fails ends all,
and whatever ends the launcher ends them.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any, BinaryIO

from rushlight.base.lazy import namespace
from rushlight.distributed import mpi

__all__ = [
    "determine_local_world_size", "get_args_parser", "get_rdzv_endpoint", "get_use_env", "launch",
    "main", "parse_args", "parse_min_max_nnodes", "record", "run", "run_script_path",
]  # fmt: skip

# Seconds that processes have to end by themselves after they are told to.
GRACE = 5.0
# Linux: a child is told when its parent ends.
PR_SET_PDEATHSIG = 1


def get_args_parser(prog: str = "torchrun") -> argparse.ArgumentParser:
    """torchrun's options, and ours."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Run a script in several processes of this machine, or of several.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "-n",
        "--nproc-per-node",
        "--nproc_per_node",
        "--nproc",
        default="1",
        metavar="N",
        help="processes on this machine: a number, or auto or cpu for one a core",
    )
    add("--nnodes", default="1", metavar="N", help="machines")
    add("--node-rank", "--node_rank", type=int, default=0, help="this machine's number")
    add("--master-addr", "--master_addr", default=None, help="where rank 0 is")
    add("--master-port", "--master_port", type=int, default=None, help="a port that is free there")
    add("--rdzv-endpoint", "--rdzv_endpoint", default="", help="HOST:PORT, both of the above")
    add("--rdzv-backend", "--rdzv_backend", default="static", help=argparse.SUPPRESS)
    add("--rdzv-id", "--rdzv_id", default="none", help=argparse.SUPPRESS)
    add("--rdzv-conf", "--rdzv_conf", default="", help=argparse.SUPPRESS)
    add("--max-restarts", "--max_restarts", type=int, default=0, help=argparse.SUPPRESS)
    add("--standalone", action="store_true", help="this machine only")
    add("-m", "--module", action="store_true", help="SCRIPT is a module's name")
    add("--no-python", "--no_python", action="store_true", help="SCRIPT is a program")
    add("--no-prefix", action="store_true", help="pass lines on without their ranks")
    add(
        "--mpirun",
        metavar="COMMAND",
        default=None,
        help='start by mpirun, as "mpirun -hosts a,b"; -n is then the number of all processes',
    )
    add("script", metavar="SCRIPT")
    add("args", nargs=argparse.REMAINDER, metavar="ARG")
    return parser  # fmt: skip


def parse_args(args: Sequence[str] | None = None, prog: str = "torchrun") -> argparse.Namespace:
    return get_args_parser(prog).parse_args(args)


def determine_local_world_size(nproc_per_node: str) -> int:
    """How many processes of this machine the words of --nproc-per-node ask for."""
    if nproc_per_node in ("auto", "cpu"):
        return os.cpu_count() or 1
    try:
        return int(nproc_per_node)
    except ValueError:
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}") from None


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """The fewest and the most machines: "4" or "1:4"."""
    counts = [int(part) for part in nnodes.split(":")]
    if len(counts) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return counts[0], counts[-1]


def get_rdzv_endpoint(args: argparse.Namespace) -> str:
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{args.master_port}"
    return str(args.rdzv_endpoint)


def get_use_env(args: argparse.Namespace) -> bool:
    """Whether ranks are told by the environment only."""
    return bool(getattr(args, "use_env", True))


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a script in this process."""
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def command_of(options: argparse.Namespace) -> list[str]:
    if options.no_python:
        return [options.script, *options.args]
    how = ["-m"] if options.module else []
    return [sys.executable, "-u", "-m", "rushlight", "run", *how, options.script, *options.args]


def run(options: argparse.Namespace) -> int:
    """Start the processes and wait for them; the exit status of the first that fails."""
    count = determine_local_world_size(options.nproc_per_node)
    if options.mpirun is None and count > 1 and mpi.is_found():
        library = mpi.library()
        if not mpi.speaks_pmi(library):
            options.mpirun = "mpirun --oversubscribe"
    if options.mpirun is not None:
        return by_mpirun(options, count)
    nodes = parse_min_max_nnodes(str(options.nnodes))[1]
    host, _, port = options.rdzv_endpoint.rpartition(":")
    host = options.master_addr or host or "127.0.0.1"
    place = options.master_port or (int(port) if port else 0)
    if nodes == 1 and not place:
        place = free_port()
    shared = {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(place or 29500),
        "WORLD_SIZE": str(count * nodes),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": str(options.node_rank),
        "GROUP_WORLD_SIZE": str(nodes),
        "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": str(count * nodes),
        "TORCHELASTIC_RUN_ID": uuid.uuid4().hex if options.rdzv_id == "none" else options.rdzv_id,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
    }
    # Processes that each took all cores would stand in one another's way.
    threads = str(max(1, (os.cpu_count() or 1) // count))
    processes = []
    for local in range(count):
        rank = str(options.node_rank * count + local)
        own = {"RANK": rank, "LOCAL_RANK": str(local), "ROLE_RANK": rank}
        environment = {"OMP_NUM_THREADS": threads, **os.environ, **shared, **own}
        prefix = f"[{rank}] " if count * nodes > 1 and not options.no_prefix else ""
        processes.append(Child(command_of(options), environment, int(rank), prefix))
    return watch(processes)


def by_mpirun(options: argparse.Namespace, count: int) -> int:
    words = shlex.split(options.mpirun)
    command = [*words, "-n", str(count), *command_of(options)]
    return watch([Child(command, dict(os.environ), -1, "")])


class Child:
    """A process and the threads that pass on what it prints."""

    def __init__(
        self, command: list[str], environment: dict[str, str], rank: int, prefix: str
    ) -> None:
        self.rank = rank
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )
        self.prefix = prefix
        self.threads: list[threading.Thread] = []

    def listen(self) -> None:
        """Begin to pass on; processes are not forked beside threads."""
        pairs: Any = ((self.process.stdout, sys.stdout), (self.process.stderr, sys.stderr))
        self.threads = [
            threading.Thread(target=pass_on, args=(source, out, self.prefix), daemon=True)
            for source, out in pairs
        ]
        for thread in self.threads:
            thread.start()

    def signal(self, number: int) -> None:
        """To the process and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def drain(self) -> None:
        for thread in self.threads:
            thread.join(2)


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


PRINTING = threading.Lock()


def pass_on(source: BinaryIO, out: Any, prefix: str) -> None:
    with source:
        for line in iter(source.readline, b""):
            text = line.decode(errors="replace")
            with PRINTING:
                out.write(prefix + text if text.endswith("\n") else f"{prefix}{text}\n")
                out.flush()


def interrupted(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def watch(children: list[Child]) -> int:
    """Until all have ended, or one has failed; then the others are ended too."""
    for child in children:
        child.listen()
    previous = signal.signal(signal.SIGTERM, interrupted)
    failed = None
    try:
        left = list(children)
        while left and failed is None:
            for child in list(left):
                status = child.process.poll()
                if status is not None:
                    left.remove(child)
                    if status and failed is None:
                        failed = child
            if left and failed is None:
                time.sleep(0.02)
        if failed is not None:
            failed.drain()
    except KeyboardInterrupt:
        end(children)
        return 130
    finally:
        end(children)
        signal.signal(signal.SIGTERM, previous)
    if failed is None:
        return 0
    status = failed.process.returncode
    how = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
    who = "mpirun" if failed.rank < 0 else f"rank {failed.rank}"
    rest = "" if failed.rank < 0 or len(children) == 1 else "; the others were ended"
    print(f"rushlight launch: {who} failed first ({how}){rest}", file=sys.stderr, flush=True)
    return status if status > 0 else 128 - status


def end(children: list[Child]) -> None:
    """End what still runs, first politely; also what the processes themselves have started."""
    for child in children:
        if child.process.poll() is None:
            child.signal(signal.SIGTERM)
    until = time.monotonic() + GRACE
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(max(0.05, until - time.monotonic()))
        child.signal(signal.SIGKILL)
        child.process.wait()
        child.drain()


def launch(args: Sequence[str]) -> int:
    """`rushlight launch`."""
    return run(parse_args(args, "rushlight launch"))


def record(fn: Any, error_handler: Any = None) -> Any:
    """For a script's main function: its errors are passed on as any others are."""
    return fn


def main(args: Sequence[str] | None = None) -> None:
    """torch.distributed.run."""
    sys.exit(run(parse_args(args)))


__getattr__, __dir__ = namespace(__name__, refused={"RL0013": "config_from_args"})

if __name__ == "__main__":
    main()
