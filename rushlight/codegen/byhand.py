"""Native loops that statements over an iteration space do not say: places named by an index, and
results that depend on those before them. Each does the arithmetic of NumPy's kernel in its order,
so that the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.base import logs
from rushlight.codegen import native
from rushlight.codegen.extents import Atom
from rushlight.codegen.llvm import register_type
from rushlight.codegen.loops import Buffer
from rushlight.codegen.native import can_compile
from rushlight.codegen.plan import Plan
from rushlight.core import dtype as dtypes
from rushlight.core.dtype import dtype

__all__ = ["loop"]

# For every row in turn, the row of the table that the index names gets its values added.
ADD_ROWS = """
define internal void @add_rows(
  ptr noalias %table, ptr noalias %index, ptr noalias %values, i64 %n, i64 %width
) #0 {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %row, label %end
row:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.end ]
  %place = getelementptr i64, ptr %index, i64 %i
  %which = load i64, ptr %place, align 8
  %to = mul nsw i64 %which, %width
  %from = mul nsw i64 %i, %width
  %target = getelementptr {T}, ptr %table, i64 %to
  %source = getelementptr {T}, ptr %values, i64 %from
  br label %column
column:
  %j = phi i64 [ 0, %row ], [ %j.next, %column ]
  %a = getelementptr {T}, ptr %target, i64 %j
  %b = getelementptr {T}, ptr %source, i64 %j
  %x = load {T}, ptr %a, align {width}
  %y = load {T}, ptr %b, align {width}
  %sum = {add} {T} %x, %y
  store {T} %sum, ptr %a, align {width}
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %width
  br i1 %j.more, label %column, label %row.end
row.end:
  %i.next = add nuw nsw i64 %i, 1
  %i.more = icmp ult i64 %i.next, %n
  br i1 %i.more, label %row, label %end
end:
  ret void
}}
"""

# Elements of (outer, length, inner) that an index of (outer, count, inner) names along the middle
# get its values added.
PLACES = """
define internal void @{name}(
  ptr noalias %first, ptr noalias %index, ptr noalias %second,
  i64 %outer, i64 %length, i64 %count, i64 %inner
) #0 {{
entry:
  %slab = mul nsw i64 %length, %inner
  br label %block
block:
  %o = phi i64 [ 0, %entry ], [ %o.next, %block.end ]
  %base = mul nsw i64 %o, %slab
  %rows = mul nsw i64 %o, %count
  br label %row
row:
  %j = phi i64 [ 0, %block ], [ %j.next, %row.end ]
  %line = add nsw i64 %rows, %j
  %from = mul nsw i64 %line, %inner
  br label %element
element:
  %k = phi i64 [ 0, %row ], [ %k.next, %element ]
  %at = add nsw i64 %from, %k
  %place = getelementptr i64, ptr %index, i64 %at
  %which = load i64, ptr %place, align 8
  %step = mul nsw i64 %which, %inner
  %there = add nsw i64 %step, %k
  %offset = add nsw i64 %base, %there
  %a = getelementptr {T}, ptr %first, i64 %offset
  %b = getelementptr {T}, ptr %second, i64 %at
  %x = load {T}, ptr %a, align {width}
{body}
  %k.next = add nuw nsw i64 %k, 1
  %k.more = icmp ult i64 %k.next, %inner
  br i1 %k.more, label %element, label %row.end
row.end:
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %count
  br i1 %j.more, label %row, label %block.end
block.end:
  %o.next = add nuw nsw i64 %o, 1
  %o.more = icmp ult i64 %o.next, %outer
  br i1 %o.more, label %block, label %end
end:
  ret void
}}
"""
# The same where nothing follows the middle: elements of (outer, length), index of (outer, count).
PLACES_ALONG = """
define internal void @{name}(
  ptr noalias %first, ptr noalias %index, ptr noalias %second, i64 %outer, i64 %length, i64 %count
) #0 {{
entry:
  br label %block
block:
  %o = phi i64 [ 0, %entry ], [ %o.next, %block.end ]
  %base = mul nsw i64 %o, %length
  %from = mul nsw i64 %o, %count
  %row = getelementptr {T}, ptr %first, i64 %base
  %places = getelementptr i64, ptr %index, i64 %from
  %others = getelementptr {T}, ptr %second, i64 %from
  br label %element
element:
  %j = phi i64 [ 0, %block ], [ %j.next, %element ]
  %place = getelementptr i64, ptr %places, i64 %j
  %which = load i64, ptr %place, align 8
  %a = getelementptr {T}, ptr %row, i64 %which
  %b = getelementptr {T}, ptr %others, i64 %j
  %x = load {T}, ptr %a, align {width}
{body}
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %count
  br i1 %j.more, label %element, label %block.end
