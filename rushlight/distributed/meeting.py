"""Where processes meet: what they say of themselves, and the store they share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlparse, urlunparse

from rushlight.base.errors import error
from rushlight.distributed import mpi
from rushlight.distributed.stores import DEFAULT, FileStore, PrefixStore, Store, TCPStore

__all__ = ["Meeting", "meet", "register_rendezvous_handler", "rendezvous"]


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
    return meet_at(init_method or "env://", rank, size, limit)


def meet_at(place: str, rank: int, size: int, limit: timedelta) -> Meeting:
    """The meeting at a URL; what it does not say, the arguments or the environment do."""
    scheme, _, _ = place.partition("://")
    url = urlparse(place)
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
    if scheme in ("tcp", "file") and (rank < 0 or size < 1):
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
    handler = HANDLERS.get(scheme)
    if handler is None:
        raise error("RL0027", RuntimeError, scheme=scheme)
    found = next(iter(handler(with_query(place, rank, size), timeout=limit)))
    return Meeting(found[1], found[2], found[0], None, "127.0.0.1")


def serve(rank: int, size: int, host: str, port: int, limit: timedelta) -> Meeting:
    if not 0 <= rank < size:
        raise ValueError(f"rank must be from 0 to {size - 1}, got {rank}")
    made = TCPStore(host, port, size, rank == 0, limit, wait_for_workers=False)
    return Meeting(rank, size, made, made, host)


# -- what users call, and add --------------------------------------------------------------------

# A handler of a scheme gives (store, rank, world size), as often as processes meet again.
Handler = Callable[..., Iterator[tuple[Any, int, int]]]
HANDLERS: dict[str, Handler] = {}
BUILT_IN = ("env", "file", "tcp")


def register_rendezvous_handler(scheme: str, handler: Handler) -> None:
    """Lets `init_process_group` and `rendezvous` take URLs of another scheme."""
    if scheme in HANDLERS or scheme in BUILT_IN:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    HANDLERS[scheme] = handler


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, **kwargs: Any
) -> Iterator[tuple[Any, int, int]]:
    """The store, the rank and the number of processes that a URL stands for."""
    for name, value, wanted in (
        ("url", url, str),
        ("rank", rank, int),
        ("world_size", world_size, int),
    ):
        if not isinstance(value, wanted):
            words = {str: "a string", int: "an integer"}[wanted]
            raise RuntimeError(f"`{name}` must be {words}. {type(value)}: {value}")
    return meetings(url, rank, world_size, kwargs)


def meetings(
    url: str, rank: int, size: int, options: dict[str, Any]
) -> Iterator[tuple[Any, int, int]]:
    scheme, _, _ = url.partition("://")
    handler = HANDLERS.get(scheme)
    if handler is not None:
        yield from handler(with_query(url, rank, size), **options)
        return
    met = meet_at(url, rank, size, options.get("timeout", DEFAULT))
    yield met.store, met.rank, met.size
    raise RuntimeError(f"Unable to perform rerendezvous using {scheme}:// method")


def with_query(url: str, rank: int, size: int) -> str:
    """A URL that says the rank and the number of processes."""
    parts = urlparse(url)
    query = dict(parse_qsl(parts.query))
    given = {"rank": rank, "world_size": size}
    query |= {name: str(value) for name, value in given.items() if value >= 0}
    return urlunparse(parts._replace(query=urlencode(query)))
