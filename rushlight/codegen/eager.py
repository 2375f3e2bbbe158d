"""Native kernels for eager calls: an elementwise text, or an op's `lower` rule, as one function of
arrays.

The code is what a compiled graph of the one op would run, over sizes that calls tell. Functions
take contiguous arrays, all of which the caller has looked at, and answer arrays in memory of their
own. What cannot be said exactly is None, and NumPy's kernel stays.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.arrays import special
from rushlight.arrays.numpy_ import MATH
from rushlight.base import logs
from rushlight.codegen import native
from rushlight.codegen.doors import DoorText, Given
from rushlight.codegen.driver import live_steps
from rushlight.codegen.expressions import Builder, Expression, Inexpressible
from rushlight.codegen.extents import Extent
from rushlight.codegen.fusion import fuse, shrink_buffers
from rushlight.codegen.inplace import maker, reads_in_step
from rushlight.codegen.loops import Buffer, Kernel
from rushlight.codegen.lowerings import Lowering
from rushlight.codegen.program import LoopProgram, expression_of
from rushlight.codegen.values import Name, Value
from rushlight.codegen.writer import RunWriter
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor, shell
from rushlight.opset.large import SMALL, LoopRule
from rushlight.opset.results import shell_of

__all__ = ["lowered_kernel", "text_kernel"]

ndarray = np.ndarray
Function = Callable[..., Any]
# What sizes are taken for where only time depends on it: small ones, and others.
HINTS = (8, 1024)

lock = threading.RLock()


class Number(Expression):
    """A number that calls tell. It has the dtype of what it meets; a text that computes with it, or
    looks at it, needs it as a constant."""

    __slots__ = ()

    def refuse(self, *args: object) -> Any:
        raise Inexpressible("a number that calls tell")

    __eq__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = refuse
    __truediv__ = __rtruediv__ = __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = refuse
    __hash__ = object.__hash__


# A quarter of a turn in parts whose products with small whole numbers are exact; the series of sine
# over its argument and of cosine in the square of an argument up to an eighth of a turn.
HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
FARTHEST = 2.0**29
SINE = tuple([(-1) ** k / math.factorial(2 * k + 1) for k in range(8)])
COSINE = tuple([(-1) ** k / math.factorial(2 * k) for k in range(9)])


class Namespace:
    """What formulas of arrays ask of NumPy, for expressions in float64."""

    inf, nan = math.inf, math.nan

    def __init__(self, m: Texts) -> None:
        self.m = m

    def __getattr__(self, name: str) -> Any:
        return getattr(self.m, name)

    def where(self, mask: Any, x: Any, y: Any) -> Expression:
        x, y = [v if isinstance(v, Expression) else self.number(v) for v in (x, y)]
        return self.m.where(mask, x, y)

    def number(self, value: float) -> Expression:
        return self.m.const(value, dtypes.float64)

    def zeros_like(self, x: Expression) -> Expression:
        return self.number(0.0)

    def ones_like(self, x: Expression) -> Expression:
        return self.number(1.0)

    def turned(self, x: Expression, quarter: int) -> Expression:
        """The sine a number of quarters of a turn ahead, to 1e-13 of the largest."""
        m = self.m
        m.limit = FARTHEST
        n = m.round(x * (2.0 / math.pi))
        r = x
        for part in HALF_PI:
            r = r - n * part
        square = r * r
        sine = r * special.polynomial(square, SINE)
        cosine = special.polynomial(square, COSINE)
        n = n + float(quarter)
        half = n * 0.5
        is_odd = m.not_equal(m.floor(half), half)
        found = m.where(is_odd, cosine, sine)
        turns = m.floor(half) * 0.5
        return m.where(m.not_equal(m.floor(turns), turns), m.negative(found), found)

    def sin(self, x: Expression) -> Expression:
        return self.turned(x, 0)

    def cos(self, x: Expression) -> Expression:
        return self.turned(x, 1)

    def tan(self, x: Expression) -> Expression:
        return self.sin(x) / self.cos(x)

    def copysign(self, x: Any, y: Any) -> Expression:
        return self.m.copysign(x if isinstance(x, Expression) else self.number(x), y)


# Special functions whose formula of arrays is also that of native code.
FORMULAS = {
    name: name
    for name in (
        "digamma", "erfcx", "i0", "i0e", "i1", "i1e", "log_ndtr", "bessel_j0", "bessel_j1",
        "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
        "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
    )
} | {"modified_bessel_i0": "i0", "modified_bessel_i1": "i1"}  # fmt: skip


class Texts(Builder):
    """Expressions of a text whose numbers calls may tell."""

    # Elements larger than this are NumPy's.
    limit = math.inf

    def power(self, x: Any, y: Any) -> Expression:
        if isinstance(y, Expression) and y.op == "load" and y.payload[0].shape == ():
            # Small powers are products.
            raise Inexpressible("an exponent that calls tell")
        return super().power(x, y)

    def function(self, name: str, *args: Any) -> Expression:
        if name == "pow":
            # NumPy takes several elements at a time.
            raise Inexpressible("a power")
        return super().function(name, *args)

    def erfc(self, x: Any) -> Expression:
        """The formula of NumPy's kernel, in float64."""
        if x.dtype is not dtypes.float32:
            raise Inexpressible(f"erfc of {x.dtype}")
        size = self.cast(self.abs(x), dtypes.float64)
        tail = self.monic(size, special.ERFCX_TOP) / self.monic(size, special.ERFCX_BOTTOM)
        tail = tail * self.exp(special.ERFCX_LOG_FACTOR - size * size)
        found = self.cast(self.where(self.isinf(size), 0.0, tail), dtypes.float32)
        return self.where(self.less(x, 0.0), 2.0 - found, found)

    def erfinv(self, x: Any) -> Expression:
        """The formula of NumPy's kernel, in float64."""
        if x.dtype is not dtypes.float32:
            raise Inexpressible(f"erfinv of {x.dtype}")
        wide = self.cast(x, dtypes.float64)
        w = self.log(1.0 - wide * wide)
        found = wide * special.ERFINV_FACTOR * self.monic(w, special.ERFINV_TOP)
        found = self.cast(found / self.monic(w, special.ERFINV_BOTTOM), dtypes.float32)
        return self.where(self.isinf(w), self.copysign(math.inf, x), found)

    def __getattr__(self, name: str) -> Any:
        if name in FORMULAS:
            return lambda x: self.by_formula(FORMULAS[name], x)
        return super().__getattr__(name)

    def by_formula(self, name: str, x: Expression) -> Expression:
        """The formula of NumPy's kernel, in float64."""
        if x.dtype is not dtypes.float32:
            raise Inexpressible(f"{name} of {x.dtype}")
        meanings = {"np": Namespace(self), "every": lambda mask: False}
        scope = special.formulas({**special.short_sums(), **meanings})
        scope["chebyshev"] = scope["chebyshev_of"]
        return self.cast(scope[name](self.cast(x, dtypes.float64)), dtypes.float32)

    def logaddexp2(self, x: Any, y: Any) -> Expression:
        x, y = self.pair(x, y)
        if x.dtype is not dtypes.float32:
            raise Inexpressible(f"logaddexp2 of {x.dtype}")
        grown = self.log1p(self.exp2(self.negative(self.abs(self.subtract(x, y)))))
        found = self.add(self.multiply(grown, 1 / math.log(2)), self.maximum(x, y))
        return self.where(self.equal(x, y), self.add(x, 1.0), found)

    def hypot(self, x: Any, y: Any) -> Expression:
        x, y = self.pair(x, y)
        if x.dtype is not dtypes.float32:
            raise Inexpressible(f"hypot of {x.dtype}")
        wide, other = self.cast(x, dtypes.float64), self.cast(y, dtypes.float64)
        found = self.cast(self.sqrt(wide * wide + other * other), dtypes.float32)
        ends = self.logical_or(self.isinf(x), self.isinf(y))
        return self.where(ends, self.const(math.inf, x.dtype), found)

    def fmod(self, x: Any, y: Any) -> Expression:
        raise Inexpressible("a remainder, which NumPy's kernel has in float64")

    remainder = fmod

    def angle(self, x: Expression) -> Expression:
        if x.dtype.category != dtypes.FLOAT:
            raise Inexpressible(f"the angle of {x.dtype}")
        turned = self.where(self.less(x, 0.0), self.const(math.pi, x.dtype), self.const(0, x.dtype))
        return self.where(self.isnan(x), x, turned)

    def monic(self, z: Expression, coefficients: tuple[float, ...]) -> Any:
        found: Any = z + coefficients[-1]
        for c in coefficients[-2::-1]:
            found = found * z + c
        return found


