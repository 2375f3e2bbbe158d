"""torch.multiprocessing: the standard module, and `spawn`.

Tensors travel between processes by value: what one process writes, others do not see.
"""

from __future__ import annotations

import multiprocessing as _standard
import sys as _sys
from collections.abc import Callable, Sequence
from multiprocessing import *  # noqa: F403
from typing import Any

__all__ = [
    *_standard.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

# How long processes may take to end after one of them failed, in seconds.
_PATIENCE = 30.0
_strategies = {"file_system"} | ({"file_descriptor"} if _sys.platform == "linux" else set())
_strategy = ["file_descriptor" if "file_descriptor" in _strategies else "file_system"]


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return _strategies


def get_sharing_strategy() -> str:
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Kept for scripts that set it: memory on its way has no name in any file system."""
    if new_strategy not in _strategies:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {_strategies}"
        )
    _strategy[0] = new_strategy


class ProcessException(Exception):
    """A started process failed."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A started process ended with an exception; its traceback is in the text."""


class ProcessExitedException(ProcessException):
    """A started process ended by a signal or with a status other than 0."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        return type(self), (
            self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name,
        )  # fmt: skip


def _call(fn: Callable[..., Any], index: int, args: Sequence[Any], failure: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent is interrupted too
    except Exception:
        import traceback

        failure.send(traceback.format_exc())
        _sys.exit(1)


class ProcessContext:
    """Processes started together. `failures` are where their tracebacks come from."""

    def __init__(self, processes: list[Any], failures: list[Any]) -> None:
        self.processes = processes
        self.failures = failures
        self.sentinels: dict[Any, int] = {p.sentinel: i for i, p in enumerate(processes)}
        self.told: dict[int, str] = {}  # tracebacks that have come

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for some process to end; True when all have.

        After a failure the others are ended too, and the first failure is raised.
        """
        from multiprocessing.connection import wait

        if not self.sentinels:
            return True
        failed = None
        # A long traceback must be read before its sender can end.
        silent = {self.failures[i]: i for i in self.sentinels.values() if i not in self.told}
        for source in wait([*self.sentinels, *silent], timeout):
            if source in silent:
                self._listen(silent[source])
                continue
            index = self.sentinels.pop(source)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        if grace_period is not None:
            self._wait(grace_period)
        self._end("terminate", _PATIENCE if grace_period is None else grace_period)
        self._end("kill", None)
        raise self._error(failed)

    def _listen(self, index: int) -> None:
        try:
            self.told[index] = self.failures[index].recv()
        except (EOFError, OSError):
            self.told[index] = ""

    def _wait(self, seconds: float | None) -> None:
        import time

        until = None if seconds is None else time.monotonic() + seconds
        for process in self.processes:
            process.join(None if until is None else max(0.0, until - time.monotonic()))

    def _end(self, how: str, seconds: float | None) -> None:
        for process in self.processes:
            if process.is_alive():
                getattr(process, how)()
        self._wait(seconds)

    def _error(self, index: int) -> ProcessException:
        import signal

        process = self.processes[index]
        pid, code = int(process.pid), process.exitcode
        if index not in self.told and self.failures[index].poll():
            self._listen(index)
        if told := self.told.get(index):
            text = f"\n\n-- Process {index} terminated with the following error:\n{told}"
            return ProcessRaisedException(text, index, pid)
        if code >= 0:
            text = f"process {index} terminated with exit code {code}"
            return ProcessExitedException(text, index, pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        text = f"process {index} terminated with signal {name}"
        return ProcessExitedException(text, index, pid, code, name)


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes; with `join` wait for all of them."""
    context: Any = _standard.get_context(start_method)
    processes, failures = [], []
    for index in range(nprocs):
        near, far = context.Pipe(duplex=False)
        process = context.Process(target=_call, args=(fn, index, args, far), daemon=daemon)
        process.start()
        far.close()
        processes.append(process)
        failures.append(near)
    started = ProcessContext(processes, failures)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` new Python processes.

    `fn` must be defined at the top level of a module. An exception in one process ends the
    others and is raised here as `ProcessRaisedException`.
    """
    if start_method != "spawn":
        import warnings

        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t"
            " torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
