"""Sample inputs of ops: small, deterministic, and the same on every machine.

An op's `samples` rule yields argument tuples made with a `SampleMaker`; elementwise ops get theirs
from their arity. Values depend on (op name, dtype, how many were drawn before) only, so that
recorded results stay comparable. Loaded by tests and the op audit, never by `import rushlight`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.dtype import dtype
from rushlight.core.op import OpOverload, Refused
from rushlight.core.tensor import Tensor, wrap
from rushlight.opset.results import make_view

__all__ = [
    "DTYPES",
    "Sample",
    "SampleMaker",
    "errors_of",
    "given_errors",
    "has_samples",
    "sample",
    "samples_of",
]

# The dtypes over which ops are compared.
DTYPES: tuple[dtype, ...] = (
    dtypes.bool_,
    dtypes.uint8,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float32,
    dtypes.float64,
    dtypes.complex64,
    dtypes.complex128,
)


class Sample:
    """Arguments of one call."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        parts = [show(value) for value in self.args]
        parts += [f"{name}={show(value)}" for name, value in self.kwargs.items()]
        return f"({', '.join(parts)})"


def sample(*args: Any, **kwargs: Any) -> Sample:
    """One call's arguments, keywords included."""
    return Sample(args, kwargs)


def show(value: Any) -> str:
    """A value in a few characters: tensors as dtype[sizes], with strides where they matter."""
    if isinstance(value, Tensor):
        text = f"{value.dtype.abbr}{list(value.shape)}"
        if value.layout.name != "strided":
            return f"{text}:{value.layout.name}"
        return text if value.is_contiguous() else f"{text}/{list(value.stride())}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join([show(item) for item in value])
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return repr(value)


def uniform(seed: int, count: int) -> Any:
    """`count` float64 in [0, 1): splitmix64 of consecutive counters."""
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state += np.uint64(seed & 0xFFFFFFFFFFFFFFFF)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sizes_of(shape: tuple[Any, ...]) -> tuple[int, ...]:
    if len(shape) == 1 and not isinstance(shape[0], int):
        return tuple(shape[0])
    return shape


