"""Setting process groups up and taking them down, and what they say of themselves."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from rushlight.base.errors import error
from rushlight.core import ports
from rushlight.distributed import mpi
from rushlight.distributed.algorithms import Link, barrier, broadcast
from rushlight.distributed.engine import Engine, Steps, Task
from rushlight.distributed.errors import DistBackendError, refuse
from rushlight.distributed.groups import (
    GROUP_BITS,
    WORLDS,
    GroupMember,
    ProcessGroup,
    World,
    log,
    the_world,
)
from rushlight.distributed.meeting import Meeting, meet
from rushlight.distributed.stores import HashStore, PrefixStore, Store, TCPStore
from rushlight.distributed.syncnorm import synced_norm
from rushlight.distributed.watch import Watch

__all__ = [
    "Backend", "destroy_process_group", "get_backend", "get_backend_config",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "init_process_group",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available",
    "is_xccl_available", "new_group", "new_subgroups", "new_subgroups_by_enumeration",
]  # fmt: skip

default_pg_timeout = timedelta(seconds=1800)
default_pg_nccl_timeout = None
# Groups are numbered alike in all processes; a number is never used by two worlds.
NUMBERS = [0]
# SyncBatchNorm asks here, once there may be groups.
ports.fill(synced_norm=synced_norm)


class Backend(str):
    """The name of a backend, in small letters."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}")
        return str.__new__(cls, name.lower())


SERVED = (Backend.MPI, Backend.GLOO, Backend.NCCL)


def backend_name(wanted: str | None) -> str:
    """The backend that a program asks for: one, or one a device ("cpu:gloo,cuda:nccl")."""
    if wanted is None:
        return Backend.GLOO
    name = Backend(wanted)
    of_cpu = name
    for part in name.split(",") if ":" in name else ():
        device, _, of_device = part.partition(":")
        if device == "cpu":
            of_cpu = Backend(of_device)
    if of_cpu not in SERVED:
        raise error("RL0025", ValueError, backend=str(wanted))
    return str(of_cpu)


def is_available() -> bool:
    """Whether process groups can be made: one of a single process always can."""
    return True


def is_initialized() -> bool:
    """Whether the default process group exists."""
    return bool(WORLDS)


def is_mpi_available() -> bool:
    """Whether MPI is found here."""
    return mpi.is_found()


# Programs that ask for gloo get MPI.
is_gloo_available = is_mpi_available


def is_nccl_available() -> bool:
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    return Backend(backend) in (Backend.MPI, Backend.GLOO) and mpi.is_found()


