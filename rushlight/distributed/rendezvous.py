"""Where processes meet: what they say of themselves, and the store they share."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlparse

from rushlight.base.errors import error
from rushlight.distributed import mpi
from rushlight.distributed.stores import FileStore, PrefixStore, Store, TCPStore

__all__ = ["Meeting", "meet"]


class Meeting(NamedTuple):
    """A process's rank, all processes' number, the store they share and the one that is served.

    No store: mpirun has brought them together.
    """

    rank: int
    size: int
    store: Store | None
    board: TCPStore | None
    host: str


def from_environment(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set"
        )
    return value


def meet(
    init_method: str | None, rank: int, size: int, store: Store | None, limit: timedelta
) -> Meeting:
    if store is not None:
        if init_method is not None:
            raise ValueError("Cannot specify both init_method and store.")
        if rank < 0 or size < 1:
            raise ValueError("rank and world_size must be given with a store")
        served = store.underlying_store if isinstance(store, PrefixStore) else store
        host = served.host if isinstance(served, TCPStore) else "127.0.0.1"
        return Meeting(rank, size, store, None, host)
    scheme, _, _ = (init_method or "env://").partition("://")
    given = mpi.launched_by_mpirun()
    if given is not None and rank in (-1, given[0]) and size in (-1, given[1]):
        told = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
        if scheme != "env" or told in ((None, None), (str(given[0]), str(given[1]))):
            return Meeting(given[0], given[1], None, None, "")
    url = urlparse(init_method or "env://")
    query = dict(parse_qsl(url.query))
    if scheme == "env":
        rank = int(query.get("rank", rank)) if rank < 0 else rank
        size = int(query.get("world_size", size)) if size < 0 else size
        rank = int(from_environment("RANK")) if rank < 0 else rank
        size = int(from_environment("WORLD_SIZE")) if size < 0 else size
        host, port = from_environment("MASTER_ADDR"), int(from_environment("MASTER_PORT"))
        return serve(rank, size, host, port, limit)
    rank = int(query.get("rank", rank)) if rank < 0 else rank
    size = int(query.get("world_size", size)) if size < 0 else size
    if rank < 0 or size < 1:
        missing = "rank" if rank < 0 else "world size"
        raise ValueError(
            f"Error initializing torch.distributed using {scheme}:// rendezvous: {missing} "
            "parameter missing"
        )
    if scheme == "tcp":
        if not url.hostname or not url.port:
            raise ValueError(
                "Error initializing torch.distributed using tcp:// rendezvous: port number missing"
            )
        return serve(rank, size, url.hostname, url.port, limit)
    if scheme == "file":
        if not url.path:
            raise ValueError(
                "Error initializing torch.distributed using file:// rendezvous: path missing"
            )
        made = FileStore(unquote(url.path), size)
        made.set_timeout(limit)
        return Meeting(rank, size, made, None, "127.0.0.1")
    raise error("RL0027", RuntimeError, scheme=scheme)


def serve(rank: int, size: int, host: str, port: int, limit: timedelta) -> Meeting:
    if not 0 <= rank < size:
        raise ValueError(f"rank must be from 0 to {size - 1}, got {rank}")
    made = TCPStore(host, port, size, rank == 0, limit, wait_for_workers=False)
    return Meeting(rank, size, made, made, host)
