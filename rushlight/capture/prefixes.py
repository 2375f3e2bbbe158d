"""Functions that continue another one: its code behind a prefix that restores a state.

All jumps are relative, so code in front leaves them valid; exception tables are shifted. A resume
function goes on at an offset; a step function runs one native call where the user's handler sees
what it raises.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.capture.bytecode import (
    NULL_FIRST,
    VERSION,
    Handler,
    encode_handlers,
    parse_handlers,
)
from rushlight.capture.failures import NoNativeForm

__all__ = ["State", "resume_code", "step_code", "with_a_slot"]

OPCODES = dis.opmap
VARIADIC_FLAGS = 0x04 | 0x08
GENERATOR_FLAGS = 0x20 | 0x80 | 0x200
NO_LOCATION = 15
PAYLOAD = "__payload"
# Kinds of entries of a stack: a value, NULL, and the mark that an exception is being handled. The
# exception travels for it.
VALUE_ENTRY, NULL_ENTRY, HANDLED_ENTRY = "value", "null", "handled"


def with_a_slot(code: types.CodeType) -> types.CodeType:
    """The same code with a local variable, where it has none: a payload needs a slot."""
    if code.co_nlocals:
        return code
    changed = bytearray(code.co_code)
    shifted = {*dis.hasfree, *dis.haslocal}
    for i in range(0, len(changed), 2):
        if changed[i] in shifted:
            if changed[i + 1] == 255:
                return code
            changed[i + 1] += 1
    return code.replace(co_code=bytes(changed), co_varnames=(PAYLOAD,), co_nlocals=1)


class State(NamedTuple):
    # The stack, bottom first: the kind of each entry.
    stack: tuple[str, ...]
    slots: tuple[int, ...]  # localsplus slots that are bound


class Writer:
    """Instructions of a prefix."""

    def __init__(self, consts: tuple[Any, ...]) -> None:
        self.code = bytearray()
        self.consts = list(consts)

    def put(self, name: str, arg: int = 0) -> None:
        for shift in (24, 16, 8):
            if arg >> shift:
                self.code += bytes([OPCODES["EXTENDED_ARG"], arg >> shift & 255])
        self.code += bytes([OPCODES[name], arg & 255])
        caches: Any = dis._inline_cache_entries  # type: ignore[attr-defined]
        count = caches.get(name, 0) if isinstance(caches, dict) else caches[OPCODES[name]]
        self.code += bytes(2 * count)  # CACHE is opcode 0 everywhere

    def const(self, value: Any) -> None:
        self.consts.append(value)
        self.put("LOAD_CONST", len(self.consts) - 1)

    def call(self, count: int) -> None:
        if VERSION == (3, 11):
            self.put("PRECALL", count)
        self.put("CALL", count)

    def callable(self, value: Any) -> None:
        if NULL_FIRST:
            self.put("PUSH_NULL")
        self.const(value)
        if not NULL_FIRST:
            self.put("PUSH_NULL")

    def item(self, position: int) -> None:
        """Push an item of the payload, which is in slot 0."""
        self.put("LOAD_FAST", 0)
        self.const(position)
        if "BINARY_SUBSCR" in OPCODES:
            self.put("BINARY_SUBSCR")
        else:
            self.put("BINARY_OP", 26)


class Prefix(Writer):
    """A prefix of `code` that takes `state` from its one argument, a tuple."""

    def __init__(self, code: types.CodeType, state: State) -> None:
        if not code.co_nlocals or code.co_flags & GENERATOR_FLAGS:
            raise NoNativeForm("no resume function for this code")
        super().__init__(code.co_consts)
        self.original = code
        self.state = state
        if code.co_freevars:
            self.put("COPY_FREE_VARS", len(code.co_freevars))
        self.put("RESUME", 0)
        count = 0
        for kind in state.stack:
            if kind == NULL_ENTRY:
                self.put("PUSH_NULL")
                continue
            self.item(count)
            count += 1
            if kind == HANDLED_ENTRY:
                # The exception is handled again: this puts what was before it below it.
                self.put("PUSH_EXC_INFO")
                self.put("POP_TOP")
        self.zero: int | None = None
        for slot in state.slots:
            if slot == 0:
                self.zero = count
            else:
                self.item(count)
                self.put("STORE_FAST", slot)
            count += 1
        self.count = count

    def leave_handlers(self) -> None:
        """End the handling of exceptions, with a result on the stack."""
        for kind in reversed(self.state.stack):
            self.put("SWAP", 2)
            if kind == HANDLED_ENTRY:
                self.put("POP_EXCEPT")
            else:
                self.put("STORE_FAST", 0)  # takes NULL too

    def restore_zero(self) -> None:
        """Give slot 0, where the payload was, its own value."""
        if self.zero is None:
            self.put("DELETE_FAST", 0)
        else:
            self.item(self.zero)
            self.put("STORE_FAST", 0)

    def finish(self, name: str, protected: Handler | None = None) -> types.CodeType:
        code = self.original
        n = len(self.code)
        entries = [
            Handler(h.start + n, h.end + n, h.target + n, h.depth, h.lasti)
            for h in parse_handlers(code.co_exceptiontable)
        ]
        if protected is not None:
            entries.insert(0, protected._replace(target=protected.target + n))
        lines, left = b"", n // 2
        while left:
            lines += bytes([0x80 | NO_LOCATION << 3 | min(8, left) - 1])
            left -= min(8, left)
        return code.replace(
            co_code=bytes(self.code) + code.co_code,
            co_consts=tuple(self.consts),
            co_argcount=1,
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~VARIADIC_FLAGS,
            co_stacksize=code.co_stacksize + 8 + len(self.state.stack),
            co_exceptiontable=encode_handlers(entries),
            co_linetable=lines + code.co_linetable,
            co_name=name,
        )


def resume_code(code: types.CodeType, target: int, state: State) -> types.CodeType:
    """Continue at an offset, with values of the stack and the slots given as one tuple."""
    prefix = Prefix(code, state)
    prefix.restore_zero()
    prefix.put("JUMP_FORWARD", target // 2)
    return prefix.finish(f"resume_in_{code.co_name}_at_{target}")


def step_code(
    code: types.CodeType,
    handler: Handler,
    state: State,
    native: Callable[..., Any],
    operands: int,
    position: int,
    then: Callable[[tuple[Any, ...], Any], Any],
) -> types.CodeType:
    """Call `native(*operands)` where the user's handler sees its exceptions, then
    `then(payload, result)`. The operands begin at `position` of the payload.

    Only the native call is inside the handler's range; the handler itself is the original code
    behind the prefix.
    """
    prefix = Prefix(code, state)
    prefix.callable(then)
    prefix.put("LOAD_FAST", 0)
    prefix.callable(native)
    for number in range(operands):
        prefix.item(position + number)
    prefix.restore_zero()
    # 3.13 looks up a call into Python code one unit early: the range must begin before CALL.
    start = len(prefix.code)
    prefix.put("NOP")
    prefix.call(operands)
    end = len(prefix.code)
    prefix.call(2)
    if HANDLED_ENTRY in state.stack:
        prefix.leave_handlers()
    prefix.put("RETURN_VALUE")
    return prefix.finish(
        f"step_in_{code.co_name}", Handler(start, end, handler.target, handler.depth, handler.lasti)
    )
