"""Files of results, by content.

An entry is named by the hash of everything that decided it. Entries are written to a temporary
file and renamed, so that readers see whole files only; each carries its own checksum, and one that
does not match is ignored and written again. A cache that cannot be used (a read-only home) is no
error: results are then made anew.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator

from rushlight.base.config import config

__all__ = ["KEY", "DiskCache", "directory", "key_of"]


KEY = re.compile(r"[0-9a-f]{64}")


def directory() -> str:
    """Where entries are kept: RUSHLIGHT_CACHE_DIR, else `rushlight` in the user's cache."""
    if config.cache_dir:
        return config.cache_dir
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "rushlight")


def key_of(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class DiskCache:
    """The entries of one kind: those in one folder, which all start with the same line."""

    def __init__(self, folder: str, magic: bytes) -> None:
        self.folder = folder
        self.magic = magic
        # The keys of what this process read or wrote, in order.
        self.used: dict[str, None] = {}

    def root(self) -> str:
        return os.path.join(directory(), self.folder)

    def path_of(self, key: str) -> str:
        return os.path.join(self.root(), key[:2], key[2:])

    def read(self, key: str) -> bytes | None:
        """The entry's bytes; None where there is none, or none that is whole."""
        try:
            with open(self.path_of(key), "rb") as file:
                data = file.read()
        except OSError:
            return None
        start = len(self.magic) + 32
        if not data.startswith(self.magic) or len(data) <= start:
            return None
        body = data[start:]
        if hashlib.sha256(body).digest() != data[len(self.magic) : start]:
            return None
        self.used[key] = None
        return body

    def write(self, key: str, body: bytes) -> bool:
        """Whether the entry could be written."""
        import tempfile  # what only reads has no need of it

        path = self.path_of(key)
        folder = os.path.dirname(path)
        try:
            os.makedirs(folder, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(self.magic + hashlib.sha256(body).digest() + body)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError:
            return False
        self.used[key] = None
        return True

    def entries(self) -> Iterator[tuple[str, int]]:
        """The key and the bytes of every entry on disk."""
        for folder, _, files in os.walk(self.root()):
            for name in files:
                key = os.path.basename(folder) + name
                if KEY.fullmatch(key) is None:
                    continue  # a writer's temporary file
                try:
                    yield key, os.path.getsize(os.path.join(folder, name))
                except OSError:  # removed meanwhile
                    continue

    def clear(self) -> None:
        """Remove all entries, and what writers that were killed left behind."""
        import shutil

        shutil.rmtree(self.root(), ignore_errors=True)
