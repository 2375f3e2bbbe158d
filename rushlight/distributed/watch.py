"""Watching the other processes: what each has called, and which are gone.

A thread of each process reports to the board (rank 0's store server) which collectives it has
begun, and reads what others say while something here has waited for long. So an error can name the
rank that is missing and what it did instead. Nothing of this is on the way of a collective that
goes well.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from typing import Any

from rushlight.distributed.engine import Engine, Task
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.storeserver import ask

__all__ = ["Watch"]

PERIOD = 0.2
# A report is due every so many periods even where nothing has changed.
ALIVE = 5
# A task is looked into once it has waited for so long, in seconds.
STALLED = 0.5
# How many past collectives of a group a report tells.
KEPT = 32
# A rank that has not reported for so long is told to be silent, in seconds.
SILENT = 3.0
# How long rank 0 stays to tell why it fails, in seconds.
LINGER = 3 * PERIOD


class Watch:
    """Reports for this process, and findings about the others."""

    def __init__(self, engine: Engine, rank: int, size: int, address: tuple[str, int]) -> None:
        self.engine = engine
        self.rank = rank
        self.size = size
        self.history: dict[str, deque[tuple[int, str]]] = {}
        # What a report would tell has changed since the last one.
        self.changed = True
        self.beat = 0
        self.reports: dict[str, Any] = {}
        self.gone: set[int] = set()
        self.heard: dict[int, tuple[int, float]] = {}
        self.lock = threading.Lock()
        self.problem: str | None = None
        self.stopping = threading.Event()
        self.connection = socket.create_connection(address, timeout=10)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.board_lost = False
        self.exchange()
        self.thread = threading.Thread(target=self.run, name="rushlight-watch", daemon=True)
        self.thread.start()

    def note(self, group: str, sequence: int, label: str) -> None:
        """A collective of this process begins."""
        past = self.history.get(group)
        if past is None:
            past = self.history[group] = deque(maxlen=KEPT)
        past.append((sequence, label))
        self.changed = True

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join(2)
        self.connection.close()

    def tell(self, problem: BaseException) -> None:
        """Let the others know why this process fails; rank 0, whose end is the board's, lingers."""
        if self.problem is None and not self.board_lost:
            self.problem = str(problem)
            self.exchange()
            if self.rank == 0:
                time.sleep(LINGER)

    def exchange(self, asking: bool = True) -> None:
        """Tell the board what is new here; where `asking`, read what it knows."""
        with self.lock:
            self.beat += 1
            self.changed = False
            try:
                past = {group: list(events) for group, events in list(self.history.items())}
            except RuntimeError:  # another thread has just begun something
                past = None
            report = (
                None
                if past is None
                else {
                    "beat": self.beat,
                    "past": past,
                    "problem": self.problem,
                }
            )
            try:
                known = ask(self.connection, "report", str(self.rank), report, asking)
            except (OSError, ValueError, RuntimeError):
                self.board_lost = True
                return
            if not asking:
                return
            self.reports = known["reports"]
            self.gone = {int(rank) for rank in known["gone"]}
            now = time.monotonic()
            for rank, said in self.reports.items():
                before = self.heard.get(int(rank))
                if before is None or before[0] != said["beat"]:
                    self.heard[int(rank)] = (said["beat"], now)

    def run(self) -> None:
        turn = 0
        while not self.stopping.wait(PERIOD):
            turn += 1
            asking = bool(self.stalled())
            if not self.board_lost and (asking or self.changed or turn % ALIVE == 0):
                self.exchange(asking)
            if asking:
                self.look()

    def stalled(self) -> list[Task]:
        now = time.monotonic()
        return [
            task
            for task in list(self.engine.active)
            if task.group is not None and not task.done and now - task.began >= STALLED
        ]

    # -- findings --------------------------------------------------------------------------------

    def look(self) -> None:
        """End tasks that wait for what will not come."""
        for task in self.stalled():
            finding = self.finding(task)
            if finding is not None:
                self.engine.fail(task, DistBackendError(finding))

    def past_of(self, rank: int, group: str) -> dict[int, str]:
        report = self.reports.get(str(rank))
        return {} if report is None else dict(map(tuple, report["past"].get(group, ())))

    def finding(self, task: Task) -> str | None:
        """Why a task can never end, if that is known."""
        others = [rank for rank in task.group.members if rank != self.rank]
        if task.sequence < 0 and task.group.peer >= 0:
            others = [task.group.peer]
        pasts = {rank: self.past_of(rank, task.group.key) for rank in others}
        for rank, past in pasts.items():
            said = past.get(task.sequence)
            if said is not None and said != task.label:
                return (
                    f"collectives do not match: rank {self.rank} called {task}, "
                    f"rank {rank} called {said}"
                )
        for rank in others:
            problem = self.reports.get(str(rank), {}).get("problem")
            if problem is not None:
                return f"rank {self.rank} waits in {task}, and rank {rank} has failed: {problem}"
        for rank, past in pasts.items():
            gone = rank in self.gone or (rank == 0 and self.board_lost)
            if gone and task.sequence not in past:
                last = f"after {past[max(past)]}" if past else "before its first collective here"
                return (
                    f"rank {self.rank} waits in {task}, and rank {rank} is gone: its process has "
                    f"ended {last}; its own error tells why"
                )
        return None

    def late(self, task: Task, limit: float) -> DistBackendError:
        """The error of a task whose time is up, with who is missing."""
        self.exchange()
        found = self.finding(task)
        if found is not None:
            return DistBackendError(found)
        text = f"rank {self.rank} timed out after {limit:g} s in {task}"
        if task.group is None:
            return DistBackendError(text)
        missing = []
        for rank in task.group.members:
            past = self.past_of(rank, task.group.key)
            if rank == self.rank or (task.sequence >= 0 and task.sequence in past):
                continue
            if task.sequence < 0 and rank != task.group.peer:
                continue
            last = f"last seen in {past[max(past)]}" if past else "seen in no collective here"
            heard = self.heard.get(rank)
            if heard is None or time.monotonic() - heard[1] > SILENT:
                last += ", and its process answers no more"
            missing.append(f"rank {rank} has not joined ({last})")
        return DistBackendError(f"{text}: {'; '.join(missing) or 'all ranks have joined'}")
