"""Joining: a native function of a list of arrays and a dim, as `cat` and `stack` call it.

It looks at all that it is given and answers None to what is not plain: other classes, dtypes or
layouts, sizes that differ, large results. Copies are copies, so whoever makes them gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.codegen import entries, native
from rushlight.codegen.doors import (
    CLASS,
    DECLARED,
    DIMS,
    DTYPE,
    FLAGS,
    ITEMS,
    LENGTH,
    LIST_ITEMS,
    MOST_BYTES,
    PLAIN,
    RANK,
)
from rushlight.codegen.eager import attempt
from rushlight.codegen.expressions import Inexpressible

__all__ = ["joining"]

# The most dims of a result: beyond, layouts other than row-major may be asked for.
MOST_DIMS = 3
# `self` holds None, the class of arrays, list, int and a dtype. %stacks is 1 where a dim is added.
JOIN = f"""
define ptr @join(ptr %self, ptr %args, i64 %count) #0 {{{{
entry:
  %sizes = alloca [{MOST_DIMS} x i64], align 8
  %over = alloca i32, align 4
  %two = icmp eq i64 %count, 2
  br i1 %two, label %objects, label %no
objects:
  %none.at = getelementptr i8, ptr %self, i64 {ITEMS}
  %none = load ptr, ptr %none.at, align 8
  %array.at = getelementptr i8, ptr %self, i64 {ITEMS + 8}
  %array.class = load ptr, ptr %array.at, align 8
  %list.at = getelementptr i8, ptr %self, i64 {ITEMS + 16}
  %list.class = load ptr, ptr %list.at, align 8
  %int.at = getelementptr i8, ptr %self, i64 {ITEMS + 24}
  %int.class = load ptr, ptr %int.at, align 8
  %kind.at = getelementptr i8, ptr %self, i64 {ITEMS + 32}
  %kind = load ptr, ptr %kind.at, align 8
  %list = load ptr, ptr %args, align 8
  %list.class.at = getelementptr i8, ptr %list, i64 {CLASS}
  %list.found = load ptr, ptr %list.class.at, align 8
  %is.list = icmp eq ptr %list.found, %list.class
  br i1 %is.list, label %a.list, label %no
a.list:
  %dim.at = getelementptr ptr, ptr %args, i64 1
  %dim.object = load ptr, ptr %dim.at, align 8
  %dim.class.at = getelementptr i8, ptr %dim.object, i64 {CLASS}
  %dim.class = load ptr, ptr %dim.class.at, align 8
  %is.int = icmp eq ptr %dim.class, %int.class
  br i1 %is.int, label %an.int, label %no
an.int:
  %dim.given = call i64 @PyLong_AsLongLongAndOverflow(ptr %dim.object, ptr %over)
  %length.at = getelementptr i8, ptr %list, i64 {LENGTH}
  %length = load i64, ptr %length.at, align 8
  %items.at = getelementptr i8, ptr %list, i64 {LIST_ITEMS}
  %items = load ptr, ptr %items.at, align 8
  %some = icmp sgt i64 %length, 0
  %beyond = load i32, ptr %over, align 4
  %is.near = icmp eq i32 %beyond, 0
  %goes.on = and i1 %some, %is.near
  br i1 %goes.on, label %first, label %no
first:
  %one = load ptr, ptr %items, align 8
  %one.class.at = getelementptr i8, ptr %one, i64 {CLASS}
  %one.class = load ptr, ptr %one.class.at, align 8
  %is.array = icmp eq ptr %one.class, %array.class
  br i1 %is.array, label %ranked, label %no
ranked:
  %rank.at = getelementptr i8, ptr %one, i64 {RANK}
  %rank.short = load i32, ptr %rank.at, align 4
  %rank = zext i32 %rank.short to i64
  %full = add i64 %rank, {{stacks}}
  %below = icmp slt i64 %dim.given, 0
  %dim.up = add i64 %dim.given, %full
  %dim = select i1 %below, i64 %dim.up, i64 %dim.given
  %is.dim = icmp ult i64 %dim, %full
  %few = icmp ule i64 %full, {MOST_DIMS}
  %has = icmp ne i64 %rank, 0
  %fits.dim = and i1 %is.dim, %few
  %fits = and i1 %fits.dim, %has
  %dims.at = getelementptr i8, ptr %one, i64 {DIMS}
  %dims = load ptr, ptr %dims.at, align 8
  br i1 %fits, label %item, label %no
