"""`.pt2` archives: programs, their tensors and other files in one zip file; `save` and `load`.

Written in torch's layout of today; read in it and in the one before. Whatever is wrong with a file
is a `CheckpointError`, and nothing that a file names is imported or called.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rushlight.export.program import ExportedProgram
from rushlight.export.serde.payloads import read_payloads, write_payloads
from rushlight.export.serde.programs import (
    DEFAULT_PROTOCOL,
    read_program,
    written_examples,
    written_program,
)
from rushlight.export.serde.schema import SCHEMA_VERSION, refuse
from rushlight.io.checkpoint import opened
from rushlight.io.zipformat import LOCAL, Entry, Span, ZipWriter, read_directory

__all__ = ["PT2ArchiveContents", "is_pt2_package", "load", "load_pt2", "package_pt2", "save"]

WEIGHTS, CONSTANTS = "data/weights/", "data/constants/"
MODELS, EXTRA, SAMPLES = "models/", "extra/", "data/sample_inputs/"
# The program in the layout that torch had up to 2.7.
FORMER = "serialized_exported_program.json"
ARCHIVE_VERSION = "0"
# The version of the container, as torch's reader of archives wants it.
FILE_VERSION = b"6\n"
MODEL_NAME = re.compile(r"[\w.-]{1,200}\Z", re.ASCII)


@dataclass
class PT2ArchiveContents:
    """What an archive holds."""

    exported_programs: dict[str, ExportedProgram]
    aoti_runners: dict[str, Any] = field(default_factory=dict)
    extra_files: dict[str, Any] = field(default_factory=dict)


# -- writing ------------------------------------------------------------------------------------


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
) -> None:
    """Write a program to a file (a path, or a file opened for writing bytes).

    `extra_files` are texts by name that the archive holds beside it.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got "
            f"'{type(ep).__name__}' instead."
        )
    package_pt2(
        f,
        exported_programs={"model": ep},
        extra_files=extra_files,
        opset_version=opset_version,
        pickle_protocol=pickle_protocol,
    )


def package_pt2(
    f: Any,
    *,
    exported_programs: ExportedProgram | dict[str, ExportedProgram] | None = None,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
) -> Any:
    """Write programs by name, and texts by name, to one archive."""
    if exported_programs is None and extra_files is None:
        raise AssertionError("There is nothing to save: give exported_programs or extra_files.")
    if isinstance(exported_programs, ExportedProgram):
        exported_programs = {"model": exported_programs}
    # Everything is made before the file is: a program that cannot be written leaves no file.
    body = io.BytesIO()
    archive = ZipWriter(body.write)
    stem = stem_of(f)

    def add(name: str, content: Any) -> None:
        archive.add(f"{stem}/{name}", content)

    for name, program in (exported_programs or {}).items():
        if MODEL_NAME.match(name) is None:
            raise ValueError(f"{name!r} is no name of a program in an archive")
        data, constants = written_program(program, opset_version)
        write_payloads(
            add, program.state_dict, WEIGHTS, "weight_", f"{WEIGHTS}{name}_weights_config.json"
        )
        write_payloads(
            add, constants, CONSTANTS, "tensor_", f"{CONSTANTS}{name}_constants_config.json"
        )
        add(f"{MODELS}{name}.json", data)
        add(f"{SAMPLES}{name}.pt", written_examples(program, pickle_protocol))
    for name, text in (extra_files or {}).items():
        add(EXTRA + name, text.encode() if isinstance(text, str) else bytes(text))
    add("archive_format", b"pt2")
    add("archive_version", ARCHIVE_VERSION.encode())
    add(".data/version", FILE_VERSION)
    add("byteorder", sys.byteorder.encode())
    archive.close()
    if isinstance(f, (str, os.PathLike)):
        with open(f, "wb") as file:
            file.write(body.getbuffer())
        return os.fspath(f)
    f.write(body.getbuffer())
    if hasattr(f, "seek"):
        f.seek(0)
    return f


def stem_of(f: Any) -> str:
    """The folder within the archive, named after the file as torch does it."""
    if not isinstance(f, (str, os.PathLike)):
        return "archive"
    stem = os.path.splitext(os.path.basename(os.fspath(f)))[0]
    return stem if MODEL_NAME.match(str(stem)) else "archive"


# -- reading ------------------------------------------------------------------------------------


