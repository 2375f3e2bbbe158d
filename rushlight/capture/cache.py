"""Compiled code: entries per code object, recompilation, resume functions, the trampoline.

A `CompiledCode` belongs to a code object (and its globals). Its dispatcher is one generated
function with the user's signature and free variables; closures and defaults belong to the function
objects made from it. Entries are blocks of that function, the newest first.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import sys
import threading
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.base import errors, logs
from rushlight.base.callthrough import watched
from rushlight.base.counters import counters
from rushlight.capture import breaks, hints, prefixes
from rushlight.capture.bytecode import Decoded, Micro, check_version
from rushlight.capture.calls import Tracer
from rushlight.capture.emit import CELLS, Emitter
from rushlight.capture.exc import FailOnRecompileLimitHit, RecompileError
from rushlight.capture.failures import NoNativeForm
from rushlight.capture.frame import Frame
from rushlight.capture.guards import Names, described, first_missed
from rushlight.capture.hints import unsupported
from rushlight.capture.outcomes import (
    Abandon,
    Break,
    NeedBreak,
    Specialize,
    SpecializeFloats,
    UserRaise,
)
from rushlight.capture.prefixes import State
from rushlight.capture.recording import Recording
from rushlight.capture.sources import Id, Source, fetch, free, local
from rushlight.capture.stances import CURRENT
from rushlight.capture.tracer import Guard
from rushlight.capture.values import NULL, Cell, Handled, Lazy
from rushlight.capture.world import World

__all__ = ["Capture", "CompiledCode", "GuardFail", "Options", "forget_counts"]

MAX_RESTARTS = 24
UNFORESEEN = (LookupError, TypeError, ValueError, AttributeError)
# How many entries all captures made of a code object.
TOTALS: Counter[types.CodeType] = Counter()
NOT_CAPTURED = prefixes.GENERATOR_FLAGS


def is_of_python(function: types.FunctionType) -> bool:
    """Whether a function is of Python's own library, which runs as it is behind a break."""
    home = str(function.__globals__.get("__name__", ""))
    return home.partition(".")[0] in sys.stdlib_module_names


def forget_counts() -> None:
    """Let every code object be compiled as often as if it never was."""
    TOTALS.clear()


PARSING = threading.RLock()


def parsed(text: str) -> ast.Module:
    """The tree of a text. CPython 3.11 counts the depth of trees for all threads together, and
    raises SystemError where two make one at the same time."""
    with PARSING:
        for _ in range(20):
            try:
                return ast.parse(text)
            except SystemError:
                continue  # a thread that is not ours to wait for
        return ast.parse(text)


class Jump:
    """Continue with another compiled function; returned to `drive`, so that loops do not nest."""

    __slots__ = ("function", "payload")

    def __init__(self, function: Callable[..., Any], payload: tuple[Any, ...]) -> None:
        self.function = function
        self.payload = payload


def drive(result: Any) -> Any:
    while type(result) is Jump:
        function, payload = result.function, [result.payload]
        # What the program lets go of is not kept alive from here.
        result = None
        result = function(payload.pop())
    return result


class GuardFail(NamedTuple):
    """Why the newest code of a function does not fit a call."""

    reason: str
    orig_code: types.CodeType


class Options:
    """What a capture is asked to do. `limit` gives how many entries a code object may have, `total`
    how many in all captures, `fails_at_limit` whether more is an error, `fails_again` whether a
    second one is. `learns` says whether numbers and sizes that change become symbols,
    `keeps_numbers` whether integers do not, and `keeps_floats` whether floats do not,
    `starts_dynamic` whether they are symbols from the start where `dynamic` leaves that open.
    `captures_numbers` and `captures_sizes` say whether numbers of tensors, and sizes that only data
    tell, are part of graphs though those may break."""

    def __init__(self, *, fullgraph: bool = False, dynamic: bool | None = None) -> None:
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.limit: Callable[[], int] = lambda: 8
        self.total: Callable[[], int] = lambda: 256
        self.fails_at_limit: Callable[[], bool] = lambda: False
        self.fails_again: Callable[[], bool] = lambda: False
        self.keeps_numbers: Callable[[], bool] = lambda: False
        self.keeps_floats: Callable[[], bool] = lambda: False
        self.captures_numbers: Callable[[], bool] = lambda: False
        self.captures_sizes: Callable[[], bool] = lambda: False
        self.learns: Callable[[], bool] = lambda: True
        self.starts_dynamic: Callable[[], bool] = lambda: False
        # Gets what a function that was captured to its end gives, before code is made of it.
        self.on_result: Callable[[Tracer, Any, dict[str, Any]], None] | None = None
        # Told of each call that what is there does not fit.
        self.on_miss: Callable[[GuardFail], Any] | None = None

    def is_all_dynamic(self) -> bool:
        """Whether sizes are symbols from the start."""
        return self.starts_dynamic() if self.dynamic is None else self.dynamic


