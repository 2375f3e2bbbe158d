"""Collectives of Python objects. They travel pickled, among processes that trust each other."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from rushlight.core.construct import from_numpy, tensor
from rushlight.distributed import algorithms
from rushlight.distributed.algorithms import Link
from rushlight.distributed.collectives import root_in
from rushlight.distributed.engine import Steps
from rushlight.distributed.groups import the_group
from rushlight.distributed.messages import peer_of, recv, send

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list",
    "scatter_object_list", "send_object_list",
]  # fmt: skip


def packed(value: Any) -> Any:
    return np.frombuffer(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL), np.uint8).copy()


def unpacked(values: Any) -> Any:
    return pickle.loads(values.tobytes())


def lengths(link: Link, own: Any, root: int | None) -> Steps:
    """How much each process has packed: everywhere, or at the root."""
    found = [np.zeros(1, np.int64) for _ in range(link.size)]
    mine = np.array([len(own)], np.int64)
    if root is None:
        yield from algorithms.all_gather(link, mine, found)
    else:
        yield from algorithms.gather(link, mine, found, root)
    return [int(each[0]) for each in found]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Every process's object, everywhere."""
    found = the_group(group, "all_gather_object")
    if found is None:
        return
    own = packed(obj)

    def program(link: Link) -> Steps:
        sizes = yield from lengths(link, own, None)
        parts = [np.empty(size, np.uint8) for size in sizes]
        yield from algorithms.all_gather(link, own, parts)
        for index, part in enumerate(parts):
            object_list[index] = unpacked(part)

    found.collective("all_gather_object", "", program)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Every process's object, at the root."""
    found = the_group(group, "gather_object")
    if found is None:
        return
    first = 0 if dst is None and group_dst is None else dst
    root = root_in(found, first, group_dst, "gather_object")
    if found.me == root and object_gather_list is None:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if found.me != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    own = packed(obj)

    def program(link: Link) -> Steps:
        sizes = yield from lengths(link, own, root)
        parts = [np.empty(size, np.uint8) for size in sizes]
        yield from algorithms.gather(link, own, parts, root)
        if object_gather_list is not None and link.me == root:
            for index, part in enumerate(parts):
                object_gather_list[index] = unpacked(part)

    found.collective("gather_object", f"to {found.members[root]}", program)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """The root's objects, everywhere, in place."""
    found = the_group(group, "broadcast_object_list")
    if found is None:
        return
    first = 0 if src is None and group_src is None else src
    root = root_in(found, first, group_src, "broadcast_object_list")

    def program(link: Link) -> Steps:
        own = packed(list(object_list)) if link.me == root else np.empty(0, np.uint8)
        size = np.array([len(own)], np.int64)
        yield from algorithms.broadcast(link, size, root)
        if link.me != root:
            own = np.empty(int(size[0]), np.uint8)
        yield from algorithms.broadcast(link, own, root)
        if link.me != root:
            object_list[:] = unpacked(own)

    detail = f"from {found.members[root]}, {len(object_list)} objects"
    found.collective("broadcast_object_list", detail, program)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """An object of the root's list to each process, as the first of its output list."""
    found = the_group(group, "scatter_object_list")
    if found is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    first = 0 if src is None and group_src is None else src
    root = root_in(found, first, group_src, "scatter_object_list")
    parts: list[Any] = []
    if found.me == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != found.size():
            raise ValueError(
                f"scatter_object_input_list must have an object for each of {found.size()} "
                "processes on the source rank"
            )
        parts = [packed(each) for each in scatter_object_input_list]

    def program(link: Link) -> Steps:
        size = np.zeros(1, np.int64)
        sizes = [np.array([len(part)], np.int64) for part in parts]
        yield from algorithms.scatter(link, size, sizes, root)
        own = np.empty(int(size[0]), np.uint8)
        yield from algorithms.scatter(link, own, parts, root)
        scatter_object_output_list[0] = unpacked(own)

    found.collective("scatter_object_list", f"from {found.members[root]}", program)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to one process."""
    found = the_group(group, "send_object_list")
    if found is None:
        return
    peer = peer_of(found, dst, group_dst, "dst", "destination")
    own = packed(list(object_list))
    send(tensor([len(own)]), peer, group)
    send(from_numpy(own), peer, group)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive as many objects as the list has places; answers from which rank."""
    found = the_group(group, "recv_object_list")
    if found is None:
        return -1
    size = tensor([0])
    source = recv(size, src, group, 0, group_src)
    own = from_numpy(np.empty(int(size.item()), np.uint8))
    recv(own, source, group)
    object_list[:] = unpacked(own.numpy())
    return source
