"""The workers of one iterator, as processes or as threads, seen from the loader.

Both kinds have `send(worker, task)`, `receive(timeout)` and `close()`. A process that dies is an
event like any reply: its connection ends. Invariant: after `close()` no process is left.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rushlight.data.failure import ExceptionWrapper
from rushlight.data.fetch import Recipe
from rushlight.data.worker import FAILED, LOST, Inbox, Seat, Task, serve_process, serve_thread

__all__ = ["Event", "ProcessCrew", "ThreadCrew"]

# How long closing waits for workers that are in the middle of a fetch, in seconds.
PATIENCE = 5.0


class Event(NamedTuple):
    """What a worker has to say: how a task ended, or that the worker is lost."""

    worker: int
    epoch: int
    key: int
    status: int
    data: Any


class ProcessCrew:
    """Worker processes, each at the end of a connection of its own."""

    def __init__(self, dataset: Any, recipe: Recipe, seats: Sequence[Seat], context: Any) -> None:
        self.owner = os.getpid()
        self.closed = False
        self.events: deque[Event] = deque()
        self.processes: list[Any] = []
        self.connections: list[Any] = []
        try:
            for seat in seats:
                self.start(dataset, recipe, seat, context)
        except BaseException:
            self.close()
            raise

    def start(self, dataset: Any, recipe: Recipe, seat: Seat, context: Any) -> None:
        from pickle import PicklingError

        near, far = context.Pipe()
        # A forked process gets every open end; the loader's must be its alone to show its death.
        forked = context.get_start_method() == "fork"
        strangers = [end for end in (*self.connections, near) if end is not None] if forked else []
        process = context.Process(
            target=serve_process, args=(far, strangers, dataset, recipe, seat), daemon=True
        )
        try:
            process.start()
        except BaseException as error:
            near.close()
            if isinstance(error, (TypeError, AttributeError, PicklingError)):
                warnings.warn(
                    "Got pickle error when attempting to start a worker Process. "
                    "This might be because the worker Process arguments are not picklable. "
                    "Python 3.14+ changed the multiprocessing start method in non-Mac POSIX "
                    "platforms to 'forkserver', which requires the worker Process arguments to be "
                    "picklable. You can also try multiprocessing.set_start_method('fork').",
                    stacklevel=6,
                )
            raise
        finally:
            far.close()
        self.processes.append(process)
        self.connections.append(near)

    def send(self, worker: int, task: Task) -> None:
        connection = self.connections[worker]
        if connection is None:
            self.events.append(Event(worker, task[0], task[1], LOST, None))
            return
        # What a worker said before its end is still to be received; its end shows then.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.send(task)

    def receive(self, timeout: float | None) -> Event | None:
        """The next event; None when none comes in `timeout` seconds."""
        from multiprocessing.connection import wait

        if not self.events:
            ends = {end: worker for worker, end in enumerate(self.connections) if end is not None}
            sentinels = {self.processes[worker].sentinel: end for end, worker in ends.items()}
            ready = set(wait([*ends, *sentinels], timeout))
            # An exit shows without the end of the connection where a stranger holds its far end.
            ready |= {sentinels[one] for one in ready & sentinels.keys()}
            for end in ready & ends.keys():
                self.events.append(self.read(ends[end], end))
        return self.events.popleft() if self.events else None

    def read(self, worker: int, connection: Any) -> Event:
        from rushlight.data import transport

        try:
            if connection.poll():
                (epoch, key, status), data, buffers = transport.receive(connection)
                try:
                    return Event(worker, epoch, key, status, transport.loads(data, buffers))
                except Exception:
                    where = f"while receiving from DataLoader worker process {worker}"
                    return Event(worker, epoch, key, FAILED, ExceptionWrapper(where=where))
        except (EOFError, ConnectionResetError):
            pass
        connection.close()
        self.connections[worker] = None
        return Event(worker, -1, -1, LOST, None)

    def obituary(self, lost: Event) -> RuntimeError:
        """The error that says how a worker ended."""
        process = self.processes[lost.worker]
        process.join(PATIENCE)
        pid, code = process.pid, process.exitcode
        cause = None
        if code is not None and code < 0:
            name = signal.strsignal(-code) or f"Unknown signal {-code}"
            cause = f"DataLoader worker (pid {pid}) is killed by signal: {name}. "
            if -code == getattr(signal, "SIGBUS", None):
                cause += (
                    "It is possible that dataloader's workers are out of shared memory. "
                    "Please try to raise your shared memory limit."
                )
        elif code is not None:
            cause = (
                f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {code}. "
                "Details are lost due to multiprocessing. Rerunning with num_workers=0 may give "
                "better error trace."
            )
        error = RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly")
        error.__cause__ = None if cause is None else RuntimeError(cause)
        return error

    def close(self) -> None:
        """End the processes: by asking, then by force."""
        # A forked process that inherited this object has no say over its siblings.
        if self.closed or os.getpid() != self.owner:
            return
        self.closed = True
        for worker, connection in enumerate(self.connections):
            if connection is not None:
                hang_up(connection)
                self.connections[worker] = None
        until = time.monotonic() + PATIENCE
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
        for force in ("terminate", "kill"):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, force)()
                    process.join(PATIENCE)


def hang_up(connection: Any) -> None:
    """Close a connection so that the other side sees it, whoever else holds this end."""
    import socket

    if hasattr(socket, "AF_UNIX"):
        # OSError: the other side has closed already
        with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as channel:
            channel.shutdown(socket.SHUT_RDWR)
    connection.close()


class ThreadCrew:
    """Worker threads of this process."""

    def __init__(self, dataset: Any, recipe: Recipe, seats: Sequence[Seat]) -> None:
        self.closed = False
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.inboxes = [Inbox() for _ in seats]
        self.processes: list[threading.Thread] = []
        for seat, inbox in zip(seats, self.inboxes):
            thread = threading.Thread(
                target=run_thread,
                args=(self.events, dataset, recipe, seat, inbox),
                name=f"rushlight-data-{seat.worker_id}",
                daemon=True,
            )
            thread.start()
            self.processes.append(thread)

    def send(self, worker: int, task: Task) -> None:
        self.inboxes[worker].put(task)

    def receive(self, timeout: float | None) -> Event | None:
        try:
            return self.events.get(timeout=timeout)
        except queue.Empty:
            return None

    def obituary(self, lost: Event) -> RuntimeError:
        text = f"DataLoader worker (thread {lost.worker}) exited unexpectedly"
        return RuntimeError(f"{text}\nOriginal {lost.data.exc_msg}")

    def close(self) -> None:
        """Let the threads end; one in the middle of a fetch is waited for, but not for ever."""
        if self.closed:
            return
        self.closed = True
        for inbox in self.inboxes:
            inbox.stop()
        until = time.monotonic() + PATIENCE
        for thread in self.processes:
            # garbage collection may have come here from a worker
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))


def run_thread(
    events: queue.SimpleQueue[Event], dataset: Any, recipe: Recipe, seat: Seat, inbox: Inbox
) -> None:
    worker = seat.worker_id

    def reply(epoch: int, key: int, status: int, result: Any) -> None:
        events.put(Event(worker, epoch, key, status, result))

    try:
        serve_thread(dataset, recipe, seat, inbox, reply)
    except BaseException:  # such as SystemExit: the loader must not wait for this worker
        told = ExceptionWrapper(where=f"in DataLoader worker thread {worker}")
        events.put(Event(worker, -1, -1, LOST, told))
