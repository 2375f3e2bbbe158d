"""`AOTAutogradCache`: the graphs of graph modules on disk, so that they are not traced again.

An entry holds forward and backward graphs, the facts and the wrappers around them, as plain data
(`encoding`) under a key of all that decides them (`fingerprint`). A hit gives the graphs to the
compilers, which have caches of their own. What cannot be kept is traced, counted as bypassed, and
raised in strict mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.aot import config
from rushlight.aot.compilation import Options, Traced, mode_for
from rushlight.aot.encoding import Damaged, Reader, Unencodable, Writer
from rushlight.aot.fingerprint import Fingerprint
from rushlight.aot.metadata import Facts
from rushlight.aot.runtime import Epilogue
from rushlight.aot.wrappers import Wrapper
from rushlight.base.counters import counters
from rushlight.base.diskcache import DiskCache, key_of
from rushlight.base.errors import error
from rushlight.fx.graph_module import GraphModule

__all__ = ["AOTAutogradCache", "BypassAOTAutogradCache", "autograd_cache_key"]

ENTRIES = DiskCache("aot", b"rushlight-aot-2\n")


class BypassAOTAutogradCache(RuntimeError):
    """A compilation cannot be kept; says why."""


def count(event: str) -> None:
    counters["aot_autograd"][f"autograd_cache_{event}"] += 1


def autograd_cache_key(
    gm: GraphModule, state: Sequence[Any], args: Sequence[Any], options: Options
) -> tuple[str, Fingerprint, str]:
    """(key, what it was made by, its text) of a compilation: a graph module whose parameters and
    buffers are `state`, called with tensors like `args`."""
    fingerprint = Fingerprint(gm, state, args)
    try:
        text = fingerprint.text(options)
    except Unencodable as problem:
        raise bypassed(str(problem)) from None
    return key_of(text), fingerprint, text


def bypassed(what: str) -> BypassAOTAutogradCache:
    return error("RL0641", BypassAOTAutogradCache, what=what)


class AOTAutogradCache:
    """The entries of this user, in all processes."""

    @staticmethod
    def clear() -> None:
        """Forget all entries."""
        ENTRIES.clear()

    @staticmethod
    def load(
        gm: GraphModule,
        state: Sequence[Any],
        args: Sequence[Any],
        options: Options,
        number: int,
        trace: Callable[[], Traced],
    ) -> Traced:
        """The graphs of a module: kept ones, or those that `trace` finds, which are then kept."""
        try:
            key, fingerprint, _ = autograd_cache_key(gm, state, args, options)
        except BypassAOTAutogradCache:
            count("bypass")
            if config.strict_autograd_cache:
                raise
            return trace()
        found = AOTAutogradCache.lookup(key, Reader(mode_for([*state, *args], False), gm, number))
        if found is not None:
            count("hit")
            return found
        count("miss")
        traced = trace()
        try:
            body = encoded(traced, fingerprint.constants)
        except Unencodable as problem:
            count("bypass")
            if config.strict_autograd_cache:
                raise bypassed(str(problem)) from None
            return traced
        if ENTRIES.write(key, body):
            count("saved")
        return traced

    @staticmethod
    def lookup(key: str, reader: Reader) -> Traced | None:
        """An entry; None where there is none, or none that can be read."""
        body = ENTRIES.read(key)
        if body is None:
            return None
        try:
            return decoded(body, reader)
        except Exception:
            # Whatever is in the file, the result can be had without it.
            return None


def encoded(traced: Traced, constants: dict[int, str]) -> bytes:
    """What is kept: before compilers have the graphs, which they may change."""
    writer = Writer(constants)
    # The last wrapper is the epilogue, which the facts are all of.
    parts = {
        "wrappers": [writer.value(wrapper) for wrapper in traced.wrappers[:-1]],
        "facts": writer.value(traced.facts),
        "forward": writer.value(traced.forward),
        "backward": writer.value(traced.backward),
    }
    return json.dumps(parts, separators=(",", ":")).encode()


def decoded(body: bytes, reader: Reader) -> Traced:
    data = json.loads(body)
    if set(data) != {"wrappers", "facts", "forward", "backward"}:
        raise Damaged("other parts")
    wrappers, facts = reader.items(data["wrappers"]), reader.value(data["facts"])
    forward, backward = reader.value(data["forward"]), reader.value(data["backward"])
    graphs = isinstance(forward, GraphModule) and isinstance(backward, (GraphModule, type(None)))
    if not graphs or not isinstance(facts, Facts):
        raise Damaged("parts of other kinds")
    if not all([isinstance(wrapper, Wrapper) for wrapper in wrappers]):
        raise Damaged("parts of other kinds")
    return Traced([*wrappers, Epilogue.behind(wrappers, facts)], facts, forward, backward)