block.end:
  %o.next = add nuw nsw i64 %o, 1
  %o.more = icmp ult i64 %o.next, %outer
  br i1 %o.more, label %block, label %end
end:
  ret void
}}
"""
SCATTER = """\
  %y = load {T}, ptr %b, align {width}
  %sum = {add} {T} %x, %y
  store {T} %sum, ptr %a, align {width}"""

# Remainders of float32 in the steps of `arrays.numpy_.single_fmod`; `seen` says whether there were
# numbers for which these will not do.
REMAINDERS = """
define internal void @remainders(
  ptr noalias %x, ptr noalias %y, ptr noalias %out, ptr noalias %seen, i64 %n
) #0 {{
entry:
  br label %step
step:
  %i = phi i64 [ 0, %entry ], [ %i.next, %step ]
  %some = phi i32 [ 0, %entry ], [ %some.next, %step ]
  %x.at = getelementptr float, ptr %x, i64 %i
  %y.at = getelementptr float, ptr %y, i64 %i
  %a = load float, ptr %x.at, align 4
  %b = load float, ptr %y.at, align 4
  %wide = fpext float %a to double
  %by = fpext float %b to double
  %quotient = fdiv double %wide, %by
  %count = call double @llvm.trunc.f64(double %quotient)
  %whole = fmul double %by, %count
  %rest.wide = fsub double %wide, %whole
  %rest.single = fptrunc double %rest.wide to float
  %rest = call float @llvm.copysign.f32(float %rest.single, float %a)
  %size = call double @llvm.fabs.f64(double %count)
  %is.near = fcmp olt double %size, 0x41C0000000000000
  %is.number = fcmp ord double %rest.wide, 0.0
  %is.good = and i1 %is.near, %is.number
  %is.below = fcmp olt float %rest, 0.0
  %is.negative = fcmp olt float %b, 0.0
  %is.apart = xor i1 %is.below, %is.negative
  %is.some = fcmp une float %rest, 0.0
  %is.across = and i1 %is.apart, %is.some
{body}
  %is.odd = xor i1 %is.fine, true
  %odd = zext i1 %is.odd to i32
  %some.next = or i32 %some, %odd
  %out.at = getelementptr float, ptr %out, i64 %i
  store float %found, ptr %out.at, align 4
  %i.next = add nuw nsw i64 %i, 1
  %i.more = icmp ult i64 %i.next, %n
  br i1 %i.more, label %step, label %end
end:
  store i32 %some.next, ptr %seen, align 4
  ret void
}}
declare double @llvm.trunc.f64(double)
declare double @llvm.fabs.f64(double)
declare float @llvm.fabs.f32(float)
declare float @llvm.floor.f32(float)
declare float @llvm.copysign.f32(float, float)
"""
REMAINDER_BODIES = {
    "fmod": """\
  %found = fadd float %rest, -0.0
  %is.fine = and i1 %is.good, true""",
    "remainder": """\
  %sum = fadd float %rest, %b
  %found = select i1 %is.across, float %sum, float %rest
  %is.fine = and i1 %is.good, true""",
    "floor_divide": """\
  %even = fsub float %a, %rest
  %parts = fdiv float %even, %b
  %one = uitofp i1 %is.across to float
  %number = fsub float %parts, %one
  %low = call float @llvm.floor.f32(float %number)
  %over = fsub float %number, %low
  %is.over = fcmp ogt float %over, 0.5
  %more = uitofp i1 %is.over to float
  %high = fadd float %low, %more
  %ratio = fdiv float %a, %b
  %nothing = call float @llvm.copysign.f32(float 0.0, float %ratio)
  %is.nothing = fcmp oeq float %number, 0.0
  %found = select i1 %is.nothing, float %nothing, float %high
  %number.size = call float @llvm.fabs.f32(float %number)
  %is.finite = fcmp one float %number.size, 0x7FF0000000000000
  %is.fine = and i1 %is.good, %is.finite""",
}

# Maxima over windows of planes, and where in its plane each was: of equal ones the first, of NaNs
# the last. Taps take turns over a row of windows, so that windows beside one another are vectors.
POOL = """
define internal void @max_pool(
  ptr noalias %in, ptr noalias %out, ptr noalias %places, i64 %planes,
  i64 %height, i64 %width, i64 %rows, i64 %columns, i64 %tall, i64 %wide,
  i64 %down, i64 %above, i64 %left, i64 %step.y, i64 %step.x
) #0 {{
entry:
  %area = mul nsw i64 %height, %width
  br label %plane
plane:
  %p = phi i64 [ 0, %entry ], [ %p.next, %plane.end ]
  %base = mul nsw i64 %p, %area
  %source = getelementptr {T}, ptr %in, i64 %base
  %lines = mul nsw i64 %p, %rows
  br label %row