class ArrayWriter(RunWriter):
    """Writes a function of arrays. Arrays of a flat program have one shape, whatever that is."""

    def __init__(self, program: LoopProgram, schedule: list[Any], flat: str = "") -> None:
        super().__init__(program, schedule)
        self.flat = flat
        self.scope["number"] = np.asarray

    def check_given(self, buffer: Buffer) -> None:
        name = buffer.name
        if name not in self.arrays:
            self.arrays.add(name)
            is_number = self.flat and buffer.shape == ()
            text = f"number({name}, {self.const(buffer.dtype.np)})" if is_number else name
            self.lines.append(f"{name}_ = {text}")

    def ints(self, numbers: tuple[Any, ...]) -> str:
        if self.flat and len(numbers) == 1 and isinstance(numbers[0], Extent):
            return f"{self.flat}.shape"
        return super().ints(numbers)

    def tensor(self, name: str) -> str:
        buffer = self.results.get(name)
        if buffer is not None:
            self.make(buffer)
        return f"{name}_"


def finished(
    program: LoopProgram,
    flat: str,
    label: str,
    call: Given,
    writes: list[tuple[Buffer, Buffer]] | None = None,
) -> Function:
    """The function of arrays that runs a program; as `door`, it may have one that takes calls as
    they are. `writes` are pairs (memory of an operand, what is computed to be put there)."""
    for _, value in writes or ():
        value.role = "result"
    schedule = fuse(live_steps(program.steps))
    if not all([isinstance(item, Kernel) for item in schedule]):
        raise Inexpressible("not by loops alone")
    shrink_buffers(schedule)
    for target, value in writes or ():
        home = maker(schedule, value)
        if home is None or len(schedule) > 1 or not reads_in_step(home[1], home[2], target):
            raise Inexpressible("a write before the last read")
        value.role, value.home = "placed", target
    writer = ArrayWriter(program, schedule, flat)
    source = writer.source()
    if not writer.entries:
        raise Inexpressible("nothing to compute")
    objects = None if writes else door_of(writer, call)
    entries = [*writer.entries, *(() if objects is None else (DOOR,))]
    library = native.compile_text(writer.module.text(), entries)
    for name in writer.entries:
        writer.scope[name] = library.function(name)
    exec(compile(source, f"<native kernel of {label}>", "exec"), writer.scope)
    run: Any = writer.scope["run"]
    if objects is not None:
        run.door = library.door(DOOR, objects)
    return run  # type: ignore[no-any-return]


