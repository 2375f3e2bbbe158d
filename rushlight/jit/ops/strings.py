"""Operators on strings, which are strings of Python."""

from __future__ import annotations

from typing import Any

from rushlight.jit.ir.operators import graph_op, graph_text
from rushlight.jit.ops.lists import slice_list
from rushlight.jit.ops.texts import fill_format, fill_percents, value_text

graph_text("{0} + {1}", "aten::add.str(str a, str b) -> str")
graph_text("len({0})", "aten::len.str(str s) -> int")
graph_op("aten::str(t elem) -> str")(value_text)
graph_op("aten::format(str self, ...) -> str")(fill_format)
graph_op("aten::percentFormat(str self, ...) -> str")(fill_percents)
graph_text("{0}.join({1})", "aten::join(str self, str[] values) -> str")
graph_op("aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str")(
    slice_list
)
graph_text("{0}.splitlines({1})", "aten::splitlines(str self, bool keepends=False) -> str[]")
graph_text("{0}.expandtabs({1})", "aten::expandtabs(str self, int tabsize=8) -> str")
graph_text("{0}.replace({1}, {2}, {3})",
           "aten::replace(str self, str old, str new, int max=-1) -> str")  # fmt: skip

for _name in ("upper", "lower", "capitalize", "title", "swapcase"):
    graph_text(f"{{0}}.{_name}()", f"aten::{_name}(str self) -> str")
for _name in (
    *("isupper", "islower", "isalpha", "isdigit", "isspace", "isalnum", "istitle", "isdecimal"),
    *("isnumeric", "isprintable", "isidentifier"),
):
    graph_text(f"{{0}}.{_name}()", f"aten::{_name}(str self) -> bool")
for _name in ("strip", "lstrip", "rstrip"):
    graph_text(
        f"{{0}}.{_name}({{1}})", f'aten::{_name}(str self, str chars=" \\n\\t\\f\\v") -> str'
    )
for _name in ("partition", "rpartition"):
    graph_text(
        f"{{0}}.{_name}({{1}})", f"aten::{_name}(str self, str separator) -> (str, str, str)"
    )


@graph_op("aten::__getitem__.str(str s, int index) -> str",
          "prim::StringIndex(str string, int index) -> str")  # fmt: skip
def get_letter(s: str, index: int) -> str:
    try:
        return s[index]
    except IndexError:
        raise IndexError("string index out of range") from None


def whole(self: str, start: int, end: int) -> tuple[int, int]:
    """The part that a search looks at. An end of -1 is the end of the string."""
    return start, len(self) + end + 1 if end < 0 else end


def search(name: str, result: str, overload: str = "") -> str:
    return f"aten::{name}{overload}(str self, str substr, int start=0, int end=-1) -> {result}"


@graph_op(search("find", "int"))
def find(self: str, substr: str, start: int, end: int) -> int:
    return self.find(substr, *whole(self, start, end))


@graph_op(search("rfind", "int"))
def rfind(self: str, substr: str, start: int, end: int) -> int:
    return self.rfind(substr, *whole(self, start, end))


def found(place: int) -> int:
    if place < 0:
        raise RuntimeError("ValueError: substring not found")
    return place


@graph_op(search("index", "int", ".str"))
def index(self: str, substr: str, start: int, end: int) -> int:
    return found(find(self, substr, start, end))


@graph_op(search("rindex", "int"))
def rindex(self: str, substr: str, start: int, end: int) -> int:
    return found(rfind(self, substr, start, end))


@graph_op(search("count", "int"))
def count(self: str, substr: str, start: int, end: int) -> int:
    return self.count(substr, *whole(self, start, end))


@graph_op(search("startswith", "bool"))
def startswith(self: str, substr: str, start: int, end: int) -> bool:
    return self.startswith(substr, *whole(self, start, end))


@graph_op(search("endswith", "bool"))
def endswith(self: str, substr: str, start: int, end: int) -> bool:
    return self.endswith(substr, *whole(self, start, end))


def checked_separator(separator: str | None) -> str | None:
    if separator == "":
        raise RuntimeError("ValueError: empty separator")
    return separator


@graph_op("aten::split.str(str self, str? separator=None, int max=-1) -> str[]")
def split(self: str, separator: str | None, most: int) -> list[str]:
    return self.split(checked_separator(separator), most)


@graph_op('aten::rsplit(str self, str separator=" ", int max=-1) -> str[]')
def rsplit(self: str, separator: str, most: int) -> list[str]:
    return self.rsplit(checked_separator(separator), most)


def padded(name: str) -> Any:
    def run(self: str, width: int, fillchar: str) -> str:
        if len(fillchar) != 1:
            raise RuntimeError("TypeError: The fill character must be exactly one character long")
        filled: str = getattr(self, name)(width, fillchar)
        return filled

    return run


for _name in ("center", "ljust", "rjust"):
    graph_op(f'aten::{_name}(str self, int width, str fillchar=" ") -> str')(padded(_name))
# torch: signs are letters like others.
graph_text("{0}.rjust({1}, '0')", "aten::zfill(str self, int width) -> str")

graph_op("aten::hex(int i) -> str")(hex)
graph_op("aten::oct(int i) -> str")(oct)
graph_op("aten::bin(int i) -> str")(bin)


@graph_op("aten::ord(str string) -> int")
def code_of_letter(string: str) -> int:
    if len(string) != 1:
        raise RuntimeError(f"String for ord() must be 1 character, found {len(string)}")
    return ord(string)


@graph_op("aten::chr(int i) -> str")
def letter_of_code(i: int) -> str:
    if not 0 <= i < 0x110000:
        raise RuntimeError(f"chr() arg not in range(0x110000), found {i}")
    return chr(i)


graph_op("aten::hash.generic(t value) -> int")(hash)
