"""Generated Python: how it is compiled, and the one text that fills a tensor's slots.

Generators write lists of lines and put them into blocks. A text lives in `linecache` under the
file name of its code, so that tracebacks, `inspect` and `rushlight doctor` show what runs.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from rushlight.base.config import config

__all__ = ["block", "compile_source", "fill", "fill_tensor", "function_of", "join", "source_of"]

# How many texts of functions keep their code.
MOST_SOURCES = 512

# The slots of a fresh contiguous result of an op, besides its array and dtype.
FRESH = {
    "_is_contiguous": "True",
    "_requires_grad": "False",
    "_node": "None",
    "_output_nr": "0",
    "_counter": "None",
    "_storage": "None",
    "_offset": "0",
    "_view": "None",
    "_autograd": "None",
    "_unusual": "None",
}


def fill_tensor(name: str, array: str, dtype: str, **slots: str) -> list[str]:
    """Lines that make the tensor `name`; `slots` are what sets it apart from a fresh result."""
    own = {f"_{slot}": text for slot, text in slots.items()}
    values = {"_array": array, "_dtype": dtype, **FRESH, **own}
    return [f"{name} = new_tensor()", *[f"{name}.{slot} = {text}" for slot, text in values.items()]]


def block(head: str, *parts: Iterable[str]) -> list[str]:
    """`head` with the lines of its body below."""
    return [head, *["    " + line for lines in parts for line in lines]]


def fill(template: str, **parts: str | list[str]) -> list[str]:
    """The lines of a template. A field alone on its line may stand for any number of lines, which
    are indented as it is; a field within a line is text."""
    lines: list[str] = []
    texts = {name: part for name, part in parts.items() if isinstance(part, str)}
    for line in template.strip("\n").splitlines():
        code = line.lstrip()
        part = parts.get(code[1:-1]) if code[:1] == "{" and code[-1:] == "}" else None
        if isinstance(part, list):
            lines += [line[: len(line) - len(code)] + entry for entry in part]
        else:
            lines.append(line.format(**texts))
    return lines


def join(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def compile_source(source: str, name: str, scope: dict[str, Any]) -> dict[str, Any]:
    """exec generated source so that tracebacks can show its lines."""
    filename = publish(source, name, scope)
    exec(compile(source, filename, "exec"), scope)
    return scope


def publish(source: str, name: str, scope: dict[str, Any]) -> str:
    """Shows generated source to whoever asks; the file name of its code."""
    # By this name `arrays.numpy_` tells NumPy's warnings in it from those of the user's code.
    scope.setdefault("__name__", "rushlight.generated")
    filename = f"<rushlight {name}>"
    if config.show_stubs:
        print(f"# {name}\n{source}", file=sys.stderr)
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    return filename


def function_of(source: str, name: str, scope: dict[str, Any]) -> Any:
    """The function that generated source consists of. Equal sources are compiled once."""
    filename = publish(source, name, scope)
    code = compiled_function(source).replace(co_filename=filename)
    return FunctionType(code, scope)


@lru_cache(maxsize=MOST_SOURCES)
def compiled_function(source: str) -> CodeType:
    module = compile(source, "<rushlight>", "exec")
    (code,) = [each for each in module.co_consts if isinstance(each, CodeType)]
    return code


def source_of(function: Any) -> str:
    """The text that a generated function was compiled from."""
    return "".join(linecache.getlines(function.__code__.co_filename))