class SampleMaker:
    """Makes tensors of one dtype for one op. `make(3, 4)`, `make()` (0-dim), `make(0, 3)`."""

    def __init__(
        self, name: str, dtype: dtype, domain: tuple[float | None, float | None] | None = None
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.domain = (None, None) if domain is None else domain
        self.drawn = 0

    def __repr__(self) -> str:
        return f"SampleMaker({self.name!r}, {self.dtype})"

    # -- numbers ----------------------------------------------------------------------------------

    def draw(self, count: int, dtype: dtype) -> Any:
        """Uniform numbers that no other draw of this maker shares."""
        self.drawn += 1
        seed = zlib.crc32(f"{self.name}/{dtype.name}".encode()) << 32 | self.drawn
        return uniform(seed, count)

    def numbers(self, shape: tuple[int, ...], low: Any, high: Any, dtype: dtype) -> Any:
        """An array of `dtype`: floats within [low, high), integers within [low, high]."""
        low = self.domain[0] if low is None else low
        high = self.domain[1] if high is None else high
        count = math.prod(shape)
        if dtype.category == dtypes.BOOL:
            return (self.draw(count, dtype) < 0.5).reshape(shape)
        if dtype.category == dtypes.INTEGER:
            first = math.ceil(low) if low is not None else (-9 if dtype.is_signed else 0)
            last = math.floor(high) if high is not None else max(9, first)
            first = max(first, 0) if not dtype.is_signed else min(first, last)
            first, last = min(first, last), max(first, last)
            values = np.floor(self.draw(count, dtype) * (last - first + 1)) + first
            return values.reshape(shape).astype(dtype.np)
        first = low if low is not None else min(-2.5, high - 1.0 if high is not None else -2.5)
        last = high if high is not None else max(2.5, first + 1.0)
        values = self.draw(count, dtype) * (last - first) + first
        if first < -0.25 and last > 0.25:
            # Derivatives near zero are steep for many functions: differences need some room.
            values = np.where(np.abs(values) < 0.0625, values + 0.125, values)
        if dtype.category == dtypes.COMPLEX:
            values = values + 1j * (self.draw(count, dtype) * (last - first) + first)
        return values.reshape(shape).astype(dtype.np)

    def __call__(
        self,
        *shape: Any,
        low: Any = None,
        high: Any = None,
        dtype: dtype | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        result_dtype = self.dtype if dtype is None else dtype
        result = wrap(self.numbers(sizes_of(shape), low, high, result_dtype), result_dtype)
        return marked(result, requires_grad)

    def positive(self, *shape: Any, dtype: dtype | None = None) -> Tensor:
        """Values well above zero."""
        result_dtype = self.dtype if dtype is None else dtype
        if result_dtype.category == dtypes.BOOL:
            return wrap(np.ones(sizes_of(shape), np.bool_), result_dtype)
        low = 1 if result_dtype.category == dtypes.INTEGER else 0.25
        return self(*shape, low=low, high=low + 3, dtype=result_dtype)

    def coarse(self, *shape: Any) -> Tensor:
        """Eighths within [-1, 1]: sums of a few of their products are exact, on every machine."""
        values = np.round(self.numbers(sizes_of(shape), -1, 1, self.dtype) * 8) / 8
        return wrap(values.astype(self.dtype.np), self.dtype)

    def distinct(self, *shape: Any, dtype: dtype | None = None) -> Tensor:
        """All values different (as far as the dtype has that many), in shuffled order."""
        result_dtype = self.dtype if dtype is None else dtype
        sizes = sizes_of(shape)
        count = math.prod(sizes)
        order = np.argsort(self.draw(count, result_dtype), kind="stable")
        if result_dtype.category == dtypes.BOOL:
            return wrap((order % 2 == 1).reshape(sizes), result_dtype)
        if result_dtype.category == dtypes.INTEGER:
            values = order - count // 2 if result_dtype.is_signed else order
            return wrap(values.reshape(sizes).astype(result_dtype.np), result_dtype)
        # Steps of 13/32, moved by 1/32 with every draw: two such tensors share no value either.
        spread: Any = (order - count // 2) * 0.40625 + (self.drawn % 12 + 0.5) / 32
        if result_dtype.category == dtypes.COMPLEX:
            spread = spread + 1j * np.roll(spread, 1)
        return wrap(spread.reshape(sizes).astype(result_dtype.np), result_dtype)

    def special(self, *shape: Any, dtype: dtype | None = None) -> Tensor:
        """NaN, infinities, zeros of both signs, the largest and smallest values first."""
        result_dtype = self.dtype if dtype is None else dtype
        sizes = sizes_of(shape)
        values = self.numbers(sizes, None, None, result_dtype).reshape(-1)
        table = special_values(result_dtype)
        start = self.drawn % len(table) if table else 0
        turned = table[start:] + table[:start]
        for position, value in enumerate(turned[: values.size]):
            values[position] = value
        return wrap(values.reshape(sizes), result_dtype)

    # -- other tensors ----------------------------------------------------------------------------

    def index(self, *shape: Any, below: int, low: int = 0) -> Tensor:
        """An int64 tensor of indices, all less than `below`."""
        return self.ints(*shape, low=low, high=below - 1)

    def ints(self, *shape: Any, low: int = 0, high: int = 9, dtype: dtype = dtypes.int64) -> Tensor:
        """Integers within [low, high]."""
        count = math.prod(sizes_of(shape))
        values = np.floor(self.draw(count, dtype) * (high - low + 1)) + low
        return wrap(values.reshape(sizes_of(shape)).astype(dtype.np), dtype)

    def mask(self, *shape: Any) -> Tensor:
        return wrap(self.numbers(sizes_of(shape), None, None, dtypes.bool_), dtypes.bool_)

    # -- layouts ----------------------------------------------------------------------------------

    def strided(
        self,
        *shape: Any,
        low: Any = None,
        high: Any = None,
        dtype: dtype | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Not contiguous: transposed memory, every other element of a vector, an offset scalar."""
        result_dtype = self.dtype if dtype is None else dtype
        sizes = sizes_of(shape)
        values = self.numbers(sizes, low, high, result_dtype)
        if len(sizes) == 0:
            memory = np.zeros(3, result_dtype.np)
            result = aliasing(memory, result_dtype, (), (), 1)
        elif len(sizes) == 1:
            memory = np.zeros(2 * sizes[0] + 1, result_dtype.np)
            result = aliasing(memory, result_dtype, sizes, (2,), 1)
        else:
            strides = [1] * len(sizes)
            for axis in range(1, len(sizes)):
                strides[axis] = strides[axis - 1] * max(sizes[axis - 1], 1)
            result = aliasing(
                np.zeros(values.size, result_dtype.np), result_dtype, sizes, tuple(strides), 0
            )
        if values.size:
            np.copyto(result._array, values)
        return marked(result, requires_grad)

    def expanded(
        self,
        *shape: Any,
        low: Any = None,
        high: Any = None,
        dtype: dtype | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """The first dimension has stride 0."""
        result_dtype = self.dtype if dtype is None else dtype
        sizes = sizes_of(shape)
        if not sizes:
            return self(low=low, high=high, dtype=result_dtype, requires_grad=requires_grad)
        memory = self.numbers(sizes[1:], low, high, result_dtype)
        strides = [1] * (len(sizes) - 1)
        for axis in range(len(strides) - 1, 0, -1):
            strides[axis - 1] = strides[axis] * sizes[axis + 1]
        return marked(aliasing(memory, result_dtype, sizes, (0, *strides), 0), requires_grad)


def marked(tensor: Tensor, requires_grad: bool) -> Tensor:
    return tensor.requires_grad_() if requires_grad else tensor


def aliasing(memory: Any, dtype: dtype, sizes: Any, strides: Any, offset: int) -> Tensor:
    """A tensor over part of an array's memory."""
    return make_view(wrap(memory, dtype), sizes, strides, offset)


def special_values(dtype: dtype) -> list[Any]:
    if dtype.category == dtypes.BOOL:
        return []
    if dtype.category == dtypes.INTEGER:
        whole = dtypes.iinfo(dtype)
        found = [whole.max, whole.min, 0, 1]
        return [*found, -1] if dtype.is_signed else found
    if dtype.category == dtypes.COMPLEX:
        # No NaN or infinity: what complex arithmetic makes of them depends on how it is compiled.
        return [complex(-0.0, 0.0), complex(-2.0, -0.0), 0j, 1j, complex(1.0), complex(-1.0, -0.0)]
    limits = dtypes.finfo(dtype)
    nan, inf = float("nan"), float("inf")
    return [nan, inf, -0.0, -inf, 0.0, 1.0, -1.0, float(limits.max), float(limits.tiny)]


# -- samples of an op --------------------------------------------------------------------------


def as_sample(item: Any) -> Sample:
    if isinstance(item, Sample):
        return item
    if isinstance(item, tuple):
        return Sample(item, {})
    return Sample((item,), {})


def maker_of(op: OpOverload, dtype: dtype) -> SampleMaker:
    return SampleMaker(op.name(), dtype, op.options.get("domain"))


def has_samples(op: OpOverload) -> bool:
    """Whether there is a rule, or one can be derived."""
    rule = op.rules.get("samples")
    if rule is not None:
        return not isinstance(rule, Refused)
    return pointwise_arity(op) is not None


def samples_of(op: OpOverload, dtype: dtype) -> list[Sample]:
    """An op's samples for one dtype, made afresh; [] when it has none."""
    rule = op.rules.get("samples")
    if isinstance(rule, Refused):
        return []
    if rule is None:
        if pointwise_arity(op) is None:
            return []
        rule = pointwise_samples(op)
    found: list[Sample] = []
    try:
        found.extend(map(as_sample, rule(maker_of(op, dtype))))
    except NotImplementedError:
        # The rule prepared an argument with an op that does not take this dtype.
        return found
    return found


def given_errors(op: OpOverload, dtype: dtype = dtypes.float32) -> list[tuple[type, Sample]]:
    """The wrong calls that are written down for an op."""
    rule = op.rules.get("errors")
    if rule is None or isinstance(rule, Refused):
        return []
    return [(error, as_sample(item)) for error, item in rule(maker_of(op, dtype))]


def errors_of(op: OpOverload, dtype: dtype = dtypes.float32) -> list[tuple[type, Sample]]:
    """An op's wrong calls with the class each must raise; none where they are refused."""
    from rushlight.opset.samples.from_schema import derived_errors

    if isinstance(op.rules.get("errors"), Refused):
        return []
    found = given_errors(op, dtype)
    # What is written down about a call stands before what its kind would imply.
    known = {repr(case) for _, case in found}
    found += [(error, case) for error, case in derived_errors(op, dtype) if repr(case) not in known]
    return found


def pointwise_arity(op: OpOverload) -> tuple[int, int] | None:
    """(tensors, numbers) that an elementwise op demands; None when it demands anything else."""
    if op.kind.name != "POINTWISE" or op._schema.is_mutable:
        return None
    tensors = numbers = 0
    for argument in op._schema.arguments:
        if argument.has_default:
            continue
        if argument.type.kind == "Tensor" and not argument.type.optional and not numbers:
            tensors += 1
        elif argument.type.kind == "Scalar" and not argument.kwarg_only:
            numbers += 1
        else:
            return None
    return (tensors, numbers) if 0 < tensors <= 3 and numbers <= 2 else None


def pointwise_samples(op: OpOverload) -> Any:
    arity = pointwise_arity(op)
    assert arity is not None
    tensors, count = arity
    names = {a.name for a in op._schema.arguments if a.has_default and a.type.kind == "Scalar"}
    takes_numbers = bool(op.options.get("numbers", True))

    def rule(make: SampleMaker) -> Iterator[Any]:
        scalars: tuple[Any, ...] = (2, 3)[:count]
        for operands in operand_groups(make, tensors):
            yield (*operands, *scalars)
        if count:
            yield (*plain_operands(make, tensors), *(1.5, 2.25)[:count])
            yield (*plain_operands(make, tensors), *(True, 3)[:count])
        elif tensors == 2 and takes_numbers:
            yield make(3, 4), 2.5
            yield make(3, 4), 3
            yield make(), 2
            yield make(2, 3), True
        for name in sorted(names):
            operands = plain_operands(make, tensors)
            yield Sample((*operands, *scalars), {name: 2})
            if make.dtype.category >= dtypes.FLOAT:
                operands = plain_operands(make, tensors)
                yield Sample((*operands, *scalars), {name: 0.5})

    return rule


def plain_operands(make: SampleMaker, tensors: int) -> tuple[Tensor, ...]:
    return tuple([make(2, 3) for _ in range(tensors)])


def operand_groups(make: SampleMaker, tensors: int) -> Iterator[tuple[Tensor, ...]]:
    """Operands of an elementwise op: plain, 0-dim, empty, strided, broadcast, special, mixed."""
    if tensors == 1:
        yield (make(3, 4),)
        yield (make(),)
        yield (make(0, 3),)
        yield (make.strided(3, 4),)
        yield (make.strided(5),)
        yield (make.expanded(3, 4),)
        yield (make.special(12),)
        return
    if tensors == 2:
        yield make(3, 4), make(3, 4)
        yield make(3, 4), make(4)
        yield make(3, 1), make(1, 4)
        yield make(), make(2, 3)
        yield make(), make()
        yield make(0, 3), make(3)
        yield make.strided(3, 4), make.strided(3, 4)
        yield make.strided(3, 4), make(3, 4)
        yield make.expanded(3, 4), make.strided(4)
        yield make.special(12), make.special(12)
        yield make.special(12), make(12)
        yield make(2, 3), make(dtype=dtypes.float64)
        yield make(2, 3), make(2, 3, dtype=dtypes.int16)
        yield make(dtype=dtypes.int64), make(2, 3)
        yield make(2, 3, dtype=dtypes.float32), make(2, 3)
        return
    yield make(3, 4), make(3, 4), make(3, 4)
    yield make(3, 4), make(4), make(3, 1)
    yield make(), make(2, 3), make()
    yield make(0, 3), make(3), make(1)
    yield make.strided(3, 4), make.strided(3, 4), make(3, 4)
    yield make.special(9), make.special(9), make(9)
