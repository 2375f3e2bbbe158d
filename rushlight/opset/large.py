"""Kernels on large operands: native code where there is some, else NumPy a piece at a time.

Note [Large]: which kernel runs follows from the call alone (sizes, dtypes, layout, arguments), not
from how often or how fast others ran, so that a program gives the same bits each time. Native code
is compiled before its first use, or comes from the cache on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.arrays.buffers import empty as fresh
from rushlight.arrays.numpy_ import BLOCK, FEW, MATH
from rushlight.core import ports
from rushlight.core.dtype import FLOAT, dtype, from_numpy
from rushlight.core.geometry import same_sizes
from rushlight.core.op import KernelTable
from rushlight.core.quick import single_ufunc
from rushlight.opset.heavy import may_compile

__all__ = [
    "LARGE",
    "SMALL",
    "LoopRule",
    "PickRule",
    "Steps",
    "array_kernel",
    "by_casting_door",
    "by_door",
    "fused",
    "in_pieces",
    "is_large",
    "is_lowered",
    "join_natively",
    "lowered",
    "native_loop",
    "remainders",
    "text_kernel",
]

ndarray = np.ndarray
may_share_memory = np.may_share_memory
# Operands of at least this many elements are large.
LARGE = 1 << 14
# Different arguments beyond tensors for which an op has native kernels.
MOST_VARIANTS = 64
# How many doors a call tries.
MOST_DOORS = 4

# Sizes of dims up to this are small.
SMALL = 16

UNKNOWN = object()
Function = Callable[..., Any]
# dtypes that operands go through before the op's text, position by position, and that of the result
Casts = tuple[tuple[tuple[int, tuple[dtype, ...]], ...], dtype | None]
AS_IS: Casts = ((), None)


def text_kernel(op: Any, text: Callable[..., Any]) -> Callable[..., Any]:
    """An elementwise op's kernel: its text, and on large arrays what computes the same sooner."""
    arguments = op._schema.arguments
    count = len(op.tensor_positions)
    # One ufunc alone is NumPy's own, for stubs call that whatever the size.
    plain = single_ufunc(op, count) is not None
    defaults = tuple([a.default for a in arguments[count:]])
    kernels = op.native_kernels
    doors = kernels.doors

    def kernel(m: Any, *args: Any) -> Any:
        if m is MATH:
            first = args[0]
            if type(first) is ndarray and first.size >= LARGE:
                if doors and may_compile():
                    for door in doors:
                        found = door(*args)
                        if found is not None:
                            return found
                if len(args) == 1 and not plain and first.flags.c_contiguous:
                    # One array and nothing else: its kernel has a short key.
                    quick = kernels.get(first.dtype.num)
                    if quick is not None and may_compile():
                        found = quick(first)
                        return in_pieces(text, args) if found is None else found
                if plain and args[count:] == defaults:
                    return text(m, *args)
                return on_large(op, text, args)
        return text(m, *args)

    return kernel


