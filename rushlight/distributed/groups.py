"""Process groups: the default one, sub-groups, and what a collective needs of its group."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, NewType

from rushlight.base.errors import error
from rushlight.distributed.algorithms import Link
from rushlight.distributed.engine import Engine, Steps, Task
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.stores import Store
from rushlight.distributed.watch import Watch
from rushlight.distributed.work import Work

__all__ = [
    "GroupMember", "ProcessGroup", "World", "default_group", "default_store", "group",
    "the_group", "the_world",
]  # fmt: skip

log = logging.getLogger("rushlight.distributed")

# Tags: whether a collective, its group, its number, and a print of what it is. A message between
# calls that do not match is never taken for another; the watch tells why it does not come.
GROUP_BITS, NUMBER_BITS, PRINT_BITS = 10, 8, 9
USER_BITS = NUMBER_BITS + PRINT_BITS
COLLECTIVE = 1 << (GROUP_BITS + USER_BITS)


# What a group is called by where it cannot be passed itself.
GroupName = NewType("GroupName", str)


class GroupMember:
    """The default group, and what those outside a group have for it."""

    WORLD: Any = None
    NON_GROUP_MEMBER = -100


group = GroupMember


class World:
    """What the process groups of a process share."""

    def __init__(
        self, engine: Engine, watch: Watch | None, store: Store, rank: int, size: int
    ) -> None:
        self.engine = engine
        self.watch = watch
        self.store = store
        self.rank = rank
        self.size = size
        self.groups: dict[str, ProcessGroup] = {}
        # How the stores that init_process_group has made are closed.
        self.closers: list[Callable[[], None]] = []


class Party:
    """Whom a task is waiting for."""

    __slots__ = ("key", "members", "peer")

    def __init__(self, key: str, members: tuple[int, ...], peer: int = -1) -> None:
        self.key = key
        self.members = members
        self.peer = peer


class ProcessGroup:
    """Some processes, in the order of their ranks."""

    BackendType = None

    def __init__(
        self,
        world: World,
        members: Iterable[int],
        number: int,
        timeout: timedelta,
        backend: str,
        description: str = "",
    ) -> None:
        self.world = world
        self.members = tuple(members)
        self.number = number
        self.key = str(number)
        self.timeout = timeout
        self.backend = backend
        self.group_desc = description or ("default_pg" if number == 0 else "undefined")
        self.sequence = 0
        self.party = Party(self.key, self.members)
        self.broken: BaseException | None = None
        self.me = self.members.index(world.rank) if world.rank in self.members else -1

    # -- names of torch's ---------------------------------------------------------------------

    def rank(self) -> int:
        return self.me

    def size(self) -> int:
        return len(self.members)

    def name(self) -> str:
        return self.backend

    @property
    def group_name(self) -> str:
        return self.key

    @property
    def bound_device_id(self) -> None:
        return None

    def _get_backend_name(self) -> str:
        return self.backend

    def get_group_store(self) -> Store:
        return self.world.store

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.timeout = timeout

    # -- collectives ----------------------------------------------------------------------------

    def collective(
        self,
        name: str,
        detail: str,
        program: Callable[[Link], Steps],
        result: Any = None,
        async_op: bool = False,
        timeout: timedelta | None = None,
    ) -> Work | None:
        """Begin a collective; wait for it unless `async_op`.

        `detail` says what must be the same in all processes.
        """
        self.check_whole()
        number, self.sequence = self.sequence, self.sequence + 1
        label = f"{name}({detail}), collective {number} of group {self.key}"
        world = self.world
        tag = self.tag(number, label)
        link = Link(world.engine, self.members, self.me, tag)
        if world.watch is not None:
            world.watch.note(self.key, number, label)
        task = Task(program(link), label, self.party, number)
        return self.begin(task, result, async_op, timeout)

    def tag(self, number: int, label: str) -> int:
        mark = zlib.crc32(label.encode()) & ((1 << PRINT_BITS) - 1)
        low = (number & ((1 << NUMBER_BITS) - 1)) << PRINT_BITS | mark
        return COLLECTIVE | self.number << USER_BITS | low

    def message(
        self, label: str, peer: int, steps: Steps, result: Any, async_op: bool
    ) -> Work | None:
        """Begin sending or receiving one tensor; `peer` is a rank of the world."""
        self.check_whole()
        task = Task(steps, label, Party(self.key, self.members, peer), -1)
        return self.begin(task, result, async_op, None)

    def user_tag(self, tag: int) -> int:
        if not 0 <= tag < 1 << USER_BITS:
            raise ValueError(f"tag must be from 0 to {(1 << USER_BITS) - 1}, got {tag}")
        return self.number << USER_BITS | tag

    def begin(
        self, task: Task, result: Any, async_op: bool, timeout: timedelta | None
    ) -> Work | None:
        limit = (self.timeout if timeout is None else timeout).total_seconds()
        self.world.engine.submit(task, async_op)
        if async_op:
            return Work(task, self, result, limit)
        self.finish(task, limit)
        return None

    def finish(self, task: Task, limit: float) -> None:
        def late(task: Task) -> DistBackendError:
            if self.world.watch is None:
                return DistBackendError(f"timed out after {limit:g} s in {task}")
            return self.world.watch.late(task, limit)

        try:
            self.world.engine.wait(task, limit, late)
        except DistBackendError as problem:
            self.broken = problem
            if self.world.watch is not None:
                self.world.watch.tell(problem)
            raise

    def check_whole(self) -> None:
        if self.broken is not None:
            raise error("RL0024", DistBackendError, group=self.key, cause=self.broken)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.key} of ranks {list(self.members)}>"


WORLDS: list[World] = []


def the_world() -> World:
    """What `init_process_group` has set up."""
    if not WORLDS:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return WORLDS[0]


def default_group() -> ProcessGroup:
    """The group of all processes."""
    the_world()
    found: ProcessGroup = GroupMember.WORLD
    return found


def default_store() -> Store:
    """What all processes share, besides messages."""
    return the_world().store


def the_group(wanted: Any, caller: str) -> ProcessGroup | None:
    """The group that a collective is of; None, with a warning, for those outside it."""
    world = the_world()
    found = GroupMember.WORLD if wanted is None else wanted
    if isinstance(found, ProcessGroup) and found.me >= 0:
        if found.key not in world.groups:
            raise ValueError("Invalid process group specified")
        return found
    if found == GroupMember.NON_GROUP_MEMBER or isinstance(found, ProcessGroup):
        import warnings

        warnings.warn(
            f"Running {caller} on global rank {world.rank} which does not belong to the given "
            "group.",
            stacklevel=3,
        )
        return None
    raise TypeError(f"{caller}: group must be a process group, got {type(wanted).__name__}")
