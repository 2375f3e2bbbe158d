"""`load`: archives of compiled code, torch's and ours, read without running anything of Python's.

Pickles are walked by the reader of checkpoints, which imports nothing; objects of the archive's
classes come out of it as records, and become objects once the classes are compiled from the texts.
Everything that is wrong with a file is a `CheckpointError`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.base.errors import CheckpointError
from rushlight.io.containers import Archive
from rushlight.io.rebuild import find_name
from rushlight.io.walker import Inert, Known, Walker, fail, shown
from rushlight.io.zipformat import LOCAL, Span
from rushlight.jit.archive.code import CLOSURES
from rushlight.jit.archive.importing import Importer, refuse
from rushlight.jit.archive.versions import OLDEST, changed_since
from rushlight.jit.ir.types import ClassType, EnumType, TupleType
from rushlight.jit.objects.modules import wrap_instance
from rushlight.jit.passes.inlining import inline_calls
from rushlight.jit.unit import CompilationUnit, Instance

# Objects within objects; a model has tens.
MOST_DEPTH = 2000


class ScriptArchive(Archive):
    """A zip file with an object, its tensors, and the texts of its classes."""

    may_be_packed = True

    def check_contents(self) -> None:
        for name in (b"data.pkl", b"constants.pkl"):
            if self.root + name not in self.entries:
                raise refuse(f"it has no {name.decode()}; torch.load reads checkpoints")

    def version(self) -> int:
        for name in (".data/version", "version"):
            if self.root + name.encode() in self.entries:
                text = self.entry(name).strip()
                if not text.isdigit() or len(text) > 9:
                    raise refuse("its version is no number")
                return int(text)
        return OLDEST

    def pickled(self, folder: str) -> Any:
        """The value of `folder.pkl`, whose storages lie in the folder."""
        self.folder = folder
        self.storages = {}
        self.walker = Walker(self.entry(f"{folder}.pkl"), script_name, self.persistent)
        return self.walker.read()

    def text(self, package: str) -> str | None:
        name = f"code/{package.replace('.', '/')}.py"
        if self.root + name.encode("utf-8", "replace") not in self.entries:
            return None
        try:
            return self.entry(name).decode()
        except UnicodeDecodeError:
            raise refuse(f"{shown(name)} is no text") from None

    def extra(self, name: str) -> bytes | None:
        label = f"extra/{name}"
        known = self.root + label.encode("utf-8", "surrogatepass") in self.entries
        return self.entry(label) if known else None


def as_list(values: Any) -> list[Any]:
    if type(values) is not list:
        raise fail("a list is built from something else")
    return values


def tagged(value: Any, text: Any) -> Any:
    """A container and the text of its type, which the class of its owner tells as well."""
    if type(value) not in (list, dict) or type(text) is not str:
        raise fail("a container has no type")
    return value


BUILDERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("build_intlist", "build_doublelist", "build_boollist"), as_list),
    "build_tensorlist": as_list,
    "restore_type_tag": tagged,
}


def script_name(module: str, name: str) -> Any:
    if module == "torch.jit._pickle" and name in BUILDERS:
        return Known(f"{module}.{name}", BUILDERS[name])
    if module == "__torch__" or module.startswith("__torch__."):
        return Inert(module, name)
    return find_name(module, name)


class Objects:
    """Records of a pickle as objects of compiled classes, each made once."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer
        self.made: dict[int, Any] = {}
        self.kept: list[Any] = []
        self.depth = 0

    def value(self, found: Any) -> Any:
        if isinstance(found, Inert):
            return self.record(found)
        if type(found) is tuple:
            return tuple([self.value(item) for item in found])
        if type(found) is list:
            found[:] = [self.value(item) for item in found]
        elif type(found) is dict:
            for key in found:
                found[key] = self.value(found[key])
        return found

    def record(self, found: Inert) -> Any:
        known = self.made.get(id(found))
        if known is not None:
            return known
        dotted = f"{found.module}.{found.name}"
        type_ = self.importer.find_type(dotted) if found.args is not None else None
        self.kept.append(found)
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise refuse("its objects are nested too deeply")
        try:
            return self.made_of(found, type_, dotted)
        finally:
            self.depth -= 1

    def made_of(self, found: Inert, type_: Any, dotted: str) -> Any:
        if isinstance(type_, ClassType):
            instance = Instance(type_)
            self.made[id(found)] = instance
            self.fill(instance, self.value(found.state))
            return instance
        if isinstance(type_, TupleType):
            return tuple([self.value(item) for item in found.args])
        if isinstance(type_, EnumType) and len(found.args) == 1:
            try:
                return type_.cls(found.args[0])
            except (ValueError, TypeError):
                raise refuse(f"{shown(found.args[0])} is not in {dotted}") from None
        raise refuse(f"it holds an object of {dotted}, which its code does not define")

    def fill(self, instance: Instance, state: Any) -> None:
        cls = instance.type
        if "__setstate__" in cls.methods:
            check_ends(cls)
            instance.values.update(dict.fromkeys(cls.attributes))
            instance.call("__setstate__", state)
            return
        if type(state) is not dict:
            raise refuse(f"an object of {cls.dotted} has no attributes")
        for name in cls.attributes:
            if name not in state:
                raise refuse(f"an object of {cls.dotted} lacks its {shown(name)}")
            instance.values[name] = state[name]


