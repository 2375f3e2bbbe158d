"""Which container a file is."""

from __future__ import annotations

import io
from typing import Any

from rushlight.base.errors import CheckpointError, error
from rushlight.io.containers import Archive, Source, Stream
from rushlight.io.tarformat import Tar
from rushlight.io.walker import fail
from rushlight.io.zipformat import LOCAL, Span

__all__ = ["open_source"]


def open_source(file: Any, map_location: Any, mapping: Any = None) -> Source:
    """The container that a file is, from its present position to its end."""
    start = file.tell()
    head = file.read(512)
    file.seek(0, io.SEEK_END)
    length = file.tell() - start
    file.seek(start)
    if head[:4] == LOCAL:
        return Archive(Span(file, start, length), map_location, mapping)
    if not head:
        raise error("RL0909", CheckpointError)
    if head[8:10] == b'{"':
        raise error("RL0910", CheckpointError)
    is_tar = head[257:262] == b"ustar"
    if not is_tar and head[:1] not in (b"\x80", b"L"):
        raise fail(
            "it is neither a zip archive nor a stream of pickles; it may be an error page or a "
            "pointer to the file"
        )
    if mapping is not None:
        raise error("RL0911", CheckpointError)
    if is_tar:
        return Tar(file, map_location)
    return Stream(file, map_location)
