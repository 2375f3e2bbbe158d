"""`save`: compiled code as an archive that torch reads too.

An archive holds the object as a pickle (`data.pkl`), its tensors (`data/`), the classes and
functions as texts (`code/`), and the tensors that these name (`constants.pkl`, `constants/`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.base.errors import fail
from rushlight.io.zipformat import ZipWriter
from rushlight.jit.archive.pickling import ValuePickler
from rushlight.jit.archive.sources import Sources
from rushlight.jit.archive.versions import needed_version, version_path
from rushlight.jit.ir.constants import type_of
from rushlight.jit.ir.schemas import Argument
from rushlight.jit.ir.types import BOOL, ClassType
from rushlight.jit.unit import Function, Instance


def write_object(
    write: Callable[[Any], Any],
    root: Instance | Function,
    stem: str = "archive",
    extra_files: Mapping[str, bytes | str] | None = None,
) -> None:
    """Writes a module or function; `extra_files` are put beside it."""
    if isinstance(root, Function):
        root = placeholder(root)
    data = ValuePickler()
    data.instance(root)
    sources = Sources()
    sources.add([root.type, *data.used])
    constants = ValuePickler()
    values: tuple[Any, ...] = tuple(sources.constants)
    constants.put(b"(")
    for value in values:
        constants.value(value, type_of(value))
    constants.put(b"t")
    archive = ZipWriter(write)
    for name, content in (extra_files or {}).items():
        raw = content.encode() if isinstance(content, str) else content
        archive.add(f"{stem}/extra/{name}", raw)
    put_pickle(archive, stem, "data", data)
    for path, text in sources.files().items():
        archive.add(f"{stem}/code/{path}", text.encode())
    put_pickle(archive, stem, "constants", constants)
    version = needed_version(sources.kinds)
    archive.add(f"{stem}/{version_path(version)}", f"{version}\n".encode())
    archive.add(f"{stem}/byteorder", sys.byteorder.encode())
    archive.close()


def put_pickle(archive: ZipWriter, stem: str, name: str, pickler: ValuePickler) -> None:
    archive.add(f"{stem}/{name}.pkl", pickler.finish())
    for number, storage in pickler.storages.values():
        content = b"" if storage.buffer is None else storage.buffer
        archive.add(f"{stem}/{name}/{number}", content)


def placeholder(function: Function) -> Instance:
    """A module whose `forward` is the function."""
    cls = ClassType("__torch__.PlaceholderModule", is_module=True)
    cls.attributes["training"] = BOOL
    graph = function.graph.copy()
    graph.top.entry.insertOutput(0).setType(cls).setDebugName("self")
    schema = function.schema
    arguments = (Argument("self", cls), *schema.arguments)
    forward = Function(
        f"{cls.dotted}.forward", graph, schema.with_arguments(arguments).renamed("forward")
    )
    cls.methods["forward"] = forward
    return Instance(cls, {"training": True})


def save_object(
    root: Instance | Function, f: Any, extra_files: Mapping[str, bytes | str] | None = None
) -> None:
    """Writes to a path, or to a file open for bytes."""
    if not isinstance(f, str | os.PathLike):
        write_object(f.write, root, "archive", extra_files)
        return
    path = os.fspath(f)
    stem = os.path.splitext(os.path.basename(path))[0] or "archive"
    with open(path, "wb") as file:
        write_object(file.write, root, stem if stem.isascii() else "archive", extra_files)


def save(m: Any, f: Any, _extra_files: Mapping[str, bytes | str] | None = None) -> None:
    """Writes what `jit.trace` or `jit.script` gave to a path, or to a file open for bytes."""
    core = getattr(m, "_c", None)
    root = core.instance if core is not None else getattr(m, "function", None)
    if not isinstance(root, Instance | Function):
        fail("RL1493", type=type(m).__name__)
    save_object(root, f, _extra_files)
