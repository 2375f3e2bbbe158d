"""Native loops that statements over an iteration space do not say: places named by an index, and
results that depend on those before them. Each does the arithmetic of NumPy's kernel in its order,
so that the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.base import logs
from rushlight.codegen import native
from rushlight.codegen.eager import can_compile
from rushlight.codegen.extents import Atom
from rushlight.codegen.llvm import register_type
from rushlight.codegen.loops import Buffer
from rushlight.codegen.plan import Plan
from rushlight.core import dtype as dtypes
from rushlight.core.dtype import dtype

__all__ = ["loop"]

# For every row in turn, the row of the table that the index names gets its values added.
ADD_ROWS = """
define internal void @add_rows(ptr noalias %table, ptr noalias %index, ptr noalias %values, i64 %n, i64 %width) #0 {{
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
  %a = getelementptr float, ptr %in, i64 %at
  %x = load float, ptr %a, align 4
  %wide = fpext float %x to double
  %after = {fold} double %total, %wide
  %found = fptrunc double %after to float
  %b = getelementptr float, ptr %out, i64 %at
  store float %found, ptr %b, align 4
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


def loop(name: str, kind: dtype) -> Callable[..., Any] | None:
    """A loop as a function of arrays and, behind them, integers; None where there is none."""
    if not can_compile():
        return None
    if name == "add_rows":
        return add_rows(kind)
    return scan_rows(name) if kind is dtypes.float32 else None


def add_rows(kind: dtype) -> Callable[..., Any] | None:
    """(table, index, values, rows of values, width)"""
    if kind.category not in (dtypes.FLOAT, dtypes.INTEGER) or kind.itemsize < 4:
        return None
    add = "fadd" if kind.category == dtypes.FLOAT else "add"
    text = ADD_ROWS.format(T=register_type(kind), width=kind.itemsize, add=add)
    return compiled("add_rows", text, 3, 2)


def scan_rows(name: str) -> Callable[..., Any]:
    """(result, operand, rows, length)"""
    # -0.0 is what changes no number that is added to it.
    fold, unit = {"cumsum": ("fadd", "-0.0"), "cumprod": ("fmul", "1.0")}[name]
    return compiled(name, SCAN_ROWS.format(name=name, fold=fold, unit=unit), 2, 2)


def compiled(name: str, text: str, arrays: int, numbers: int) -> Callable[..., Any]:
    module = native.new_module()
    given = [Buffer(f"x{at}", dtypes.float32, (), (), "given") for at in range(arrays)]
    atoms = [Atom(at, f"n{at}", 1, 0) for at in range(numbers)]
    module.functions.append(text)
    module.add_entry("entry", [(name, given, atoms)], given, Plan(), atoms)
    library = native.compile_text(module.text(), ["entry"])
    logs.write("kernel", f"eager {name}: native")
    return library.function("entry")
