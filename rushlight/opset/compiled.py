"""`torch.ops.load_library`: which operators a compiled library has, and whether they are here.

Such a library registers its operators by name when it is loaded, so the names stand in the file.
Its code is never run: it is built against PyTorch's binary interface.
"""

from __future__ import annotations

import re

from rushlight.base.errors import MissingFeature, error
from rushlight.core import ports
from rushlight.opset import families

# How they stand there: with the namespace, or as schemas beside a namespace of its own.
QUALIFIED = re.compile(rb"(?<![\w:])([a-z_][a-z0-9_]*)::[a-z_]\w*(?=[(\0])")
SCHEMA = re.compile(rb"(?<=\0)[a-z_]\w*\([^()\0]*\) -> ")


class UnloadableLibrary(MissingFeature, OSError):
    """A library whose operators are not here: an OSError, which packages that can do without
    their compiled part expect."""


def namespaces_of(path: str) -> set[str]:
    """The namespaces of the operators that a file names."""
    import mmap

    with open(path, "rb") as file:
        try:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file
            return set()
        with content:
            found = {match.group(1).decode() for match in QUALIFIED.finditer(content)}
            if SCHEMA.search(content):
                candidates = (*families.NAMESPACES, *ports.namespace_modules)
                found.update([n for n in candidates if content.find(f"\0{n}\0".encode()) >= 0])
            return found


def load(path: str) -> None:
    """Register what is here of a library's operators."""
    try:
        named = namespaces_of(path)
    except FileNotFoundError:
        raise error("RL1330", OSError, path=path) from None
    known = sorted(named.intersection((*families.NAMESPACES, *ports.namespace_modules)))
    if not known:
        raise UnloadableLibrary(f"ops.load_library({path!r})", code="RL0301")
    for namespace in known:
        families.load_namespace(namespace)