def is_torchelastic_launched() -> bool:
    """Whether torch's elastic launcher started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank within this machine that a launcher gave, or the fallback."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    given = mpi.launched_by_mpirun()
    if given is not None and given[2] is not None:
        return given[2]
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work when not running in an environment with it set."
    )


# -- setting up ------------------------------------------------------------------------------------


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: Any = None,
) -> None:
    """Set the default process group up, of all processes of the program.

    Processes of mpirun and Slurm need no arguments. Others say their rank and number, by arguments
    or the environment, and where they meet: `env://`, `tcp://`, `file://` or a store.
    """
    if WORLDS:
        raise ValueError("trying to initialize the default process group twice!")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    name = backend_name(backend)
    limit = default_pg_timeout if timeout is None else timeout
    meeting = meet(init_method, rank, world_size, store, limit)
    world = open_world(meeting, limit)
    WORLDS.append(world)
    GroupMember.WORLD = add_group(range(meeting.size), limit, name, group_name and str(group_name))
    if name != Backend.MPI and backend is not None and meeting.rank == 0 and meeting.size > 1:
        log.warning("backend %r: collectives run on MPI, on the CPU", str(backend))


def open_world(meeting: Meeting, limit: timedelta) -> World:
    rank, size = meeting.rank, meeting.size
    if size == 1:
        own: Store = HashStore() if meeting.store is None else meeting.store
        return World(Engine(None), None, PrefixStore("default_pg", own), rank, size)
    runtime = mpi.start(meeting.store, rank, size, meeting.host, limit)
    engine = Engine(runtime)
    closers = []
    board, address = meeting.board, None
    if rank == 0 and board is None:
        board = TCPStore(meeting.host or "", 0, is_master=True, wait_for_workers=False)
    if board is not None:
        closers.append(board.close)
    if meeting.store is None:
        address = tell_address(engine, rank, size, board, limit)
        if board is None:
            board = TCPStore(*address, timeout=limit)
            closers.append(board.close)
        store: Store = board
    else:
        store = meeting.store
        if isinstance(store, TCPStore) and meeting.board is store:
            address = ("127.0.0.1" if rank == 0 else store.host, store.port)
        else:
            if board is not None:
                store.set("rushlight/board", f"{meeting.host or own_host()} {board.port}")
            host, _, port = store.get("rushlight/board").decode().partition(" ")
            address = ("127.0.0.1" if rank == 0 else host, int(port))
    first(engine, barrier, rank, size, limit)
    mpi.forget_memory_names()
    watch = Watch(engine, rank, size, address)
    world = World(engine, watch, PrefixStore("default_pg", store), rank, size)
    world.closers = closers
    if not LEAVES:
        LEAVES.append(leave)
        atexit.register(leave)
    return world


# What runs at exit; registered once.
LEAVES: list[Any] = []


def own_host() -> str:
    return socket.gethostname()


def first(
    engine: Engine, program: Callable[[Link], Steps], rank: int, size: int, limit: timedelta
) -> None:
    """A collective before there are groups."""
    seconds = limit.total_seconds()

    def late(task: Task) -> DistBackendError:
        return DistBackendError(f"init_process_group: not all ranks have come in {seconds:g} s")

    task = Task(program(Link(engine, range(size), rank, 0)), "init_process_group", None, -1)
    engine.submit(task, False)
    engine.wait(task, seconds, late)


def tell_address(
    engine: Engine, rank: int, size: int, board: TCPStore | None, limit: timedelta
) -> tuple[str, int]:
    """Where rank 0 serves its store, told by a first message; waits no longer than `limit`."""
    text = np.zeros(256, np.uint8)
    if board is not None:
        said = f"{own_host()} {board.port}".encode()
        text[: len(said)] = np.frombuffer(said, np.uint8)
    first(engine, lambda link: broadcast(link, text, 0), rank, size, limit)
    host, _, port = bytes(text).rstrip(b"\0").decode().partition(" ")
    return "127.0.0.1" if host == own_host() else host, int(port)


def add_group(ranks: Sequence[int] | range, limit: timedelta, name: str, description: str) -> Any:
    number = NUMBERS[0] % (1 << GROUP_BITS)
    NUMBERS[0] += 1
    return enter_group(ranks, number, limit, name, description)


def enter_group(
    ranks: Sequence[int] | range, number: int, limit: timedelta, name: str, description: str
) -> Any:
    world = the_world()
    made = ProcessGroup(world, ranks, number, limit, name, description)
    if made.me < 0:
        return GroupMember.NON_GROUP_MEMBER
    if made.key in world.groups:
        raise error("RL0026", DistBackendError, number=1 << GROUP_BITS)
    world.groups[made.key] = made
    return made


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some ranks. All processes call it, in the same order."""
    world = the_world()
    chosen = sorted(range(world.size) if ranks is None else ranks)
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"the new group's ranks are not all different: {chosen}")
    if len(chosen) > world.size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    if any([rank < 0 or rank >= world.size for rank in chosen]):
        raise ValueError(
            "The new group's rank should be within the world_size set by init_process_group"
        )
    limit = GroupMember.WORLD.timeout if timeout is None else timeout
    name = GroupMember.WORLD.backend if backend is None else backend_name(backend)
    if not use_local_synchronization:
        return add_group(chosen, limit, name, group_desc or "")
    # Only members call: the number follows from who they are, from above.
    number = zlib.crc32(repr(chosen).encode()) % (1 << (GROUP_BITS - 1)) + (1 << (GROUP_BITS - 1))
    while str(number) in world.groups:
        number = (number + 1) % (1 << GROUP_BITS)
    return enter_group(chosen, number, limit, name, group_desc or "")


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """A group for each list of ranks; the caller's own, and all."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    own, made = None, []
    seen: set[int] = set()
    rank = get_rank()
    for ranks in ranks_per_subgroup_list:
        again = seen.intersection(ranks)
        if again:
            raise ValueError(f"Rank {min(again)} has appeared in both subgroups")
        seen.update(ranks)
        made.append(new_group(ranks, timeout, backend, pg_options, group_desc=group_desc))
        if rank in ranks:
            own = made[-1]
    return own, made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of neighbouring ranks, `group_size` each."""
    refuse("new_subgroups", group=group)
    size = get_world_size()
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by '{group_size=}'")
    lists = [list(range(begin, begin + group_size)) for begin in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


# -- taking down -----------------------------------------------------------------------------------


def destroy_process_group(group: Any = None) -> None:
    """Take a group down; without one, or given the default one, all of them."""
    world = the_world()
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    chosen = GroupMember.WORLD if group is None else group
    if not isinstance(chosen, ProcessGroup) or chosen.key not in world.groups:
        raise ValueError("Invalid process group specified")
    if chosen is not GroupMember.WORLD:
        del world.groups[chosen.key]
        return
    whole = all([each.broken is None for each in world.groups.values()])
    world.engine.close()
    if world.watch is not None:
        world.watch.stop()
    for close in world.closers:
        close()
    if not whole:
        BROKEN.append(world)
    WORLDS.clear()
    GroupMember.WORLD = None


# Worlds that were taken down after a failure.
BROKEN: list[World] = []
# Seconds that the end of MPI may take at exit.
PATIENCE = 20


def leave() -> None:
    """At exit: end MPI where mpirun expects it and nothing has failed.

    Ending it waits for all processes. Where they have met by themselves nobody expects it, and a
    process that ends late, or never, must not hold the others.
    """
    import sys

    if mpi.STARTED and mpi.STARTED[0].process != os.getpid():
        return  # a forked child: MPI is its parent's
    world = WORLDS[0] if WORLDS else None
    failed = bool(BROKEN) or hasattr(sys, "last_value")
    if world is not None:
        failed = failed or any([each.broken is not None for each in world.groups.values()])
        world.engine.closed = True
    for runtime in mpi.STARTED:
        if runtime.by_mpirun and not failed and not runtime.mpi.Is_finalized():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)
            runtime.mpi.Finalize()
            signal.alarm(0)


