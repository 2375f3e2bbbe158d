"""The zip writer and reader, beside Python's own."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from rushlight.base.errors import CheckpointError
from rushlight.io.zipformat import Span, ZipWriter, read_directory


def written(entries):
    file = io.BytesIO()
    writer = ZipWriter(file.write)
    for name, content in entries.items():
        writer.add(name, content)
    writer.close()
    return file


def span_of(file, start=0):
    return Span(file, start, len(file.getvalue()) - start)


def test_python_reads_what_is_written():
    entries = {"a/x": b"one", "a/é": b"", "a/z": np.arange(9, dtype=np.uint8)}
    archive = zipfile.ZipFile(written(entries))
    assert archive.testzip() is None
    assert {name: archive.read(name) for name in archive.namelist()} == {
        name: bytes(content) for name, content in entries.items()
    }


def test_what_python_writes_is_read():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/x", b"one")
        with archive.open("a/large", "w", force_zip64=True) as entry:
            entry.write(b"two")
        archive.comment = b"PK\x05\x06 not the end"
    span = span_of(file)
    entries = read_directory(span)
    assert list(entries) == [b"a/x", b"a/large"]
    for name, content in ((b"a/x", b"one"), (b"a/large", b"two")):
        entry = entries[name]
        found = span.at(entry.start(span), entry.size)
        entry.check(found)
        assert found == content
        assert span.array(entry.start(span), entry.size).tobytes() == content


def test_many_entries():
    file = written({str(number): b"" for number in range(66_000)})
    assert len(read_directory(span_of(file))) == 66_000
    assert len(zipfile.ZipFile(file).namelist()) == 66_000


class Behind:
    """A file that begins with five gigabytes of nothing."""

    before = 5 << 30

    def __init__(self, data):
        self.file = io.BytesIO(data)
        self.read = self.file.read

    def seek(self, place):
        self.file.seek(place - self.before)


def test_offsets_beyond_four_gigabytes():
    file = io.BytesIO()
    writer = ZipWriter(file.write)
    writer.position = Behind.before
    writer.add("a/x", b"one")
    writer.add("a/y", b"two")
    writer.close()
    data = file.getvalue()
    span = Span(Behind(data), 0, Behind.before + len(data))
    span.at = lambda offset, count: Span.at(  # the search for the end looks before the data
        span, max(offset, Behind.before), count - max(Behind.before - offset, 0)
    ).rjust(count, b"\0")
    entries = read_directory(span)
    assert [(entry.name, entry.header > 1 << 32) for entry in entries.values()] == [
        (b"a/x", True),
        (b"a/y", True),
    ]
    entry = entries[b"a/y"]
    assert span.at(entry.start(span), entry.size) == b"two"


def test_an_archive_may_begin_anywhere():
    data = b"before" + written({"a/x": b"one"}).getvalue()
    entries = read_directory(span_of(io.BytesIO(data), 6))
    assert list(entries) == [b"a/x"]
    with pytest.raises(CheckpointError, match="damaged|cut off|longer"):
        span = span_of(io.BytesIO(data))
        read_directory(span)[b"a/x"].start(span)
