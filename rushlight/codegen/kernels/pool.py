"""Threads for native kernels: as many as `torch.set_num_threads` says, of Note [Pool].

Workers are made by the first job that wants them. They end before a fork and come back with the
next job, in the child as well; a child never waits for threads that it does not have.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight.codegen.kernels import link
from rushlight.codegen.kernels.pooltext import MOST, NAMES, pool_text
from rushlight.core.process import available_cores, get_num_threads

__all__ = ["LONG", "Pool", "pool", "team", "threads"]

# Microseconds that an idle worker looks for work before it sleeps: where each thread has a core,
# and where it would take one from others.
SPIN, CROWDED = 50.0, 2.0
# Multiplications below which another thread costs more than it does.
SHARED = 1 << 20
# From here on the interpreter's lock is let go of: a call takes a millisecond or so.
LONG = 1 << 25
# How long the end of the process waits for a kernel of another thread.
PATIENCE = 1.0


class Pool:
    """The controls. Those that own it keep the interpreter's lock, so that hooks of a fork are not
    mixed with another's; joining workers under it is safe, for they never want it."""

    def __init__(self, machine: link.Linking) -> None:
        linked = machine.functions("pool", lambda target: [pool_text()], NAMES)
        # Code that came in a package lives as long as this.
        self.linked = linked
        pointer, short, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
        job = (None, pointer, pointer, long, long)
        self.address = address = linked["rl_parallel_for"]
        self.released = ctypes.CFUNCTYPE(*job)(address)
        self.held = ctypes.PYFUNCTYPE(*job)(address)

        def control(name: str, *kinds: Any) -> Callable[..., Any]:
            return ctypes.PYFUNCTYPE(*kinds)(linked[name])

        self.own, self.disown = control("rl_own", short), control("rl_disown", None)
        self.stop_workers = control("rl_stop", None)
        self.join_workers = control("rl_stopped", None)
        self.forked = control("rl_forked", None)
        self.set = control("rl_set", None, short, short)
        self.live = control("rl_live", short)
        self.pause = control("rl_pause", None, short)
        control("rl_wait_init", None)()
        self.threads = 1
        self.owns_for_fork = False
        self.pauses = self.pauses_per_microsecond()
        atexit.register(self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self.before_fork,
                after_in_parent=self.after_fork,
                after_in_child=self.in_child,
            )

    def pauses_per_microsecond(self) -> float:
        count, best = 2000, float("inf")
        for _ in range(5):
            start = time.perf_counter()
            self.pause(count)
            best = min(best, time.perf_counter() - start)
        return count / (best * 1e6)

    def run(self, function: int, words: int, chunks: int, most: int, work: int) -> None:
        """All chunks of a kernel, on at most so many threads."""
        if most > 1:
            self.resize(get_num_threads())
        call = self.released if work >= LONG else self.held
        call(function, words, chunks, most)

    def resize(self, wanted: int) -> None:
        """Another number of threads, unless the pool is at work: then it is for the next job."""
        wanted = min(wanted, MOST)
        if wanted == self.threads or not self.own():
            return
        try:
            self.end_workers()
            self.threads = wanted
            spin = SPIN if wanted <= available_cores() else CROWDED
            self.set(wanted, max(int(spin * self.pauses), 1))
        finally:
            self.disown()

    def end_workers(self) -> None:
        """As owner."""
        self.stop_workers()
        self.join_workers()

    def stop(self) -> None:
        """No workers any more; a kernel that a daemon thread is in goes with the process."""
        deadline = time.perf_counter() + PATIENCE
        while not self.own():
            if time.perf_counter() > deadline:
                return
            time.sleep(0.0001)
        self.end_workers()
        self.threads = 1
        self.set(1, 1)
        self.disown()

    def before_fork(self) -> None:
        self.owns_for_fork = bool(self.own())
        if self.owns_for_fork:
            self.end_workers()

    def after_fork(self) -> None:
        if self.owns_for_fork:
            self.owns_for_fork = False
            self.disown()

    def in_child(self) -> None:
        self.owns_for_fork = False
        self.forked()


class Serial:
    """The same where threads cannot be made."""

    def __init__(self, machine: link.Linking) -> None:
        linked = machine.functions("pool", lambda target: [pool_text()], NAMES[:1])
        self.linked = linked
        job = (None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self.address = linked[NAMES[0]]
        self.released = ctypes.CFUNCTYPE(*job)(self.address)

    def resize(self, wanted: int) -> None:
        """There is always one."""

    def run(self, function: int, words: int, chunks: int, most: int, work: int) -> None:
        self.released(function, words, chunks, most)


@cache
def pool() -> Pool | Serial:
    """The pool of the process, by whose machine the first job comes; all have the same code."""
    machine = link.machine("")
    return Pool(machine) if "pthread_create" in pool_text() else Serial(machine)


def threads(chunks: int, work: int, count: int | None = None) -> int:
    """How many threads of so many may take part in a job; memory is made for each."""
    if work < SHARED or chunks < 2:
        return 1
    return min(get_num_threads() if count is None else count, MOST, chunks)


@cache
def number_of(count: int) -> Any:
    return np.array([count], np.int64)


def team() -> Any:
    """How many threads there are now, in memory for native code, and the pool of that size."""
    count = min(get_num_threads(), MOST)
    if count > 1:
        pool().resize(count)
    return number_of(count)
