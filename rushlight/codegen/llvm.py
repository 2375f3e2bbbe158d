"""Kernels as LLVM IR text: scalar loops that LLVM's vectoriser widens.

Each kernel is a function over `noalias` pointers. Arithmetic keeps IEEE rules, so results equal an
eager run's to the bit; only sums and products may be reordered (`reassoc`), and extremes ignore the
sign of zero while NaN still wins. An entry point per segment takes NumPy arrays as a CPython
fastcall function would, or an array of pointers, and calls its kernels in order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from rushlight.arrays.buffers import ALIGNMENT
from rushlight.codegen import vectormath
from rushlight.codegen.entries import DATA_OFFSET
from rushlight.codegen.expressions import BINARY_FUNCTIONS, UNARY_FUNCTIONS, Expression, walk
from rushlight.codegen.extents import Atom, Extent, hint_of
from rushlight.codegen.loops import Buffer, Ints, Kernel, Loop, Statement, accesses, loop_order
from rushlight.codegen.plan import Plan
from rushlight.core import dtype as dtypes
from rushlight.core.dtype import BOOL, FLOAT, INTEGER, dtype

__all__ = ["FunctionText", "ModuleText", "extent_value"]

FLOAT_TYPES = {
    dtypes.float16: "half",
    dtypes.bfloat16: "i16",
    dtypes.float32: "float",
    dtypes.float64: "double",
}
FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
INTRINSICS = {"sqrt", "floor", "ceil", "trunc", "rint", "copysign"}
# The rectangles in which transposing loops walk memory. Few steps along the outer dim: LLVM unrolls
# them, and what a cache line holds is used while it is there.
TILE = (4, 16)
# How many float32 elements of a sum whose length only a call tells are added in float32, before
# they are added to the rest in double.
STRIP = 4096
# Rows of elements that are short, and how many of them are a vector on every CPU at hand.
ROW, VECTOR = 64, 8
# The mark of loops whose turns are not written out before they are vectors.
ROLLED = """\
!0 = distinct !{!0, !1, !2}
!1 = !{!"llvm.loop.unroll.disable"}
!2 = !{!"llvm.loop.vectorize.followup_all", !3}
!3 = !{!"llvm.loop.isvectorized", i32 1}
"""


def register_type(dtype: dtype) -> str:
    if dtype.category == BOOL:
        return "i1"
    return FLOAT_TYPES.get(dtype) or f"i{dtype.itemsize * 8}"


def memory_type(dtype: dtype) -> str:
    return "i8" if dtype.category == BOOL else register_type(dtype)


def short(dtype: dtype) -> str:
    return "f32" if dtype is dtypes.float32 else "f64"


def attributes_for(cpu: str, features: str) -> str:
    """The attributes of functions for a CPU: the last lines of a module's text."""
    target = f'"target-cpu"="{cpu}" "target-features"="{features}"'
    wide = '"prefer-vector-width"="512" "no-trapping-math"="true"'
    return (
        f"attributes #0 = {{ nounwind noinline {wide} {target} }}\n"
        "attributes #1 = { nounwind willreturn memory(none) }\n"
        f"attributes #2 = {{ nounwind alwaysinline {wide} {target} }}\n"
    )


