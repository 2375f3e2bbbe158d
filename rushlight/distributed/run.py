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
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from rushlight.base.errors import MissingFeature
from rushlight.base.lazy import namespace
from rushlight.distributed import mpi
from rushlight.distributed.stores import TCPStore

__all__ = [
    "determine_local_world_size", "get_args_parser", "get_rdzv_endpoint", "get_use_env", "launch",
    "main", "parse_args", "parse_min_max_nnodes", "record", "run", "run_script_path",
]  # fmt: skip

# Seconds that processes have to end by themselves after they are told to.
GRACE = 5.0
# The status of a launcher that was told to end.
INTERRUPTED = 130
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
    add(
        "--rdzv-endpoint",
        "--rdzv_endpoint",
        default="",
        metavar="HOST:PORT",
        help="where machines meet; with the backend c10d they are numbered as they come",
    )
    add("--rdzv-backend", "--rdzv_backend", default="static", help="static or c10d")
    add("--rdzv-id", "--rdzv_id", default="none", help="a name that this job's machines share")
    add("--rdzv-conf", "--rdzv_conf", default="", help=argparse.SUPPRESS)
    add(
        "--max-restarts",
        "--max_restarts",
        type=int,
        default=0,
        metavar="N",
        help="how often all processes are started again after one has failed",
    )
    add("--monitor-interval", "--monitor_interval", type=float, help=argparse.SUPPRESS)
    add("--start-method", "--start_method", default="spawn", help=argparse.SUPPRESS)
    add("--local-addr", "--local_addr", default=None, help="this machine's address")
    add("--role", default="default", help=argparse.SUPPRESS)
    add("--log-dir", "--log_dir", default=None, metavar="DIR", help="where outputs are written")
    for letter, word, what in (
        ("-r", "--redirects", "written to files instead of passed on"),
        ("-t", "--tee", "written to files, too"),
    ):
        add(letter, word, default="0", metavar="N", help=f"1 stdout, 2 stderr, 3 both are {what}")
    add(
        "--local-ranks-filter",
        "--local_ranks_filter",
        default="",
        metavar="N,N",
        help="the ranks of this machine whose outputs are passed on; else all",
    )
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


def nodes_of(options: argparse.Namespace) -> int:
    """The number of machines."""
    fewest, most = parse_min_max_nnodes(str(options.nnodes))
    if fewest != most and not options.standalone:
        raise MissingFeature(f"--nnodes={options.nnodes}: machines that come and go", code="RL0013")
    return 1 if options.standalone else most


def run(options: argparse.Namespace) -> int:
    """Start the processes and wait for them; the exit status of the first that fails.

    After a failure all are started again, up to `--max-restarts` times.
    """
    if options.rdzv_backend not in ("static", "c10d"):
        raise MissingFeature(f"--rdzv-backend={options.rdzv_backend}", code="RL0013")
    nodes = nodes_of(options)
    count = determine_local_world_size(options.nproc_per_node)
    if options.mpirun is None and count > 1 and mpi.is_found():
        library = mpi.library()
        if not mpi.speaks_pmi(library):
            options.mpirun = "mpirun --oversubscribe"
    gathering = None
    if options.rdzv_backend == "c10d" and nodes > 1:
        gathering = Gathering(options, nodes)
    name = uuid.uuid4().hex if options.rdzv_id == "none" else options.rdzv_id
    for attempt in range(options.max_restarts + 1):
        if options.mpirun is not None:
            children = by_mpirun(options, count)
        else:
            children = by_itself(options, count, nodes, attempt, name, gathering)
        left = options.max_restarts - attempt
        status = watch(children, f"; restart {attempt + 1} of {options.max_restarts}" * (left > 0))
        if status in (0, INTERRUPTED):
            break
    if gathering is not None:
        gathering.leave()
    return status


class Gathering:
    """Machines that meet at a store, and get their numbers there; anew for each attempt."""

    def __init__(self, options: argparse.Namespace, nodes: int) -> None:
        host, _, port = options.rdzv_endpoint.rpartition(":")
        if not host:
            raise ValueError("--rdzv-backend=c10d on several machines needs --rdzv-endpoint")
        self.nodes = nodes
        self.key = f"rushlight/{options.rdzv_id}"
        self.address = options.local_addr or address_towards(host)
        try:
            self.store = TCPStore(host, int(port), None, is_here(host), wait_for_workers=False)
            self.serves = is_here(host)
        except (OSError, RuntimeError):
            # Another one on this machine came first.
            self.store = TCPStore(host, int(port), None, False, wait_for_workers=False)
            self.serves = False

    def join(self, attempt: int) -> tuple[int, str, int]:
        """This machine's number, and where rank 0 will be."""
        key = f"{self.key}/{attempt}"
        number = self.store.add(f"{key}/count", 1) - 1
        if number >= self.nodes:
            raise RuntimeError(f"{self.nodes} machines have come already to {self.key}")
        if number == 0:
            self.store.set(f"{key}/place", f"{self.address} {free_port()}")
        host, _, port = self.store.get(f"{key}/place").decode().partition(" ")
        return number, host, int(port)

    def leave(self) -> None:
        """Whoever serves the store goes last."""
        done = self.store.add(f"{self.key}/done", 1)
        until = time.monotonic() + GRACE
        while self.serves and done < self.nodes and time.monotonic() < until:
            time.sleep(0.05)
            done = self.store.add(f"{self.key}/done", 0)


