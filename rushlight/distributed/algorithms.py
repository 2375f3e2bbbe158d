"""Collectives as programs of messages over flat arrays.

Values are combined in the order of ranks, so that every process computes the same bits. A `Link` is
one collective's view of its group: `send` and `receive` take positions in the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rushlight.distributed.engine import Engine, Steps

__all__ = [
    "Link", "all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "cuts", "gather",
    "raw", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip

Combine = Callable[..., Any]
# Up to so many bytes every process sends all it has to every other, up to so many processes.
SMALL = 1 << 15
FEW = 8
# Combining goes by pieces that stay in the cache, in elements.
PIECE = 1 << 16


def raw(values: Any) -> Any:
    """An array's bytes."""
    return values.reshape(-1).view(np.uint8)


class Link:
    """The processes of one collective and the tag of its messages."""

    def __init__(self, engine: Engine, ranks: Sequence[int], me: int, tag: int) -> None:
        self.engine = engine
        self.ranks = ranks
        self.me = me
        self.tag = tag
        self.size = len(ranks)
        self.others = [position for position in range(self.size) if position != me]

    def send(self, values: Any, to: int) -> Any:
        return self.engine.send(raw(values), self.ranks[to], self.tag)

    def receive(self, values: Any, source: int) -> Any:
        return self.engine.receive(raw(values), self.ranks[source], self.tag)


def cuts(count: int, parts: int) -> list[slice]:
    """`count` elements in `parts` pieces, as equal as can be."""
    edges = [count * part // parts for part in range(parts + 1)]
    return [slice(*pair) for pair in pairwise(edges)]


def combine(parts: Sequence[Any], out: Any, function: Combine) -> None:
    """The parts' combination, from the first to the last; `out` may be one of them."""
    for begin in range(0, len(out), PIECE):
        piece = slice(begin, begin + PIECE)
        if len(parts) == 1:
            out[piece] = parts[0][piece]
            continue
        total = function(parts[0][piece], parts[1][piece])
        for part in parts[2:]:
            function(total, part[piece], out=total)
        out[piece] = total


def received(link: Link, own: Any) -> tuple[list[Any], list[Any]]:
    """Room for what each process sends, own values in their place, and the requests."""
    parts = [own if i == link.me else np.empty_like(own) for i in range(link.size)]
    return parts, [link.receive(parts[i], i) for i in link.others]


def all_reduce(link: Link, values: Any, function: Combine) -> Steps:
    """In place."""
    if link.size == 1 or not len(values):
        return
    if values.nbytes <= SMALL:
        if link.size <= FEW:
            parts, requests = received(link, values)
            yield requests + [link.send(values, i) for i in link.others]
            combine(parts, values, function)
        else:
            yield from reduce(link, values, function, 0)
            yield from broadcast(link, values, 0)
        return
    pieces = cuts(len(values), link.size)
    own = values[pieces[link.me]]
    parts, requests = received(link, own)
    yield requests + [link.send(values[pieces[i]], i) for i in link.others]
    combine(parts, own, function)
    requests = [link.receive(values[pieces[i]], i) for i in link.others]
    yield requests + [link.send(own, i) for i in link.others]


def reduce(link: Link, values: Any, function: Combine, root: int) -> Steps:
    """In place at the root; elsewhere `values` stay."""
    if link.me == root:
        parts, requests = received(link, values)
        yield requests
        combine(parts, values, function)
    else:
        yield [link.send(values, root)]


def broadcast(link: Link, values: Any, root: int) -> Steps:
    """By a binomial tree from the root."""
    place = (link.me - root) % link.size
    span = 1
    while span < link.size:
        if place < span:
            if place + span < link.size:
                yield [link.send(values, (place + span + root) % link.size)]
        elif place < 2 * span:
            yield [link.receive(values, (place - span + root) % link.size)]
        span *= 2


def all_gather(link: Link, own: Any, parts: Sequence[Any]) -> Steps:
    requests = [link.receive(parts[i], i) for i in link.others]
    parts[link.me][...] = own
    yield requests + [link.send(own, i) for i in link.others]


def reduce_scatter(link: Link, parts: Sequence[Any], out: Any, function: Combine) -> Steps:
    found, requests = received(link, parts[link.me])
    yield requests + [link.send(parts[i], i) for i in link.others]
    combine(found, out, function)


def all_to_all(link: Link, sent: Sequence[Any], taken: Sequence[Any]) -> Steps:
    requests = [link.receive(taken[i], i) for i in link.others]
    requests += [link.send(sent[i], i) for i in link.others]
    taken[link.me][...] = sent[link.me]
    yield requests


def gather(link: Link, own: Any, parts: Sequence[Any] | None, root: int) -> Steps:
    if link.me != root:
        yield [link.send(own, root)]
    elif parts is not None:
        requests = [link.receive(parts[i], i) for i in link.others]
        parts[root][...] = own
        yield requests


def scatter(link: Link, out: Any, parts: Sequence[Any] | None, root: int) -> Steps:
    if link.me != root:
        yield [link.receive(out, root)]
    elif parts is not None:
        requests = [link.send(parts[i], i) for i in link.others]
        out[...] = parts[root]
        yield requests


def barrier(link: Link) -> Steps:
    """In rounds, each telling the process twice as far."""
    token = np.zeros(1, np.uint8)
    span = 1
    while span < link.size:
        heard = np.zeros(1, np.uint8)
        after, before = (link.me + span) % link.size, (link.me - span) % link.size
        yield [link.receive(heard, before), link.send(token, after)]
        span *= 2
