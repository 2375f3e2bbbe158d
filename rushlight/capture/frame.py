"""A frame of the interpreter: a stack, slots, and a method for each micro-op."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import Any

from rushlight.capture.bytecode import (
    BINARY,
    COMPARE,
    EXIT_HAS_SELF,
    VERSION,
    Decoded,
    Micro,
    decode,
)
from rushlight.capture.containers import update_dict
from rushlight.capture.iterators import Generator
from rushlight.capture.outcomes import Break, UserRaise
from rushlight.capture.sources import const
from rushlight.capture.tracer import raise_user
from rushlight.capture.values import (
    NULL,
    Cell,
    Const,
    Dict,
    Func,
    Handled,
    Lazy,
    New,
    Number,
    Obj,
    Seq,
    SetVar,
    Slice,
    Super,
    Tensor,
)

__all__ = ["Frame"]

MAX_STEPS = 200_000
# Classes whose one positional pattern is the whole value.
MATCHED_WHOLE = {
    bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple,
}  # fmt: skip
# SEND leaves the iterator below the result at the end, for END_SEND.
SEND_KEEPS_ITERATOR = VERSION >= (3, 12)


class Frame:
    def __init__(
        self,
        tracer: Any,
        code: types.CodeType,
        namespace: dict[str, Any],
        slots: dict[int, Any],
        closure: list[Any],
    ) -> None:
        self.t = tracer
        self.code = code
        self.namespace = namespace
        self.slots = slots
        self.decoded: Decoded = decode(code)
        self.stack: list[Any] = []
        self.pc = 0
        # What a generator gave, until its caller took it.
        self.yielded: Any = None
        # The exception being handled.
        self.current: Any = None
        if self.decoded.handlers:
            tracer.has_handlers = True
        first_free = len(self.decoded.slots) - len(code.co_freevars)
        for i, cell in enumerate(closure):
            self.slots[first_free + i] = cell

    def first_argument(self) -> Any:
        v = self.slots[0]
        return v.contents if isinstance(v, Cell) else v

    def pop(self) -> Any:
        return self.t.real(self.stack.pop())

    def popn(self, n: int) -> list[Any]:
        start = len(self.stack) - n
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def push(self, v: Any) -> None:
        self.stack.append(v)

    def jump(self, offset: int) -> None:
        self.pc = self.decoded.starts[offset]

    def run(self) -> Any:
        """The result, or None with `yielded` set."""
        frames = self.t.frames
        frames.append(self)
        try:
            while True:
                done = self.step()
                if done is not None or self.yielded is not None:
                    return done
        finally:
            frames.pop()

    def line(self) -> int:
        """The line of the micro-op that runs."""
        return self.decoded.micros[self.pc - 1].line

    def step(self) -> Any:
        """One micro-op; the frame's result when it returned."""
        m = self.decoded.micros[self.pc]
        self.pc += 1
        self.t.steps += 1
        if self.t.steps > MAX_STEPS:
            raise Break("too many steps")
        operation = OPERATIONS.get(m.op)
        try:
            if operation is None:
                raise Break(f"opcode {m.arg if m.op == 'UNSUPPORTED' else m.op}")
            return operation(self, m.arg)
        except UserRaise as error:
            if m.op != "RERAISE":
                self.note_context(error.var)
            return self.handle(m, error)

    def note_context(self, v: Any) -> None:
        """An exception that is raised while another is handled knows of it."""
        handled = next((f.current for f in self.t.frames[::-1] if f.current is not None), None)
        if isinstance(v, New) and handled is not None and handled is not v:
            v.attrs.setdefault("__context__", handled)

    def handle(self, m: Micro, error: UserRaise) -> None:
        """Go to the handler of an exception, if the frame has one."""
        handler = self.decoded.handler(m.offset)
        if handler is None:
            raise error
        del self.stack[handler.depth :]
        if handler.lasti:
            self.push(Const(m.offset // 2))
        self.push(error.var)
        self.jump(handler.target)

    # -- stack and variables -----------------------------------------------------------------------

    def op_COPY(self, n: int) -> None:
        self.push(self.stack[-n])

    def op_SWAP(self, n: int) -> None:
        stack = self.stack
        stack[-1], stack[-n] = stack[-n], stack[-1]

    def op_POP(self, _: Any) -> None:
        self.stack.pop()

    def op_NULL(self, _: Any) -> None:
        self.push(NULL)

    def op_CONST(self, v: Any) -> None:
        self.push(Obj(v, const(v)) if isinstance(v, types.CodeType) else self.t.lift(v))

    def op_LOAD(self, i: int) -> None:
        self.check_bound(i)
        self.push(self.slots[i])

    def check_bound(self, i: int) -> None:
        if i not in self.slots:
            name = self.decoded.slots[i]
            raise raise_user(
                UnboundLocalError,
                f"cannot access local variable '{name}' where it is not associated with a value",
            )

    def op_LOAD_CLEAR(self, i: int) -> None:
        self.push(self.slots.pop(i, NULL))

    def op_STORE(self, i: int) -> None:
        v = self.stack.pop()
        if v is NULL:
            self.slots.pop(i, None)
        elif isinstance(v, Lazy) and isinstance(v.value, types.CellType):
            cell = self.t.real(v)
            cell.name = self.decoded.slots[i]
            self.slots[i] = cell
        else:
            self.slots[i] = v

    def op_DELETE(self, i: int) -> None:
        self.check_bound(i)
        del self.slots[i]

    def op_MAKE_CELL(self, i: int) -> None:
        self.slots[i] = Cell(self.slots.get(i), None, self.decoded.slots[i])

    def op_COPY_FREE_VARS(self, _: Any) -> None:
        pass

    def op_LOAD_DEREF(self, i: int) -> None:
        cell = self.t.real(self.slots[i])
        if cell.contents is None:
            name = self.decoded.slots[i]
            raise raise_user(
                NameError,
                f"cannot access free variable '{name}' where it is not associated with a value in "
                "enclosing scope",
            )
        self.push(cell.contents)

    def op_STORE_DEREF(self, i: int) -> None:
        cell = self.t.real(self.slots[i])
        cell.contents = self.stack.pop()
        if cell.source is not None:
            self.t.effect(id(cell), "cell", cell)

    def op_GLOBAL(self, name: str) -> None:
        t, namespace = self.t, self.namespace
        key = (id(namespace), name)
        source = const(namespace, "G")
        if key in t.overlay:
            self.push(t.overlay[key])
        elif name in namespace:
            if t.world.is_library_namespace(namespace):
                # Also the library's names may be given another meaning.
                t.guard("is", source.item(name), namespace[name])
                self.push(t.lift(namespace[name]))
            else:
                self.push(t.present(Lazy(namespace[name], source.item(name))))
        elif hasattr(builtins, name):
            if not t.world.is_library_namespace(namespace):
                t.guard("absent", source, name)
                t.guard("is", const(builtins).attr(name), getattr(builtins, name))
            self.push(t.lift(getattr(builtins, name)))
        else:
            raise raise_user(NameError, f"name '{name}' is not defined")

    def op_STORE_GLOBAL(self, name: str) -> None:
        self.t.overlay[id(self.namespace), name] = self.stack.pop()
        self.t.effect((id(self.namespace), name), "global", self.namespace, name)

    def op_IMPORT_NAME(self, name: str) -> None:
        names, level = self.t.python(self.pop()), self.t.python(self.pop())
        try:
            found = __import__(name, self.namespace, None, names, level)
        except ImportError as error:
            fields: dict[str, Any] = {"name": Const(error.name), "path": Const(error.path)}
            args = tuple(map(Const, error.args))
            raise UserRaise(New(type(error), fields, args)) from None
        home = getattr(found, "__name__", None)
        if home in sys.modules and sys.modules[home] is found:
            self.t.guard("is", const(sys.modules, "sys.modules").item(home), found)
        self.push(Obj(found, const(found)))

    def op_IMPORT_FROM(self, name: str) -> None:
        module = self.stack[-1]
        try:
            self.push(self.t.getattr(module, name))
        except UserRaise:
            raise Break(f"import of {name}, which its module does not have") from None

    # -- operators ---------------------------------------------------------------------------------

    def op_BINARY(self, symbol: str) -> None:
        b, a = self.pop(), self.pop()
        self.push(self.t.binary(BINARY[symbol], a, b))

    def op_COMPARE(self, arg: tuple[str, bool]) -> None:
        b, a = self.pop(), self.pop()
        self.push(self.t.binary(COMPARE[arg[0]], a, b))

    def op_UNARY(self, f: Callable[[Any], Any]) -> None:
        self.push(self.t.unary(f, self.pop()))

    def op_NOT(self, _: Any) -> None:
        self.push(Const(not self.t.truth(self.pop())))

    def op_TO_BOOL(self, _: Any) -> None:
        # What the graph computes is left to the jump behind.
        v = self.pop()
        self.push(v if isinstance(v, Tensor | Number) else Const(self.t.truth(v)))

    def op_IS(self, invert: int) -> None:
        b, a = self.pop(), self.pop()
        self.push(Const(self.t.is_same(a, b) is not bool(invert)))

    def op_CONTAINS(self, invert: int) -> None:
        container, item = self.pop(), self.pop()
        self.push(Const(self.t.contains(container, item) is not bool(invert)))

    def op_SUBSCR(self, _: Any) -> None:
        key, v = self.pop(), self.pop()
        self.push(self.t.subscript(v, key))

    def op_STORE_SUBSCR(self, _: Any) -> None:
        key, v, value = self.pop(), self.pop(), self.stack.pop()
        self.t.store_subscript(v, key, value)

    def op_DELETE_SUBSCR(self, _: Any) -> None:
        key, v = self.pop(), self.pop()
        self.t.delete_subscript(v, key)

    def op_ATTR(self, name: str) -> None:
        self.push(self.t.present(self.t.getattr(self.pop(), name)))

    def op_SUPER_ATTR(self, name: str) -> None:
        owner, cls, _ = self.pop(), self.pop(), self.pop()
        self.push(self.t.getattr(Super(cls.value, owner), name))

    def op_STORE_ATTR(self, name: str) -> None:
        owner, value = self.pop(), self.stack.pop()
        self.t.setattr(owner, name, value)

    def op_DELETE_ATTR(self, name: str) -> None:
        self.t.delattr(self.pop(), name)

    def op_GET_LEN(self, _: Any) -> None:
        length = self.t.call(Obj(len, const(len)), [self.stack[-1]], {})
        self.push(length)

    def op_MATCH_SEQUENCE(self, _: Any) -> None:
        self.push(Const(isinstance(self.t.real(self.stack[-1]), Seq)))

    def op_MATCH_MAPPING(self, _: Any) -> None:
        self.push(Const(isinstance(self.t.real(self.stack[-1]), Dict)))

    def op_MATCH_KEYS(self, _: Any) -> None:
        keys, v = self.t.python(self.stack[-1]), self.t.real(self.stack[-2])
        found = all(key in v.items for key in keys)
        self.push(Seq(tuple, [v.items[key] for key in keys]) if found else Const(None))

    def op_MATCH_CLASS(self, count: int) -> None:
        names, cls, v = self.t.python(self.pop()), self.pop(), self.pop()
        if not self.t.python(self.t.call(Obj(isinstance, const(isinstance)), [v, cls], {})):
            self.push(Const(None))
            return
        if count == 1 and not names and cls.value in MATCHED_WHOLE:
            self.push(Seq(tuple, [v]))
            return
        places = self.t.python(self.t.getattr(cls, "__match_args__"))[:count] if count else ()
        found = []
        for name in (*places, *names):
            try:
                found.append(self.t.present(self.t.getattr(v, name)))
            except UserRaise:
                self.push(Const(None))
                return
        self.push(Seq(tuple, found))

    # -- building ----------------------------------------------------------------------------------

    def op_BUILD_TUPLE(self, n: int) -> None:
        self.push(Seq(tuple, self.popn(n)))

    def op_BUILD_LIST(self, n: int) -> None:
        self.push(Seq(list, self.popn(n)))

    def op_BUILD_SET(self, n: int) -> None:
        self.push(SetVar(set, [self.t.key(x) for x in self.popn(n)]))

    def op_BUILD_SLICE(self, n: int) -> None:
        self.push(Slice([*self.popn(n), *[Const(None)] * (3 - n)]))

    def op_BUILD_STRING(self, n: int) -> None:
        self.push(Const("".join(map(self.t.python, self.popn(n)))))

    def op_LIST_TO_TUPLE(self, _: Any) -> None:
        self.push(Seq(tuple, list(self.pop().items)))

    def under_construction(self, n: int) -> Any:
        """A container below the top; it may have come through a resume payload."""
        v = self.stack[-n] = self.t.real(self.stack[-n])
        self.t.mutated(v)
        return v

    def op_LIST_EXTEND(self, n: int) -> None:
        items = self.t.iterate(self.stack.pop())
        self.under_construction(n).items.extend(items)

    def op_LIST_APPEND(self, n: int) -> None:
        item = self.stack.pop()
        self.under_construction(n).items.append(item)

    def op_SET_ADD(self, n: int) -> None:
        item = self.stack.pop()
        v = self.stack[-n] = self.t.real(self.stack[-n])
        self.t.call_bound(v, "add", [item], {})

    def op_SET_UPDATE(self, n: int) -> None:
        items = self.stack.pop()
        v = self.stack[-n] = self.t.real(self.stack[-n])
        self.t.call_bound(v, "update", [items], {})

    def op_MAP_ADD(self, n: int) -> None:
        item, key = self.stack.pop(), self.t.key(self.pop())
        self.under_construction(n).items[key] = item

    def op_DICT_UPDATE(self, n: int) -> None:
        other = self.pop()
        update_dict(self.t, self.under_construction(n), other)

    def op_BUILD_MAP(self, n: int) -> None:
        items = self.popn(2 * n)
        self.push(Dict({self.t.key(k): v for k, v in zip(items[::2], items[1::2])}))

    def op_BUILD_CONST_KEY_MAP(self, n: int) -> None:
        keys = self.t.python(self.pop())
        self.push(Dict(dict(zip(keys, self.popn(n)))))

    def op_UNPACK(self, n: int) -> None:
        items = self.t.iterate(self.pop())
        if len(items) > n:
            raise raise_user(ValueError, f"too many values to unpack (expected {n})")
        if len(items) < n:
            message = f"not enough values to unpack (expected {n}, got {len(items)})"
            raise raise_user(ValueError, message)
        self.stack += items[::-1]

    def op_UNPACK_EX(self, arg: int) -> None:
        before, after = arg & 255, arg >> 8
        items = self.t.iterate(self.pop())
        if len(items) < before + after:
            message = (
                f"not enough values to unpack (expected at least {before + after}, "
                f"got {len(items)})"
            )
            raise raise_user(ValueError, message)
        last = len(items) - after
        self.stack += [*items[last:][::-1], Seq(list, items[before:last]), *items[:before][::-1]]

    def op_FORMAT(self, arg: tuple[Callable[[Any], str] | None, bool]) -> None:
        convert, has_spec = arg
        text = self.t.python(self.pop()) if has_spec else ""
        value = self.t.python(self.pop())
        self.push(Const(format(convert(value) if convert else value, text)))

    def op_CONVERT(self, f: Callable[[Any], str]) -> None:
        self.push(Const(f(self.t.python(self.pop()))))

    # -- functions and calls -----------------------------------------------------------------------

    def op_MAKE_FUNCTION(self, flags: int) -> None:
        made = Func(self.pop().value, self.namespace)
        if flags & 8:
            made.closure = list(self.pop().items)
        if flags & 4:
            made.annotations = self.annotations_of(self.pop())
        if flags & 2:
            made.kwdefaults = self.pop().items
        if flags & 1:
            made.defaults = self.t.iterate(self.pop())
        self.push(made)

    def op_SET_FUNCTION_ATTRIBUTE(self, flag: int) -> None:
        f, v = self.pop(), self.pop()
        if flag == 8:
            f.closure = list(v.items)
        elif flag == 2:
            f.kwdefaults = v.items
        elif flag == 1:
            f.defaults = self.t.iterate(v)
        elif flag == 4:
            f.annotations = self.annotations_of(v)
        else:
            f.is_annotated_lazily = True
        self.push(f)

    def annotations_of(self, v: Any) -> Dict:
        """Names and what they are annotated with stand in turns."""
        items = v.items if isinstance(v, Seq) else list(map(Const, v.value))
        return Dict({self.t.python(name): x for name, x in zip(items[::2], items[1::2])})

    def callee(self, args: list[Any]) -> tuple[Any, list[Any]]:
        """The callable and all arguments, whichever way NULL marks them."""
        b, a = self.stack.pop(), self.stack.pop()
        if a is NULL:
            return b, args
        return (a, args) if b is NULL else (a, [b, *args])

    def op_CALL(self, arg: tuple[int, tuple[str, ...]]) -> None:
        n, names = arg
        args = self.popn(n)
        positional = n - len(names)
        kwargs = dict(zip(names, args[positional:]))
        f, args = self.callee(args[:positional])
        self.push(self.t.call(f, args, kwargs, self))

    def op_CALL_KW(self, n: int) -> None:
        names = self.t.python(self.stack.pop())
        self.op_CALL((n, names))

    def op_CALL_EX(self, has_mapping: bool) -> None:
        mapping = self.stack.pop() if has_mapping else NULL
        args = self.t.iterate(self.pop())
        kwargs: dict[str, Any] = {}
        if mapping is not NULL:
            v = self.t.real(mapping)
            if not isinstance(v, Dict):
                given, v = v, Dict({})
                if not isinstance(given, New | Obj) or not hasattr(self.t.type_of(given), "keys"):
                    raise Break("call with a mapping that is no dict")
                update_dict(self.t, v, given)
            kwargs = dict(v.items)
        f, args = self.callee(args)
        self.push(self.t.call(f, args, kwargs, self))

    # -- control -----------------------------------------------------------------------------------

    def op_GET_ITER(self, _: Any) -> None:
        self.push(self.t.iterator(self.pop()))

    def op_FOR_ITER(self, target: int) -> None:
        found = self.t.advance(self.stack[-1])
        if found is NULL:
            self.stack.pop()
            self.jump(target)
        else:
            self.push(found)

    def op_JUMP(self, target: int) -> None:
        self.jump(target)

    def op_JUMP_IF(self, arg: tuple[str, int]) -> None:
        condition, target = arg
        v = self.pop()
        if condition.endswith("NONE"):
            is_none = isinstance(v, Const) and v.value is None
            taken = is_none is (condition == "NONE")
        elif condition == "TRUE" and isinstance(v, Tensor) and self.is_asserted(v):
            taken = True
        else:
            taken = self.t.truth(v) is (condition == "TRUE")
        if taken:
            self.jump(target)

    def is_asserted(self, v: Any) -> bool:
        """Whether a tensor is what an `assert` tests: then the graph does. The error is raised by
        the frame, which runs again natively."""
        micros = [(m.op, m.arg) for m in self.decoded.micros[self.pc : self.pc + 5]]
        micros = [m for m in micros if m[0] != "NULL"]
        if micros[0] != ("CONST", AssertionError):
            return False
        message = ""
        if micros[1][0] == "CONST" and type(micros[1][1]) is str:
            message = micros[1][1]
            del micros[1]
            if micros[1] != ("CALL", (0, ())):
                return False
            del micros[1]
        return micros[1] == ("RAISE", 1) and self.t.world.asserted(self.t, v, message)

    def op_RETURN(self, _: Any) -> Any:
        return self.stack.pop()

    # -- generators --------------------------------------------------------------------------------

    def op_GENERATOR(self, _: Any) -> None:
        self.push(Const(None))

    def op_YIELD(self, _: Any) -> None:
        self.yielded = self.stack.pop()

    def op_SEND(self, target: int) -> None:
        value = self.stack.pop()
        it = self.t.real(self.stack[-1])
        if isinstance(it, Generator):
            found = it.send(self.t, value)
        else:
            found = self.t.advance(it)
        if found is not NULL:
            self.push(found)
            return
        if not SEND_KEEPS_ITERATOR:
            self.stack.pop()
        self.push(it.result if isinstance(it, Generator) else Const(None))
        self.jump(target)

    def op_END_SEND(self, _: Any) -> None:
        del self.stack[-2]

    def op_STOP_ITERATION_ERROR(self, _: Any) -> None:
        pass

    # -- exceptions and contexts -------------------------------------------------------------------

    def op_RAISE(self, n: int) -> None:
        if n == 0:
            if self.current is None:
                raise raise_user(RuntimeError, "No active exception to reraise")
            raise UserRaise(self.current)
        cause = self.pop() if n == 2 else None
        v = self.pop()
        if isinstance(v, Obj) and isinstance(v.value, type):
            v = self.t.construct(v.value, [], {})
        if cause is not None and isinstance(v, New):
            v.attrs["__cause__"] = cause
        raise UserRaise(v)

    def op_RERAISE(self, n: int) -> None:
        raise UserRaise(self.pop())

    def op_PUSH_EXC_INFO(self, _: Any) -> None:
        error = self.stack.pop()
        self.stack += [Handled(self.current, error), error]
        self.current = error

    def op_POP_EXCEPT(self, _: Any) -> None:
        self.current = self.stack.pop().previous

    def op_EXC_MATCH(self, _: Any) -> None:
        kinds = self.t.python(self.pop())
        self.push(Const(issubclass(self.t.type_of(self.stack[-1]), kinds)))

    def op_BEFORE_WITH(self, _: Any) -> None:
        manager = self.pop()
        self.push(self.t.type_attr(manager, "__exit__"))
        self.push(self.t.call(self.t.type_attr(manager, "__enter__"), [], {}))

    def op_SPECIAL(self, name: str) -> None:
        self.push(self.t.type_attr(self.pop(), name))

    def op_WITH_EXCEPT(self, _: Any) -> None:
        value = self.stack[-1]
        f: Any = self.stack[-4]
        args: list[Any] = []
        if EXIT_HAS_SELF:
            f, owner = self.stack[-5], self.stack[-4]
            args = [] if owner is NULL else [owner]
        kind = self.t.type_of(value)
        args += [Obj(kind, const(kind)), value, Const(None)]
        self.push(self.t.call(f, args, {}))


OPERATIONS: dict[str, Callable[[Frame, Any], Any]] = {
    name[3:]: operation for name, operation in vars(Frame).items() if name.startswith("op_")
}
