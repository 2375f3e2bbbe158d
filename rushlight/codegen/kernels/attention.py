"""Attention, forward and backward, in LLVM IR: a block of queries against all keys at a time.

A head's keys are transposed and its values copied densely, so that both are operands of products;
the scores of one block of queries are all that there is of them. Behind a block's last query no key
is read where attention is causal. The backward pass finds the weights again from one number that
each query keeps.
"""

from __future__ import annotations

from rushlight.codegen.kernels.direct import CHUNK
from rushlight.codegen.kernels.emit import Function, Int, Target
from rushlight.codegen.kernels.layout import copied
from rushlight.codegen.kernels.words import Reader, Words

__all__ = ["ATTENTION", "BLOCK", "BLOCK_BACK", "attention_texts"]

# Queries of a block.
BLOCK, BLOCK_BACK = 24, 48

OPERANDS = ("q", "k", "v", "o", "grad", "for_q", "for_k", "for_v")
ATTENTION = Words(
    " ".join([f"{name} {name}_batch {name}_head {name}_row" for name in OPERANDS])
    + " mask mask_batch mask_head mask_row masks top total level scale scratch scratch_step heads "
    "share rows columns dim causal wide deep values_at scores_at slopes_at turned_at keys_at "
    "queries_at grads_at zero_tap"
)
POINTERS = (*OPERANDS, "mask", "top", "total", "level", "scale", "scratch", "zero_tap")
LOW, HIGH = -87.0, 88.0
MINUS_INFINITY = float("-inf")
# exp on [-ln 2 / 2, ln 2 / 2]
TERMS = (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
FIRST_TERM = 1.9875691500e-4
LN2 = (0.693145751953125, 1.42860682030941723212e-6)
# Added and taken off again, it leaves whole numbers.
ROUNDER = 12582912.0


def exponential(f: Function, x: str) -> str:
    """exp of a vector; 0 below what float32 holds well, NaN of NaN."""
    v, lanes = f.vector, f.lanes
    ints = f"<{lanes} x i32>"
    low = f.value(f"fcmp olt {v} {x}, {f.constant(LOW)}")
    high = f.value(f"fcmp ogt {v} {x}, {f.constant(HIGH)}")
    odd = f.value(f"fcmp uno {v} {x}, {x}")
    outside = f.value(f"or {f.mask} {low}, {odd}")
    within = f.value(f"select {f.mask} {high}, {v} {f.constant(HIGH)}, {v} {x}")
    within = f.value(f"select {f.mask} {outside}, {v} zeroinitializer, {v} {within}")
    scaled = f.fma(within, f.constant(1.4426950408889634), f.constant(ROUNDER))
    number = f.two("fsub", scaled, f.constant(ROUNDER))
    rest = f.fma(number, f.constant(-LN2[0]), within)
    rest = f.fma(number, f.constant(-LN2[1]), rest)
    found = f.constant(FIRST_TERM)
    for term in TERMS:
        found = f.fma(found, rest, f.constant(term))
    found = f.fma(found, f.two("fmul", rest, rest), rest)
    found = f.two("fadd", found, f.constant(1.0))
    power = f.value(f"fptosi {v} {number} to {ints}")
    power = f.value(f"shl {ints} {power}, <{', '.join(['i32 23'] * lanes)}>")
    bits = f.value(f"add {ints} {power}, {f.value(f'bitcast {v} {found} to {ints}')}")
    found = f.value(f"bitcast {ints} {bits} to {v}")
    found = f.value(f"select {f.mask} {low}, {v} zeroinitializer, {v} {found}")
    return f.value(f"select {f.mask} {odd}, {v} {x}, {v} {found}")


def larger(f: Function, a: str, b: str) -> str:
    test = f.value(f"fcmp ogt {f.vector} {a}, {b}")
    return f.value(f"select {f.mask} {test}, {f.vector} {a}, {f.vector} {b}")


def product(
    f: Function, c: Reader, a: str, ars: Int, aks: Int, depth: Int, b: str, bks: Int, to: str,
    crs: Int, rows: Int, columns: Int, adds: bool = False,
) -> None:  # fmt: skip
    """to (+)= a @ b, a panel of columns at a time."""
    with f.loop(0, columns, f.target.panel) as column:
        count = f.least(f.sub(columns, column), f.target.panel)
        f.call(
            "@block", f"ptr {a}", f"i64 {ars}", f"i64 {aks}", f"ptr {c.zero_tap}", "i64 1",
            f"i64 {depth}", f"ptr {f.at(b, column)}", f"i64 {bks}", f"ptr {f.at(to, column)}",
            f"i64 {crs}", f"i64 {rows}", f"i64 {count}", f"i1 {str(adds).lower()}",
        )  # fmt: skip


def part_of(f: Function, c: Reader, name: str, batch: Int, head: Int) -> tuple[str, Int]:
    """Where an operand's head begins, and how far its rows lie apart."""
    place = f.add(
        f.mul(batch, getattr(c, f"{name}_batch")), f.mul(head, getattr(c, f"{name}_head"))
    )
    return f.at(getattr(c, name), place), getattr(c, f"{name}_row")


def dense(f: Function, c: Reader, source: str, step: Int, to: str, rows: Int) -> None:
    """Rows with `deep` numbers of which `dim` are copied."""
    with f.loop(0, rows) as row:
        copied(f, f.at(source, f.mul(row, step)), f.at(to, f.mul(row, c.deep)), c.dim)


def turned(f: Function, c: Reader, source: str, step: Int, to: str) -> None:
    sizes = f"i64 {c.columns}", f"i64 {c.dim}"
    f.call("@turn", f"ptr {source}", f"i64 {step}", f"ptr {to}", f"i64 {c.wide}", *sizes)


def seen(f: Function, c: Reader, row: Int) -> str:
    """How many keys a row may attend to."""
    causal = f.compare("ne", c.causal, 0)
    return f.select(causal, f.least(f.add(row, 1), c.columns), c.columns)


def masked_scores(
    f: Function, c: Reader, line: str, mask: str, masks: str, at: Int, count: Int, scale: str
) -> str:
    """Scores as they enter the softmax: -inf where a key is not seen."""
    x = f.two("fmul", f.load(f.at(line, at)), scale)
    slot = f.slot(f.vector)
    f.store(x, slot)
    with f.when(masks):
        f.store(f.two("fadd", x, f.load_first(f.at(mask, at), count)), slot)
    none = f.constant(MINUS_INFINITY)
    return f.value(
        f"select {f.mask} {f.first(count)}, {f.vector} {f.load(slot)}, {f.vector} {none}"
    )


def forward_text(target: Target) -> str:
    """`@attention`: results of one head, and of each query the largest score and the sum of
    exponentials of what scores lie below it."""
    f = Function(target, "attention", CHUNK)
    c = Reader(f, ATTENTION, POINTERS)
    batch, head = f.div("%chunk", c.heads), f.rem("%chunk", c.heads)
    scratch = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    values, scores = f.at(scratch, c.values_at), f.at(scratch, c.scores_at)
    key_head = f.div(head, c.share)
    turned(f, c, *part_of(f, c, "k", batch, key_head), scratch)
    dense(f, c, *part_of(f, c, "v", batch, key_head), values, c.columns)
    q, q_row = part_of(f, c, "q", batch, head)
    o, o_row = part_of(f, c, "o", batch, head)
    mask, mask_row = part_of(f, c, "mask", batch, head)
    masks, scale = f.compare("ne", c.masks, 0), f.splat(c.scale)
    top, total = f.slot(f.vector), f.slot(f.vector)
    with f.loop(0, c.rows, BLOCK) as first:
        count = f.least(f.sub(c.rows, first), BLOCK)
        keys = seen(f, c, f.sub(f.add(first, count), 1))
        queries = f.at(q, f.mul(first, q_row))
        product(f, c, queries, q_row, 1, c.dim, scratch, c.wide, scores, c.wide, count, keys)
        with f.loop(0, count) as number:
            row = f.add(first, number)
            limit, line = seen(f, c, row), f.at(scores, f.mul(number, c.wide))
            added = f.at(mask, f.mul(row, mask_row))
            f.store(f.constant(MINUS_INFINITY), top)
            f.store("zeroinitializer", total)
            with f.loop(0, keys, f.lanes) as at:
                x = masked_scores(f, c, line, added, masks, at, f.sub(limit, at), scale)
                f.store(x, f.at(line, at))
                f.store(larger(f, x, f.load(top)), top)
            highest = f.load(top)
            distance = f.lanes // 2
            while distance:
                places = [lane ^ distance for lane in range(f.lanes)]
                highest = larger(f, highest, f.shuffle(highest, highest, places))
                distance //= 2
            none = f.value(f"fcmp oeq {f.vector} {highest}, {f.constant(MINUS_INFINITY)}")
            zeros = f"{f.vector} zeroinitializer"
            highest = f.value(f"select {f.mask} {none}, {zeros}, {f.vector} {highest}")
            with f.loop(0, keys, f.lanes) as at:
                weight = exponential(f, f.two("fsub", f.load(f.at(line, at)), highest))
                f.store(weight, f.at(line, at))
                f.store(f.two("fadd", f.load(total), weight), total)
            whole = f.folded(f.load(total))
            empty = f.value(f"fcmp oeq float {whole}, 0.0")
            whole = f.value(f"select i1 {empty}, float 1.0, float {whole}")
            place = f.add(f.mul("%chunk", c.rows), row)
            f.store(whole, f.at(c.total, place), "float")
            one = f.value(f"extractelement {f.vector} {highest}, i64 0")
            f.store(one, f.at(c.top, place), "float")
        to = f.at(o, f.mul(first, o_row))
        product(f, c, scores, c.wide, 1, keys, values, c.deep, to, o_row, count, c.dim)
        with f.loop(0, count) as number:
            line = f.at(to, f.mul(number, o_row))
            place = f.add(f.mul("%chunk", c.rows), f.add(first, number))
            whole = f.splat(f.at(c.total, place))
            with f.loop(0, c.dim, f.lanes) as at:
                rest = f.sub(c.dim, at)
                share = f.two("fdiv", f.load_first(f.at(line, at), rest), whole)
                f.store_first(share, f.at(line, at), rest)
    return f.text("")


def backward_text(target: Target) -> str:
    """`@attention_backward`: the gradients of one head of keys and values, and of the queries that
    it serves."""
    f = Function(target, "attention_backward", CHUNK)
    c = Reader(f, ATTENTION, POINTERS)
    key_heads = f.div(c.heads, c.share)
    batch, key_head = f.div("%chunk", key_heads), f.rem("%chunk", key_heads)
    scratch = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    turned_values, keys_dense = f.at(scratch, c.turned_at), f.at(scratch, c.keys_at)
    scores, slopes = f.at(scratch, c.scores_at), f.at(scratch, c.slopes_at)
    queries, grads = f.at(scratch, c.queries_at), f.at(scratch, c.grads_at)
    k, k_row = part_of(f, c, "k", batch, key_head)
    turned(f, c, k, k_row, scratch)
    dense(f, c, k, k_row, keys_dense, c.columns)
    turned(f, c, *part_of(f, c, "v", batch, key_head), turned_values)
    to_keys = part_of(f, c, "for_k", batch, key_head)
    to_values = part_of(f, c, "for_v", batch, key_head)
    for target_, step in (to_keys, to_values):
        with f.loop(0, c.columns) as row, f.loop(0, c.dim, f.lanes) as at:
            place = f.at(f.at(target_, f.mul(row, step)), at)
            f.store_first("zeroinitializer", place, f.sub(c.dim, at))
    masks, scale = f.compare("ne", c.masks, 0), f.splat(c.scale)
    share = f.slot(f.vector)
    with f.loop(0, c.share) as member:
        head = f.add(f.mul(key_head, c.share), member)
        q, q_row = part_of(f, c, "q", batch, head)
        o, o_row = part_of(f, c, "o", batch, head)
        g, g_row = part_of(f, c, "grad", batch, head)
        to, to_row = part_of(f, c, "for_q", batch, head)
        mask, mask_row = part_of(f, c, "mask", batch, head)
        places = f.mul(f.add(f.mul(batch, c.heads), head), c.rows)
        with f.loop(0, c.rows, BLOCK_BACK) as first:
            count = f.least(f.sub(c.rows, first), BLOCK_BACK)
            keys = seen(f, c, f.sub(f.add(first, count), 1))
            dense(f, c, f.at(q, f.mul(first, q_row)), q_row, queries, count)
            dense(f, c, f.at(g, f.mul(first, g_row)), g_row, grads, count)
            wide, deep, dim = c.wide, c.deep, c.dim
            product(f, c, queries, deep, 1, dim, scratch, wide, scores, wide, count, keys)
            product(f, c, grads, deep, 1, dim, turned_values, wide, slopes, wide, count, keys)
            with f.loop(0, count) as number:
                row = f.add(first, number)
                limit, line = seen(f, c, row), f.at(scores, f.mul(number, wide))
                slope = f.at(slopes, f.mul(number, wide))
                added = f.at(mask, f.mul(row, mask_row))
                result, grad = f.at(o, f.mul(row, o_row)), f.at(g, f.mul(row, g_row))
                f.store("zeroinitializer", share)
                with f.loop(0, dim, f.lanes) as at:
                    rest = f.sub(dim, at)
                    pair = f.load_first(f.at(result, at), rest), f.load_first(f.at(grad, at), rest)
                    f.store(f.fma(*pair, f.load(share)), share)
                common = f.splat_of(f.folded(f.load(share)))
                level = f.splat(f.at(c.level, f.add(places, row)))
                with f.loop(0, keys, f.lanes) as at:
                    x = masked_scores(f, c, line, added, masks, at, f.sub(limit, at), scale)
                    weight = exponential(f, f.two("fsub", x, level))
                    f.store(weight, f.at(line, at))
                    steep = f.two("fsub", f.load(f.at(slope, at)), common)
                    steep = f.two("fmul", f.two("fmul", steep, weight), scale)
                    inside = f"select {f.mask} {f.first(f.sub(limit, at))}, {f.vector} {steep}"
                    f.store(f.value(f"{inside}, {f.vector} zeroinitializer"), f.at(slope, at))
            found = f.at(to, f.mul(first, to_row))
            product(f, c, slopes, wide, 1, keys, keys_dense, deep, found, to_row, count, dim)
            for left, right, (target_, step) in (
                (slopes, queries, to_keys), (scores, grads, to_values),
            ):  # fmt: skip
                product(f, c, left, 1, wide, count, right, deep, target_, step, keys, dim, True)
    return f.text("")


def attention_texts(target: Target) -> list[str]:
    return [forward_text(target), backward_text(target)]
