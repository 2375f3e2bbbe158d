"""torch.PyTorchFileReader and PyTorchFileWriter: named records in archives as `save` makes them."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any

import numpy as np

from rushlight.core.construct import frombuffer
from rushlight.core.storage import Storage
from rushlight.core.typedstorage import TypedStorage
from rushlight.io.containers import Archive
from rushlight.io.zipformat import Span, ZipWriter

__all__ = ["PyTorchFileReader", "PyTorchFileWriter"]

IDENTITY = ".data/serialization_id"


def content_of(data: Any, size: int) -> bytes:
    """The first bytes of a record that is given as text, bytes or a storage."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, TypedStorage):
        data = data._untyped_storage
    if isinstance(data, Storage):
        data = bytes(np.asarray(data.buffer)) if data.buffer is not None else b""
    return bytes(data)[:size]


class PyTorchFileWriter:
    """Writes records; the archive is whole after `write_end_of_file`."""

    def __init__(self, file: Any, compute_crc32: bool = True, storage_alignment: int = 64) -> None:
        self.owned = isinstance(file, (str, os.PathLike))
        # Closed by `write_end_of_file`.
        self.file = open(file, "wb") if self.owned else file  # noqa: SIM115
        stem = os.path.splitext(os.path.basename(os.fspath(file)))[0] if self.owned else "archive"
        self.stem = stem
        self.archive = ZipWriter(self.file.write)
        self.digests: dict[str, bytes] = {}
        self.version = 3
        self.finished = False

    def archive_name(self) -> str:
        return self.stem

    def set_min_version(self, version: int) -> None:
        self.version = max(self.version, int(version))

    def get_all_written_records(self) -> set[str]:
        return set(self.digests)

    def write_record(self, name: str, data: Any, size: int) -> None:
        if self.finished:
            raise RuntimeError("the archive was finished: no record can be written")
        if name in self.digests:
            raise RuntimeError(f"Tried to serialize object with duplicate record name: {name}")
        content = content_of(data, int(size))
        self.archive.add(f"{self.stem}/{name}", content)
        self.digests[name] = hashlib.sha256(content).digest()

    def serialization_id(self) -> str:
        """Forty digits that follow from the records."""
        if IDENTITY in self.digests:
            return self.identity
        every = hashlib.sha256()
        for name in sorted(self.digests):
            every.update(name.encode() + b"\0" + self.digests[name])
        return f"{int.from_bytes(every.digest()[:16], 'big') % 10**40:040d}"

    def write_end_of_file(self) -> None:
        if self.finished:
            return
        self.identity = self.serialization_id()
        last = [("version", f"{self.version}\n"), ("byteorder", sys.byteorder)]
        for name, text in [*last, (IDENTITY, self.identity)]:
            if name not in self.digests:
                self.write_record(name, text, len(text))
        self.archive.close()
        self.finished = True
        if self.owned:
            self.file.close()


class PyTorchFileReader:
    """Reads the records of an archive."""

    def __init__(self, file: Any) -> None:
        # Closed with the last reference: records are read from it when they are asked for.
        stream = open(file, "rb") if isinstance(file, (str, os.PathLike)) else file  # noqa: SIM115
        length = stream.seek(0, os.SEEK_END)
        self.archive = Records(Span(stream, 0, length), None)
        root = self.archive.root.decode("utf-8", "surrogatepass")
        self.names = [
            name.decode("utf-8", "surrogatepass")[len(root) :] for name in self.archive.entries
        ]

    def get_all_records(self) -> list[str]:
        return list(self.names)

    def has_record(self, name: str) -> bool:
        return name in self.names

    def get_record(self, name: str) -> bytes:
        return bytes(self.archive.entry(name))

    def get_record_size(self, name: str) -> int:
        return int(self.archive.find(name).size)

    def get_record_offset(self, name: str) -> int:
        """Where in the file the record's bytes begin."""
        return int(self.archive.find(name).start(self.archive.span))

    def get_record_header_offset(self, name: str) -> int:
        """Where in the file the record's entry begins."""
        return int(self.archive.find(name).header)

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Any:
        """The first elements of a record, as a tensor."""
        return frombuffer(bytearray(self.get_record(name)), dtype=dtype, count=int(numel))

    def serialization_id(self) -> str:
        return self.get_record(IDENTITY).decode() if self.has_record(IDENTITY) else ""


class Records(Archive):
    """An archive of any records."""

    def check_contents(self) -> None:
        """Whatever records there are."""