item:
  %i = phi i64 [ 0, %ranked ], [ %i.next, %sized ]
  %along = phi i64 [ 0, %ranked ], [ %along.next, %sized ]
  %item.at = getelementptr ptr, ptr %items, i64 %i
  %x = load ptr, ptr %item.at, align 8
  %x.class.at = getelementptr i8, ptr %x, i64 {CLASS}
  %x.class = load ptr, ptr %x.class.at, align 8
  %x.is.array = icmp eq ptr %x.class, %array.class
  br i1 %x.is.array, label %look, label %no
look:
  %x.kind.at = getelementptr i8, ptr %x, i64 {DTYPE}
  %x.kind = load ptr, ptr %x.kind.at, align 8
  %same.kind = icmp eq ptr %x.kind, %kind
  %flags.at = getelementptr i8, ptr %x, i64 {FLAGS}
  %flags = load i32, ptr %flags.at, align 4
  %plain = and i32 %flags, {PLAIN}
  %is.plain = icmp eq i32 %plain, {PLAIN}
  %x.rank.at = getelementptr i8, ptr %x, i64 {RANK}
  %x.rank = load i32, ptr %x.rank.at, align 4
  %same.rank = icmp eq i32 %x.rank, %rank.short
  %right.kind = and i1 %same.kind, %is.plain
  %right = and i1 %right.kind, %same.rank
  %x.dims.at = getelementptr i8, ptr %x, i64 {DIMS}
  %x.dims = load ptr, ptr %x.dims.at, align 8
  br i1 %right, label %axis, label %no
axis:
  %k = phi i64 [ 0, %look ], [ %k.next, %axis.next ]
  %mine.at = getelementptr i64, ptr %x.dims, i64 %k
  %mine = load i64, ptr %mine.at, align 8
  %theirs.at = getelementptr i64, ptr %dims, i64 %k
  %theirs = load i64, ptr %theirs.at, align 8
  %alike = icmp eq i64 %mine, %theirs
  %free = icmp eq i64 %k, {{free}}
  %agrees = or i1 %alike, %free
  %filled = icmp ne i64 %mine, 0
  %goes = and i1 %agrees, %filled
  br i1 %goes, label %axis.next, label %no
axis.next:
  %k.next = add nuw nsw i64 %k, 1
  %k.more = icmp ult i64 %k.next, %rank
  br i1 %k.more, label %axis, label %sized
sized:
  %grows.at = getelementptr i64, ptr %x.dims, i64 %dim
{{grows}}
  %along.next = add i64 %along, %grows
  %i.next = add nuw nsw i64 %i, 1
  %i.more = icmp ult i64 %i.next, %length
  br i1 %i.more, label %item, label %result
result:
  br label %place
place:
  %p = phi i64 [ 0, %result ], [ %p.next, %place ]
  %q = phi i64 [ 0, %result ], [ %q.next, %place ]
  %outer = phi i64 [ 1, %result ], [ %outer.next, %place ]
  %inner = phi i64 [ {{width}}, %result ], [ %inner.next, %place ]
  %is.joint = icmp eq i64 %p, %dim
  %is.before = icmp ult i64 %p, %dim
  %q.last = sub i64 %rank, 1
  %q.safe = call i64 @llvm.umin.i64(i64 %q, i64 %q.last)
  %other.at = getelementptr i64, ptr %dims, i64 %q.safe
  %other = load i64, ptr %other.at, align 8
  %size = select i1 %is.joint, i64 %along.next, i64 %other
  %size.at = getelementptr i64, ptr %sizes, i64 %p
  store i64 %size, ptr %size.at, align 8
  %outer.more = mul i64 %outer, %other
  %outer.next = select i1 %is.before, i64 %outer.more, i64 %outer
  %inner.more = mul i64 %inner, %other
  %is.not.behind = or i1 %is.joint, %is.before
  %inner.next = select i1 %is.not.behind, i64 %inner, i64 %inner.more
  %step = select i1 %is.joint, i64 {{step}}, i64 1
  %q.next = add i64 %q, %step
  %p.next = add nuw nsw i64 %p, 1
  %p.more = icmp ult i64 %p.next, %full
  br i1 %p.more, label %place, label %placed
