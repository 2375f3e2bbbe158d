"""LLVM IR of kernels, written from Python: one function at a time.

The text is made for a number of lanes: the same kernel serves 512, 256 and 128 bits. Integers that
are known fold while the text is written. Loop counters and accumulators live in allocas, which
LLVM turns into registers; `fence` keeps it from moving loads across steps, for it would spill the
accumulators then.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence

__all__ = ["Function", "Int", "Target", "hexadecimal"]

# An integer known when the text is written, or the name of one that is not.
Int = int | str


class Target:
    """What kernels are written for: how many float32 a register holds, and how it multiplies."""

    __slots__ = ("fuses", "lanes", "vectors")

    def __init__(self, features: str, triple: str = "x86_64") -> None:
        found = set(features.split(","))
        arm = triple.startswith(("aarch64", "arm64"))
        self.lanes = 16 if "+avx512f" in found else 8 if {"+avx2", "+fma"} <= found else 4
        self.fuses = arm or "+fma" in found
        # Vectors beside one another in a tile of six rows: with 32 registers, and with 16.
        self.vectors = 4 if self.lanes == 16 or arm else 2

    @property
    def panel(self) -> int:
        """Columns of a tile."""
        return self.lanes * self.vectors


def hexadecimal(number: float) -> str:
    """A float32 constant."""
    single = struct.unpack("<f", struct.pack("<f", number))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', single))[0]:016X}"


class Function:
    """The text of one function. Methods that compute answer the name of the value."""

    def __init__(self, target: Target, name: str, parameters: Sequence[str]) -> None:
        self.target = target
        self.lanes = target.lanes
        self.vector = f"<{target.lanes} x float>"
        self.mask = f"<{target.lanes} x i1>"
        self.name = name
        self.parameters = parameters
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.count = 0

    def text(self, linkage: str = "internal ") -> str:
        parameters = ", ".join(self.parameters)
        body = ["entry:", *self.slots, *self.lines, "  ret void"]
        return "\n".join([f"define {linkage}void @{self.name}({parameters}) #0 {{", *body, "}\n"])

    # -- lines ------------------------------------------------------------------------------------

    def value(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def call(self, name: str, *arguments: str) -> None:
        self.do(f"call void {name}({', '.join(arguments)})")

    def fence(self) -> None:
        self.do('call void asm sideeffect "", "~{memory}"()')

    def held(self, kind: str, *values: str) -> list[str]:
        """A fence behind which values are those that registers hold: LLVM cannot tell how they were
        computed, nor keep what it would compute from one of them for all."""
        count = len(values)
        ties = ",".join([*["=r"] * count, *map(str, range(count)), "~{memory}"])
        given = ", ".join([f"{kind} {value}" for value in values])
        answer = kind if count == 1 else f"{{ {', '.join([kind] * count)} }}"
        found = self.value(f'call {answer} asm sideeffect "", "{ties}"({given})')
        if count == 1:
            return [found]
        return [self.value(f"extractvalue {answer} {found}, {at}") for at in range(count)]

    def slot(self, kind: str) -> str:
        self.count += 1
        self.slots.append(f"  %s{self.count} = alloca {kind}, align 64")
        return f"%s{self.count}"

    # -- integers ---------------------------------------------------------------------------------

    def add(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.value(f"add nsw i64 {a}, {b}")

    def sub(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.value(f"sub nsw i64 {a}, {b}")

    def mul(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.value(f"mul nsw i64 {a}, {b}")

    def div(self, a: Int, b: Int) -> Int:
        return a if b == 1 else self.value(f"sdiv i64 {a}, {b}")

    def rem(self, a: Int, b: Int) -> Int:
        return 0 if b == 1 else self.value(f"srem i64 {a}, {b}")

    def least(self, a: Int, b: Int) -> str:
        return self.value(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def most(self, a: Int, b: Int) -> str:
        return self.value(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    def compare(self, how: str, a: Int, b: Int) -> str:
        return self.value(f"icmp {how} i64 {a}, {b}")

    def select(self, test: str, yes: Int, no: Int, kind: str = "i64") -> str:
        return self.value(f"select i1 {test}, {kind} {yes}, {kind} {no}")

    # -- memory -----------------------------------------------------------------------------------

    def at(self, pointer: str, index: Int, kind: str = "float") -> str:
        if index == 0:
            return pointer
        return self.value(f"getelementptr {kind}, ptr {pointer}, i64 {index}")

    def load(self, pointer: str, kind: str = "", align: int = 4) -> str:
        return self.value(f"load {kind or self.vector}, ptr {pointer}, align {align}")

    def store(self, value: Int, pointer: str, kind: str = "", align: int = 4) -> None:
        self.do(f"store {kind or self.vector} {value}, ptr {pointer}, align {align}")

    def word(self, pointer: str, index: Int, kind: str = "i64") -> str:
        """An entry of an array of words."""
        return self.load(self.at(pointer, index, "i64"), kind, 8)

    def load_first(self, pointer: str, count: Int) -> str:
        """The first elements of a vector, zeros behind them; memory behind is not touched."""
        if count == self.lanes:
            return self.load(pointer)
        given = f"{self.mask} {self.first(count)}, {self.vector} zeroinitializer"
        kind = f"v{self.lanes}f32"
        return self.value(
            f"call {self.vector} @llvm.masked.load.{kind}.p0(ptr {pointer}, i32 4, {given})"
        )

    def store_first(self, value: str, pointer: str, count: Int) -> None:
        if count == self.lanes:
            self.store(value, pointer)
            return
        name = f"@llvm.masked.store.v{self.lanes}f32.p0"
        mask = f"{self.mask} {self.first(count)}"
        self.call(name, f"{self.vector} {value}", f"ptr {pointer}", "i32 4", mask)

    def first(self, count: Int) -> str:
        """A mask of the first lanes: none where the count is below 1, all where it is above."""
        if isinstance(count, int):
            return "<" + ", ".join([f"i1 {int(i < count)}" for i in range(self.lanes)]) + ">"
        kind = f"<{self.lanes} x i32>"
        places = "<" + ", ".join([f"i32 {i}" for i in range(self.lanes)]) + ">"
        short = self.value(f"trunc i64 {count} to i32")
        one = self.value(f"insertelement {kind} poison, i32 {short}, i64 0")
        return self.value(f"icmp slt {kind} {places}, {self.spread(one, kind)}")

    # -- vectors ----------------------------------------------------------------------------------

    def spread(self, one: str, kind: str) -> str:
        places = f"<{self.lanes} x i32> zeroinitializer"
        return self.value(f"shufflevector {kind} {one}, {kind} poison, {places}")

    def splat(self, pointer: str) -> str:
        """A float in memory in every lane."""
        return self.splat_of(self.load(pointer, "float"))

    def splat_of(self, number: str) -> str:
        one = self.value(f"insertelement {self.vector} poison, float {number}, i64 0")
        return self.spread(one, self.vector)

    def constant(self, number: float) -> str:
        entry = f"float {hexadecimal(number)}"
        return "<" + ", ".join([entry] * self.lanes) + ">"

    def two(self, operation: str, a: str, b: str) -> str:
        return self.value(f"{operation} {self.vector} {a}, {b}")

    def shuffle(self, a: str, b: str, places: Sequence[int]) -> str:
        """Lanes of two vectors beside one another."""
        wanted = ", ".join([f"i32 {place}" for place in places])
        return self.value(
            f"shufflevector {self.vector} {a}, {self.vector} {b}, <{len(places)} x i32> <{wanted}>"
        )

    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c, rounded once where the CPU can."""
        if not self.target.fuses:
            return self.two("fadd", self.two("fmul", a, b), c)
        v = self.vector
        return self.value(f"call {v} @llvm.fma.v{self.lanes}f32({v} {a}, {v} {b}, {v} {c})")

    def folded(self, vector: str) -> str:
        """The sum of a vector's lanes, by halves."""
        distance = self.lanes // 2
        while distance:
            places = [lane ^ distance for lane in range(self.lanes)]
            vector = self.two("fadd", vector, self.shuffle(vector, vector, places))
            distance //= 2
        return self.value(f"extractelement {self.vector} {vector}, i64 0")

    # -- control ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def loop(self, start: Int, stop: Int, step: Int = 1) -> Iterator[Int]:
        """Counts from start to below stop."""
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
            if stop <= start:
                raise ValueError(f"nothing to count: {start} to {stop}")
            if stop - start <= step:
                yield start
                return
        self.count += 1
        mark, slot = self.count, self.slot("i64")
        self.store(start, slot, "i64", 8)
        self.do(f"br label %head{mark}")
        self.lines.append(f"head{mark}:")
        at = self.load(slot, "i64", 8)
        test = self.compare("slt", at, stop)
        self.do(f"br i1 {test}, label %body{mark}, label %end{mark}")
        self.lines.append(f"body{mark}:")
        yield at
        self.store(self.add(at, step), slot, "i64", 8)
        self.do(f"br label %head{mark}")
        self.lines.append(f"end{mark}:")

    @contextlib.contextmanager
    def when(self, test: str) -> Iterator[None]:
        self.count += 1
        mark = self.count
        self.do(f"br i1 {test}, label %yes{mark}, label %no{mark}")
        self.lines.append(f"yes{mark}:")
        yield
        self.do(f"br label %no{mark}")
        self.lines.append(f"no{mark}:")