row:
  %i = phi i64 [ 0, %plane ], [ %i.next, %row.end ]
  %y.down = mul nsw i64 %i, %down
  %y = sub nsw i64 %y.down, %above
  %line = add nsw i64 %lines, %i
  %to = mul nsw i64 %line, %columns
  %best.row = getelementptr {T}, ptr %out, i64 %to
  %place.row = getelementptr i64, ptr %places, i64 %to
  br label %clear
clear:
  %c = phi i64 [ 0, %row ], [ %c.next, %clear ]
  %clear.best = getelementptr {T}, ptr %best.row, i64 %c
  store {T} 0xFFF0000000000000, ptr %clear.best, align {width}
  %clear.place = getelementptr i64, ptr %place.row, i64 %c
  store i64 -1, ptr %clear.place, align 8
  %c.next = add nuw nsw i64 %c, 1
  %c.more = icmp ult i64 %c.next, %columns
  br i1 %c.more, label %clear, label %tap.row
tap.row:
  %a = phi i64 [ 0, %clear ], [ %a.next, %tap.row.end ]
  %a.step = mul nsw i64 %a, %step.y
  %at.y = add nsw i64 %y, %a.step
  %inside.y = icmp ult i64 %at.y, %height
  %start = mul nsw i64 %at.y, %width
  br i1 %inside.y, label %tap, label %tap.row.end
tap:
  %b = phi i64 [ 0, %tap.row ], [ %b.next, %tap.end ]
  %b.step = mul nsw i64 %b, %step.x
  %shift = sub nsw i64 %b.step, %left
  %lack = sub nsw i64 {down}, %shift
  %lack.some = call i64 @llvm.smax.i64(i64 %lack, i64 0)
  %first = udiv i64 %lack.some, {right}
  %room = sub nsw i64 %width, %shift
  %room.up = add nsw i64 %room, {down}
  %room.some = call i64 @llvm.smax.i64(i64 %room.up, i64 0)
  %last = udiv i64 %room.some, {right}
  %end.at = call i64 @llvm.umin.i64(i64 %last, i64 %columns)
  %some = icmp ult i64 %first, %end.at
  %from = add nsw i64 %start, %shift
  br i1 %some, label %window, label %tap.end
window:
  %j = phi i64 [ %first, %tap ], [ %j.next, %window ]
  %x = mul nsw i64 %j, {right}
  %here = add nsw i64 %from, %x
  %pointer = getelementptr {T}, ptr %source, i64 %here
  %value = load {T}, ptr %pointer, align {width}
  %best.at = getelementptr {T}, ptr %best.row, i64 %j
  %best = load {T}, ptr %best.at, align {width}
  %place.at = getelementptr i64, ptr %place.row, i64 %j
  %place = load i64, ptr %place.at, align 8
  %is.larger = fcmp ogt {T} %value, %best
  %is.broken = fcmp uno {T} %value, %value
  %is.first = icmp slt i64 %place, 0
  %is.better = or i1 %is.larger, %is.broken
  %is.taken = or i1 %is.better, %is.first
  %best.next = select i1 %is.taken, {T} %value, {T} %best
  %place.next = select i1 %is.taken, i64 %here, i64 %place
  store {T} %best.next, ptr %best.at, align {width}
  store i64 %place.next, ptr %place.at, align 8
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %end.at
  br i1 %j.more, label %window, label %tap.end
tap.end:
  %b.next = add nuw nsw i64 %b, 1
  %b.more = icmp ult i64 %b.next, %wide
  br i1 %b.more, label %tap, label %tap.row.end
tap.row.end:
  %a.next = add nuw nsw i64 %a, 1
  %a.more = icmp ult i64 %a.next, %tall
  br i1 %a.more, label %tap.row, label %row.end
row.end:
  %i.next = add nuw nsw i64 %i, 1
  %i.more = icmp ult i64 %i.next, %rows
  br i1 %i.more, label %row, label %plane.end
plane.end:
  %p.next = add nuw nsw i64 %p, 1
  %p.more = icmp ult i64 %p.next, %planes
  br i1 %p.more, label %plane, label %end
end:
  ret void
}}
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
"""

# Running sums or products along rows, in float64.
SCAN_ROWS = """
define internal void @{name}(ptr noalias %out, ptr noalias %in, i64 %rows, i64 %length) #0 {{
entry:
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.end ]
  %start = mul nsw i64 %i, %length
  br label %step
step:
  %j = phi i64 [ 0, %row ], [ %j.next, %step ]
  %total = phi double [ {unit}, %row ], [ %after, %step ]
  %at = add nuw nsw i64 %start, %j
{body}
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %length
  br i1 %j.more, label %step, label %row.end
