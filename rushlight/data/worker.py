"""What a worker does, in a process or a thread: take tasks, fetch, reply.

A task is (epoch, key, index). One of a newer epoch means that the loader has begun again: older
tasks are passed over and the dataset is iterated from its start.
"""

from __future__ import annotations

import copy
import os
import queue
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from rushlight.core.rng import Generator, default_generator
from rushlight.data.failure import ExceptionWrapper
from rushlight.data.fetch import Recipe

__all__ = ["Inbox", "Seat", "WorkerInfo", "get_worker_info", "serve_process", "serve_thread"]

# How a task ended.
DATA, FAILED, ENDED, LOST = range(4)

# Seconds a worker process has to end after its loader is gone.
LINGER = 5.0

Task = tuple[int, int, Any]
Reply = Callable[[int, int, int, Any], None]


@dataclass(frozen=True, slots=True)
class WorkerStreams:
    """Random streams of one thread; those of the modules are shared by all threads."""

    random_generator: random.Random
    torch_generator: Generator
    numpy_generator: Any = None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Which worker this is, and its dataset. `rng` is filled in for threads."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: WorkerStreams | None = None
    worker_method: str | None = "multiprocessing"


class CurrentWorker(threading.local):
    """The worker this thread is; `of_process` answers for threads that a worker process starts."""

    info: WorkerInfo | None = None
    of_process: WorkerInfo | None = None


CURRENT = CurrentWorker()


def get_worker_info() -> WorkerInfo | None:
    """The worker that runs this code: its `id`, `num_workers`, `seed` and `dataset`.

    None outside of workers.

    >>> get_worker_info() is None
    True
    """
    return CURRENT.info or CurrentWorker.of_process


class Seat(NamedTuple):
    """One worker's place among the workers."""

    worker_id: int
    num_workers: int
    base_seed: int
    init_fn: Callable[[int], Any] | None

    @property
    def seed(self) -> int:
        return self.base_seed + self.worker_id

    def numpy_seed(self) -> list[int]:
        """Words that share no pattern with the seeds of the other streams."""
        return words_of_seed(self.base_seed, self.worker_id)


def words_of_seed(base_seed: int, worker_id: int) -> list[int]:
    import numpy as np

    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return list(np.random.SeedSequence(words).generate_state(4).tolist())


class Inbox:
    """Tasks on their way to one worker. `newest` and `stopped` take effect ahead of the queue."""

    def __init__(self) -> None:
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.newest = 0
        self.stopped = False

    def put(self, task: Task) -> None:
        self.newest = task[0]
        self.tasks.put(task)

    def stop(self, error: Exception | None = None) -> None:
        self.stopped = True
        self.tasks.put(error)

    def take(self) -> Task | None:
        """The next task that still counts; None when there is nothing more to do."""
        while True:
            task = self.tasks.get()
            if isinstance(task, Exception):
                raise task
            if task is None or self.stopped:
                return None
            if task[0] == self.newest:
                found: Task = task
                return found

    def feed(self, connection: Any) -> None:
        """Take in what the loader sends, until it says or shows that it is gone.

        It runs in a thread of its own, so that the loader never waits for a busy worker.
        """
        from multiprocessing import parent_process
        from multiprocessing.connection import wait

        parent = parent_process()
        watched = [connection] if parent is None else [connection, parent.sentinel]
        try:
            while connection in wait(watched):
                self.put(connection.recv())
        except (EOFError, OSError):
            pass
        except Exception as error:
            self.stop(error)
        self.stop()
        time.sleep(LINGER)
        os._exit(1)  # nobody waits for what this worker is still doing


def serve(dataset: Any, recipe: Recipe, seat: Seat, inbox: Inbox, reply: Reply, place: str) -> None:
    """Answer tasks until the inbox is stopped."""
    where = f"in DataLoader worker {place} {seat.worker_id}"
    fetcher: Any = None
    failure: ExceptionWrapper | None = None
    epoch = 0
    ended = False
    try:
        if seat.init_fn is not None:
            seat.init_fn(seat.worker_id)
        fetcher = recipe.fetcher(dataset)
    except Exception:
        failure = ExceptionWrapper(where=where)
    while (task := inbox.take()) is not None:
        asked, key, index = task
        if asked != epoch:
            epoch, ended = asked, False
            if failure is None:
                try:
                    fetcher = recipe.fetcher(dataset)
                except Exception:
                    failure = ExceptionWrapper(where=where)
        if ended:
            continue
        status: int = DATA
        result: Any = None
        try:
            if failure is None:
                result = fetcher.fetch(index)
            else:
                status, result = FAILED, failure
        except Exception as error:
            if isinstance(error, StopIteration) and recipe.is_stream:
                status, ended = ENDED, True
            else:
                status, result = FAILED, ExceptionWrapper(where=where)
        reply(epoch, key, status, result)


# -------------------------------------------------------------------- in a process


def serve_process(
    connection: Any, strangers: list[Any], dataset: Any, recipe: Recipe, seat: Seat
) -> None:
    """The whole life of a worker process. `strangers` are ends of pipes it must not keep open."""
    from rushlight.arrays.threads import set_blas_threads
    from rushlight.data import transport

    where = f"in DataLoader worker process {seat.worker_id}"

    def reply(epoch: int, key: int, status: int, result: Any) -> None:
        try:
            transport.send(connection, (epoch, key, status), result)
        except (BrokenPipeError, ConnectionResetError):
            inbox.stop()
        except Exception:
            told = ExceptionWrapper(where=where)
            if status == FAILED:  # the exception's type is what cannot be sent
                told.exc_type, told.exc_msg = RuntimeError, result.exc_msg
            transport.send(connection, (epoch, key, FAILED), told)

    try:
        for stranger in strangers:
            stranger.close()
        inbox = Inbox()
        threading.Thread(
            target=inbox.feed, args=(connection,), name="rushlight-data-inbox", daemon=True
        ).start()
        set_blas_threads(1)
        seed_process(seat)
        CURRENT.info = None
        CurrentWorker.of_process = WorkerInfo(seat.worker_id, seat.num_workers, seat.seed, dataset)
        serve(dataset, recipe, seat, inbox, reply, "process")
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass  # the loader's process is interrupted too, or gone


def seed_process(seat: Seat) -> None:
    """Give this process random streams of its own."""
    import numpy as np

    random.seed(seat.seed)
    default_generator.manual_seed(seat.seed & 0xFFFFFFFFFFFFFFFF)
    np.random.seed(seat.numpy_seed())


# -------------------------------------------------------------------- in a thread


def serve_thread(dataset: Any, recipe: Recipe, seat: Seat, inbox: Inbox, reply: Reply) -> None:
    """The whole life of a worker thread."""
    import numpy as np

    # As in a process, what one worker sets on the dataset is not seen by the others.
    # An object that cannot be copied is shared.
    with suppress(Exception):
        dataset = copy.copy(dataset)
    streams = WorkerStreams(
        random.Random(seat.seed),
        Generator().manual_seed(seat.seed & 0xFFFFFFFFFFFFFFFF),
        np.random.default_rng(seat.numpy_seed()),
    )
    CURRENT.info = WorkerInfo(
        seat.worker_id, seat.num_workers, seat.seed, dataset, streams, "thread"
    )
    serve(dataset, recipe, seat, inbox, reply, "thread")