def address_towards(host: str) -> str:
    """This machine's address, as others on the way to a host see it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect((host, 9))
            return str(trial.getsockname()[0])
        except OSError:
            return socket.gethostname()


def is_here(host: str) -> bool:
    """Whether a host's name is one of this machine."""
    with socket.socket() as trial:
        try:
            trial.bind((host, 0))
        except OSError:
            return False
    return True


def by_itself(
    options: argparse.Namespace, count: int, nodes: int, attempt: int, name: str,
    gathering: Gathering | None,
) -> list[Child]:  # fmt: skip
    """The processes of this machine."""
    host, _, port = options.rdzv_endpoint.rpartition(":")
    node = options.node_rank
    host = options.master_addr or host or "127.0.0.1"
    place = options.master_port or (int(port) if port else 0)
    if gathering is not None:
        node, host, place = gathering.join(attempt)
    elif nodes == 1 and (not place or options.standalone or options.rdzv_backend == "c10d"):
        place = free_port()
    shared = {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(place or 29500),
        "WORLD_SIZE": str(count * nodes),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(nodes),
        "ROLE_NAME": options.role,
        "ROLE_WORLD_SIZE": str(count * nodes),
        "TORCHELASTIC_RUN_ID": name,
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
    }
    # Processes that each took all cores would stand in one another's way.
    threads = str(max(1, (os.cpu_count() or 1) // count))
    shown = {int(each) for each in options.local_ranks_filter.split(",") if each}
    processes = []
    for local in range(count):
        rank = str(node * count + local)
        own = {"RANK": rank, "LOCAL_RANK": str(local), "ROLE_RANK": rank}
        environment = {"OMP_NUM_THREADS": threads, **os.environ, **shared, **own}
        prefix = f"[{rank}] " if count * nodes > 1 and not options.no_prefix else ""
        logs = Logs(options, name, attempt, local, not shown or local in shown)
        processes.append(Child(command_of(options), environment, int(rank), prefix, logs))
    return processes


def by_mpirun(options: argparse.Namespace, count: int) -> list[Child]:
    words = shlex.split(options.mpirun)
    command = [*words, "-n", str(count), *command_of(options)]
    return [Child(command, dict(os.environ), -1, "", None)]


class Logs:
    """Where a process's outputs go: passed on, to files, or both. The folders are torchrun's."""

    def __init__(
        self, options: argparse.Namespace, name: str, attempt: int, local: int, is_shown: bool
    ) -> None:
        self.is_shown = is_shown
        self.redirected = which(options.redirects, local)
        self.kept = self.redirected | which(options.tee, local)
        self.folder: Path | None = None
        if self.kept:
            base = options.log_dir or Path(tempfile.gettempdir()) / "torchelastic"
            self.folder = Path(base) / name / f"attempt_{attempt}" / str(local)
            self.folder.mkdir(parents=True, exist_ok=True)

    def sinks(self, number: int, word: str, out: Any) -> list[Any]:
        """Of stdout (1) or stderr (2)."""
        found = [out] if self.is_shown and not self.redirected & number else []
        if self.kept & number and self.folder is not None:
            found.append((self.folder / f"{word}.log").open("w", encoding="utf-8"))
        return found


def which(text: str, local: int) -> int:
    """What -r and -t say of a rank: one number for all, or RANK:NUMBER,..."""
    if ":" not in text:
        return int(text)
    found = dict([each.split(":") for each in text.split(",")])
    return int(found.get(str(local), 0))


class Child:
    """A process and the threads that pass on what it prints."""

    def __init__(
        self, command: list[str], environment: dict[str, str], rank: int, prefix: str,
        logs: Logs | None,
    ) -> None:  # fmt: skip
        self.rank = rank
        self.logs = logs
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
        process, logs = self.process, self.logs
        ends: Any = (
            (process.stdout, 1, "stdout", sys.stdout),
            (process.stderr, 2, "stderr", sys.stderr),
        )
        self.threads = []
        for source, number, word, out in ends:
            sinks = [out] if logs is None else logs.sinks(number, word, out)
            self.threads.append(
                threading.Thread(target=pass_on, args=(source, sinks, self.prefix), daemon=True)
            )
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


def pass_on(source: BinaryIO, sinks: list[Any], prefix: str) -> None:
    files = [sink for sink in sinks if sink not in (sys.stdout, sys.stderr)]
    with source, contextlib.ExitStack() as open_files:
        for file in files:
            open_files.enter_context(file)
        for line in iter(source.readline, b""):
            text = line.decode(errors="replace")
            text = text if text.endswith("\n") else f"{text}\n"
            with PRINTING:
                for sink in sinks:
                    sink.write(text if sink in files else prefix + text)
                    sink.flush()


def interrupted(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def watch(children: list[Child], following: str = "") -> int:
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
        return INTERRUPTED
    finally:
        end(children)
        signal.signal(signal.SIGTERM, previous)
    if failed is None:
        return 0
    status = failed.process.returncode
    how = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
    who = "mpirun" if failed.rank < 0 else f"rank {failed.rank}"
    rest = "" if failed.rank < 0 or len(children) == 1 else "; the others were ended"
    print(
        f"rushlight launch: {who} failed first ({how}){rest}{following}",
        file=sys.stderr,
        flush=True,
    )
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