# -- questions -------------------------------------------------------------------------------------


def of(group: Any) -> ProcessGroup | None:
    the_world()
    found = GroupMember.WORLD if group is None else group
    return found if isinstance(found, ProcessGroup) else None


def get_rank(group: Any = None) -> int:
    """This process's number in a group; -1 outside it."""
    found = of(group)
    return -1 if found is None else found.me


def get_world_size(group: Any = None) -> int:
    """How many processes a group has; -1 outside it."""
    found = of(group)
    return -1 if found is None else found.size()


def member_of(group: Any) -> ProcessGroup:
    found = of(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return found


def get_backend(group: Any = None) -> str:
    return str(Backend(member_of(group).backend))


def get_backend_config(group: Any = None) -> str:
    return f"cpu:{member_of(group).backend}"


def get_default_backend_for_device(device: Any) -> str:
    name = str(getattr(device, "type", device)).partition(":")[0]
    if name != "cpu":
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.GLOO


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the world of a member of a group."""
    members = member_of(group).members
    if not 0 <= group_rank < len(members):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return members[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank within a group of a process of the world."""
    members = member_of(group).members
    if global_rank not in members:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return members.index(global_rank)


def get_process_group_ranks(group: Any) -> list[int]:
    return list(member_of(group).members)


def get_pg_count() -> int:
    return len(WORLDS[0].groups) if WORLDS else 0
