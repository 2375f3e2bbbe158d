"""`AOTAutogradCache`: the graphs of graph modules on disk, so that they are not traced again.

An entry holds forward and backward graphs, the facts and the wrappers around them, as plain data
(`encoding`) under a key of all that decides them (`fingerprint`). Entries for symbolic sizes have
guards; several may be under one key, and the first one whose guards hold is a hit. A hit gives the
graphs to the compilers, which have caches of their own. What cannot be kept is traced, counted as
bypassed, and raised in strict mode.
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
from rushlight.aot.sizes import Sizes
from rushlight.aot.symbols import Symbols
from rushlight.aot.wrappers import Wrapper
from rushlight.base.counters import counters
from rushlight.base.diskcache import DiskCache, key_of
from rushlight.base.errors import error
from rushlight.fx.graph_module import GraphModule

__all__ = ["AOTAutogradCache", "BypassAOTAutogradCache", "autograd_cache_key"]

ENTRIES = DiskCache("aot", b"rushlight-aot-2\n")
# How many entries with other guards a key may have; the last one gives way to another.
ENTRIES_PER_KEY = 16


class BypassAOTAutogradCache(RuntimeError):
    """A compilation cannot be kept; says why."""


def count(event: str) -> None:
    counters["aot_autograd"][f"autograd_cache_{event}"] += 1


def autograd_cache_key(
    gm: GraphModule, state: Sequence[Any], args: Sequence[Any], options: Options
) -> tuple[str, Fingerprint, str]:
    """(key, what it was made by, its text) of a compilation: a graph module whose parameters and
    buffers are `state`, called with tensors like `args`."""
    fingerprint = Fingerprint(gm, state, args, mode_for([*state, *args], options.dynamic))
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
        symbols = fingerprint.symbols
        reader = Reader(fingerprint.mode, gm, number, symbols)
        found, place = AOTAutogradCache.lookup(key, reader)
        if found is not None:
            count("hit")
            return found
        count("miss")
        traced = trace()
        try:
            body = encoded(traced, fingerprint.constants, symbols)
        except Unencodable as problem:
            count("bypass")
            if config.strict_autograd_cache:
                raise bypassed(str(problem)) from None
            return traced
        if ENTRIES.write(place, body):
            count("saved")
        return traced

    @staticmethod
    def lookup(key: str, reader: Reader) -> tuple[Traced | None, str]:
        """An entry whose guards hold, or None, and where it is or may be written."""
        place = key
        for number in range(ENTRIES_PER_KEY):
            place = key_of(key, str(number)) if number else key
            body = ENTRIES.read(place)
            if body is None:
                break
            try:
                found = decoded(body, reader)
            except Exception:
                # Whatever is in the file, the result can be had without it.
                break
            if found is not None:
                return found, place
        return None, place


def encoded(traced: Traced, constants: dict[int, str], symbols: Symbols | None = None) -> bytes:
    """What is kept: before compilers have the graphs, which they may change."""
    writer = Writer(constants, symbols)
    # The last wrapper is the epilogue, which the facts are all of, but for where sizes are.
    *wrappers, epilogue = traced.wrappers
    assert isinstance(epilogue, Epilogue)
    parts = {
        "guards": [] if symbols is None else symbols.guards(),
        "wrappers": [writer.value(wrapper) for wrapper in wrappers],
        "sizes": writer.value(epilogue.sizes),
        "facts": writer.value(traced.facts),
        "forward": writer.value(traced.forward),
        "backward": writer.value(traced.backward),
    }
    return json.dumps(parts, separators=(",", ":")).encode()


def decoded(body: bytes, reader: Reader) -> Traced | None:
    """An entry; None where the sizes of now do not meet its guards, which else are noted."""
    data = json.loads(body)
    if set(data) != {"guards", "wrappers", "sizes", "facts", "forward", "backward"}:
        raise Damaged("other parts")
    symbols, guards = reader.symbols, []
    if symbols is not None:
        held = symbols.read_guards(data["guards"])
        if held is None:
            return None
        guards = held
    wrappers, sizes = reader.items(data["wrappers"]), reader.value(data["sizes"])
    facts = reader.value(data["facts"])
    forward, backward = reader.value(data["forward"]), reader.value(data["backward"])
    graphs = isinstance(forward, GraphModule) and isinstance(backward, (GraphModule, type(None)))
    if not graphs or not isinstance(facts, Facts) or not isinstance(sizes, Sizes):
        raise Damaged("parts of other kinds")
    if not all([isinstance(wrapper, Wrapper) for wrapper in wrappers]):
        raise Damaged("parts of other kinds")
    if symbols is not None:
        symbols.ask(guards)
    return Traced([*wrappers, Epilogue.behind(wrappers, facts, sizes)], facts, forward, backward)
