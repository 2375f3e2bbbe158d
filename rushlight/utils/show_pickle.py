"""torch.utils.show_pickle: what a pickle says, without making any object that it names."""

from __future__ import annotations

import fnmatch
import pickle
import pprint
import sys
import zipfile
from typing import IO, Any

__all__ = ["DumpUnpickler", "FakeClass", "FakeObject", "main"]

USAGE = """usage: show_pickle PICKLE_FILE
  PICKLE_FILE can be any of:
    path to a pickle file
    file.zip@member.pkl
    file.zip@*/pattern.*
      (shell glob pattern for members)
      (only first match will be shown)
"""


class FakeObject:
    """Stands for an object: the class it would be of, what it would be made from, its state."""

    def __init__(self, module: str, name: str, args: Any) -> None:
        self.module = module
        self.name = name
        self.args = args
        self.state: Any = None

    def __repr__(self) -> str:
        state = "" if self.state is None else f"(state={self.state!r})"
        return f"{self.module}.{self.name}{self.args!r}{state}"

    def __setstate__(self, state: Any) -> None:
        self.state = state


class FakeClass:
    """Stands for a class or function: calling it makes a `FakeObject`."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"

    def __call__(self, *args: Any) -> FakeObject:
        return FakeObject(self.module, self.name, args)


class DumpUnpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """Reads a pickle into stand-ins. With `catch_invalid_utf8`, a text that is none is one too."""

    dispatch = dict(pickle._Unpickler.dispatch)  # type: ignore[attr-defined]

    def __init__(self, file: Any, *, catch_invalid_utf8: bool = False, **kwargs: Any) -> None:
        super().__init__(file, **kwargs)
        self.catch_invalid_utf8 = catch_invalid_utf8

    def find_class(self, module: str, name: str) -> FakeClass:
        return FakeClass(module, name)

    def persistent_load(self, pid: Any) -> FakeObject:
        return FakeObject("pers", "obj", (pid,))

    def load_newobj(self) -> None:
        args = self.stack.pop()
        cls = self.stack.pop()
        self.append(cls(*args))

    dispatch[pickle.NEWOBJ[0]] = load_newobj

    def load_binunicode(self) -> None:
        data = self.read(int.from_bytes(self.read(4), "little"))
        try:
            text: Any = str(data, "utf-8", "surrogatepass")
        except UnicodeDecodeError as failure:
            if not self.catch_invalid_utf8:
                raise
            text = FakeObject("builtin", "UnicodeDecodeError", (str(failure),))
        self.append(text)

    dispatch[pickle.BINUNICODE[0]] = load_binunicode

    @classmethod
    def dump(cls, in_stream: IO[bytes], out_stream: Any) -> Any:
        """Reads a pickle, and writes what it says."""
        value = cls(in_stream).load()
        pprint.pprint(value, stream=out_stream)
        return value


def main(argv: list[str], output_stream: Any = None) -> int | None:
    """Shows the pickle that the command line names."""
    if len(argv) != 2:
        if output_stream is not None:
            raise Exception("Pass argv of length 2.")
        sys.stderr.write(USAGE)
        return 2
    path, inside, member = argv[1].partition("@")
    if not inside:
        with open(path, "rb") as plain:
            DumpUnpickler.dump(plain, output_stream)
        return None
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if fnmatch.fnmatch(name, member)]
        if "*" not in member:
            names = [member]
        if not names:
            raise Exception(f"Could not find member matching {member} in {path}")
        with archive.open(names[0]) as stored:
            DumpUnpickler.dump(stored, output_stream)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv))
