"""Breaks: the instruction that ended a graph, run natively, and the ways on behind it."""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rushlight.capture.bytecode import BINARY, COMPARE, EXIT_HAS_SELF, Decoded, Micro
from rushlight.capture.failures import NoNativeForm
from rushlight.capture.values import NULL

__all__ = ["END", "Exit", "Native", "exits_of", "live_slots", "native_of"]

END = object()


class Native(NamedTuple):
    """How to run an instruction: what it takes from the stack, and a function of the operands."""

    consumed: int
    operands: list[Any]
    run: Callable[..., Any]
    results: int = 1


class Exit(NamedTuple):
    """A way on: the offset, the stack below the results, how many results lie on it."""

    target: int
    under: list[Any]
    results: int


class Surroundings(NamedTuple):
    stack: list[Any]
    call_through: Callable[..., Any]
    namespace: dict[str, Any]
    # The exception being handled.
    current: Any = None

    def top(self, n: int) -> list[Any]:
        return self.stack[len(self.stack) - n :] if n else []


def raise_native(error: Any, *cause: Any) -> None:
    if cause:
        raise error from cause[0]
    raise error


def native_call(call_through: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    count = len(names)

    def run(f: Any, *args: Any) -> Any:
        if not count:
            return call_through(f, args, {})
        return call_through(f, args[:-count], dict(zip(names, args[-count:])))

    return run


def plan_call(s: Surroundings, skip: int, args: list[Any], names: tuple[str, ...]) -> Native:
    a, b = s.stack[len(s.stack) - skip - 2], s.stack[len(s.stack) - skip - 1]
    head = [b] if a is NULL else [a] if b is NULL else [a, b]
    return Native(skip + 2, [*head, *args], native_call(s.call_through, names))


def plan_call_kw(s: Surroundings, arg: int) -> Native:
    names = tuple(name.value for name in s.stack[-1].items)
    return plan_call(s, arg + 1, s.top(arg + 1)[:-1], names)


def plan_call_ex(s: Surroundings, has_mapping: bool) -> Native:
    skip = 2 if has_mapping else 1
    extra = [x for x in s.top(skip) if x is not NULL]
    a, b = s.stack[len(s.stack) - skip - 2], s.stack[len(s.stack) - skip - 1]

    def run(f: Any, args: Any, kwargs: Any = None) -> Any:
        return s.call_through(f, tuple(args), dict(kwargs or {}))

    return Native(skip + 2, [b if a is NULL else a, *extra], run)


def plan_compare(s: Surroundings, arg: tuple[str, bool]) -> Native:
    compare, to_bool = COMPARE[arg[0]], arg[1]
    return Native(2, s.top(2), (lambda a, b: bool(compare(a, b))) if to_bool else compare)


def plan_format(s: Surroundings, arg: tuple[Callable[[Any], str] | None, bool]) -> Native:
    convert, has_spec = arg
    count = 1 + has_spec
    return Native(
        count, s.top(count), lambda v, spec="": format(convert(v) if convert else v, spec)
    )


def plan_global(s: Surroundings, name: str) -> Native:
    namespace = s.namespace

    def run() -> Any:
        for names in (namespace, vars(builtins)):
            if name in names:
                return names[name]
        raise NameError(f"name {name!r} is not defined")

    return Native(0, [], run)


def plan_raise(s: Surroundings, arg: int) -> Native:
    if arg:
        return Native(arg, s.top(arg), raise_native, 0)
    if s.current is None:
        raise NoNativeForm("raise without an exception")
    return Native(0, [s.current], raise_native, 0)


def plan_with_except(s: Surroundings, arg: Any) -> Native:
    """The exit of a `with` whose body raised; everything stays on the stack."""
    error = s.stack[-1]
    exit_ = [x for x in s.stack[-5:-3] if x is not NULL] if EXIT_HAS_SELF else [s.stack[-4]]

    def run(error: Any, *exit_: Any) -> Any:
        f, *first = exit_
        return s.call_through(f, (*first, type(error), error, error.__traceback__), {})

    return Native(0, [error, *exit_], run)


def unpack(v: Any, n: int) -> tuple[Any, ...]:
    items = tuple(v)
    if len(items) > n:
        raise ValueError(f"too many values to unpack (expected {n})")
    if len(items) < n:
        raise ValueError(f"not enough values to unpack (expected {n}, got {len(items)})")
    return items[::-1]


def import_from(module: Any, name: str) -> Any:
    """`from module import name`."""
    if hasattr(module, name):
        return getattr(module, name)
    home = getattr(module, "__name__", "<unknown module name>")
    if f"{home}.{name}" in sys.modules:
        return sys.modules[f"{home}.{name}"]
    path = getattr(module, "__file__", None)
    message = f"cannot import name {name!r} from {home!r} ({path or 'unknown location'})"
    raise ImportError(message, name=home, path=path)


def simple(count: int, run: Callable[..., Any], results: int = 1) -> Callable[..., Native]:
    """An instruction that takes `count` operands, whatever its argument."""
    return lambda s, arg: Native(count, s.top(count), run, results)


PLANS: dict[str, Callable[[Surroundings, Any], Native]] = {
    "CALL": lambda s, arg: plan_call(s, arg[0], s.top(arg[0]), arg[1]),
    "CALL_KW": plan_call_kw,
    "CALL_EX": plan_call_ex,
    "BINARY": lambda s, arg: Native(2, s.top(2), BINARY[arg]),
    "COMPARE": plan_compare,
    "UNARY": lambda s, arg: Native(1, s.top(1), arg),
    "NOT": simple(1, operator.not_),
    "TO_BOOL": simple(1, bool),
    "IS": lambda s, arg: Native(2, s.top(2), operator.is_not if arg else operator.is_),
    "CONTAINS": lambda s, arg: Native(
        2, s.top(2), (lambda x, c: x not in c) if arg else (lambda x, c: x in c)
    ),
    "SUBSCR": simple(2, operator.getitem),
    "STORE_SUBSCR": simple(3, lambda x, v, key: operator.setitem(v, key, x), 0),
    "DELETE_SUBSCR": simple(2, operator.delitem, 0),
    "ATTR": lambda s, arg: Native(1, s.top(1), operator.attrgetter(arg)),
    "STORE_ATTR": lambda s, arg: Native(2, s.top(2), lambda x, v: setattr(v, arg, x), 0),
    "DELETE_ATTR": lambda s, arg: Native(1, s.top(1), lambda v: delattr(v, arg), 0),
    "GET_ITER": simple(1, iter),
    "FORMAT": plan_format,
    "CONVERT": lambda s, arg: Native(1, s.top(1), arg),
    "GLOBAL": plan_global,
    "RAISE": plan_raise,
    "RERAISE": lambda s, arg: Native(1, s.top(1), raise_native, 0),
    "IMPORT_NAME": lambda s, arg: Native(
        2, s.top(2), lambda level, names: __import__(arg, s.namespace, None, names, level)
    ),
    "IMPORT_FROM": lambda s, arg: Native(0, s.top(1), lambda module: import_from(module, arg)),
    "UNPACK": lambda s, arg: Native(1, s.top(1), lambda v: unpack(v, arg), arg),
    "BUILD_STRING": lambda s, arg: Native(arg, s.top(arg), lambda *parts: "".join(parts)),
    "BUILD_SET": lambda s, arg: Native(arg, s.top(arg), lambda *items: {*items}),
    "BUILD_MAP": lambda s, arg: Native(
        2 * arg, s.top(2 * arg), lambda *items: dict(zip(items[::2], items[1::2]))
    ),
    "WITH_EXCEPT": plan_with_except,
    "BEFORE_WITH": simple(1, lambda v: (v.__exit__, v.__enter__()), 2),
    "SPECIAL": lambda s, arg: Native(1, s.top(1), operator.attrgetter(arg)),
}


def native_of(
    m: Micro,
    stack: list[Any],
    call_through: Callable[..., Any],
    namespace: dict[str, Any],
    current: Any,
) -> Native:
    """How to run an instruction natively; NoNativeForm where there is no way."""
    plan = PLANS.get(m.op)
    if plan is None:
        raise NoNativeForm(f"no native form of {m.op}")
    return plan(Surroundings(stack, call_through, namespace, current), m.arg)


def exits_of(
    m: Micro,
    stack: list[Any],
    rest: list[Micro],
    call_through: Callable[..., Any],
    namespace: dict[str, Any],
    current: Any,
) -> tuple[Native, list[Exit], Callable[[Any], int] | None]:
    """The native form, the ways on, and which of them a result means (None: the only one)."""
    below = stack[:-1]
    if m.op == "JUMP_IF":
        wanted = m.arg[0] == "TRUE"
        # 3.11: the value stays when the jump is taken, else it is popped.
        other = below[:-1] if rest else below
        exits = [Exit(m.arg[1], below, 0), Exit(m.end, other, 0)]
        return Native(1, [stack[-1]], bool), exits, lambda result: result is not wanted
    if m.op == "FOR_ITER":
        native = Native(0, [stack[-1]], lambda it: next(it, END))
        exits = [Exit(m.arg, below, 0), Exit(m.end, stack, 1)]
        return native, exits, lambda result: result is not END
    native = native_of(m, stack, call_through, namespace, current)
    return native, [Exit(m.end, stack[: len(stack) - native.consumed], native.results)], None


def live_slots(d: Decoded, offset: int, bound: Iterable[int]) -> list[int]:
    """Which bound slots may be read from `offset` on."""
    return [slot for slot in bound if is_live(d, slot, offset)]


READS = ("LOAD", "LOAD_CLEAR", "LOAD_DEREF", "STORE_DEREF", "DELETE", "MAKE_CELL")


def is_live(d: Decoded, slot: int, offset: int) -> bool:
    todo, seen = [d.starts[offset]], set()
    while todo:
        i = todo.pop()
        while i < len(d.micros) and i not in seen:
            seen.add(i)
            m = d.micros[i]
            if m.op in READS and m.arg == slot:
                return True
            if (h := d.handler(m.offset)) is not None:
                todo.append(d.starts[h.target])
            if (m.op == "STORE" and m.arg == slot) or m.op in ("RETURN", "RAISE", "RERAISE"):
                break
            if m.op == "JUMP":
                i = d.starts[m.arg]
                continue
            if m.op in ("JUMP_IF", "FOR_ITER"):
                todo.append(d.starts[m.arg[1] if m.op == "JUMP_IF" else m.arg])
            i += 1
    return False