row.end:
  %i.next = add nuw nsw i64 %i, 1
  %i.more = icmp ult i64 %i.next, %rows
  br i1 %i.more, label %row, label %end
end:
  ret void
}}
"""
# The same down columns of one block of rows: `total` holds a number for each column.
SCAN_COLUMNS = """
define internal void @{name}(
  ptr noalias %out, ptr noalias %in, ptr noalias %total.at, i64 %length, i64 %width
) #0 {{
entry:
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.end ]
  %start = mul nsw i64 %i, %width
  br label %step
step:
  %j = phi i64 [ 0, %row ], [ %j.next, %step ]
  %at = add nuw nsw i64 %start, %j
  %c = getelementptr double, ptr %total.at, i64 %j
  %total = load double, ptr %c, align 8
{body}
  store double %after, ptr %c, align 8
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %width
  br i1 %j.more, label %step, label %row.end
row.end:
  %i.next = add nuw nsw i64 %i, 1
  %i.more = icmp ult i64 %i.next, %length
  br i1 %i.more, label %row, label %end
end:
  ret void
}}
"""
SCAN_STEP = """\
  %a = getelementptr float, ptr %in, i64 %at
  %x = load float, ptr %a, align 4
  %wide = fpext float %x to double
  %after = {fold} double %total, %wide
  %found = fptrunc double %after to float
  %b = getelementptr float, ptr %out, i64 %at
  store float %found, ptr %b, align 4"""
# -0.0 is what changes no number that is added to it.
FOLDS = {"cumsum": ("fadd", "-0.0"), "cumprod": ("fmul", "1.0")}


def loop(name: str, kind: dtype) -> Callable[..., Any] | None:
    """A loop as a function of arrays and, behind them, integers; None where there is none."""
    if not can_compile():
        return None
    if name == "add_rows":
        return add_rows(kind)
    if name.split(" ")[0] == "scatter_add":
        return places(name, kind)
    if name.startswith("max_pool "):
        words = words_of(kind) if kind.category == dtypes.FLOAT else None
        # How far windows are apart is part of the code.
        right = int(name.split(" ")[1])
        if words is None:
            return None
        return compiled("max_pool", POOL.format(right=right, down=right - 1, **words), 3, 12)
    if name in REMAINDER_BODIES and kind is dtypes.float32:
        return compiled("remainders", REMAINDERS.format(body=REMAINDER_BODIES[name]), 4, 1)
    return scan(name) if kind is dtypes.float32 else None


def add_rows(kind: dtype) -> Callable[..., Any] | None:
    """(table, index, values, rows of values, width)"""
    words = words_of(kind)
    return None if words is None else compiled("add_rows", ADD_ROWS.format(**words), 3, 2)


def words_of(kind: dtype) -> dict[str, Any] | None:
    """The type of elements in memory, their width, and how they are added; None for what is not
    added as it is."""
    if kind.category not in (dtypes.FLOAT, dtypes.INTEGER) or kind.itemsize < 4:
        return None
    add = "fadd" if kind.category == dtypes.FLOAT else "add"
    return {"T": register_type(kind), "width": kind.itemsize, "add": add}


def places(name: str, kind: dtype) -> Callable[..., Any] | None:
    """scatter_add (result, index, values, outer, length, count, inner), without `inner` where they
    are `along` rows"""
    words = words_of(kind)
    if words is None:
        return None
    base, _, along = name.partition(" ")
    body = SCATTER.format(**words)
    text = (PLACES_ALONG if along else PLACES).format(name=base, body=body, **words)
    return compiled(base, text, 3, 3 if along else 4)


def scan(name: str) -> Callable[..., Any]:
    """(result, operand, rows, length); by columns (result, operand, totals, length, width)"""
    base, _, columns = name.partition(" ")
    fold, unit = FOLDS[base]
    body = SCAN_STEP.format(fold=fold)
    if columns:
        return compiled(base, SCAN_COLUMNS.format(name=base, body=body), 3, 2)
    return compiled(base, SCAN_ROWS.format(name=base, unit=unit, body=body), 2, 2)


def compiled(name: str, text: str, arrays: int, numbers: int) -> Callable[..., Any]:
    module = native.new_module()
    given = [Buffer(f"x{at}", dtypes.float32, (), (), "given") for at in range(arrays)]
    atoms = [Atom(at, f"n{at}", 1, 0) for at in range(numbers)]
    module.functions.append(text)
    module.add_entry("entry", [(name, given, atoms)], given, Plan(), atoms)
    library = native.compile_text(module.text(), ["entry"])
    logs.write("kernel", f"eager {name}: native")
    return library.function("entry")
