"""Cache artifacts: what this process kept on disk or took from there, as bytes for another machine.

Bytes are a header in JSON and the entries as they are in the caches: graphs as plain data, and
object code. They are checked as a whole and entry by entry; an entry's key says what made it, so
that one for another processor, Python or version is not found by anybody. Object code is run: load
what you would run.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass, field

from rushlight.aot.cache import ENTRIES
from rushlight.base.diskcache import KEY, DiskCache
from rushlight.base.errors import message
from rushlight.codegen.cache import OBJECTS

__all__ = ["CacheInfo", "load_cache_artifacts", "save_cache_artifacts"]

MAGIC = b"rushlight-artifacts-1\n"
DIGEST = hashlib.sha256().digest_size
# The kinds of entries, by torch's names.
CACHES: dict[str, DiskCache] = {"aot_autograd": ENTRIES, "inductor": OBJECTS}


@dataclass
class CacheInfo:
    """The keys that were saved or loaded, by kind."""

    artifacts: dict[str, list[str]] = field(default_factory=dict)

    @property
    def aot_autograd_artifacts(self) -> list[str]:
        return self.artifacts.get("aot_autograd", [])

    @property
    def inductor_artifacts(self) -> list[str]:
        return self.artifacts.get("inductor", [])

    def empty(self) -> bool:
        return not any(self.artifacts.values())


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """What this process compiled or found compiled, for `load_cache_artifacts`; None if nothing."""
    entries, bodies = [], []
    info = CacheInfo()
    for kind, cache in CACHES.items():
        for key in list(cache.used):
            body = cache.read(key)
            if body is not None:
                entries.append([kind, key, len(body)])
                bodies.append(body)
                info.artifacts.setdefault(kind, []).append(key)
    if info.empty():
        return None
    header = json.dumps(entries, separators=(",", ":")).encode()
    content = b"".join([len(header).to_bytes(8, "little"), header, *bodies])
    return MAGIC + hashlib.sha256(content).digest() + content, info


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo | None:
    """Put what `save_cache_artifacts` gave into the caches of this machine. Bytes that are not
    whole, or of another version, warn and give None; nothing of them is kept."""
    if not isinstance(serialized_artifacts, bytes):
        kind = type(serialized_artifacts).__name__
        raise TypeError(f"load_cache_artifacts() takes bytes, not {kind}")
    entries = entries_of(serialized_artifacts)
    if entries is None:
        warnings.warn(message("RL0820"), stacklevel=2)
        return None
    info = CacheInfo()
    for kind, key, body in entries:
        if CACHES[kind].read(key) == body or CACHES[kind].write(key, body):
            info.artifacts.setdefault(kind, []).append(key)
    return info


def entries_of(data: bytes) -> list[tuple[str, str, bytes]] | None:
    """(kind, key, body) of each entry; None where the bytes are not what was saved."""
    start = len(MAGIC) + DIGEST
    content = data[start:]
    is_whole = hashlib.sha256(content).digest() == data[len(MAGIC) : start]
    if not data.startswith(MAGIC) or not is_whole:
        return None
    place = 8 + int.from_bytes(content[:8], "little")
    found = []
    for kind, key, size in json.loads(content[8:place]):
        if kind not in CACHES or not KEY.fullmatch(key):
            return None
        found.append((kind, key, content[place : place + size]))
        place += size
    return found