class ModuleText:
    """The text of one module: kernels, entry points, math functions."""

    def __init__(
        self, triple: str, layout: str, cpu: str, features: str, reads_arrays: bool
    ) -> None:
        # Whether entry points take array objects as CPython calls builtins, or bare pointers.
        self.reads_arrays = reads_arrays
        self.head = f'target triple = "{triple}"\ntarget datalayout = "{layout}"\n'
        self.attributes = attributes_for(cpu, features)
        self.functions: list[str] = []
        # Names of kernels by their text from the parameters on.
        self.kernels: dict[str, str] = {}
        self.chains: set[str] = set()
        self.declared: set[str] = set()
        self.math: set[tuple[str, str]] = set()
        # Whether a loop refers to `ROLLED`.
        self.rolls = False

    def add_kernel(self, kernel: Kernel) -> tuple[str, list[Buffer], list[Atom]]:
        """Add a kernel, unless there is one that does the same; its name and arguments: memory,
        then numbers."""
        text = KernelText(self, kernel)
        body = text.function()
        name = self.kernels.get(body)
        if name is None:
            name = self.kernels[body] = f"kernel{len(self.kernels)}"
            self.functions.append(f"define internal void @{name}{body}")
        return name, text.buffers, list(text.atoms)

    def add_chain(self, count: int) -> str:
        """Add what runs a recipe of so many arrays, given those, scratch memory, the recipe's
        template and the number of threads."""
        name = f"chain{count}"
        if name in self.chains:
            return name
        self.chains.add(name)
        lines = [f"  %a = alloca [{count} x ptr], align 8"]
        for at in range(count):
            lines.append(f"  %o{at} = getelementptr ptr, ptr %a, i64 {at}")
            lines.append(f"  store ptr %b{at}, ptr %o{at}, align 8")
        lines.append("  %f = load ptr, ptr %t, align 8")
        lines.append("  %n = load i64, ptr %threads, align 8")
        lines.append("  call void %f(ptr %t, ptr %s, ptr %a, i64 %n)")
        arrays = "".join([f"ptr %b{at}, " for at in range(count)])
        head = f"define internal void @{name}({arrays}ptr %s, ptr %t, ptr %threads) #0 {{"
        self.functions.append("\n".join([head, *lines, "  ret void\n}"]))
        return name

    def add_entry(
        self,
        name: str,
        calls: list[tuple[str, list[Buffer], list[Atom]]],
        arrays: list[Buffer],
        scratch: Plan,
        atoms: list[Atom],
    ) -> None:
        """An entry point over arrays, behind them one of scratch memory where there is any, and
        behind that numbers."""
        lines: list[str] = []
        count = len(arrays) + (not scratch.is_empty)
        for at in range(count):
            lines += self.array_lines(at)
        for at in range(count, count + len(atoms)):
            lines += self.number_lines(at)
        numbers = {atom: f"%n{count + at}" for at, atom in enumerate(atoms)}
        places = {buffer: f"%p{at}" for at, buffer in enumerate(arrays)}
        lines += self.scratch_places(scratch, places, numbers, f"%p{len(arrays)}")
        for kernel, given, sizes in calls:
            texts = [f"ptr {places[buffer]}" for buffer in given]
            texts += [f"i64 {numbers[atom]}" for atom in sizes]
            lines.append(f"  call void @{kernel}({', '.join(texts)})")
        body = "\n".join(lines)
        if self.reads_arrays:
            self.declared.add("declare void @Py_IncRef(ptr)")
            head = f"define ptr @{name}(ptr %self, ptr %args, i64 %count) #0 {{"
            end = "  call void @Py_IncRef(ptr %self)\n  ret ptr %self\n}"
        else:
            head, end = f"define void @{name}(ptr %args) #0 {{", "  ret void\n}"
        self.functions.append(f"{head}\n{body}\n{end}")

    def array_lines(self, at: int) -> list[str]:
        """The lines that find the data of an argument that is an array."""
        place = f"  %o{at} = getelementptr ptr, ptr %args, i64 {at}"
        if not self.reads_arrays:
            return [place, f"  %p{at} = load ptr, ptr %o{at}, align 8"]
        return [
            place,
            f"  %a{at} = load ptr, ptr %o{at}, align 8",
            f"  %d{at} = getelementptr i8, ptr %a{at}, i64 {DATA_OFFSET}",
            f"  %p{at} = load ptr, ptr %d{at}, align 8",
        ]

    def number_lines(self, at: int) -> list[str]:
        """The lines that read an argument that is an integer."""
        place = f"  %o{at} = getelementptr ptr, ptr %args, i64 {at}"
        if not self.reads_arrays:
            return [place, f"  %n{at} = load i64, ptr %o{at}, align 8"]
        self.declared.add("declare i64 @PyLong_AsSsize_t(ptr)")
        return [
            place,
            f"  %a{at} = load ptr, ptr %o{at}, align 8",
            f"  %n{at} = call i64 @PyLong_AsSsize_t(ptr %a{at})",
        ]

    def scratch_places(
        self, scratch: Plan, places: dict[Buffer, str], numbers: dict[Atom, str], base: str
    ) -> list[str]:
        """The lines that find buffers in scratch memory, which begins at `base`."""
        lines: list[str] = []

        def put(text: str) -> str:
            name = f"%s{len(lines)}"
            lines.append(f"  {name} = {text}")
            return name

        for buffer, offset in scratch.offsets.items():
            places[buffer] = put(f"getelementptr i8, ptr {base}, i64 {offset}")
        start = str(scratch.fixed)
        slots = []
        for slot in scratch.slots:
            slots.append(start)
            end = put(f"add i64 {extent_value(slot, numbers, put)}, {ALIGNMENT - 1}")
            start = put(f"add i64 {start}, {put(f'and i64 {end}, -{ALIGNMENT}')}")
        for buffer, number in scratch.slotted.items():
            places[buffer] = put(f"getelementptr i8, ptr {base}, i64 {slots[number]}")
        return lines

    def text(self) -> str:
        functions, declared = vectormath.define(self.math)
        parts = [self.head, *functions, *self.functions]
        parts += [*sorted(self.declared | declared), self.attributes]
        if self.rolls:
            parts.append(ROLLED)
        return "\n".join(parts)


