"""The engine: collectives as programs of steps, advanced by whoever waits.

A task is a generator that yields what it waits for. Its first step is taken where it is submitted,
so that all processes post in the order of their calls; later ones by waiters or, for tasks that
nobody waits for yet, by one thread. MPI is only entered under the engine's lock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from rushlight.distributed.errors import DistBackendError

__all__ = ["Engine", "Steps", "Task"]

# Each step is the requests it waits for, or a function that says whether it is over.
Steps = Generator[list[Any] | Callable[[], bool], None, Any]

# Waiting spins for so long before it sleeps, in seconds.
SPIN = 0.002
LONGEST_SLEEP = 0.0005


class Task:
    """One collective or message under way."""

    def __init__(self, steps: Steps, label: str, group: Any, sequence: int) -> None:
        self.steps = steps
        self.label = label
        self.group = group
        self.sequence = sequence
        self.requests: list[Any] | Callable[[], bool] = []
        self.done = False
        self.answer: Any = None
        self.problem: BaseException | None = None
        self.began = time.monotonic()
        # What is to be done when it has ended.
        self.callbacks: list[Callable[[Task], None]] = []

    def __str__(self) -> str:
        return self.label


class Engine:
    """The tasks of one process. Without MPI there is nobody to wait for."""

    def __init__(self, runtime: Any) -> None:
        self.runtime = runtime
        self.lock = threading.RLock()
        self.active: list[Task] = []
        self.waiting = 0
        self.wake = threading.Condition()
        self.thread: threading.Thread | None = None
        self.closed = False

    # -- messages ------------------------------------------------------------------------------

    def send(self, values: Any, to: int, tag: int) -> Any:
        comm = self.runtime.comm
        return comm.Isend([values, self.runtime.mpi.BYTE], to, tag)

    def receive(self, values: Any, source: int, tag: int) -> Any:
        comm = self.runtime.comm
        return comm.Irecv([values, self.runtime.mpi.BYTE], source, tag)

    # -- tasks ---------------------------------------------------------------------------------

    def submit(self, task: Task, background: bool) -> None:
        with self.lock:
            ended = self.advance(task)
            if not ended:
                self.active.append(task)
        if ended:
            self.tell(task)
        elif background:
            self.start_thread()

    def advance(self, task: Task) -> bool:
        """Take the steps that can be taken; whether the task has ended."""
        try:
            while True:
                waited = task.requests
                if callable(waited):
                    if not waited():
                        return False
                elif waited and not self.runtime.mpi.Request.Testall(waited):
                    return False
                task.requests = next(task.steps)
        except StopIteration as end:
            task.answer = end.value
        except BaseException as problem:
            task.problem = problem
            if not isinstance(problem, (RuntimeError, ValueError)):
                task.problem = DistBackendError(f"{task.label}: {problem}")
                task.problem.__cause__ = problem
        task.requests = []
        task.done = True
        return True

    def pump(self) -> bool:
        """Advance what can be advanced; whether anything ended."""
        ended = []
        with self.lock:
            for task in list(self.active):
                if self.advance(task):
                    self.active.remove(task)
                    ended.append(task)
        for task in ended:
            self.tell(task)
        return bool(ended)

    def tell(self, task: Task) -> None:
        callbacks, task.callbacks = task.callbacks, []
        for callback in callbacks:
            callback(task)

    def fail(self, task: Task, problem: BaseException) -> None:
        """End a task that cannot succeed any more; its memory stays with it."""
        with self.lock:
            if task.done:
                return
            task.problem, task.done = problem, True
            if task in self.active:
                self.active.remove(task)
            LOST.append(task)
        self.tell(task)

    def wait(self, task: Task, limit: float, late: Callable[[Task], BaseException]) -> None:
        """Until the task has ended; `late` says what is raised when time is up."""
        began = time.monotonic()
        pause = 0.00002
        self.waiting += 1
        try:
            while not task.done:
                self.pump()
                if task.done:
                    break
                passed = time.monotonic() - began
                if passed > limit:
                    self.fail(task, late(task))
                    break
                if passed < SPIN:
                    os.sched_yield()
                else:
                    time.sleep(pause)
                    pause = min(LONGEST_SLEEP, pause * 1.2)
        finally:
            self.waiting -= 1
        if task.problem is not None:
            raise task.problem

    # -- the thread that advances what nobody waits for ------------------------------------------

    def start_thread(self) -> None:
        with self.wake:
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self.run, name="rushlight-collectives", daemon=True
                )
                self.thread.start()
            self.wake.notify()

    def run(self) -> None:
        pause = 0.00005
        while not self.closed:
            if not self.active:
                with self.wake:
                    if not self.active and not self.closed:
                        self.wake.wait()
                pause = 0.00005
                continue
            if self.waiting:
                time.sleep(0.0005)
            elif self.pump():
                pause = 0.00005
            else:
                time.sleep(pause)
                pause = min(LONGEST_SLEEP, pause * 1.2)

    def close(self) -> None:
        with self.wake:
            self.closed = True
            self.wake.notify()
        if self.thread is not None:
            self.thread.join(5)


# Tasks that failed with messages under way: MPI may still write to their memory.
LOST: list[Task] = []