def on_large(op: Any, text: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The text's answer where the first operand is large."""
    found = fused(op, text, args, AS_IS)
    return in_pieces(text, args) if found is None else found


def fused(op: Any, text: Callable[..., Any], args: tuple[Any, ...], casts: Casts) -> Any:
    """The answer of native code on contiguous arrays of one shape; None where there is none, or
    none for these elements."""
    arrays: list[Any] = []
    numbers: list[Any] = []
    key = key_of(args, arrays, numbers) if may_compile() else None
    if key is None:
        return None
    key.append(casts)
    table = op.native_kernels
    made = (op.name(), text, args, casts)
    if not numbers:
        kernel = kernel_for(table, tuple(key), ports.native_text, *made, True)
        told: list[Any] = []
        if len(args) == 1 and casts == AS_IS and kernel is not None:
            table[arrays[0].dtype.num] = kernel
    else:
        kernel = kernel_for(table, tuple(key), ports.native_text, *made, False)
        told = [] if kernel is None else numbers
        if kernel is None:
            # What looks at its numbers has them in its code.
            key += [repr(v) if type(v) is float else v.tobytes() for v in numbers]
            kernel = kernel_for(table, tuple(key), ports.native_text, *made, True)
    if kernel is None:
        return None
    if casts == AS_IS:
        open_door(table.doors, getattr(kernel, "door", None))
    elif any([from_numpy(array.dtype).category >= FLOAT for array in arrays]):
        # Without a float among the operands, what they are taken for is not theirs alone to say.
        open_door(table.casting_doors, getattr(kernel, "door", None))
    return kernel(*arrays, *told)


def key_of(args: tuple[Any, ...], arrays: list[Any], numbers: list[Any]) -> list[Any] | None:
    """What a call of an elementwise text has in common with others; arrays and numbers go to lists
    of their own. None without arrays, or where they are not contiguous and of one shape."""
    key: list[Any] = []
    for value in args:
        if type(value) is ndarray:
            if not value.ndim:
                key.append(-1 - value.dtype.num)
                numbers.append(value)
                continue
            if arrays and not same_sizes(value.shape, arrays[0].shape):
                return None
            if not value.flags.c_contiguous:
                return None
            key.append(value.dtype.num)
            arrays.append(value)
        elif type(value) is float:
            key.append(float)
            numbers.append(value)
        else:
            key.append((type(value), value))
    return key if arrays else None


def open_door(doors: list[Any], door: Any) -> None:
    """Let the next calls try a door first."""
    if door is not None and door not in doors:
        doors[MOST_DOORS - 1 :] = ()
        doors.insert(0, door)


def by_casting_door(op: Any, args: Any) -> Any:
    """As `by_door`, of kernels that convert operands and results themselves."""
    first = args[op.tensor_positions[0]]
    if type(first) is ndarray and first.size >= LARGE and may_compile():
        for door in op.native_kernels.casting_doors:
            found = door(*args)
            if found is not None:
                return found
    return None


def kernel_for(table: Any, key: Any, make: Any, *given: Any) -> Any:
    """The native kernel of a key, which `make` makes; None where there is none."""
    try:
        kernel = table.get(key, UNKNOWN)
    except TypeError:  # an argument that is no plain value
        return None
    if kernel is UNKNOWN:
        if len(table) >= MOST_VARIANTS:
            return None
        # One function for all threads.
        kernel = table.setdefault(key, make(*given))
    return kernel


def in_pieces(text: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The text's answer, worked out a piece at a time where all arrays are contiguous and of one
    shape: temporaries as large as the operands would cost more time than the arithmetic."""
    shape, size = args[0].shape, args[0].size
    places = [at for at, value in enumerate(args) if type(value) is ndarray and value.ndim]
    if size < 2 * BLOCK:
        return text(MATH, *args)
    for at in places:
        if not same_sizes(args[at].shape, shape) or not args[at].flags.c_contiguous:
            return text(MATH, *args)
    flat = {at: args[at].reshape(-1) for at in places}
    piece = list(args)
    results: list[Any] = []
    for start in range(0, size, BLOCK):
        for at, array in flat.items():
            piece[at] = array[start : start + BLOCK]
        answer = text(MATH, *piece)
        parts = answer if type(answer) is tuple else (answer,)
        if not results:
            results = [fresh((size,), part.dtype, size * part.itemsize) for part in parts]
        for result, part in zip(results, parts, strict=True):
            result[start : start + BLOCK] = part
    shaped = [result.reshape(shape) for result in results]
    return tuple(shaped) if type(answer) is tuple else shaped[0]


# -- ops that are more than a text -----------------------------------------------------------------


def array_kernel(op: Any) -> Callable[..., Any]:
    """An op's kernel with native code in its place on large contiguous operands, where the op has a
    rule to lower it."""
    kernel: Callable[..., Any] = op.rule("kernel")
    if kernel is None or not is_lowered(op):
        return kernel

    def large_or_plain(xp: Any, *args: Any) -> Any:
        found = by_door(op, args)
        if found is None and is_large(op, args):
            found = lowered(op, args)
        return kernel(xp, *args) if found is None else found

    return large_or_plain


def is_large(op: Any, args: Any) -> bool:
    """Whether one of an op's first arrays is large."""
    for place in op.tensor_positions[:2]:
        array = args[place]
        if type(array) is ndarray and array.size >= LARGE:
            return True
    return False


def by_door(op: Any, args: Any) -> Any:
    """The answer of a native kernel that takes a call as it is; None where that of no call before
    was made for such a one."""
    doors = op.native_kernels.doors
    if doors and (op.list_positions or is_large(op, args)) and may_compile():
        for door in doors:
            found = door(*args)
            if found is not None:
                return found
    return None


def join_natively(op: Any, arrays: list[Any], stacks: bool) -> None:
    """Let the next calls of `cat` or `stack` be by native code. What is copied is the same either
    way; small arrays alone are not worth compiling."""
    if may_compile() and sum([array.size for array in arrays]) >= LARGE:
        kind = arrays[0].dtype
        table = op.native_kernels
        open_door(table.doors, kernel_for(table, kind, ports.native_joining, kind, stacks))


class LoopRule:
    """Loops over arrays that are no op of their own. `lower(build, *arguments)` builds them, as an
    op's rule does, and `specs(*arguments)` says what they answer."""

    def __init__(self, label: str, lower: Callable[..., Any], specs: Callable[..., Any]) -> None:
        self.label = label
        self.lower = lower
        self.specs = specs
        self.native_kernels = KernelTable()

    def name(self) -> str:
        return self.label

    def __call__(self, *args: Any) -> Any:
        """The answer for arrays of which one is large; None where there is no native code."""
        if may_compile():
            for door in self.native_kernels.doors:
                found = door(*args)
                if found is not None:
                    return found
        return lowered(self, args)


class PickRule(LoopRule):
    """Reading elements, or `rows`, of an op's first array where its second says: loops that look
    at each place, and have no answer where one is wrong. `geometry(*arguments)` says the result's
    sizes and how many blocks the array has, how long each is, how many places of one are read, and
    how many elements lie behind each."""

    def __init__(self, op: Any, rows: bool, geometry: Function) -> None:
        super().__init__(op.name(), geometry, geometry)
        self.op = op
        self.rows = rows
        self.geometry = geometry
        self.native_kernels = op.native_kernels

    def __call__(self, *args: Any) -> Any:
        """The answer for arrays; None where they are small or there is no native code."""
        return lowered(self, args) if is_large(self.op, args) else None


# Kinds whose backends look for native code of their ops' rules.
KINDS_OF_LOOPS = ("REDUCTION", "SCAN", "OPAQUE", "REARRANGEMENT", "LOSS", "SCATTER")


def is_lowered(op: Any) -> bool:
    if not op.tensor_positions or op.list_positions or op._schema.is_mutable or op.is_view_op:
        return False
    if op.kind.name not in KINDS_OF_LOOPS:
        return False
    rule = op.rule("lower")
    return rule is not None and (callable(rule) or rule == "folded")


def lowered(op: Any, args: tuple[Any, ...]) -> Any:
    """The answer of native code for contiguous arrays; None where there is none."""
    if not may_compile():
        return None
    key: list[Any] = []
    arrays: list[Any] = []
    # Sizes that lists of arguments name are part of the code, others are told by the call.
    fixed = {1}
    for value in args:
        if type(value) is list or type(value) is tuple:
            fixed.update([size for size in value if type(size) is int and size > 1])
    places: dict[int, int] = {}
    for value in args:
        if type(value) is ndarray:
            if not value.flags.c_contiguous or not value.size:
                return None
            arrays.append(value)
            # Equal sizes are one size; what is small is told from what is large.
            key.append(value.dtype.num)
            for size in value.shape:
                if size in fixed:
                    key.append(-size)
                else:
                    key.append((places.setdefault(size, len(places)), size > SMALL))
        elif type(value) is list:
            key.append(tuple(value))
        elif type(value) is float:
            # Two zeros are equal, and NaN is not.
            key.append(repr(value))
        else:
            key.append((type(value), value))
    make = ports.native_picked if isinstance(op, PickRule) else ports.native_lowered
    kernel = kernel_for(op.native_kernels, tuple(key), make, op, args, fixed)
    if kernel is None:
        return None
    found = kernel(*arrays)
    if found is not None:
        open_door(op.native_kernels.doors, getattr(kernel, "door", None))
    return found


# -- steps in place --------------------------------------------------------------------------------


class Steps:
    """A text whose answers go into operands: `writes` says into which. All operands are
    contiguous arrays of one dtype and shape, or floats."""

    def __init__(self, label: str, text: Callable[..., Any], writes: tuple[int, ...]) -> None:
        self.label = label
        self.text = text
        self.writes = writes
        self.native_kernels = KernelTable()

    def __call__(self, *args: Any) -> bool:
        """Take the step by native code; False where there is none."""
        if not may_compile():
            return False
        arrays = [value for value in args if type(value) is ndarray]
        first = arrays[0]
        for place, value in enumerate(args):
            if type(value) is not ndarray:
                continue
            flags = value.flags
            if not (value.ndim and flags.c_contiguous and same_sizes(value.shape, first.shape)):
                return False
            is_written = place in self.writes
            if value.dtype != first.dtype or (is_written and not flags.writeable):
                return False
            others = [other for other in arrays if other is not value]
            if is_written and (
                len(others) + 1 < len(arrays) or any([may_share_memory(value, o) for o in others])
            ):
                return False
        key: list[Any] = [first.dtype.num, *map(type, args)]
        given = (self.label, self.text, args, ((), None), False, self.writes)
        kernel = kernel_for(self.native_kernels, tuple(key), ports.native_text, *given)
        if kernel is None:
            return False
        kernel(*arrays, *[value for value in args if type(value) is float])
        return True


# -- loops of their own ----------------------------------------------------------------------------

LOOPS: dict[tuple[str, dtype], Any] = {}


def native_loop(name: str, array_type: Any) -> Any:
    """A loop that no op's rule says, as a function of arrays that the caller has looked at, and
    integers; None where there is none."""
    if not may_compile():
        return None
    kind = from_numpy(array_type)
    return kernel_for(LOOPS, (name, kind), ports.native_loop, name, kind)


def remainders(name: str, x: Any, y: Any) -> Any:
    """fmod, remainder or floor_divide of float32 arrays; None where NumPy is to answer."""
    if type(x) is not ndarray or type(y) is not ndarray or x.size < FEW:
        return None
    if not (x.dtype == np.float32 == y.dtype and same_sizes(x.shape, y.shape)):
        return None
    if not (x.flags.c_contiguous and y.flags.c_contiguous):
        return None
    run = native_loop(name, x.dtype)
    if run is None:
        return None
    found, seen = fresh(x.shape, x.dtype, x.nbytes), np.empty(1, np.int32)
    run(x, y, found, seen, x.size)
    return None if seen[0] else found


# -- conversion ------------------------------------------------------------------------------------

CONVERSIONS: dict[tuple[dtype, dtype], Any] = {}
CONVERTING_DOORS: dict[tuple[dtype, dtype], Any] = {}


def converted(array: Any, source: dtype, target: dtype) -> Any:
    """The elements of a contiguous array in another dtype; None where there is no native code."""
    if not may_compile():
        return None
    door = CONVERTING_DOORS.get((source, target))
    found = None if door is None else door(array)
    if found is not None:
        return found
    if not array.flags.c_contiguous or not array.ndim:
        return None
    given = (f"{source.name} to {target.name}", same, (array,), ((), target), True)
    kernel = kernel_for(CONVERSIONS, (source, target), ports.native_text, *given)
    if kernel is None:
        return None
    CONVERTING_DOORS[source, target] = getattr(kernel, "door", None)
    return kernel(array)


def same(m: Any, x: Any) -> Any:
    return x


ports.fill(large_size=LARGE, converted=converted)
