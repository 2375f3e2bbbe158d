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


def tile_text(target: Target, name: str, rows: int, vectors: int, masked: bool) -> str:
    """One tile; `masked` stores only %last columns."""
    f = Function(target, name, TILE)
    lanes = target.lanes
    places = [(r, v) for r in range(rows) for v in range(vectors)]
    acc = {place: f.slot(f.vector) for place in places}
    offsets = [f.mul("%ars", r) for r in range(rows)]
    lines = [f.at("%c", f.mul("%crs", r)) for r in range(rows)]
    begun = f.slot("i1")
    f.store("%adds", begun, "i1", 1)
    for r, v in places:
        f.store("zeroinitializer", acc[r, v])
    with f.when("%adds"):
        for r, v in places:
            place = f.at(lines[r], v * lanes)
            count: Int = f.sub("%last", v * lanes) if masked else lanes
            f.store(f.load_first(place, count), acc[r, v])
    left, right = f.slot("ptr"), f.slot("ptr")
    f.store("%b", right, "ptr", 8)

    def step(p: str, q: str) -> None:
        found = [f.load(f.at(q, v * lanes)) for v in range(vectors)]
        for r in range(rows):
            factor = f.splat(f.at(p, offsets[r]))
            for v in range(vectors):
                f.store(f.fma(factor, found[v], f.load(acc[r, v])), acc[r, v])
        f.fence()

    def steps(count: int) -> None:
        p, q = f.load(left, "ptr", 8), f.load(right, "ptr", 8)
        for _ in range(count):
            step(p, q)
            p, q = f.at(p, "%aks"), f.at(q, "%bks")
        f.store(p, left, "ptr", 8)
        f.store(q, right, "ptr", 8)

    whole = f.value(f"and i64 %depth, {-STEPS}")
    with f.loop(0, "%count") as tap:
        f.store(f.at("%a", f.word("%taps", tap)), left, "ptr", 8)
        with f.loop(0, whole, STEPS):
            steps(STEPS)
        with f.loop(whole, "%depth"):
            steps(1)
    for r, v in places:
        count = f.sub("%last", v * lanes) if masked else lanes
        f.store_first(f.load(acc[r, v]), f.at(lines[r], v * lanes), count)
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
        # Too few rows for tiles that differ by one: full ones, then what is left.
        full = f.div("%rows", most)
        end = f.mul(f.select(fits, large, full), most)
        second = f.select(fits, "%rows", end)
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