class PackageReader:
    """The entries of an archive, by their names below its folder."""

    def __init__(self, file: Any) -> None:
        start = file.tell()
        head = file.read(4)
        file.seek(0, io.SEEK_END)
        length = file.tell() - start
        file.seek(start)
        if head != LOCAL:
            raise refuse("it is not a zip archive")
        self.span = Span(file, start, length)
        entries = read_directory(self.span, may_be_packed=True)
        first = next(iter(entries), b"")
        root = first[: first.find(b"/") + 1]
        if FORMER.encode() in entries:
            # The format before had no folder around its files.
            root = b""
        self.entries: dict[str, Entry] = {}
        for name, entry in entries.items():
            if not name.startswith(root):
                raise refuse("its archive has two folders")
            try:
                self.entries[name[len(root) :].decode()] = entry
            except UnicodeDecodeError:
                raise refuse("a name in its archive is no text") from None

    def entry(self, name: str) -> Entry:
        found = self.entries.get(name)
        if found is None:
            raise refuse(f"its archive has no entry {name[:100]!r}")
        return found

    def content(self, name: str) -> bytes:
        return self.entry(name).content(self.span)

    def text(self, name: str) -> str:
        try:
            return self.content(name).decode()
        except UnicodeDecodeError:
            raise refuse(f"{name[:100]!r} is no text") from None

    def size(self, name: str) -> int:
        return self.entry(name).size

    def array(self, name: str) -> Any:
        """An entry's bytes as memory of its own."""
        entry = self.entry(name)
        if entry.packed is not None:
            raise refuse(f"{name[:100]!r} is compressed")
        found = self.span.array(entry.start(self.span), entry.size)
        entry.check(found)
        return found

    def below(self, folder: str) -> Iterator[str]:
        for name in self.entries:
            if name.startswith(folder) and len(name) > len(folder):
                yield name

    # -- programs ----------------------------------------------------------------------------------

    def check_kind(self) -> None:
        if self.text("archive_format") != "pt2":
            raise refuse("it is an archive of another kind")
        if self.text("archive_version") != ARCHIVE_VERSION:
            raise refuse(f"it is of version {self.text('archive_version')[:20]!r} of archives")
        if "byteorder" in self.entries and self.text("byteorder") != sys.byteorder:
            raise refuse("it was written on a machine with the other byte order")

    def program(self, name: str) -> ExportedProgram:
        samples = f"{SAMPLES}{name}.pt"
        return read_program(
            self.content(f"{MODELS}{name}.json"),
            self.payloads(WEIGHTS, name, "weights"),
            self.payloads(CONSTANTS, name, "constants"),
            self.content(samples) if samples in self.entries else None,
        )

    def payloads(self, folder: str, name: str, what: str) -> Any:
        whole = f"{folder}{name}.pt"
        if whole in self.entries:
            return self.content(whole)
        config = self.content(f"{folder}{name}_{what}_config.json")
        return read_payloads(folder, config, self.size, self.array)

    def former_program(self) -> ExportedProgram:
        """A program in the layout that torch had up to 2.7."""
        version = self.text("version").split(".")
        if version[0] != str(SCHEMA_VERSION[0]):
            raise refuse(f"it is of version {version[0][:20]!r} of the schema")
        parts: list[Any] = []
        for what in ("state_dict", "constants", "example_inputs"):
            found = [f"serialized_{what}{end}" for end in (".pt", ".json")]
            present = [name for name in found if name in self.entries]
            parts.append(self.content(present[0]) if present else b"")
        state_dict, constants, examples = parts
        return read_program(self.content(FORMER), state_dict, constants, examples)


@contextmanager
def reader_of(f: Any) -> Iterator[PackageReader]:
    with opened(f) as file:
        yield PackageReader(file)


def load_pt2(f: Any, *, expected_opset_version: dict[str, int] | None = None) -> PT2ArchiveContents:
    """All programs and texts of an archive."""
    with reader_of(f) as reader:
        if FORMER in reader.entries:
            folder, programs = "extra_files/", {"model": reader.former_program()}
        else:
            reader.check_kind()
            folder = EXTRA
            names = [name[len(MODELS) :].removesuffix(".json") for name in reader.below(MODELS)]
            programs = {name: reader.program(name) for name in names}
        extra = {name[len(folder) :]: reader.text(name) for name in reader.below(folder)}
        return PT2ArchiveContents(programs, {}, extra)


def load(
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """The program that `save` wrote, torch's or ours.

    Nothing that the file names is imported or called. `extra_files` gets the texts it holds.
    """
    found = load_pt2(f, expected_opset_version=expected_opset_version)
    if extra_files is not None:
        extra_files.update(found.extra_files)
    if "model" not in found.exported_programs:
        raise refuse("it holds no program called 'model'; load_pt2 reads the others")
    return found.exported_programs["model"]


def is_pt2_package(serialized_model: Any) -> bool:
    """Whether a path or bytes are such an archive."""
    file = io.BytesIO(serialized_model) if isinstance(serialized_model, bytes) else serialized_model
    try:
        with reader_of(file) as reader:
            return reader.text("archive_format") == "pt2"
    except (RuntimeError, OSError):
        return False
