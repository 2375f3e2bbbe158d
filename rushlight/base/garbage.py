"""While a graph is made, nobody looks for garbage.

A graph is thousands of objects that refer to one another, none of which is garbage; and the tensors
that a program makes are held by its recorder. Searches in between would find nothing, and take as
long as tracing itself.
"""

from __future__ import annotations

import gc
import os
import threading

__all__ = ["Undisturbed"]


class Undisturbed:
    """Python's search for cycles rests inside, in all threads; then it is what it was before."""

    lock = threading.Lock()
    count = 0
    was_on = False

    def __enter__(self) -> None:
        cls = Undisturbed
        with cls.lock:
            if cls.count == 0:
                cls.was_on = gc.isenabled()
                gc.disable()
            cls.count += 1

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        cls = Undisturbed
        with cls.lock:
            # A child that was forked inside has forgotten who was.
            cls.count = max(cls.count - 1, 0)
            if cls.count == 0 and cls.was_on:
                gc.enable()

    @classmethod
    def forget(cls) -> None:
        """In a forked child nobody traces, whoever did before."""
        cls.lock = threading.Lock()
        if cls.count and cls.was_on:
            gc.enable()
        cls.count = 0


os.register_at_fork(after_in_child=Undisturbed.forget)