def extent_value(extent: Extent, numbers: dict[Atom, str], put: Callable[[str], str]) -> str:
    """A size computed from its atoms."""
    total = ""
    for atoms, factor in extent.terms.items():
        factors = [numbers[atom] for atom in atoms]
        if factor != 1 or not factors:
            factors.append(str(factor))
        term = factors[0]
        for other in factors[1:]:
            term = put(f"mul nsw i64 {term}, {other}")
        total = put(f"add nsw i64 {total}, {term}") if total else term
    return total


class FunctionText:
    """The body of a function, line by line."""

    def __init__(self, module: ModuleText) -> None:
        self.module = module
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.count = 0
        self.block = "entry"

    def put(self, text: str) -> str:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name


class KernelText(FunctionText):
    """Writes one kernel."""

    def __init__(self, module: ModuleText, kernel: Kernel) -> None:
        super().__init__(module)
        self.kernel = kernel
        self.buffers = kernel.buffers()
        self.pointers = {buffer: f"%p{at}" for at, buffer in enumerate(self.buffers)}
        # Parameters for the atoms of sizes, and sizes computed of them before all loops.
        self.atoms: dict[Atom, str] = {}
        self.extents: dict[Extent, str] = {}
        self.head: list[str] = []
        self.indices: dict[int, str] = {}
        # SSA values by expression, buffers in registers, linear indices: one dict per open scope.
        self.scopes: list[dict[Hashable, str]] = [{}]
        self.merge_dims()

    # -- dims --------------------------------------------------------------------------------------

    def merge_dims(self) -> None:
        """Choose the order of loops, and walk neighbours that memory holds as one dim in one."""
        kernel = self.kernel
        self.order = loop_order(kernel.sizes, kernel.statements())
        self.sizes: dict[int, Any] = dict(enumerate(kernel.sizes))
        self.rows = [dim for dim in self.order if dim in (kernel.rows or ())]
        self.loop_dims = [[d for d in self.order if d in loop.dims] for loop in kernel.loops]
        every: set[Ints] = set()
        for statement in kernel.statements():
            every.add(statement.strides)
            for node in walk(statement.value):
                if node.op == "load" or node.op == "index":
                    every.add(node.payload[-2])
        groups = [self.rows, *self.loop_dims]
        at = 0
        while at + 1 < len(self.order):
            outer, inner = self.order[at], self.order[at + 1]
            together = all([(outer in group) == (inner in group) for group in groups])
            size = self.sizes[inner]
            if together and all([s[outer] == s[inner] * size for s in every]):
                self.sizes[inner] *= self.sizes[outer]
                for group in [*groups, self.order]:
                    if outer in group:
                        group.remove(outer)
            else:
                at += 1

    # -- text --------------------------------------------------------------------------------------

    def known(self, key: Hashable) -> str | None:
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        return None

    def function(self) -> str:
        """Parameters and body."""
        self.nest(self.rows, self.row)
        given = [f"ptr noalias {self.pointers[b]}" for b in self.buffers]
        given += [f"i64 {name}" for name in self.atoms.values()]
        body = "\n".join(self.lines)
        head = "\n".join(["entry:", *self.allocas, *self.head])
        return f"({', '.join(given)}) #0 {{\n{head}\n{body}\n  ret void\n}}"

    def number(self, value: int | Extent) -> str:
        """A size or stride as an operand."""
        if not isinstance(value, Extent):
            return str(value)
        found = self.extents.get(value)
        if found is None:
            for atom in value.atoms():
                self.atoms.setdefault(atom, f"%n{len(self.atoms)}")
            found = self.extents[value] = extent_value(value, self.atoms, self.put_first)
        return found

    def put_first(self, text: str) -> str:
        """A value computed before all loops."""
        name = f"%e{len(self.head)}"
        self.head.append(f"  {name} = {text}")
        return name

    def nest(self, dims: list[int], body: Callable[[], None]) -> None:
        """Loops over dims, outermost first, around what `body` writes."""
        if not dims:
            body()
            return
        dim, rest = dims[0], dims[1:]
        self.whole_dim(dim, 1, lambda: self.nest(rest, body))

    def whole_dim(self, dim: int, step: int, body: Callable[[], None]) -> None:
        """A loop over a dim, which may have no elements."""
        size = self.sizes[dim]
        least = size.least if isinstance(size, Extent) else size
        self.counted(dim, "0", self.number(size), step, body, least is None or least < 1)

    def counted(
        self,
        dim: int,
        start: str,
        stop: str,
        step: int,
        body: Callable[[], None],
        may_be_empty: bool = False,
        is_rolled: bool = False,
    ) -> None:
        """One loop of at least one turn, unless told otherwise; inside it the dim has an index."""
        self.count += 1
        name = f"loop{self.count}"
        index = f"%i{self.count}"
        before = self.block
        if may_be_empty:
            some = self.put(f"icmp ult i64 {start}, {stop}")
            self.lines.append(f"  br i1 {some}, label %{name}, label %{name}.end")
        else:
            self.lines.append(f"  br label %{name}")
        self.label(name)
        at = len(self.lines)
        outer = self.indices.get(dim)
        self.indices[dim] = index
        self.scopes.append({})
        body()
        self.scopes.pop()
        phi = f"  {index} = phi i64 [ {start}, %{before} ], [ {index}.next, %{self.block} ]"
        self.lines.insert(at, phi)
        self.lines.append(f"  {index}.next = add nuw nsw i64 {index}, {step}")
        self.lines.append(f"  {index}.more = icmp ult i64 {index}.next, {stop}")
        mark = ", !llvm.loop !0" if is_rolled else ""
        self.lines.append(f"  br i1 {index}.more, label %{name}, label %{name}.end{mark}")
        if outer is None:
            del self.indices[dim]
        else:
            self.indices[dim] = outer
        self.label(f"{name}.end")

    def tiles(self, loop: Loop, dims: list[int]) -> tuple[int, int] | None:
        """Two dims to walk in rectangles: some accesses run along one in memory, some along the
        other."""
        if len(dims) < 2 or any([s.fold for s in loop.statements]):
            return None
        along: set[int] = set()
        for statement in loop.statements:
            for strides in accesses(statement):
                steps = [(abs(hint_of(strides[d])), d) for d in dims if strides[d]]
                if len(steps) > 1:
                    along.add(min(steps)[1])
        others = [d for d in along if d != dims[-1] and hint_of(self.sizes[d]) >= 2 * TILE[0]]
        last = hint_of(self.sizes[dims[-1]])
        if dims[-1] not in along or len(others) != 1 or last < 2 * TILE[1]:
            return None
        return others[0], dims[-1]

    def tiled(self, dims: list[int], pair: tuple[int, int], body: Callable[[], None]) -> None:
        """Loops over dims with two of them cut into rectangles."""
        outer = [d for d in dims if d not in pair]
        first, last = pair

        def inside() -> None:
            corner = self.indices[first], self.indices[last]
            whole = [self.put(f"add nuw nsw i64 {c}, {side}") for c, side in zip(corner, TILE)]
            cut = [dim for dim, side in zip(pair, TILE) if not self.is_multiple(dim, side)]
            if not cut:
                self.rectangle(pair, corner, whole, body)
                return
            # A rectangle that is whole has loops of known length; those at the ends have not.
            self.module.declared.add("declare i64 @llvm.umin.i64(i64, i64)")
            sizes = [self.number(self.sizes[dim]) for dim in pair]
            ends = [
                self.put(f"call i64 @llvm.umin.i64(i64 {end}, i64 {size})")
                for end, size in zip(whole, sizes)
            ]
            fits = [self.put(f"icmp eq i64 {a}, {b}") for a, b in zip(whole, ends)]
            both = self.put(f"and i1 {fits[0]}, {fits[1]}")
            self.count += 1
            name = f"tile{self.count}"
            self.lines.append(f"  br i1 {both}, label %{name}.whole, label %{name}.part")
            for label, stops in (("whole", whole), ("part", ends)):
                self.label(f"{name}.{label}")
                self.rectangle(pair, corner, stops, body)
                self.lines.append(f"  br label %{name}.end")
            self.label(f"{name}.end")

        def blocks() -> None:
            self.whole_dim(first, TILE[0], lambda: self.whole_dim(last, TILE[1], inside))

        self.nest(outer, blocks)

    def is_multiple(self, dim: int, side: int) -> bool:
        size = self.sizes[dim]
        return not isinstance(size, Extent) and size % side == 0

    def rectangle(
        self, pair: tuple[int, int], corner: tuple[str, str], ends: list[str], body: Any
    ) -> None:
        first, last = pair
        self.counted(
            first, corner[0], ends[0], 1, lambda: self.counted(last, corner[1], ends[1], 1, body)
        )

    def stripped(
        self, dims: list[int], sums: dict[Statement, tuple[str, str]], body: Callable[[], None]
    ) -> None:
        """Loops over dims, the last one in strips: after each the sums of its elements go from
        a register in float32 into one in double."""
        *outer, last = dims
        self.module.declared.add("declare i64 @llvm.umin.i64(i64, i64)")

        def strip() -> None:
            start = self.indices[last]
            end = self.put(f"add nuw nsw i64 {start}, {STRIP}")
            size = self.number(self.sizes[last])
            end = self.put(f"call i64 @llvm.umin.i64(i64 {end}, i64 {size})")
            for short, _ in sums.values():
                self.lines.append(f"  store float 0.0, ptr {short}")
            self.counted(last, start, end, 1, body)
            for short, long in sums.values():
                part = self.put(f"fpext float {self.put(f'load float, ptr {short}')} to double")
                before = self.put(f"load double, ptr {long}")
                self.lines.append(
                    f"  store double {self.put(f'fadd double {before}, {part}')}, ptr {long}"
                )

        self.nest(outer, lambda: self.whole_dim(last, STRIP, strip))

    def is_row_of_vectors(self, dims: list[int]) -> bool:
        """Whether the last dim is short, and whole vectors: LLVM must not write its turns out, as
        it would then make vectors across the dim outside, one element here and one there."""
        size = self.sizes[dims[-1]] if len(dims) > 1 else 0
        return type(size) is int and 0 < size <= ROW and size % VECTOR == 0

    def row(self) -> None:
        for loop, dims in zip(self.kernel.loops, self.loop_dims):
            self.loop(loop, dims)

    def loop(self, loop: Loop, dims: list[int]) -> None:
        accumulators: dict[Statement, str] = {}
        for statement in loop.statements:
            if statement.fold:
                kept = [d for d in dims if statement.strides[d]]
                if kept:
                    self.nest(kept, lambda s=statement: self.begin_vector(s))  # type: ignore[misc]
                else:
                    accumulators[statement] = self.begin(statement)
        sums: dict[Statement, tuple[str, str]] = {}
        if dims and isinstance(self.sizes[dims[-1]], Extent):
            for statement, place in accumulators.items():
                if statement.in_strips and statement.value.op == "cast":
                    sums[statement] = self.register(dtypes.float32), place

        def body() -> None:
            for statement in loop.statements:
                if statement in sums:
                    self.add_to(sums[statement][0], statement.value.args[0], "sum")
                else:
                    self.statement(statement, accumulators.get(statement))

        pair = self.tiles(loop, dims)
        if sums:
            self.stripped(dims, sums, body)
        elif pair is None and not accumulators and self.is_row_of_vectors(dims):
            *outer, last = dims
            self.module.rolls = True
            size = self.number(self.sizes[last])
            self.nest(outer, lambda: self.counted(last, "0", size, 1, body, is_rolled=True))
        elif pair is None:
            self.nest(dims, body)
        else:
            self.tiled(dims, pair, body)
        for statement, place in accumulators.items():
            register = register_type(statement.value.dtype)
            value = self.put(f"load {register}, ptr {place}")
            self.finish(statement, value)

    # -- statements --------------------------------------------------------------------------------

    def begin(self, statement: Statement) -> str:
        """A register that accumulates a fold."""
        dtype = statement.value.dtype
        place = self.register(dtype)
        start = identity(statement.fold or "", dtype)
        self.lines.append(f"  store {register_type(dtype)} {start}, ptr {place}")
        return place

    def register(self, dtype: dtype) -> str:
        self.count += 1
        place = f"%acc{self.count}"
        self.allocas.append(f"  {place} = alloca {register_type(dtype)}")
        return place

    def add_to(self, accumulator: str, expr: Expression, fold: str) -> None:
        """Fold a value into a register, in any order."""
        value, type_ = self.value(expr), register_type(expr.dtype)
        before = self.put(f"load {type_}, ptr {accumulator}")
        after = self.folded(fold, expr.dtype, before, value, True)
        self.lines.append(f"  store {type_} {after}, ptr {accumulator}")

    def begin_vector(self, statement: Statement) -> None:
        dtype = statement.value.dtype
        start = identity(statement.fold or "", dtype)
        self.store(statement.target, statement.strides, start, dtype)

    def statement(self, statement: Statement, accumulator: str | None) -> None:
        if accumulator is not None:
            self.add_to(accumulator, statement.value, statement.fold or "")
            return
        value = self.value(statement.value)
        dtype = statement.value.dtype
        if statement.fold is None:
            self.finish(statement, value)
        else:
            before = self.load(statement.target, statement.strides, 0)
            after = self.folded(statement.fold, dtype, before, value, False)
            self.store(statement.target, statement.strides, after, dtype)

    def finish(self, statement: Statement, value: str) -> None:
        """Keep a statement's value where the rest of its row, or of its loop, finds it."""
        target = statement.target
        self.scopes[-1][target, statement.strides] = value
        if target.role != "register":
            self.store(target, statement.strides, value, statement.value.dtype)

    def folded(self, fold: str, dtype: dtype, a: str, b: str, free: bool) -> str:
        """One step of a fold; `free` lets sums be reordered."""
        type_ = register_type(dtype)
        if fold in ("any", "all"):
            return self.put(f"{'or' if fold == 'any' else 'and'} i1 {a}, {b}")
        if fold in ("sum", "prod"):
            if dtype.category == FLOAT:
                flags = "reassoc nsz " if free else ""
                return self.put(f"{'fadd' if fold == 'sum' else 'fmul'} {flags}{type_} {a}, {b}")
            return self.put(f"{'add' if fold == 'sum' else 'mul'} {type_} {a}, {b}")
        if dtype.category == FLOAT:
            return self.intrinsic(
                "maximum" if fold == "max" else "minimum", dtype, a, b, flags="nsz"
            )
        return self.whole_extreme(fold, dtype, a, b)

    # -- memory ------------------------------------------------------------------------------------

    def linear(self, strides: Ints, offset: int) -> str:
        """offset + strides · indices; what depends on rows alone is computed once for each."""
        key = ("linear", strides, offset)
        found = self.known(key)
        if found is not None:
            return found
        total: str | None = self.number(offset) if offset else None
        for dim in self.order:
            step = strides[dim]
            if not step:
                continue
            index = self.indices[dim]
            term = index if step == 1 else self.put(f"mul nsw i64 {index}, {self.number(step)}")
            total = term if total is None else self.put(f"add nsw i64 {total}, {term}")
        value = "0" if total is None else total
        self.scopes[-1][key] = value
        return value

    def address(self, buffer: Buffer, strides: Ints, offset: int) -> str:
        index = self.linear(strides, offset)
        pointer = self.pointers[buffer.memory]
        if index == "0":
            return pointer
        return self.put(
            f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {pointer}, i64 {index}"
        )

    def load(self, buffer: Buffer, strides: Ints, offset: int) -> str:
        dtype = buffer.dtype
        place = self.address(buffer, strides, offset)
        value = self.put(f"load {memory_type(dtype)}, ptr {place}, align {dtype.itemsize}")
        return self.put(f"icmp ne i8 {value}, 0") if dtype.category == BOOL else value

    def store(self, buffer: Buffer, strides: Ints, value: str, dtype: dtype) -> None:
        if dtype.category == BOOL:
            value = self.put(f"zext i1 {value} to i8")
        place = self.address(buffer, strides, 0)
        self.lines.append(
            f"  store {memory_type(dtype)} {value}, ptr {place}, align {dtype.itemsize}"
        )

    # -- expressions -------------------------------------------------------------------------------

    def value(self, root: Expression) -> str:
        for node in walk(root):
            if self.known(node) is None:
                self.scopes[-1][node] = self.node(node)
        found = self.known(root)
        assert found is not None
        return found

    def node(self, node: Expression) -> str:
        dtype = node.dtype
        if node.op == "const":
            return literal(node.payload, dtype)
        if node.op == "extent":
            return self.number(node.payload)
        if node.op == "load":
            buffer, strides, offset = node.payload
            kept = self.known((buffer, strides)) if offset == 0 else None
            return self.load(buffer, strides, offset) if kept is None else kept
        if node.op == "index":
            return self.linear(*node.payload)
        args = []
        for argument in node.args:
            found = self.known(argument)
            assert found is not None
            args.append(found)
        if node.op == "cast":
            if dtype is dtypes.float16 and rounds_to_float(node.args[0]):
                # LLVM would make one rounding of the two.
                args[0] = self.intrinsic("arithmetic.fence", dtypes.float32, args[0])
            return self.cast(args[0], node.args[0].dtype, dtype)
        if node.op == "select":
            type_ = register_type(dtype)
            return self.put(f"select i1 {args[0]}, {type_} {args[1]}, {type_} {args[2]}")
        source = node.args[0].dtype
        if source.category == FLOAT:
            return self.floating(node.op, source, args)
        return self.whole(node.op, source, args)

    def intrinsic(self, name: str, dtype: dtype, *args: str, flags: str = "") -> str:
        type_ = register_type(dtype)
        function = f"@llvm.{name}.{short(dtype)}"
        types = ", ".join([type_] * len(args))
        self.module.declared.add(f"declare {type_} {function}({types})")
        given = ", ".join([f"{type_} {a}" for a in args])
        return self.put(f"call {flags} {type_} {function}({given})")

    def floating(self, op: str, dtype: dtype, args: list[str]) -> str:
        type_ = register_type(dtype)
        simple = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "fmod": "frem"}
        if op in simple:
            return self.put(f"{simple[op]} {type_} {args[0]}, {args[1]}")
        if op in FLOAT_COMPARE:
            return self.put(f"fcmp {FLOAT_COMPARE[op]} {type_} {args[0]}, {args[1]}")
        if op == "neg":
            return self.put(f"fneg {type_} {args[0]}")
        if op == "isnan":
            return self.put(f"fcmp uno {type_} {args[0]}, {args[0]}")
        if op in ("max", "min"):
            # NaN wins; of equal operands (zeros of either sign) the second.
            first = self.put(f"fcmp {'ogt' if op == 'max' else 'olt'} {type_} {args[0]}, {args[1]}")
            broken = self.put(f"fcmp uno {type_} {args[0]}, {args[0]}")
            taken = self.put(f"or i1 {first}, {broken}")
            return self.put(f"select i1 {taken}, {type_} {args[0]}, {type_} {args[1]}")
        if op == "abs":
            return self.intrinsic("fabs", dtype, *args)
        if op in INTRINSICS:
            return self.intrinsic(op, dtype, *args)
        if op in UNARY_FUNCTIONS or op in BINARY_FUNCTIONS:
            self.module.math.add((op, short(dtype)))
            given = ", ".join([f"{type_} {a}" for a in args])
            return self.put(f"call {type_} @rl.{op}.{short(dtype)}({given})")
        raise AssertionError(op)

    def whole_extreme(self, op: str, dtype: dtype, a: str, b: str) -> str:
        name = f"{'s' if dtype.is_signed else 'u'}{op}"
        type_ = register_type(dtype)
        self.module.declared.add(f"declare {type_} @llvm.{name}.{type_}({type_}, {type_})")
        return self.put(f"call {type_} @llvm.{name}.{type_}({type_} {a}, {type_} {b})")

    def whole(self, op: str, dtype: dtype, args: list[str]) -> str:
        type_ = register_type(dtype)
        signed = dtype.is_signed and dtype.category == INTEGER
        if op in ("add", "sub", "mul", "and", "or", "xor", "shl"):
            return self.put(f"{op} {type_} {args[0]}, {args[1]}")
        if op in FLOAT_COMPARE:
            sign = "" if op in ("eq", "ne") else "s" if signed else "u"
            return self.put(f"icmp {sign}{op} {type_} {args[0]}, {args[1]}")
        if op == "neg":
            return self.put(f"sub {type_} 0, {args[0]}")
        if op == "abs":
            self.module.declared.add(f"declare {type_} @llvm.abs.{type_}({type_}, i1)")
            return self.put(f"call {type_} @llvm.abs.{type_}({type_} {args[0]}, i1 false)")
        if op in ("max", "min"):
            return self.whole_extreme(op, dtype, *args)
        if op == "shr":
            return self.put(f"{'ashr' if signed else 'lshr'} {type_} {args[0]}, {args[1]}")
        if op in ("idiv", "irem") or not signed:
            name = {"idiv": "div", "idiv_floor": "div", "irem": "rem", "irem_floor": "rem"}[op]
            return self.put(f"{'s' if signed else 'u'}{name} {type_} {args[0]}, {args[1]}")
        rest = self.put(f"srem {type_} {args[0]}, {args[1]}")
        inexact = self.put(f"icmp ne {type_} {rest}, 0")
        apart = self.put(f"icmp slt {type_} {self.put(f'xor {type_} {rest}, {args[1]}')}, 0")
        off = self.put(f"and i1 {inexact}, {apart}")
        if op == "irem_floor":
            more = self.put(f"add {type_} {rest}, {args[1]}")
            return self.put(f"select i1 {off}, {type_} {more}, {type_} {rest}")
        assert op == "idiv_floor"
        quotient = self.put(f"sdiv {type_} {args[0]}, {args[1]}")
        one = self.put(f"zext i1 {off} to {type_}") if type_ != "i1" else off
        return self.put(f"sub {type_} {quotient}, {one}")

    # -- conversion --------------------------------------------------------------------------------

    def cast(self, x: str, source: dtype, dtype: dtype) -> str:
        here, there = register_type(source), register_type(dtype)
        if source is dtypes.bfloat16:
            wide = self.put(f"shl i32 {self.put(f'zext i16 {x} to i32')}, 16")
            return self.put(f"bitcast i32 {wide} to float")
        if dtype is dtypes.bfloat16:
            return self.to_bfloat(x)
        if dtype.category == BOOL:
            if source.category == FLOAT:
                return self.put(f"fcmp une {here} {x}, 0.0")
            return self.put(f"icmp ne {here} {x}, 0")
        if source.category == FLOAT:
            if dtype.category == FLOAT:
                name = "fpext" if dtype.itemsize > source.itemsize else "fptrunc"
                return self.put(f"{name} {here} {x} to {there}")
            return self.to_whole(x, source, dtype)
        if dtype.category == FLOAT:
            name = "sitofp" if source.is_signed else "uitofp"
            return self.put(f"{name} {here} {x} to {there}")
        if source.category != BOOL and dtype.itemsize <= source.itemsize:
            same = dtype.itemsize == source.itemsize
            return x if same else self.put(f"trunc {here} {x} to {there}")
        return self.put(f"{'sext' if source.is_signed else 'zext'} {here} {x} to {there}")

    def to_bfloat(self, x: str) -> str:
        """Round a float32 to the nearest, ties to even."""
        bits = self.put(f"bitcast float {x} to i32")
        odd = self.put(f"and i32 {self.put(f'lshr i32 {bits}, 16')}, 1")
        up = self.put(f"add i32 {self.put(f'add i32 {bits}, {odd}')}, 32767")
        high = self.put(f"trunc i32 {self.put(f'lshr i32 {up}, 16')} to i16")
        broken = self.put(f"fcmp uno float {x}, {x}")
        return self.put(f"select i1 {broken}, i16 32704, i16 {high}")

    def to_whole(self, x: str, source: dtype, dtype: dtype) -> str:
        """Towards zero; what does not fit gives the value that x86 conversions give."""
        here = register_type(source)
        wide = 64 if dtype.itemsize == 8 else 32
        high = float(1 << (wide - 1))
        fits = self.put(f"fcmp oge {here} {x}, {vectormath.constant(-high, short(source))}")
        below = self.put(f"fcmp olt {here} {x}, {vectormath.constant(high, short(source))}")
        fits = self.put(f"and i1 {fits}, {below}")
        safe = self.put(f"select i1 {fits}, {here} {x}, {here} 0.0")
        value = self.put(f"fptosi {here} {safe} to i{wide}")
        value = self.put(f"select i1 {fits}, i{wide} {value}, i{wide} {-(1 << (wide - 1))}")
        if dtype.itemsize * 8 == wide:
            return value
        return self.put(f"trunc i{wide} {value} to {register_type(dtype)}")


def rounds_to_float(node: Expression) -> bool:
    """Whether a float32 may come straight from a conversion of a float64."""
    return node.op == "cast" or node.op in UNARY_FUNCTIONS or node.op in BINARY_FUNCTIONS


def literal(value: float, dtype: dtype) -> str:
    if dtype.category == BOOL:
        return "true" if value else "false"
    if dtype.category == INTEGER:
        return str(value)
    assert dtype in (dtypes.float32, dtypes.float64), dtype
    return vectormath.constant(value, short(dtype))


def identity(fold: str, dtype: dtype) -> str:
    """What a fold starts from."""
    if fold in ("any", "all"):
        return literal(fold == "all", dtypes.bool_)
    if fold in ("sum", "prod"):
        return literal(0 if fold == "sum" else 1, dtype)
    if dtype.category == FLOAT:
        return literal(float("-inf") if fold == "max" else float("inf"), dtype)
    bits = dtype.itemsize * 8
    if dtype.is_signed:
        return str(-(1 << (bits - 1)) if fold == "max" else (1 << (bits - 1)) - 1)
    return str(0 if fold == "max" else (1 << bits) - 1)