placed:
  %row = mul i64 %along.next, %inner.next
  %nbytes = mul i64 %row, %outer.next
  %is.small = icmp ule i64 %nbytes, {MOST_BYTES}
  br i1 %is.small, label %make, label %no
make:
  call void @Py_IncRef(ptr %kind)
  %full.short = trunc i64 %full to i32
  %made = call ptr @{entries.NEW_ARRAY}(
    ptr %array.class, ptr %kind, i32 %full.short, ptr %sizes, ptr null, ptr null, i32 0, ptr null
  )
  %is.made = icmp ne ptr %made, null
  br i1 %is.made, label %copy, label %failed
failed:
  ret ptr null
copy:
  %to.at = getelementptr i8, ptr %made, i64 {entries.DATA_OFFSET}
  %to = load ptr, ptr %to.at, align 8
  br label %source
source:
  %s = phi i64 [ 0, %copy ], [ %s.next, %source.end ]
  %offset = phi i64 [ 0, %copy ], [ %offset.next, %source.end ]
  %source.at = getelementptr ptr, ptr %items, i64 %s
  %y = load ptr, ptr %source.at, align 8
  %y.dims.at = getelementptr i8, ptr %y, i64 {DIMS}
  %y.dims = load ptr, ptr %y.dims.at, align 8
  %y.grows.at = getelementptr i64, ptr %y.dims, i64 %dim
{{grows_again}}
  %part = mul i64 %y.grows, %inner.next
  %from.at = getelementptr i8, ptr %y, i64 {entries.DATA_OFFSET}
  %from = load ptr, ptr %from.at, align 8
  br label %block
block:
  %b = phi i64 [ 0, %source ], [ %b.next, %block ]
  %here = mul i64 %b, %part
  %there.row = mul i64 %b, %row
  %there = add i64 %there.row, %offset
  %from.here = getelementptr i8, ptr %from, i64 %here
  %to.there = getelementptr i8, ptr %to, i64 %there
  call void @llvm.memcpy.p0.p0.i64(ptr %to.there, ptr %from.here, i64 %part, i1 false)
  %b.next = add nuw nsw i64 %b, 1
  %b.more = icmp ult i64 %b.next, %outer.next
  br i1 %b.more, label %block, label %source.end
source.end:
  %offset.next = add i64 %offset, %part
  %s.next = add nuw nsw i64 %s, 1
  %s.more = icmp ult i64 %s.next, %length
  br i1 %s.more, label %source, label %done
done:
  ret ptr %made
no:
  %left.at = getelementptr i8, ptr %self, i64 {ITEMS}
  %left = load ptr, ptr %left.at, align 8
  call void @Py_IncRef(ptr %left)
  ret ptr %left
}}}}
"""
# What differs between joining along a dim and along a new one: how long an array is in it.
WORDS = {
    False: {
        "stacks": "0",
        "free": "%dim",
        "step": "1",
        "grows": "  %grows = load i64, ptr %grows.at, align 8",
        "grows_again": "  %y.grows = load i64, ptr %y.grows.at, align 8",
    },
    True: {
        "stacks": "1",
        "free": "-1",
        "step": "0",
        "grows": "  %grows = add i64 0, 1",
        "grows_again": "  %y.grows = add i64 0, 1",
    },
}


def joining(array_type: Any, stacks: bool) -> Callable[..., Any] | None:
    """The function for arrays of a dtype."""
    return attempt(f"join {array_type}", written, array_type, stacks)


def written(array_type: Any, stacks: bool) -> Callable[..., Any]:
    if native.this_host().array_maker is None:
        raise Inexpressible("arrays that look otherwise")
    module = native.new_module()
    module.functions.append(JOIN.format(width=array_type.itemsize, **WORDS[stacks]))
    module.declared.update(DECLARED)
    module.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    module.declared.add("declare i64 @llvm.umin.i64(i64, i64)")
    library = native.compile_text(module.text(), ["join"])
    return library.door("join", (None, np.ndarray, list, int, array_type))
