"""Who else holds an object: reference counts, compared with what they are in this interpreter.

How many references a call of `getrefcount` itself adds differs between interpreters: some lend a
local to the call without counting. So the counts of an object with one holder are measured once.
Where they do not add up, or there is no interpreter lock, nothing is ever found to have a single
holder: callers then copy.
Note [Moved values]: a count proves something about a local only if the value was moved into it,
out of a container or from a call; a caller's variable may be lent to the callee's.
"""

from __future__ import annotations

import sys
from sys import getrefcount
from typing import Any

__all__ = ["COUNTS", "Counts"]

# Below every count: nothing has so few holders.
NEVER = -(1 << 30)


class Counts:
    """What `getrefcount` says about an object with one holder: a local variable, or a slot of
    another object. Each further holder adds one."""

    __slots__ = ("local", "slot")

    def __init__(self) -> None:
        self.local = self.slot = NEVER
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            return
        # Often, because an interpreter may run code in another way once it is warm.
        found = {(*measure_local(), *measure_slot()) for _ in range(64)}
        if len(found) == 1:
            lone, shared, slotted, shared_slot = found.pop()
            if shared == lone + 1 and shared_slot == slotted + 1:
                self.local, self.slot = lone, slotted


class Holder:
    """An object with a slot to hold something in."""

    __slots__ = ("held",)

    held: Any


def measure_local() -> tuple[int, int]:
    """The counts of a moved local, alone and with one more holder."""
    box = [object()]
    value = box.pop()
    lone = getrefcount(value)
    box.append(value)
    return lone, getrefcount(value)


def measure_slot() -> tuple[int, int]:
    """The counts of what a slot holds, alone and with one more holder."""
    holder = Holder()
    holder.held = object()
    lone = getrefcount(holder.held)
    other = holder.held
    shared = getrefcount(holder.held)
    del other
    return lone, shared


COUNTS = Counts()
