"""A package's files: in a folder, or in a zip archive.

The manifest lists every other file with its size and checksum, and has a checksum of its own:
no file of a package is used before it is what was written. Large files have a checksum that takes
a quarter of the time to compute; either tells damage, and neither a forger.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.errors import CheckpointError, error
from rushlight.io.zipformat import LOCAL, Span, ZipWriter, read_directory

__all__ = ["FORMAT", "VERSION", "PackageFiles", "refuse", "write_package"]

FORMAT = "rushlight-package"
VERSION = 2
MANIFEST = "manifest.json"
CHECKSUM = "manifest.sha256"


def refuse(what: str) -> CheckpointError:
    return error("RL1580", CheckpointError, what=what)


# Bytes from which on a file is large.
LARGE = 1 << 16


def digest(content: Any) -> str:
    return hashlib.sha256(content).hexdigest()


def checksum(content: Any) -> str:
    return digest(content) if len(content) < LARGE else f"crc32:{zlib.crc32(content):08x}"


# -- writing --------------------------------------------------------------------------------------


def write_package(path: Any, manifest: dict[str, Any], files: dict[str, Any]) -> None:
    """Write a package: a zip archive where the path ends in `.pt2` or `.zip`, else a folder."""
    listed = {name: {"size": len(data), "check": checksum(data)} for name, data in files.items()}
    head = {"format": FORMAT, "version": VERSION, **manifest, "files": listed}
    text = json.dumps(head, allow_nan=False).encode()
    entries = {**files, MANIFEST: text, CHECKSUM: digest(text).encode()}
    name = os.fspath(path)
    if is_archive(name):
        with open(name, "wb") as file:
            archive = ZipWriter(file.write)
            for entry, content in entries.items():
                archive.add(entry, content)
            archive.close()
        return
    for entry, content in entries.items():
        place = os.path.join(name, entry)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(content)


def is_archive(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in (".pt2", ".zip")


# -- reading --------------------------------------------------------------------------------------


class PackageFiles:
    """The files of a package, each compared with its checksum when it is read."""

    def __init__(self, path: Any) -> None:
        self.path = os.fspath(path)
        self.read: Callable[[str], Any] = self.from_folder
        self.span: Any = None
        if not os.path.isdir(self.path):
            self.open_archive()
        text = bytes(self.read(MANIFEST))
        if digest(text).encode() != bytes(self.read(CHECKSUM)).strip():
            raise refuse("its manifest is not what was written")
        try:
            self.manifest: dict[str, Any] = json.loads(text)
            kind, version = self.manifest["format"], self.manifest["version"]
            self.listed = self.manifest["files"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise refuse("its manifest is damaged") from None
        if kind != FORMAT:
            raise refuse("it is of another kind")
        if version != VERSION:
            raise refuse(f"it is of version {str(version)[:20]}; what is read here is {VERSION}")

    def open_archive(self) -> None:
        with open(self.path, "rb") as file:
            data = file.read()
        if not data.startswith(LOCAL):
            raise refuse("it is neither a folder nor a zip archive")
        self.span = Span(io.BytesIO(data), 0, len(data))
        self.entries = read_directory(self.span)
        self.read = self.from_archive

    def from_folder(self, name: str) -> Any:
        if os.path.isabs(name) or ".." in name.split("/"):
            raise refuse(f"{name[:80]!r} is no name of a file in it")
        try:
            return np.fromfile(os.path.join(self.path, name), np.uint8)
        except OSError:
            raise refuse(f"it has no file {name!r}") from None

    def from_archive(self, name: str) -> Any:
        entry = self.entries.get(name.encode())
        if entry is None:
            raise refuse(f"it has no file {name!r}")
        return self.span.array(entry.start(self.span), entry.size)

    def content(self, name: str) -> Any:
        """A file's bytes, as an array of their own."""
        facts = self.listed.get(name)
        if facts is None:
            raise refuse(f"nothing is said of its file {name!r}")
        found = self.read(name)
        if len(found) != facts["size"] or checksum(found) != facts["check"]:
            raise refuse(f"its file {name!r} is not what was written")
        return found