DOOR = "door"


def door_of(writer: ArrayWriter, call: Given) -> tuple[Any, ...] | None:
    """Add a door to a writer's module; the objects that it refers to, None where it has none."""
    if native.this_host().array_maker is None or len(writer.entries) > 1:
        return None
    names = writer.program.outputs
    is_tuple = isinstance(names, tuple)
    outputs = [
        writer.results.get(name.name) if isinstance(name, Name) else None
        for name in (names if is_tuple else (names,))
    ]
    if not is_tuple and outputs[0] is None:
        return None
    door = DoorText(writer.module, call, writer.entry_calls[writer.entries[0]])
    try:
        return door.write(DOOR, outputs, is_tuple)
    except Inexpressible:
        return None


def given(program: LoopProgram, name: str, shape: Any, kind: dtype) -> Value:
    """An operand: contiguous memory of these sizes."""
    value = program.held(name, shape, geometry.contiguous_strides(shape), kind)
    if value.expr is None:
        raise Inexpressible(f"{kind}")
    program.inputs.append((name, value))
    return value


def told(program: LoopProgram, text: str, hint: int) -> Any:
    """A size that the arrays of a call tell."""
    return program.sizes.extents.atom(text, program.sizes.variable(text, 0), hint, 2)


def attempt(label: str, make: Function, *given: Any) -> Function | None:
    """What `make` makes, one thread at a time; None where the op has no such code."""
    if not native.can_compile():
        return None
    with lock:
        try:
            made: Function = make(*given)
        except (Inexpressible, NotImplementedError) as why:
            logs.write("kernel", f"eager {label}: NumPy's, for there are no loops of {why}")
            return None
    logs.write("kernel", f"eager {label}: native")
    return made


