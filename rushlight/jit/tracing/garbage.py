"""While a trace is made, nobody looks for garbage.

A graph is thousands of objects that refer to one another, none of which is garbage; and the tensors
that a program makes are held by its recorder. Searches in between would find nothing, and take as
long as tracing itself.
"""

from __future__ import annotations

import gc
import threading


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
            cls.count -= 1
            if cls.count == 0 and cls.was_on:
                gc.enable()
