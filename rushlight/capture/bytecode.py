"""CPython 3.11-3.14 bytecode as micro-ops of one instruction set. Only `bytecode` and `prefixes`
read the Python version.

The simulated stack keeps each version's own layout, NULLs included, so that a resume function can
restore it exactly.
"""

from __future__ import annotations

import builtins
import dis
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "BINARY", "COMPARE", "EXIT_HAS_SELF", "VERSION", "Decoded", "Handler", "Micro",
    "check_version", "decode",
]  # fmt: skip

VERSION = sys.version_info[:2]
SUPPORTED = ((3, 11), (3, 14))
NULL_FIRST = VERSION < (3, 13)  # NULL lies below the callable
# In a handler of `with`, the exit method lies one deeper, with its first argument above it.
EXIT_HAS_SELF = VERSION >= (3, 14)


class Micro(NamedTuple):
    op: str
    arg: Any
    offset: int  # of the CPython instruction it comes from
    end: int  # offset of the next one: where "after" resumes
    line: int


class Handler(NamedTuple):
    """An entry of the exception table, in bytes."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


class Decoded(NamedTuple):
    micros: list[Micro]
    starts: dict[int, int]  # offset -> first micro
    handlers: list[Handler]
    slots: tuple[str, ...]  # names of localsplus

    def handler(self, offset: int) -> Handler | None:
        # Entries never overlap, so the first hit is the innermost.
        return next((h for h in self.handlers if h.start <= offset < h.end), None)


def check_version() -> None:
    """Refuse a Python whose bytecode is not known: a wrong reading would be a wrong answer."""
    if not SUPPORTED[0] <= VERSION <= SUPPORTED[1]:
        first, last = (".".join(map(str, version)) for version in SUPPORTED)
        raise RuntimeError(
            f"capture reads the bytecode of Python {first} to {last}, not of "
            f"{VERSION[0]}.{VERSION[1]}; use a supported version, or run without torch.compile"
        )


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "@": operator.matmul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift, "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul,
    "/=": operator.itruediv, "//=": operator.ifloordiv, "%=": operator.imod,
    "**=": operator.ipow, "@=": operator.imatmul, "&=": operator.iand, "|=": operator.ior,
    "^=": operator.ixor, "<<=": operator.ilshift, ">>=": operator.irshift,
}  # fmt: skip
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

NO_OPS = {"RESUME", "NOP", "CACHE", "PRECALL", "EXTENDED_ARG", "NOT_TAKEN", "END_FOR", "KW_NAMES"}
# Opcode -> micro-op with the same argument.
SAME = {
    "COPY": "COPY", "SWAP": "SWAP", "POP_TOP": "POP", "POP_ITER": "POP", "PUSH_NULL": "NULL",
    "LOAD_FAST": "LOAD", "LOAD_FAST_CHECK": "LOAD", "LOAD_FAST_BORROW": "LOAD",
    "LOAD_CLOSURE": "LOAD", "LOAD_FAST_AND_CLEAR": "LOAD_CLEAR", "STORE_FAST": "STORE",
    "DELETE_FAST": "DELETE", "LOAD_DEREF": "LOAD_DEREF", "STORE_DEREF": "STORE_DEREF",
    "MAKE_CELL": "MAKE_CELL", "COPY_FREE_VARS": "COPY_FREE_VARS", "GET_ITER": "GET_ITER",
    "RETURN_VALUE": "RETURN", "BUILD_TUPLE": "BUILD_TUPLE", "BUILD_LIST": "BUILD_LIST",
    "BUILD_SET": "BUILD_SET", "BUILD_MAP": "BUILD_MAP", "BUILD_STRING": "BUILD_STRING",
    "BUILD_SLICE": "BUILD_SLICE", "BUILD_CONST_KEY_MAP": "BUILD_CONST_KEY_MAP",
    "LIST_APPEND": "LIST_APPEND", "LIST_EXTEND": "LIST_EXTEND", "SET_ADD": "SET_ADD",
    "MAP_ADD": "MAP_ADD", "SET_UPDATE": "SET_UPDATE", "DICT_UPDATE": "DICT_UPDATE",
    "DICT_MERGE": "DICT_UPDATE", "UNPACK_SEQUENCE": "UNPACK", "UNPACK_EX": "UNPACK_EX",
    "STORE_SUBSCR": "STORE_SUBSCR", "DELETE_SUBSCR": "DELETE_SUBSCR", "TO_BOOL": "TO_BOOL",
    "UNARY_NOT": "NOT", "RAISE_VARARGS": "RAISE", "RERAISE": "RERAISE",
    "PUSH_EXC_INFO": "PUSH_EXC_INFO", "POP_EXCEPT": "POP_EXCEPT", "CHECK_EXC_MATCH": "EXC_MATCH",
    "WITH_EXCEPT_START": "WITH_EXCEPT", "BEFORE_WITH": "BEFORE_WITH",
    "LIST_TO_TUPLE": "LIST_TO_TUPLE", "SET_FUNCTION_ATTRIBUTE": "SET_FUNCTION_ATTRIBUTE",
    "GET_LEN": "GET_LEN", "IS_OP": "IS", "CONTAINS_OP": "CONTAINS",
    "MATCH_MAPPING": "MATCH_MAPPING", "MATCH_SEQUENCE": "MATCH_SEQUENCE",
    "MATCH_KEYS": "MATCH_KEYS", "MATCH_CLASS": "MATCH_CLASS",
    "RETURN_GENERATOR": "GENERATOR", "YIELD_VALUE": "YIELD",
    "GET_YIELD_FROM_ITER": "GET_ITER", "END_SEND": "END_SEND",
}  # fmt: skip
# Opcode -> micro-op of the same name whose argument is the name, constant or target.
NAMED = {"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "IMPORT_NAME", "IMPORT_FROM"}
UNARY = {
    "UNARY_NEGATIVE": operator.neg,
    "UNARY_INVERT": operator.invert,
    "UNARY_POSITIVE": operator.pos,
}
CONVERSIONS = (None, str, repr, ascii)
COMMON_CONSTANTS = (AssertionError, NotImplementedError, tuple, all, any)
SPECIAL_METHODS = ("__enter__", "__exit__", "__aenter__", "__aexit__")
PUSH_NULL: list[tuple[str, Any]] = [("NULL", None), ("SWAP", 2)] if NULL_FIRST else [("NULL", None)]
# Exhaustion of FOR_ITER pops the iterator and lands behind END_FOR (and POP_TOP or POP_ITER).
SKIPPED_AT_END = {(3, 11): 0, (3, 12): 2}.get(VERSION, 4)
COMPARE_SHIFT = 5 if VERSION >= (3, 13) else 4 if VERSION >= (3, 12) else 0

Micros = list[tuple[str, Any]]
Expand = Callable[[int, Any], Micros]


def loads_null(flagged: bool) -> Micros:
    return PUSH_NULL if flagged else []


def binary_op(arg: int, value: Any) -> Micros:
    symbol = dis._nb_ops[arg][1]  # type: ignore[attr-defined]
    return [("SUBSCR", None)] if symbol == "[]" else [("BINARY", symbol)]


def compare_op(arg: int, value: Any) -> Micros:
    # 3.13 sets a flag meaning "and make it a bool", because the jump behind expects one.
    to_bool = VERSION >= (3, 13) and bool(arg & 16)
    return [("COMPARE", (dis.cmp_op[arg >> COMPARE_SHIFT], to_bool))]


def intrinsic_1(arg: int, value: Any) -> Micros:
    known: dict[int, Micros] = {
        3: [("STOP_ITERATION_ERROR", None)],
        5: [("UNARY", operator.pos)],
        6: [("LIST_TO_TUPLE", None)],
    }
    return known.get(arg, [("UNSUPPORTED", f"CALL_INTRINSIC_1 {arg}")])


def or_pop(condition: str) -> Expand:
    return lambda arg, value: [("COPY", 1), ("JUMP_IF", (condition, value)), ("POP", None)]


def pair(first: str, second: str) -> Expand:
    return lambda arg, value: [(first, arg >> 4), (second, arg & 15)]


def named(op: str) -> Expand:
    return lambda arg, value: [(op, value)]


EXPAND: dict[str, Expand] = {
    "LOAD_CONST": named("CONST"),
    "LOAD_SMALL_INT": lambda arg, value: [("CONST", arg)],
    "RETURN_CONST": lambda arg, value: [("CONST", value), ("RETURN", None)],
    "LOAD_BUILD_CLASS": lambda arg, value: [("CONST", builtins.__build_class__)],
    "LOAD_ASSERTION_ERROR": lambda arg, value: [("CONST", AssertionError)],
    "LOAD_COMMON_CONSTANT": lambda arg, value: [("CONST", COMMON_CONSTANTS[arg])],
    "LOAD_FAST_LOAD_FAST": pair("LOAD", "LOAD"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": pair("LOAD", "LOAD"),
    "STORE_FAST_STORE_FAST": pair("STORE", "STORE"),
    "STORE_FAST_LOAD_FAST": pair("STORE", "LOAD"),
    "LOAD_GLOBAL": lambda arg, value: [("GLOBAL", value), *loads_null(bool(arg & 1))],
    "LOAD_ATTR": lambda arg, value: [
        ("ATTR", value),
        *loads_null(VERSION >= (3, 12) and bool(arg & 1)),
    ],
    "LOAD_METHOD": lambda arg, value: [("ATTR", value), *PUSH_NULL],
    "LOAD_SUPER_ATTR": lambda arg, value: [("SUPER_ATTR", value), *loads_null(bool(arg & 1))],
    "LOAD_SPECIAL": lambda arg, value: [("SPECIAL", SPECIAL_METHODS[arg]), *PUSH_NULL],
    "BINARY_OP": binary_op,
    "BINARY_SUBSCR": lambda arg, value: [("SUBSCR", None)],
    "BINARY_SLICE": lambda arg, value: [("BUILD_SLICE", 2), ("SUBSCR", None)],
    "STORE_SLICE": lambda arg, value: [("BUILD_SLICE", 2), ("STORE_SUBSCR", None)],
    "COMPARE_OP": compare_op,
    "CALL_INTRINSIC_1": intrinsic_1,
    "CALL_KW": lambda arg, value: [("CALL_KW", arg)],
    # 3.14 always has the mapping slot, NULL when absent.
    "CALL_FUNCTION_EX": lambda arg, value: [("CALL_EX", VERSION >= (3, 14) or bool(arg & 1))],
    "MAKE_FUNCTION": lambda arg, value: [("MAKE_FUNCTION", arg or 0)],
    "FORMAT_VALUE": lambda arg, value: [("FORMAT", (CONVERSIONS[arg & 3], bool(arg & 4)))],
    "CONVERT_VALUE": lambda arg, value: [("CONVERT", CONVERSIONS[arg])],
    "FORMAT_SIMPLE": lambda arg, value: [("FORMAT", (None, False))],
    "FORMAT_WITH_SPEC": lambda arg, value: [("FORMAT", (None, True))],
    "JUMP_FORWARD": named("JUMP"),
    "JUMP_BACKWARD": named("JUMP"),
    "JUMP_BACKWARD_NO_INTERRUPT": named("JUMP"),
    "FOR_ITER": lambda arg, value: [("FOR_ITER", value + SKIPPED_AT_END)],
    "SEND": named("SEND"),
    "JUMP_IF_TRUE_OR_POP": or_pop("TRUE"),
    "JUMP_IF_FALSE_OR_POP": or_pop("FALSE"),
    **{name: lambda arg, value, f=f: [("UNARY", f)] for name, f in UNARY.items()},  # type: ignore[misc]
}


def expand(name: str, arg: Any, value: Any, kwnames: tuple[str, ...]) -> Micros:
    """One instruction as micro-ops."""
    if name in NO_OPS:
        return []
    if name == "CALL":
        return [("CALL", (arg, kwnames))]
    if name in EXPAND:
        return EXPAND[name](arg, value)
    if name.startswith("POP_JUMP_"):
        return [("JUMP_IF", (name.split("_IF_")[1], value))]
    if name in NAMED:
        return [(name, value)]
    if name in SAME:
        return [(SAME[name], arg)]
    return [("UNSUPPORTED", name)]


@functools.lru_cache(4096)
def decode(code: types.CodeType) -> Decoded:
    plain = [name for name in code.co_cellvars if name not in code.co_varnames]
    slots = (*code.co_varnames, *plain, *code.co_freevars)
    micros: list[Micro] = []
    index: dict[int, int] = {}
    kwnames: tuple[str, ...] = ()
    instructions = list(dis.get_instructions(code))
    ends = [instruction.offset for instruction in instructions[1:]] + [len(code.co_code)]
    line = code.co_firstlineno
    for i, end in zip(instructions, ends):
        if i.opname == "KW_NAMES":
            kwnames = code.co_consts[i.arg or 0]
        number = i.line_number if VERSION >= (3, 13) else i.starts_line  # type: ignore[attr-defined]
        line = number or line
        index[i.offset] = len(micros)
        for op, arg in expand(i.opname, i.arg, i.argval, kwnames):
            micros.append(Micro(op, arg, i.offset, end, line))
        if i.opname == "CALL":
            kwnames = ()
    index[len(code.co_code)] = len(micros)
    return Decoded(micros, index, parse_handlers(code.co_exceptiontable), slots)


# -- exception tables: big-endian base-64 digits; the start of an entry has bit 7 set --------------


def parse_handlers(table: bytes) -> list[Handler]:
    rest = iter(table)
    numbers = []
    for byte in rest:
        value = byte & 63
        while byte & 64:
            byte = next(rest)
            value = value << 6 | byte & 63
        numbers.append(value)
    quads = zip(*[iter(numbers)] * 4)
    return [Handler(s * 2, (s + n) * 2, t * 2, d >> 1, bool(d & 1)) for s, n, t, d in quads]


def digits(value: int, first: bool = False) -> bytes:
    out = [value & 63]
    while value := value >> 6:
        out.append(value & 63 | 64)
    out.reverse()
    out[0] |= 128 if first else 0
    return bytes(out)


def encode_handlers(handlers: list[Handler]) -> bytes:
    return b"".join(
        digits(h.start // 2, True)
        + digits((h.end - h.start) // 2)
        + digits(h.target // 2)
        + digits(h.depth << 1 | h.lasti)
        for h in handlers
    )