def renew() -> None:
    """In a forked child, whoever held the lock is gone."""
    global lock
    lock = threading.RLock()


os.register_at_fork(after_in_child=renew)


# -- elementwise texts -----------------------------------------------------------------------------


def text_kernel(
    label: str,
    text: Function,
    args: tuple[Any, ...],
    casts: Any,
    by_value: bool,
    writes: tuple[int, ...] = (),
) -> Function | None:
    """The text as a function of its arrays and, behind them, its numbers (floats and 0-d arrays);
    `by_value`, these are part of the code. `casts` are the dtypes that operands go through, and
    that of the result. Answers go into the operands at the places `writes`, if any."""
    return attempt(label, written_text, label, text, args, casts, by_value, writes)


def written_text(
    label: str,
    text: Function,
    args: tuple[Any, ...],
    casts: Any,
    by_value: bool,
    writes: tuple[int, ...],
) -> Function:
    chains, result = dict(casts[0]), casts[1]
    program = LoopProgram(native.this_host().converts_half)
    m = program.m = Texts(program.m.converts_half)
    operands = list(args)
    arrays = [at for at, value in enumerate(args) if type(value) is ndarray and value.ndim]
    names = {at: program.fresh("x") for at in arrays}
    count = told(program, f"{names[arrays[0]]}.size", HINTS[1])
    call = Given(args)
    call.atoms[count.atoms()[0]] = None
    for at in arrays:
        source = given(program, names[at], (count,), dtypes.from_numpy(args[at].dtype))
        call.buffers[at], expr = source.buffer, source.expr
        for target in chains.get(at, ()):
            expr = m.cast(expr, target)  # type: ignore[arg-type]
        operands[at] = expr
    working = operands[arrays[0]].dtype
    for at, value in enumerate(args):
        if at in names or type(value) not in (float, ndarray):
            continue
        kind = working if type(value) is float else dtypes.from_numpy(value.dtype)
        chain = chains.get(at, ())
        if not by_value:
            operands[at] = number(program, kind, type(value) is float)
            call.buffers[at] = operands[at].payload[0]
            for target in chain:
                operands[at] = m.cast(operands[at], target)
        elif type(value) is ndarray:
            for target in chain:
                value = value.astype(target.np)
            operands[at] = m.const(value.item(), chain[-1] if chain else kind)
    try:
        found: Any = text(m, *operands)
    except (AttributeError, TypeError) as error:
        # The text asks of an operand what only arrays have.
        raise Inexpressible(str(error)) from None
    several = type(found) is tuple
    values = []
    for expr, wanted in zip(found if several else (found,), answers(text, args, chains)):
        if not isinstance(expr, Expression) or expr.dtype is not wanted:
            raise Inexpressible(f"{expr} in place of {wanted}")
        kept = expr if result is None else m.cast(expr, result)
        value = Value("", (count,), (1,), kept.dtype, kept)
        program.realise(value)
        values.append(value)
    if writes:
        pairs = [
            (program.given[names[at]], value.buffer)
            for at, value in zip(writes, values, strict=True)
            if value.buffer is not None
        ]
        return finished(program, names[arrays[0]], label, call, pairs)
    program.outputs = program.results(tuple(values) if several else values[0])
    run = finished(program, names[arrays[0]], label, call)
    return run if m.limit == math.inf else within(m.limit, run)


def within(limit: float, run: Function) -> Function:
    """A function of arrays, None where an element is no number up to the limit."""

    def checked(*arrays: Any) -> Any:
        for array in arrays:
            if not (-limit <= array.min() and array.max() <= limit):
                return None
        return run(*arrays)

    return checked