def check_ends(cls: ClassType) -> None:
    """Refuses a `__setstate__` that could go on for ever: it runs when a file is read."""
    graph = cls.methods["__setstate__"].graph.copy()
    inline_calls(graph)
    for node in graph.all_nodes():
        if node.kind() in ("prim::Loop", "prim::CallFunction", "prim::CallMethod", *CLOSURES):
            raise refuse(f"__setstate__ of {cls.dotted} has loops or calls that are not known")


@contextmanager
def opened(f: Any) -> Iterator[Any]:
    if isinstance(f, str | os.PathLike):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
        with open(f, "rb") as file:
            yield file
    else:
        yield f


def load(
    f: Any,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> Any:
    """The module or function that `jit.save` wrote, ours or torch's.

    `_extra_files` gets the contents of the files that it names.
    """
    with opened(f) as file:
        start = file.tell()
        head = file.read(4)
        file.seek(0, io.SEEK_END)
        length = file.tell() - start
        file.seek(start)
        if head != LOCAL:
            raise refuse("it is not a zip archive")
        archive = ScriptArchive(Span(file, start, length), map_location)
        for name in _extra_files or {}:
            content = archive.extra(name)
            if content is not None and _extra_files is not None:
                _extra_files[name] = content
        return read_module(archive)


def read_module(archive: ScriptArchive) -> Any:
    try:
        constants = archive.pickled("constants")
        if type(constants) is not tuple:
            raise refuse("its constants are not a tuple")
        importer = Importer(archive.text, constants, CompilationUnit())
        root = Objects(importer).value(archive.pickled("data"))
        if not isinstance(root, Instance) or not root.type.is_module:
            raise refuse("it holds no module")
        compile_all(importer, archive.version())
        return wrap_instance(root)
    except CheckpointError:
        raise
    except RecursionError:
        raise refuse("it is nested too deeply") from None
    except Exception as error:
        raise refuse(f"{type(error).__name__}: {error}") from error


def compile_all(importer: Importer, version: int) -> None:
    """Compiles every method now: a file that is wrong says so when it is read."""
    done: set[int] = set()
    while True:
        types = [t for t in importer.types.values() if isinstance(t, ClassType)]
        waiting = [
            function
            for cls in types
            for function in (*cls.methods.values(), *cls.pre_hooks, *cls.hooks)
            if id(function) not in done
        ]
        waiting += [each for each in importer.functions.values() if id(each) not in done]
        if not waiting:
            return
        for function in waiting:
            done.add(id(function))
            function.ensure_defined()
            kind = changed_since(function.graph, version)
            if kind is not None:
                raise refuse(f"in files of version {version} {kind} is another operator")
