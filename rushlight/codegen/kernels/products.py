"""The product that all heavy kernels are made of, in LLVM IR: C (+)= A @ B in tiles that stay in
registers.

A is read one number at a time wherever it lies (`ars` between rows, `aks` between steps of the
sum; a list of offsets `taps` where the sum runs over several stretches); B is a panel of rows
with `panel` columns; C has rows `crs` apart. Strides count elements. A row's result does not depend
on the tile that it falls into: each element is one chain of the same operations.
"""

from __future__ import annotations

from rushlight.codegen.kernels.emit import Function, Int, Target

__all__ = ["BLOCK_PARAMETERS", "product_texts"]

# Rows of tiles. Six rows of four vectors, and twice as many of fewer, fill 32 registers with 24
# accumulators; more spill.
ROWS = 6
FEW = 4
STEPS = 4

TILE = (
    "ptr %a", "i64 %ars", "i64 %aks", "ptr %taps", "i64 %count", "i64 %depth", "ptr %b",
    "i64 %bks", "ptr %c", "i64 %crs", "i64 %last", "i1 %adds",
)  # fmt: skip


def lines_of(f: Function, rows: int) -> list[str]:
    """Where the rows of the result begin."""
    found, apart = f.held("i64", "%crs")[0], ["%c"]
    for _ in range(rows - 1):
        apart.append(f.at(apart[-1], found))
    return apart


def tile_text(target: Target, name: str, rows: int, vectors: int, masked: bool) -> str:
    """One tile; `masked` stores only %last columns."""
    f = Function(target, name, TILE)
    lanes = target.lanes
    places = [(r, v) for r in range(rows) for v in range(vectors)]
    acc = {place: f.slot(f.vector) for place in places}
    # One pointer for every few rows: with one offset for each row, registers would not do.
    few = [f.mul("%ars", r) for r in range(min(rows, FEW))]
    counts: list[Int] = [f.sub("%last", v * lanes) if masked else lanes for v in range(vectors)]
    for r, v in places:
        f.store("zeroinitializer", acc[r, v])
    with f.when("%adds"):
        lines = lines_of(f, rows)
        for r, v in places:
            place = f.at(lines[r], v * lanes)
            f.store(f.load_first(place, counts[v]), acc[r, v])
    lefts = [f.slot("ptr") for _ in range(0, rows, FEW)]
    right = f.slot("ptr")
    f.store("%b", right, "ptr", 8)

    def step(pointers: list[str]) -> None:
        *starts, q = pointers
        found = [f.load(f.at(q, v * lanes)) for v in range(vectors)]
        for r in range(rows):
            factor = f.splat(f.at(starts[r // FEW], few[r % FEW]))
            for v in range(vectors):
                f.store(f.fma(factor, found[v], f.load(acc[r, v])), acc[r, v])

    def steps(count: int) -> None:
        pointers = [f.load(slot, "ptr", 8) for slot in (*lefts, right)]
        for _ in range(count):
            step(pointers)
            *starts, q = pointers
            moved = [f.at(start, "%aks") for start in starts]
            pointers = f.held("ptr", *moved, f.at(q, "%bks"))
        for slot, pointer in zip((*lefts, right), pointers, strict=True):
            f.store(pointer, slot, "ptr", 8)

    whole = f.value(f"and i64 %depth, {-STEPS}")
    with f.loop(0, "%count") as tap:
        start = f.at("%a", f.word("%taps", tap))
        for number, slot in enumerate(lefts):
            f.store(f.at(start, f.mul("%ars", number * FEW)), slot, "ptr", 8)
        with f.loop(0, whole, STEPS):
            steps(STEPS)
        with f.loop(whole, "%depth"):
            steps(1)
    lines = lines_of(f, rows)
    for r, v in places:
        f.store_first(f.load(acc[r, v]), f.at(lines[r], v * lanes), counts[v])
    return f.text()


BLOCK_PARAMETERS = (
    "ptr %a", "i64 %ars", "i64 %aks", "ptr %taps", "i64 %count", "i64 %depth", "ptr %b",
    "i64 %bks", "ptr %c", "i64 %crs", "i64 %rows", "i64 %columns", "i1 %adds",
)  # fmt: skip


def shapes_of(target: Target) -> list[tuple[int, int, bool]]:
    """(vectors, most rows, masked) of a block's tiles: full panels, then what is narrower."""
    found = [(target.vectors, ROWS, False)]
    vectors = target.vectors
    while vectors:
        found.append((vectors, ROWS * (2 if vectors * 2 <= target.vectors else 1), True))
        vectors //= 2
    return found


def product_texts(target: Target) -> list[str]:
    """`@block`: at most `panel` columns and any number of rows, by as few tiles as there can be, of
    sizes that differ by one."""
    texts = []
    f = Function(target, "block", BLOCK_PARAMETERS)
    shared = "ptr %taps, i64 %count, i64 %depth, ptr %b, i64 %bks"

    def run(vectors: int, most: int, masked: bool) -> None:
        def tiles(size: int, start: Int, stop: Int) -> None:
            tile = f"tile_{size}x{vectors}{'m' if masked else ''}"
            texts.append(tile_text(target, tile, size, vectors, masked))
            with f.loop(start, stop, size) as row:
                a, c = f.at("%a", f.mul(row, "%ars")), f.at("%c", f.mul(row, "%crs"))
                rest = f"ptr {c}, i64 %crs, i64 %columns, i1 %adds"
                f.call(f"@{tile}", f"ptr {a}, i64 %ars, i64 %aks", shared, rest)

        number = f.div(f.add("%rows", most - 1), most)
        large = f.sub("%rows", f.mul(number, most - 1))
        fits = f.compare("sge", large, 0)
        # Too few rows for tiles that differ by one: full ones, then what is left. Where the next
        # smaller ones are there they differ by one again.
        full = f.div("%rows", most)
        end = f.mul(full, most)
        second = end
        if most - 2 == FEW:
            middle = f.sub("%rows", f.mul(number, FEW))
            fits_few = f.compare("sge", middle, 0)
            end = f.select(fits_few, 0, end)
            second = f.select(fits_few, f.mul(middle, most - 1), second)
        end = f.select(fits, f.mul(large, most), end)
        second = f.select(fits, "%rows", second)
        third = f.add(second, f.value(f"and i64 {f.sub('%rows', second)}, {-FEW}"))
        tiles(most, 0, end)
        tiles(most - 1, end, second)
        tiles(FEW, second, third)
        tiles(1, third, "%rows")

    widest, *narrow = shapes_of(target)
    full = f.compare("eq", "%columns", target.panel)
    with f.when(full):
        run(*widest)
    below = [shape for shape in narrow if shape[0] < target.vectors]
    bounds = [target.panel, *[shape[0] * target.lanes + 1 for shape in below], 1]
    for at, shape in enumerate(narrow):
        above = f.compare("sge", "%columns", bounds[at + 1])
        under = f.compare("slt", "%columns", bounds[at])
        with f.when(f.value(f"and i1 {above}, {under}")):
            run(*shape)
    return [*texts, f.text()]