def number(program: LoopProgram, kind: dtype, bare: bool) -> Expression:
    """A number that calls tell, in memory of its own; a `bare` one is no array to the text."""
    if kind.category != dtypes.FLOAT:
        raise Inexpressible(f"a number of {kind}")
    source = given(program, program.fresh("x"), (), kind)
    assert source.expr is not None and source.buffer is not None
    place = (source.buffer, (0,), 0)
    return Number(program.m, "load", (), kind, place) if bare else program.m.load(*place)


def answers(text: Function, args: tuple[Any, ...], chains: dict[int, Any]) -> list[dtype]:
    """The dtypes that the text answers in, from NumPy."""
    tiny = []
    for at, value in enumerate(args):
        if type(value) is ndarray:
            value = value.reshape(-1)[:1] if value.ndim else value
            for target in chains.get(at, ()):
                value = value.astype(target.np)
        tiny.append(value)
    found = text(MATH, *tiny)
    return [dtypes.from_numpy(part.dtype) for part in (found if type(found) is tuple else (found,))]


# -- ops with a rule -------------------------------------------------------------------------------


def lowered_kernel(
    op: OpOverload | LoopRule, args: tuple[Any, ...], fixed: set[int]
) -> Function | None:
    """An op as a function of the arrays among its arguments. Sizes in `fixed` are part of the code,
    equal ones are one."""
    return attempt(op.name(), written_rule, op, args, fixed)


def operands_of(
    program: LoopProgram, args: tuple[Any, ...], fixed: set[int]
) -> tuple[list[Any], Given]:
    """The arguments of a call with values for arrays, and what its door is made for."""
    sizes: dict[int, Any] = {}
    operands = list(args)
    call = Given(args, fixed, SMALL)
    for at, value in enumerate(args):
        if type(value) is not ndarray:
            continue
        name = program.fresh("x")
        for axis, size in enumerate(value.shape):
            if size not in fixed and size not in sizes:
                found = told(program, f"{name}.shape[{axis}]", HINTS[size > SMALL])
                sizes[size] = found
                call.atoms[found.atoms()[0]] = at, axis
        shape = tuple([sizes.get(size, size) for size in value.shape])
        operands[at] = given(program, name, shape, dtypes.from_numpy(value.dtype))
        call.buffers[at] = operands[at].buffer
    return operands, call


def specs_of(op: OpOverload | LoopRule, operands: list[Any]) -> Any:
    """What an op answers, as tensors without values."""
    metas = [
        shell(v.shape, v.strides, v.dtype, devices.cpu) if isinstance(v, Value) else v
        for v in operands
    ]
    try:
        if isinstance(op, LoopRule):
            specs = op.specs(*metas)
        else:
            specs = op.kind.run_shape(op, tuple(metas))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        # Sizes that a call tells are taken for different; a wrong call is the kernel's to refuse.
        raise Inexpressible(str(error)) from None
    return shell_of(specs, devices.cpu)


def written_rule(op: OpOverload | LoopRule, args: tuple[Any, ...], fixed: set[int]) -> Function:
    program = LoopProgram(native.this_host().converts_half)
    operands, call = operands_of(program, args, fixed)
    answer = specs_of(op, operands)
    found: Any
    if isinstance(op, LoopRule):
        found = op.lower(Lowering(program, answer), *operands)
    else:
        found = expression_of(program, op, operands, answer)
    several = isinstance(found, tuple)
    values: list[Value | None] = []
    for expr, entry in zip(found if several else (found,), answer if several else (answer,)):
        if expr is None or entry is None:
            values.append(None)
            continue
        if not isinstance(entry, Tensor):
            raise Inexpressible("no tensor")
        facts = program.facts(entry)
        if facts[1] != geometry.contiguous_strides(facts[0]):
            raise Inexpressible("another layout")
        value = Value("", *facts, expr)
        program.realise(value)
        values.append(value)
    program.outputs = program.results(tuple(values) if several else values[0])
    return finished(program, "", op.name(), call)
