"""Doors: native kernels that take a call's arguments as the objects they are.

A door looks at each argument itself, makes its results by NumPy's allocator and runs the kernels of
its program, so that nothing of Python lies between a call and the arithmetic. Arguments that it was
not made for, and results that are large, it answers with None: then the general path is taken.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from rushlight.arrays import buffers
from rushlight.codegen import entries
from rushlight.codegen.expressions import Inexpressible
from rushlight.codegen.extents import Atom, Extent
from rushlight.codegen.llvm import FunctionText, ModuleText, extent_value
from rushlight.codegen.loops import Buffer, Ints
from rushlight.codegen.plan import Plan
from rushlight.core import dtype as dtypes

__all__ = [
    "CLASS", "DECLARED", "DIMS", "DTYPE", "FLAGS", "ITEMS", "LENGTH", "LIST_ITEMS", "MOST_BYTES",
    "PLAIN", "RANK", "DoorText", "Given", "Segment",
]  # fmt: skip

# The most bytes of a result and of temporaries: more comes from memory that is kept for reuse, and
# does not go on the stack.
MOST_BYTES, MOST_STACK = 2 * buffers.LARGE, 1 << 15
# Within objects of CPython: class, floats' value, items of tuples, length and items of lists.
CLASS, VALUE, ITEMS, LENGTH, LIST_ITEMS = 8, 16, 24, 16, 24
# Within NumPy's arrays: rank, sizes, dtype, flags.
RANK, DIMS, DTYPE, FLAGS = 24, 32, 56, 64
# C-ordered and aligned.
PLAIN = 0x101
# Floats and the bits that hold their values.
NUMBERS = {dtypes.float32: "float", dtypes.float64: "double"}
DECLARED = (
    "declare void @Py_IncRef(ptr)",
    "declare void @Py_DecRef(ptr)",
    "declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)",
    "declare ptr @PyTuple_New(i64)",
    "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
    "declare i32 @memcmp(ptr, ptr, i64)",
    f"declare ptr @{entries.NEW_ARRAY}(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)",
)

# A segment's kernels with what they take, the memory that is not scratch, and the scratch.
Segment = tuple[list[tuple[str, list[Buffer], list[Any]]], list[Buffer], Plan]


class Given:
    """What a door is made for: an example of its arguments, the buffers of those that are operands,
    and where the variables of sizes are read: (argument, axis), or None for the number of elements
    of arrays that are all of one shape."""

    def __init__(self, args: tuple[Any, ...], fixed: set[int] | None = None, small: int = 0):
        self.args = args
        self.buffers: dict[int, Buffer | None] = {}
        self.atoms: dict[Atom, tuple[int, int] | None] = {}
        # Sizes that are part of the code, and which sizes are small.
        self.fixed = fixed or set()
        self.small = small

    @property
    def is_flat(self) -> bool:
        return None in self.atoms.values()


class DoorText(FunctionText):
    """Writes one door."""

    def __init__(
        self, module: ModuleText, given: Given, segment: Segment, seen: Buffer | None = None
    ) -> None:
        super().__init__(module)
        # Where kernels say whether they have seen what is wrong with a call.
        self.seen = seen
        self.given = given
        self.calls, self.outside, self.scratch = segment
        # Objects that the code refers to, in the tuple that it has for its `self`.
        self.objects: list[Any] = [None]
        self.places: dict[Buffer, str] = {}
        self.numbers: dict[Atom, str] = {}
        # Rank, sizes and number of elements of the arrays of a flat program.
        self.flat: tuple[str, str, str] | None = None

    # -- text --------------------------------------------------------------------------------------

    def need(self, condition: str) -> None:
        """Go on only where a condition holds."""
        self.count += 1
        name = f"on{self.count}"
        self.lines.append(f"  br i1 {condition}, label %{name}, label %no")
        self.label(name)

    def room(self, text: str) -> str:
        self.count += 1
        name = f"%r{self.count}"
        self.allocas.append(f"  {name} = alloca {text}, align 8")
        return name

    def field(self, what: str, offset: int, kind: str = "ptr") -> str:
        place = self.put(f"getelementptr i8, ptr {what}, i64 {offset}")
        return self.put(f"load {kind}, ptr {place}, align {4 if kind == 'i32' else 8}")

    def object(self, value: Any) -> str:
        """An object that the code knows."""
        known = [id(one) for one in self.objects]
        if id(value) not in known:
            known.append(id(value))
            self.objects.append(value)
        at = known.index(id(value))
        return self.field("%self", ITEMS + 8 * at)

    def need_same(self, what: str, value: Any) -> None:
        self.need(self.put(f"icmp eq ptr {what}, {self.object(value)}"))

    def need_class(self, what: str, cls: type) -> None:
        self.need_same(self.field(what, CLASS), cls)

    # -- the function ------------------------------------------------------------------------------

    def write(self, name: str, outputs: list[Buffer | None], is_tuple: bool) -> tuple[Any, ...]:
        """Add the door under a name; the objects that it has for its `self`."""
        args = self.given.args
        self.need(self.put(f"icmp eq i64 %count, {len(args)}"))
        for at, value in enumerate(args):
            place = self.put(f"getelementptr ptr, ptr %args, i64 {at}")
            self.argument(
                self.given.buffers.get(at), value, self.put(f"load ptr, ptr {place}, align 8")
            )
        results = [buffer for buffer in outputs if buffer is not None]
        shapes = [self.shape_of(buffer) for buffer in results]
        stack = self.stack_size()
        made = self.results(results, shapes)
        self.run(stack)
        if self.seen is not None:
            self.need_good(list(made.values()))
        self.answer(outputs, made, is_tuple)
        self.module.declared.update(DECLARED)
        body = "\n".join(["entry:", *self.allocas, *self.lines])
        no = self.lines = []
        none = self.object(None)
        no.append(f"  call void @Py_IncRef(ptr {none})\n  ret ptr {none}")
        self.module.functions.append(
            f"define ptr @{name}(ptr %self, ptr %args, i64 %count) #0 {{\n{body}\nno:\n"
            + "\n".join(no)
            + "\n}"
        )
        return tuple(self.objects)

    # -- arguments ---------------------------------------------------------------------------------

    def argument(self, buffer: Buffer | None, value: Any, what: str) -> None:
        """Look at an argument."""
        if type(value) is np.ndarray:
            self.array(value, what, buffer)
        elif buffer is not None:
            self.number(what, buffer)
        else:
            self.constant(what, value)

    def array(self, value: Any, what: str, buffer: Buffer | None) -> None:
        self.need_class(what, np.ndarray)
        self.need_same(self.field(what, DTYPE), value.dtype)
        flags = self.put(f"and i32 {self.field(what, FLAGS, 'i32')}, {PLAIN}")
        self.need(self.put(f"icmp eq i32 {flags}, {PLAIN}"))
        rank = self.field(what, RANK, "i32")
        data = self.field(what, entries.DATA_OFFSET)
        if buffer is not None:
            self.places[buffer] = data
        if self.given.is_flat and value.ndim:
            self.flat_sizes(rank, self.field(what, DIMS))
            return
        self.need(self.put(f"icmp eq i32 {rank}, {value.ndim}"))
        if buffer is None:
            self.same_bits(data, value)
        elif value.ndim:
            self.sizes(self.field(what, DIMS), buffer.shape, value.shape)

    def same_bits(self, data: str, value: Any) -> None:
        """Go on only where memory holds the value of an array without dims."""
        if value.ndim or value.itemsize > 8:
            raise Inexpressible("an array that is no operand")
        kind = f"i{8 * value.itemsize}"
        found = self.put(f"load {kind}, ptr {data}, align {value.itemsize}")
        bits = int.from_bytes(value.tobytes(), "little")
        self.need(self.put(f"icmp eq {kind} {found}, {bits}"))

    def flat_sizes(self, rank: str, dims: str) -> None:
        """The number of elements of the first array; others have its shape."""
        wide = self.put(f"zext i32 {rank} to i64")
        if self.flat is not None:
            self.need(self.put(f"icmp eq i32 {rank}, {self.flat[0]}"))
            nbytes = self.put(f"shl i64 {wide}, 3")
            apart = self.put(f"call i32 @memcmp(ptr {dims}, ptr {self.flat[1]}, i64 {nbytes})")
            self.need(self.put(f"icmp eq i32 {apart}, 0"))
            return
        self.need(self.put(f"icmp ne i32 {rank}, 0"))
        before = self.block
        self.lines.append("  br label %sizes")
        self.label("sizes")
        self.lines += [
            f"  %axis = phi i64 [ 0, %{before} ], [ %axis.next, %sizes ]",
            f"  %size = phi i64 [ 1, %{before} ], [ %size.next, %sizes ]",
            f"  %dim = getelementptr i64, ptr {dims}, i64 %axis",
            "  %length = load i64, ptr %dim, align 8",
            "  %size.next = mul i64 %size, %length",
            "  %axis.next = add nuw nsw i64 %axis, 1",
            f"  %more = icmp ult i64 %axis.next, {wide}",
            "  br i1 %more, label %sizes, label %sized",
        ]
        self.label("sized")
        self.flat = rank, dims, "%size.next"
        for atom, place in self.given.atoms.items():
            if place is None:
                self.numbers[atom] = "%size.next"

    def sizes(self, dims: str, shape: Ints, example: Ints) -> None:
        """Sizes that the code knows, equal ones that are one variable; others are different."""
        fixed = self.given.fixed
        for axis, size in enumerate(shape):
            place = self.put(f"getelementptr i64, ptr {dims}, i64 {axis}")
            found = self.put(f"load i64, ptr {place}, align 8")
            if not isinstance(size, Extent):
                self.need(self.put(f"icmp eq i64 {found}, {size}"))
                continue
            (atom,) = size.atoms()
            if atom in self.numbers:
                self.need(self.put(f"icmp eq i64 {found}, {self.numbers[atom]}"))
                continue
            for other in [*sorted(fixed), *self.numbers.values()]:
                self.need(self.put(f"icmp ne i64 {found}, {other}"))
            order = "ugt" if example[axis] > self.given.small else "ule"
            self.need(self.put(f"icmp {order} i64 {found}, {self.given.small}"))
            self.need(self.put(f"icmp ne i64 {found}, 0"))
            self.numbers[atom] = found

    def number(self, what: str, buffer: Buffer) -> None:
        """A float that the call tells, in the dtype in which the kernel reads it."""
        kind = NUMBERS.get(buffer.dtype)
        if kind is None:
            raise Inexpressible(f"a number of {buffer.dtype}")
        self.need_class(what, float)
        value = self.field(what, VALUE, "double")
        if kind == "float":
            value = self.put(f"fptrunc double {value} to float")
        place = self.places[buffer] = self.room(kind)
        self.lines.append(f"  store {kind} {value}, ptr {place}, align 4")

    def constant(self, what: str, value: Any) -> None:
        """Go on only where an argument is this value, as far as that is quickly seen."""
        if type(value) is float:
            self.need_class(what, float)
            (bits,) = struct.unpack("<q", struct.pack("<d", value))
            self.need(self.put(f"icmp eq i64 {self.field(what, VALUE, 'i64')}, {bits}"))
        elif type(value) is int:
            self.whole(what, value)
        elif type(value) is list or type(value) is tuple:
            self.need_class(what, type(value))
            length = self.field(what, LENGTH, "i64")
            self.need(self.put(f"icmp eq i64 {length}, {len(value)}"))
            is_list = type(value) is list
            items = self.field(what, LIST_ITEMS) if is_list and value else what
            for at, item in enumerate(value):
                self.constant(self.field(items, 8 * at + (0 if is_list else ITEMS)), item)
        else:
            self.need_same(what, value)

    def whole(self, what: str, value: int) -> None:
        if not -(1 << 63) <= value < 1 << 63:
            raise Inexpressible("an integer of many bits")
        self.need_class(what, int)
        over = self.room("i32")
        found = self.put(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {what}, ptr {over})")
        self.need(self.put(f"icmp eq i64 {found}, {value}"))
        self.need(self.put(f"icmp eq i32 {self.put(f'load i32, ptr {over}, align 4')}, 0"))

    # -- results -----------------------------------------------------------------------------------

    def results(self, results: list[Buffer], shapes: list[tuple[str, str]]) -> dict[Buffer, str]:
        """New arrays."""
        made: dict[Buffer, str] = {}
        for buffer, (rank, dims) in zip(results, shapes, strict=True):
            kind = self.object(buffer.dtype.np)
            self.lines.append(f"  call void @Py_IncRef(ptr {kind})")
            array = self.put(
                f"call ptr @{entries.NEW_ARRAY}(ptr {self.object(np.ndarray)}, ptr {kind}, "
                f"i32 {rank}, ptr {dims}, ptr null, ptr null, i32 0, ptr null)"
            )
            self.need_made(array, list(made.values()))
            made[buffer] = array
            self.places[buffer] = self.field(array, entries.DATA_OFFSET)
        return made

    def need_good(self, made: list[str]) -> None:
        """Go on only where kernels have seen nothing wrong."""
        assert self.seen is not None
        found = self.put(f"load i32, ptr {self.places[self.seen]}, align 4")
        bad = self.put(f"icmp ne i32 {found}, 0")
        self.lines.append(f"  br i1 {bad}, label %bad, label %good")
        self.label("bad")
        self.lines += [f"  call void @Py_DecRef(ptr {array})" for array in made]
        self.lines.append("  br label %no")
        self.label("good")

    def need_made(self, what: str, before: list[str]) -> None:
        """Go on only with an object; without memory for it what was made before goes, too."""
        missing = self.put(f"icmp eq ptr {what}, null")
        name = f"made{self.count}"
        self.lines.append(f"  br i1 {missing}, label %{name}.no, label %{name}")
        self.label(f"{name}.no")
        self.lines += [f"  call void @Py_DecRef(ptr {array})" for array in before]
        self.lines.append("  ret ptr null")
        self.label(name)

    def extent(self, value: Any) -> str:
        if isinstance(value, Atom) and value in self.numbers:
            return self.numbers[value]
        if type(value) is int:
            return str(value)
        if not all([atom in self.numbers for atom in value.atoms()]):
            raise Inexpressible("a size that no array tells")
        return extent_value(value, self.numbers, self.put)

    def shape_of(self, buffer: Buffer) -> tuple[str, str]:
        """Rank and sizes of a result that is not large."""
        nbytes = self.extent(buffer.nbytes)
        self.need(self.put(f"icmp ule i64 {nbytes}, {MOST_BYTES}"))
        if self.flat is not None:
            return self.flat[:2]
        rank = len(buffer.shape)
        dims = self.room(f"[{max(rank, 1)} x i64]")
        for axis, size in enumerate(buffer.shape):
            place = self.put(f"getelementptr i64, ptr {dims}, i64 {axis}")
            self.lines.append(f"  store i64 {self.extent(size)}, ptr {place}, align 8")
        return str(rank), dims

    def run(self, stack: str) -> None:
        """The kernels."""
        if self.seen is not None:
            self.places[self.seen] = self.room("i32")
        if not all([buffer in self.places for buffer in self.outside]):
            raise Inexpressible("memory that is no argument's")
        places = {buffer: self.places[buffer] for buffer in self.outside}
        if stack:
            memory = self.put(f"alloca i8, i64 {stack}, align {buffers.ALIGNMENT}")
            self.lines += self.module.scratch_places(self.scratch, places, self.numbers, memory)
        for kernel, given, atoms in self.calls:
            texts = [f"ptr {places[buffer]}" for buffer in given]
            texts += [f"i64 {self.extent(atom)}" for atom in atoms]
            self.lines.append(f"  call void @{kernel}({', '.join(texts)})")

    def stack_size(self) -> str:
        """How much scratch memory there is, "" for none; a little goes on the stack."""
        if self.scratch.is_empty:
            return ""
        total = str(self.scratch.fixed)
        for slot in self.scratch.slots:
            padded = self.put(f"add i64 {self.extent(slot)}, {buffers.ALIGNMENT}")
            total = self.put(f"add i64 {total}, {padded}")
        self.need(self.put(f"icmp ule i64 {total}, {MOST_STACK}"))
        return total

    def answer(self, outputs: list[Buffer | None], made: dict[Buffer, str], is_tuple: bool) -> None:
        if not is_tuple:
            assert outputs[0] is not None
            self.lines.append(f"  ret ptr {made[outputs[0]]}")
            return
        found = self.put(f"call ptr @PyTuple_New(i64 {len(outputs)})")
        self.need_made(found, list(made.values()))
        for at, buffer in enumerate(outputs):
            item = made[buffer] if buffer is not None else self.object(None)
            if buffer is None:
                self.lines.append(f"  call void @Py_IncRef(ptr {item})")
            self.put(f"call i32 @PyTuple_SetItem(ptr {found}, i64 {at}, ptr {item})")
        self.lines.append(f"  ret ptr {found}")