class Capture:
    """All code compiled for one backend with one set of options."""

    def __init__(
        self,
        make_world: Callable[[], World],
        backend: Callable[[Recording, list[Any]], Callable[..., Any]],
        options: Options | None = None,
    ) -> None:
        check_version()
        self.make_world = make_world
        self.backend = backend
        self.options = options or Options()
        self.world = make_world()
        self.codes: dict[Any, CompiledCode] = {}
        # With those that functions made before a reset still have.
        self.living: weakref.WeakSet[CompiledCode] = weakref.WeakSet()
        self.lock = threading.RLock()
        self.graphs: list[Recording] = []
        self.breaks: list[str] = []
        # The file and line of each.
        self.break_places: list[tuple[str, int]] = []
        self.forced = CURRENT.backend
        CURRENT.followers.add(self)
        self.captures = 0

    def code(self, function: types.FunctionType) -> CompiledCode:
        key = (function.__code__, Id(function.__globals__))
        found = self.codes.get(key)
        if found is None:
            with self.lock:
                found = self.codes.get(key)
                if found is None:
                    code = prefixes.with_a_slot(function.__code__)
                    found = CompiledCode(code, function.__globals__, self)
                    self.codes[key] = found
                    self.living.add(found)
        return found

    def function(self, function: types.FunctionType) -> Any:
        """The compiled form of a function: it keeps its identity when it is recompiled."""
        return self.code(function).dispatcher(function, keep=True)

    def reset(self) -> None:
        with self.lock:
            for code in list(self.living):
                code.forget()
            self.codes.clear()

    def call_through(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A native call at a break: user functions enter the cache, the rest just runs."""
        target: Any = f
        first: tuple[Any, ...] = ()
        if type(f) is types.MethodType:
            target, first = f.__func__, (f.__self__,)
        else:
            found = self.world.entry_target(f)
            if found is not None:
                target, first = found
        if self.is_entered(target):
            dispatcher = self.code(target).dispatcher(target)
            return dispatcher(*first, *args, **kwargs)
        with watched(self.call_through):
            return f(*args, **kwargs)

    def is_entered(self, target: Any) -> bool:
        return (
            type(target) is types.FunctionType
            and self.world.is_entered(target)
            and not self.world.is_disabled(target)
            and not is_of_python(target)
            # What is compiled already has a cache of its own.
            and "_torchdynamo_orig_callable" not in target.__dict__
            and not target.__code__.co_flags & NOT_CAPTURED
        )

    def note_break(self, reason: str, code: types.CodeType, line: int) -> None:
        self.breaks.append(reason)
        self.break_places.append((code.co_filename, line))
        counters["graph_break"][reason] += 1
        if logs.is_on("graph_breaks"):
            text = linecache.getline(code.co_filename, line).strip()
            where = f"{code.co_filename}:{line} in {code.co_qualname}: {text}"
            logs.write("graph_breaks", f"{where}\n  {hints.code_of(reason)}: {reason}")

    def follow_stance(self) -> None:
        is_other, self.forced = self.forced is not CURRENT.backend, CURRENT.backend
        with self.lock:
            for code in list(self.codes.values()):
                if is_other:
                    code.forget()  # what was compiled is another backend's
                else:
                    code.follow_stance()


class CompiledCode:
    def __init__(
        self,
        code: types.CodeType,
        namespace: dict[str, Any],
        capture: Capture,
        origin: CompiledCode | None = None,
    ) -> None:
        self.code = code
        self.namespace = namespace
        self.capture = capture
        self.origin = origin or self
        # How much longer the code is than that of the function it continues.
        self.prefix = len(code.co_code) - len(self.origin.code.co_code)
        self.resumes: dict[Any, CompiledCode] = {}
        self.dispatchers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.retrying = threading.local()
        self.warned = False
        # How often the dispatcher was written.
        self.version = 0
        # The globals of all dispatchers, for good.
        self.generated: dict[str, Any] = {"__miss": self.miss, "__native": self.run_native}
        self.names = Names(self.generated)
        self.forget()

    def forget(self) -> None:
        """Drop all entries."""
        # How often the frame ran natively because it could not be captured.
        self.failures = 0
        self.was_called = False
        self.obstacles: set[str] = set()
        self.entries: list[list[str]] = []
        self.lines: list[int] = []  # the user's line of each entry
        self.guards: list[list[Guard]] = []
        self.dynamic: set[Source] = set()
        self.static: set[Source] = set()
        self.names.restart()
        for resume in self.resumes.values():
            resume.forget()
        self.build()

    # -- generated code ----------------------------------------------------------------------------

    def parameters(self) -> tuple[list[str], str]:
        """Names of all parameters, and the signature without defaults."""
        code = self.code
        positional, total = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        has_args, has_kwargs = bool(code.co_flags & 4), bool(code.co_flags & 8)
        # '.0' of comprehensions is no identifier.
        names = [
            name if name.isidentifier() else f"__p{i}"
            for i, name in enumerate(code.co_varnames[: total + has_args + has_kwargs])
        ]
        parts = names[:positional]
        if code.co_posonlyargcount:
            parts.insert(code.co_posonlyargcount, "/")
        if has_args:
            parts.append("*" + names[total])
        elif code.co_kwonlyargcount:
            parts.append("*")
        parts += names[positional:total]
        if has_kwargs:
            parts.append("**" + names[-1])
        return names, ", ".join(parts)

    def cells_text(self) -> str:
        names = self.code.co_freevars
        return f"(lambda: ({', '.join(names)},)).__closure__" if names else "()"

    def source(self, version: int) -> str:
        """The dispatcher, inside a function that gives it its free variables."""
        self.parameter_names, signature = self.parameters()
        self.values_text = f"({''.join(name + ', ' for name in self.parameter_names)})"
        lines = [
            f"def __outer({', '.join(self.code.co_freevars)}):",
            f"    def __dispatch({signature}):",
        ]
        for entry in self.shown_entries():
            lines += [f"        {line}" for line in entry]
        missed = f"{self.values_text}, {self.cells_text()}, {version}"
        lines.append(f"        return __miss({missed})")
        return "\n".join([*lines, "    return __dispatch"])

    def shown_entries(self) -> list[list[str]]:
        return [] if CURRENT.name == "force_eager" else self.entries

    def build(self) -> None:
        """Compile the dispatcher. It carries the user's file and line, for what a native step
        raises to point there."""
        version = self.version + 1
        tree = parsed(self.source(version))
        dispatch: Any = tree.body[0].body[0]  # type: ignore[attr-defined]
        lines = self.lines[: len(self.shown_entries())]
        for entry, line in zip(dispatch.body, [*lines, self.code.co_firstlineno]):
            node: Any
            for node in ast.walk(entry):
                if hasattr(node, "lineno"):
                    node.lineno = node.end_lineno = line
                    node.col_offset = node.end_col_offset = 0
        exec(builtins.compile(tree, self.code.co_filename, "exec"), self.generated)
        made = self.generated.pop("__outer")(*[None] * len(self.code.co_freevars)).__code__
        if made.co_freevars != self.code.co_freevars:
            raise Break("free variables in another order")
        self.dispatch_code = made.replace(
            co_name=self.code.co_name, co_qualname=self.code.co_qualname
        )
        # Not before there is code that says so: a call of older code would never find newer.
        self.version = version
        for dispatcher in list(self.dispatchers):
            dispatcher.__code__ = self.dispatch_code
        # Without a closure all calls can share one function.
        self.shared = None if self.code.co_freevars else self.instance(())

    def instance(self, cells: tuple[Any, ...], original: Any = None) -> Any:
        """A dispatcher over given cells, with the defaults of `original`."""
        defaults = original.__defaults__ if original is not None else None
        made = types.FunctionType(
            self.dispatch_code, self.generated, self.code.co_name, defaults, cells or None
        )
        if original is not None and original.__kwdefaults__:
            made.__kwdefaults__ = original.__kwdefaults__
        return made

    def dispatcher(self, function: types.FunctionType, keep: bool = False) -> Any:
        made = self.instance(function.__closure__ or (), function)
        if keep:
            self.dispatchers.add(made)
        return made

    def bound(self, cells: tuple[Any, ...]) -> Any:
        return self.instance(cells) if self.shared is None else self.shared

    # -- running -----------------------------------------------------------------------------------

    def run_native(self, values: tuple[Any, ...], cells: tuple[Any, ...]) -> Any:
        """Run the code as it is."""
        code = self.code
        function = types.FunctionType(code, self.namespace, code.co_name, None, cells or None)
        return self.apply(function, values)

    def apply(self, function: Any, values: tuple[Any, ...]) -> Any:
        """Call with the values of all parameters."""
        code = self.code
        positional, total = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        args = list(values[:positional])
        kwargs = dict(zip(self.parameter_names[positional:total], values[positional:total]))
        if code.co_flags & 4:
            args += values[total]
        if code.co_flags & 8:
            kwargs |= values[-1]
        return function(*args, **kwargs)

    def miss(self, values: tuple[Any, ...], cells: tuple[Any, ...], version: int) -> Any:
        """No entry of the dispatcher's `version` fits: make one, and run it."""
        before = getattr(self.retrying, "values", None)
        if before is not None and all(a is b for a, b in zip(values, before)):
            return self.run_native(values, cells)  # what was just compiled does not fit
        if self.failures >= self.capture.options.limit() or self.is_obstructed():
            return self.run_native(values, cells)
        if CURRENT.name != "default" and self.is_held_by_stance(values):
            return self.run_native(values, cells)
        with self.capture.lock:
            is_stale = version != self.version  # another thread added entries meanwhile
            if is_stale:
                is_ready = True
            elif self.is_full():
                self.refuse_more(values)
                is_ready = False
            else:
                with self.capture.world.unwatched():
                    is_ready = self.add_entry(values, cells)
        if not is_ready:
            return self.run_native(values, cells)
        if is_stale:
            return self.apply(self.instance(cells), values)
        self.retrying.values = values
        try:
            return self.apply(self.instance(cells), values)
        finally:
            self.retrying.values = before

    def is_held_by_stance(self, values: tuple[Any, ...]) -> bool:
        """Whether `torch.compiler.set_stance` wants a call that no entry fits to run as it is."""
        stance = CURRENT.name
        if stance == "fail_on_recompile" and self.entries:
            raise RuntimeError(
                "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
                f"{self.code.co_qualname}: {self.why_last_missed(values)}"
            )
        is_first, self.was_called = not self.was_called, True
        if stance.endswith("then_compile"):
            return is_first and self.origin is self
        return stance == "force_eager" or (stance == "eager_on_recompile" and bool(self.entries))

    def is_obstructed(self) -> bool:
        """Whether something is active that capture does not follow; it is counted once."""
        obstacle = self.capture.world.obstacle()
        if obstacle is not None and obstacle not in self.obstacles:
            self.obstacles.add(obstacle)
            line = self.code.co_firstlineno
            self.capture.note_break(f"active: {obstacle}", self.code, line)
        return obstacle is not None

    def is_full(self) -> bool:
        """Whether there is to be no further entry, for this capture or for all."""
        options = self.capture.options
        return len(self.entries) >= options.limit() or TOTALS[self.code] >= options.total()

    def refuse_more(self, values: tuple[Any, ...]) -> None:
        options = self.capture.options
        count, which = len(self.entries), "recompile_limit"
        if count < options.limit():
            count, which = TOTALS[self.code], "accumulated_recompile_limit"
        text = (
            f"{self.code.co_qualname} was compiled {count} times ({which}), and no version fits; "
            f"the last was for {self.why_last_missed(values)}"
        )
        if options.fullgraph or options.fails_at_limit():
            raise FailOnRecompileLimitHit(text)
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"{text}. It runs uncompiled from now on where none fits. "
                f"torch._dynamo.config.{which} raises the limit",
                stacklevel=4,
            )

    def add_entry(self, values: tuple[Any, ...], cells: tuple[Any, ...]) -> bool:
        scope = dict(zip(self.parameter_names, values))
        for name, cell in zip(self.code.co_freevars, cells):
            try:
                scope[name] = cell.cell_contents
            except ValueError:
                continue
        scope[CELLS] = cells
        if self.entries and self.capture.options.fails_again():
            missed = self.why_last_missed(values)
            raise errors.error("RL0822", RecompileError, name=self.code.co_qualname, missed=missed)
        if self.entries and self.capture.options.on_miss is not None:
            self.capture.options.on_miss(GuardFail(self.why_last_missed(values), self.code))
        for guards in self.guards:
            self.learn(guards, scope)
        counters["frames"]["total"] += 1
        try:
            entry = self.analyse(values, cells, scope)
        except Break as error:
            if self.capture.options.fullgraph:
                raise unsupported(str(error), self.code, self.line) from error
            self.capture.note_break(str(error), self.code, self.line)
            self.failures += 1
            return False
        counters["frames"]["ok"] += 1
        if self.is_counted:
            self.capture.note_break(self.reason, self.code, self.line)
        if self.entries:
            self.tell_recompile(scope)
        self.entries.insert(0, entry)
        TOTALS[self.code] += 1
        self.lines.insert(0, self.line)
        self.build()
        return True

    def tell_recompile(self, scope: dict[str, Any]) -> None:
        """Say why no entry fitted, where the user asked for that."""
        if logs.is_on("recompiles"):
            place = f"{self.code.co_filename}:{self.code.co_firstlineno}"
            lines = [f"{self.code.co_qualname}, {place}, is compiled again:"]
            world = self.capture.world
            lines += [f"  {first_missed(guards, scope, world)}" for guards in self.guards[:-1]]
            logs.write("recompiles", "\n".join(lines))

    def follow_stance(self) -> None:
        """Let the dispatcher look at entries, or not, as the stance says."""
        for resume in list(self.resumes.values()):
            resume.follow_stance()
        self.build()

    def learn(self, guards: list[Guard], scope: dict[str, Any]) -> None:
        """Numbers and sizes that changed are not constants next time."""
        if self.capture.options.dynamic is False or not self.capture.options.learns():
            return
        for kind, source, expected in guards:
            if kind not in ("value", "tensor"):
                continue
            try:
                value = fetch(source, scope)
            except Exception:
                continue
            world = self.capture.world
            if kind == "tensor":
                changed = world.changed_sizes(expected, value)
                self.dynamic |= {source.size(dim) for dim in changed}
            elif type(value) is type(expected) and world.may_be_dynamic(expected, value):
                options = self.capture.options
                # Integers that are read from the globals change seldom.
                keeps = options.keeps_numbers() or source.root.kind == "const"
                if not (options.keeps_floats() if type(value) is float else keeps):
                    self.dynamic.add(source)

    def why_last_missed(self, values: tuple[Any, ...]) -> str:
        """What the newest entry expects and the values do not have."""
        if not self.guards:
            return "calls of other compilations"
        scope = dict(zip(self.parameter_names, values))
        return first_missed(self.guards[-1], scope, self.capture.world)

    # -- capture -----------------------------------------------------------------------------------

    def analyse(
        self, values: tuple[Any, ...], cells: tuple[Any, ...], scope: dict[str, Any]
    ) -> list[str]:
        """Analyse, restarting with what was learnt, then emit."""
        self.line = self.code.co_firstlineno
        if self.code.co_flags & NOT_CAPTURED:
            raise Break(f"generator or coroutine {self.code.co_name}")
        stop: int | None = None
        self.reason = ""
        # Whether the entry ends in a break that users are told of.
        self.is_counted = False
        for _ in range(MAX_RESTARTS):
            dynamic = self.dynamic - self.static
            world = self.capture.make_world()
            t = Tracer(world, dynamic)
            options = self.capture.options
            t.assume_dynamic = options.is_all_dynamic()
            t.keeps_numbers = options.keeps_numbers()
            world.captures_numbers = options.fullgraph or options.captures_numbers()
            world.captures_sizes = options.fullgraph or options.captures_sizes()
            try:
                return self.attempt(t, values, cells, scope, stop)
            except Abandon as error:
                raise Break(str(error)) from None
            except Specialize:
                self.static |= self.dynamic
            except SpecializeFloats:
                self.static |= set(t.floats)
            except NeedBreak as need:
                if self.capture.options.fullgraph:
                    raise Break(need.reason) from None
                stop = need.step
                self.reason = need.reason
            finally:
                t.release()
        raise Break("too many restarts")

    def attempt(
        self,
        t: Tracer,
        values: tuple[Any, ...],
        cells: tuple[Any, ...],
        scope: dict[str, Any],
        stop: int | None,
    ) -> list[str]:
        code = self.code
        slots: dict[int, Any] = {
            i: Lazy(value, local(name))
            for i, (name, value) in enumerate(zip(self.parameter_names, values))
        }
        closure = [
            self.wrap_cell(t, i, name, cell, scope)
            for i, (name, cell) in enumerate(zip(code.co_freevars, cells))
        ]
        frame = Frame(t, code, self.namespace, slots, closure)
        t.frames.append(frame)
        self.line = code.co_firstlineno
        while True:
            self.line = frame.decoded.micros[frame.pc].line
            if t.position == stop:
                return self.emit(t, scope, lambda e: self.finish_break(e, frame))
            try:
                done = frame.step()
            except Break as error:
                raise NeedBreak(t.position, str(error)) from error
            except UNFORESEEN as error:
                # What capture did not expect, it does not follow.
                reason = f"{type(error).__name__} in capture: {error}"
                raise NeedBreak(t.position, reason) from error
            except UserRaise as error:
                name = getattr(t.type_of(error.var), "__name__", "")
                raise NeedBreak(t.position, f"user exception {name}") from error
            t.position += 1
            if done is not None:
                if self.capture.options.on_result is not None:
                    self.capture.options.on_result(t, done, scope)
                return self.emit(t, scope, functools.partial(Emitter.rebuild, v=done))

    def wrap_cell(
        self, t: Tracer, number: int, name: str, cell: Any, scope: dict[str, Any]
    ) -> Cell:
        """The variable of a free variable's cell; its contents are read by name."""
        source = local(CELLS).item(number)
        contents = Lazy(scope[name], free(name)) if name in scope else None
        if contents is None:
            t.guard("empty", source)
        var = Cell(contents, source, name)
        t.memo[source] = var
        t.known[id(cell)] = (cell, var)
        return var

    def emit(self, t: Tracer, scope: dict[str, Any], finish: Callable[[Emitter], str]) -> list[str]:
        emitter = Emitter(t, self.names, self.cells_text())

        def backend(recording: Recording) -> Any:
            self.capture.graphs.append(recording)
            counters["stats"]["unique_graphs"] += 1
            inputs = [self.input(recording, node, scope) for node in recording.inputs]
            return self.capture.backend(recording, inputs)

        lines = emitter.entry(finish, backend, f"__native({self.values_text}, {self.cells_text()})")
        self.guards.append(t.guards)
        if logs.is_on("guards"):
            heading = f"{self.code.co_qualname}, {self.code.co_filename}:{self.line}"
            logs.write("guards", "\n".join([heading, *map(described, t.guards), *emitter.pre]))
        self.capture.captures += 1
        return lines

    @staticmethod
    def input(recording: Recording, node: Any, scope: dict[str, Any]) -> Any:
        """The value of an input of the graph now; None for one that generated code makes."""
        if node not in recording.sources:
            return None
        value, reader = fetch(recording.sources[node], scope), recording.readers.get(node)
        return value if reader is None else reader(value)

    # -- breaks ------------------------------------------------------------------------------------

    def finish_break(self, e: Emitter, frame: Frame) -> str:
        """The text that runs the broken instruction and goes on behind it."""
        d, m, stack = frame.decoded, frame.decoded.micros[frame.pc], frame.stack
        self.is_counted = m.op != "JUMP_IF"
        rest = [x for x in d.micros[frame.pc + 1 :] if x.offset == m.offset]
        try:
            native, exits, choose = breaks.exits_of(
                m, stack, rest, self.capture.call_through, frame.namespace, frame.current
            )
        except NoNativeForm as error:
            raise Break(str(error)) from None
        # What the payload holds: the stack below the operands.
        keep = stack[: len(stack) - native.consumed]
        bound = sorted(frame.slots)
        targets = [way.target for way in exits]
        handler = d.handler(m.offset)
        if handler is not None:
            targets.append(handler.target)
        live = {s for target in targets for s in breaks.live_slots(d, target, bound)}
        if "__class__" in self.code.co_freevars and 0 in frame.slots:
            live.add(0)  # `super()` reads it
        slots = sorted(live - self.free_slots(d))
        resumes = [self.resume_at(way, slots, rest if choose is None else []) for way in exits]
        values = [x.error if isinstance(x, Handled) else x for x in keep if x is not NULL]
        then = make_then(resumes, len(values), len(slots), choose, bool(self.code.co_freevars))
        payload = [e.rebuild(x) for x in values] + [e.rebuild(frame.slots[s]) for s in slots]
        if self.code.co_freevars:
            payload.append(e.read(local(CELLS)))
        given = [e.rebuild(x) for x in native.operands]
        run = e.names.constant(native.run)
        if handler is not None:
            state = State(tuple(map(entry_kind, keep)), tuple(slots))
            shifted = handler._replace(target=handler.target - self.prefix)
            code = prefixes.step_code(
                self.origin.code, shifted, state, native.run, len(given), len(payload), then
            )
            step = self.function_text(e, code)
            text = f"{step}(({''.join(x + ', ' for x in payload + given)}))"
        else:
            result = f"{run}({', '.join(given)})"
            text = f"{e.names.constant(then)}(({''.join(x + ', ' for x in payload)}), {result})"
        return text if self.origin is not self else f"{e.names.constant(drive)}({text})"

    def free_slots(self, d: Decoded) -> set[int]:
        """The slots of free variables: a continuation gets them with its closure."""
        count = len(d.slots)
        return set(range(count - len(self.code.co_freevars), count))

    def function_text(self, e: Emitter, code: types.CodeType) -> str:
        """A function over the same free variables, as text."""
        if not code.co_freevars:
            return e.names.constant(types.FunctionType(code, self.namespace))
        parts = f"{e.names.constant(code)}, {e.names.constant(self.namespace)}"
        kind = e.names.constant(types.FunctionType)
        return f"{kind}({parts}, {code.co_name!r}, None, {e.read(local(CELLS))})"

    def resume_at(
        self, way: breaks.Exit, slots: list[int], rest: list[Micro]
    ) -> tuple[CompiledCode, int, int]:
        """What continues on a way, how many values of the stack it takes, and how many results."""
        under = list(map(entry_kind, way.under))
        after = under + [prefixes.VALUE_ENTRY] * way.results
        for extra in rest:
            if extra.op == "NULL":
                after.append(prefixes.NULL_ENTRY)
            elif extra.op == "SWAP" and extra.arg == 2:
                after[-1], after[-2] = after[-2], after[-1]
            elif extra.op != "TO_BOOL":
                raise Break(f"break inside {extra.op}")
        state = State(tuple(after), tuple(slots))
        count = len(under) - under.count(prefixes.NULL_ENTRY)
        return self.resume(way.target - self.prefix, state), count, way.results

    def resume(self, target: int, state: State) -> CompiledCode:
        # Always cut from the original: prefixes of prefixes would never be met again.
        origin = self.origin
        if (target, state) not in origin.resumes:
            try:
                code = prefixes.resume_code(origin.code, target, state)
            except NoNativeForm as error:
                raise Break(str(error)) from None
            made = CompiledCode(code, self.namespace, self.capture, origin)
            origin.resumes[target, state] = made
        return origin.resumes[target, state]


def entry_kind(v: Any) -> str:
    """How an entry of the stack comes into a resume function."""
    if v is NULL:
        return prefixes.NULL_ENTRY
    return prefixes.HANDLED_ENTRY if isinstance(v, Handled) else prefixes.VALUE_ENTRY


def make_then(
    resumes: list[tuple[CompiledCode, int, int]],
    stack: int,
    slots: int,
    choose: Callable[[Any], int] | None,
    has_cells: bool,
) -> Callable[[tuple[Any, ...], Any], Jump]:
    """(stack values, slot values, [cells], operands), result -> where to continue."""
    end = stack + slots

    def then(payload: tuple[Any, ...], result: Any) -> Jump:
        compiled, under, results = resumes[choose(result)] if choose else resumes[0]
        more = (result,) if results == 1 else tuple(result) if results else ()
        cells = payload[end] if has_cells else ()
        return Jump(compiled.bound(cells), payload[:under] + more + payload[stack:end])

    return then
