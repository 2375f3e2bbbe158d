"""Compiled code on disk, by content.

An entry is an object file named by the hash of everything that decided it. Entries are written
to a temporary file and renamed, so that readers see whole files only; each carries its own
checksum, and one that does not match is ignored and written again. A cache that cannot be used (a
read-only home) is no error: code is then compiled anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile

from rushlight.base.config import config

__all__ = ["directory", "key_of", "read", "write"]

MAGIC = b"rushlight-object-1\n"


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


def path_of(key: str) -> str:
    return os.path.join(directory(), "objects", key[:2], key[2:])


def read(key: str) -> bytes | None:
    """The entry's bytes; None where there is none, or none that is whole."""
    try:
        with open(path_of(key), "rb") as file:
            data = file.read()
    except OSError:
        return None
    start = len(MAGIC) + 32
    if not data.startswith(MAGIC) or len(data) <= start:
        return None
    body = data[start:]
    return body if hashlib.sha256(body).digest() == data[len(MAGIC) : start] else None


def write(key: str, body: bytes) -> None:
    path = path_of(key)
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError:
        return
