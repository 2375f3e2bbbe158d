"""Reading by index: native loops that look at each place before they read it.

A call with a place that is not there has no answer; who asked then says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from rushlight.arrays import buffers
from rushlight.codegen import native
from rushlight.codegen.doors import DoorText
from rushlight.codegen.eager import DOOR, attempt, operands_of
from rushlight.codegen.expressions import Inexpressible
from rushlight.codegen.extents import Atom
from rushlight.codegen.loops import Buffer
from rushlight.codegen.plan import Plan
from rushlight.codegen.program import LoopProgram
from rushlight.codegen.values import Value
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.opset.large import PickRule

__all__ = ["picked_kernel"]

# From a table of (outer, length, inner) to a result of (outer, count, inner), by an index of the
# result's sizes, or one of `count` for whole rows.
PICK = """
define internal void @pick(
  ptr noalias %table, ptr noalias %index, ptr noalias %out, ptr noalias %seen,
  i64 %outer, i64 %length, i64 %count, i64 %inner
) #0 {{
entry:
  %slab = mul nsw i64 %length, %inner
  br label %block
block:
  %o = phi i64 [ 0, %entry ], [ %o.next, %block.end ]
  %bad.o = phi i32 [ 0, %entry ], [ %bad, %block.end ]
  %base = mul nsw i64 %o, %slab
  %start = getelementptr i{bits}, ptr %table, i64 %base
  %lines = mul nsw i64 %o, %count
  br label %row
row:
  %j = phi i64 [ 0, %block ], [ %j.next, %row.end ]
  %bad.j = phi i32 [ %bad.o, %block ], [ %bad, %row.end ]
  %line = add nsw i64 %lines, %j
  %to = mul nsw i64 %line, %inner
{body}
  br label %row.end
row.end:
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %count
  br i1 %j.more, label %row, label %block.end
block.end:
  %o.next = add nuw nsw i64 %o, 1
  %o.more = icmp ult i64 %o.next, %outer
  br i1 %o.more, label %block, label %end
end:
  store i32 %bad, ptr %seen, align 4
  ret void
}}
"""
# What is read instead of a wrong place is the first.
LOOK = """\
  %given = load i64, ptr %place, align 8
  %wrong = icmp uge i64 %given, %length
  %which = select i1 %wrong, i64 0, i64 %given
  %mark = zext i1 %wrong to i32
"""
ROWS = f"""\
  %place = getelementptr i64, ptr %index, i64 %j
{LOOK}\
  %bad = or i32 %bad.j, %mark
  %from = mul nsw i64 %which, %inner
  %a = getelementptr i{{bits}}, ptr %start, i64 %from
  %b = getelementptr i{{bits}}, ptr %out, i64 %to
  %nbytes = mul nsw i64 %inner, {{width}}
  call void @llvm.memcpy.p0.p0.i64(ptr %b, ptr %a, i64 %nbytes, i1 false)
"""
ELEMENTS = f"""\
  br label %element
element:
  %k = phi i64 [ 0, %row ], [ %k.next, %element ]
  %bad.k = phi i32 [ %bad.j, %row ], [ %bad, %element ]
  %at = add nsw i64 %to, %k
  %place = getelementptr i64, ptr %index, i64 %at
{LOOK}\
  %bad = or i32 %bad.k, %mark
  %step = mul nsw i64 %which, %inner
  %there = add nsw i64 %step, %k
  %a = getelementptr i{{bits}}, ptr %start, i64 %there
  %b = getelementptr i{{bits}}, ptr %out, i64 %at
  %x = load i{{bits}}, ptr %a, align {{width}}
  store i{{bits}} %x, ptr %b, align {{width}}
  %k.next = add nuw nsw i64 %k, 1
  %k.more = icmp ult i64 %k.next, %inner
  br i1 %k.more, label %element, label %picked
picked:
"""
# The same where an element is a row.
SINGLE = f"""\
  %place = getelementptr i64, ptr %index, i64 %line
{LOOK}\
  %bad = or i32 %bad.j, %mark
  %a = getelementptr i{{bits}}, ptr %start, i64 %which
  %b = getelementptr i{{bits}}, ptr %out, i64 %line
  %x = load i{{bits}}, ptr %a, align {{width}}
  store i{{bits}} %x, ptr %b, align {{width}}
"""


def picked_kernel(
    rule: PickRule, args: tuple[Any, ...], fixed: set[int]
) -> Callable[..., Any] | None:
    """A rule as a function of table and index, None where a place is wrong."""
    return attempt(rule.name(), written, rule, args, fixed)


def written(rule: PickRule, args: tuple[Any, ...], fixed: set[int]) -> Callable[..., Any]:
    program = LoopProgram(native.this_host().converts_half)
    operands, call = operands_of(program, args, fixed)
    table, index = [value for value in operands if isinstance(value, Value)]
    width = table.dtype.itemsize
    if index.dtype is not dtypes.int64 or width > 8:
        raise Inexpressible(f"{table.dtype} by {index.dtype}")
    try:
        shape, numbers = rule.geometry(*operands)
    except (RuntimeError, ValueError, IndexError) as error:
        raise Inexpressible(str(error)) from None
    is_row = rule.rows
    body = ROWS if is_row else SINGLE if type(numbers[-1]) is int and numbers[-1] == 1 else ELEMENTS
    text = PICK.format(bits=8 * width, width=width, body=body.format(bits=8 * width, width=width))

    module = native.new_module()
    module.functions.append(text)
    if is_row:
        module.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    steps = geometry.contiguous_strides(shape)
    out = Buffer("out", table.dtype, shape, steps, "result")
    seen = Buffer("seen", dtypes.int32, (1,), (1,), "result")
    assert table.buffer is not None and index.buffer is not None
    given = [table.buffer, index.buffer, out, seen]
    atoms = [Atom(at, f"n{at}", 1, 0) for at in range(len(numbers))]
    module.add_entry("entry", [("pick", given, atoms)], given, Plan(), atoms)
    objects = None
    if native.this_host().array_maker is not None:
        segment = ([("pick", given, list(numbers))], given, Plan())
        objects = DoorText(module, call, segment, seen).write(DOOR, [out], False)
    library = native.compile_text(module.text(), ["entry", *([DOOR] if objects else [])])
    entry = library.function("entry")

    places = [at for at, value in enumerate(operands) if isinstance(value, Value)]

    def run(*arrays: Any) -> Any:
        call_args = list(args)
        for at, array in zip(places, arrays, strict=True):
            call_args[at] = array
        shape, numbers = rule.geometry(*call_args)
        result = buffers.empty(shape, arrays[0].dtype, prod(shape) * width)
        seen = np.empty(1, np.int32)
        entry(*arrays, result, seen, *numbers)
        return None if seen[0] else result

    made: Any = run
    if objects is not None:
        made.door = library.door(DOOR, objects)
    return run
