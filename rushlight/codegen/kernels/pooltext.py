"""A fork-join pool of threads, in LLVM IR.

`rl_parallel_for(fn, ctx, n, most)` calls `fn(ctx, chunk, worker)` once for every chunk below n, on
any of `most` threads, in any order, and returns when all have finished. It never waits for a lock:
a call that finds the pool taken (from a chunk, or from another thread) runs its chunks itself.
"""

from __future__ import annotations

import platform
import sys

__all__ = ["MOST", "NAMES", "pool_text"]

# Threads there can be.
MOST = 256
NAMES = (
    "rl_parallel_for", "rl_own", "rl_disown", "rl_stop", "rl_stopped", "rl_forked", "rl_set",
    "rl_live", "rl_pause", "rl_wait_init",
)  # fmt: skip

# Note [Pool]. A job is (fn, ctx, n, parts, most); its chunks are dealt to `parts` runs, one a
# thread, each with a ticket on a cache line of its own: epoch << 32 | chunks left. A claim is one
# compare-exchange that takes 1 off. Who is done with its own run helps with the others, so a worker
# that sleeps delays nobody.
#
# Why a claim is safe: fields of a job are read after an acquire load of epoch == e, so they are not
# older than job e. A claim succeeds only on a ticket of epoch e with chunks left: job e has not
# finished then, and since the next owner writes fields only after it has seen done == n (acquire),
# to which this claim must yet contribute (release), they are not newer either. Fields read for a
# claim that fails are thrown away; all of them are atomic, so that race is defined.
POOL = r"""
@epoch    = internal global i32 0, align 128          ; the workers' futex; the owner writes it
@sleepers = internal global i32 0, align 128
@busy     = internal global i32 0, align 128          ; the owner's try-lock
@done     = internal global i32 0, align 128          ; chunks that workers finished; the owner's
@waiting  = internal global i32 0, align 128          ; the owner sleeps on @done
@job_fn    = internal global ptr null, align 128
@job_ctx   = internal global ptr null, align 8
@job_n     = internal global i64 0, align 8
@job_parts = internal global i64 1, align 8
@job_most = internal global i64 1, align 8            ; participants that have memory for it
@threads  = internal global i32 1, align 128          ; wanted, the caller included
@live     = internal global i32 0, align 4            ; workers that exist
@spin     = internal global i32 1000, align 4
@stopping = internal global i32 0, align 4
@tickets  = internal global [__MOST__ x [16 x i64]] zeroinitializer, align 128
@handles  = internal global [__MOST__ x i64] zeroinitializer, align 8

; Run what is left of job %e, own run first; the number of chunks done.
define internal i32 @share(i32 %id, i32 %e) noinline nounwind {
entry:
  %fn = load atomic ptr, ptr @job_fn monotonic, align 8
  %ctx = load atomic ptr, ptr @job_ctx monotonic, align 8
  %n = load atomic i64, ptr @job_n monotonic, align 8
  %parts = load atomic i64, ptr @job_parts monotonic, align 8
  %most = load atomic i64, ptr @job_most monotonic, align 8
  %id64 = zext i32 %id to i64
  %e64 = zext i32 %e to i64
  %may = icmp ult i64 %id64, %most
  br i1 %may, label %run, label %none
none:
  ret i32 0
run:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %count0 = phi i32 [ 0, %entry ], [ %count, %next ]
  %sum = add i64 %id64, %k
  %j = urem i64 %sum, %parts
  %j1 = add i64 %j, 1
  %prod = mul i64 %j1, %n
  %end = udiv i64 %prod, %parts
  %slot = getelementptr [__MOST__ x [16 x i64]], ptr @tickets, i64 0, i64 %j, i64 0
  br label %look
look:
  %count = phi i32 [ %count0, %run ], [ %count, %claim ], [ %count1, %work ]
  %t = load atomic i64, ptr %slot acquire, align 8
  %te = lshr i64 %t, 32
  %same = icmp eq i64 %te, %e64
  br i1 %same, label %open, label %out          ; a newer job: this one is over
open:
  %left = and i64 %t, 4294967295
  %empty = icmp eq i64 %left, 0
  br i1 %empty, label %next, label %claim
claim:
  %t1 = sub i64 %t, 1
  %x = cmpxchg ptr %slot, i64 %t, i64 %t1 acq_rel monotonic, align 8
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %work, label %look
work:
  %chunk = sub i64 %end, %left
  call void %fn(ptr %ctx, i64 %chunk, i64 %id64)
  %count1 = add i32 %count, 1
  br label %look
next:
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %parts
  br i1 %more, label %run, label %out
out:
  %result = phi i32 [ %count, %look ], [ %count, %next ]
  ret i32 %result
}

; How many sleepers to wake for a job of %parts runs: those beyond the workers that are up already.
; A wrong guess costs speed only: the owner can finish any job alone.
define internal i32 @lacking(i64 %parts) nounwind {
  %p = trunc i64 %parts to i32
  %help = sub i32 %p, 1
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %live = load atomic i32, ptr @live monotonic, align 4
  %up = sub i32 %live, %sleepers
  %gap = sub i32 %help, %up
  %some = call i32 @llvm.smax.i32(i32 %gap, i32 0)
  %most = call i32 @llvm.smin.i32(i32 %some, i32 %sleepers)
  ret i32 %most
}

; A worker's life.
define internal ptr @rl_worker(ptr %arg) nounwind {
entry:
  %id64 = ptrtoint ptr %arg to i64
  %id = trunc i64 %id64 to i32
  %first = load atomic i32, ptr @epoch acquire, align 4
  br label %go
go:
  %e = phi i32 [ %first, %entry ], [ %now, %poll ]
  %stop = load atomic i32, ptr @stopping monotonic, align 4
  %s = icmp ne i32 %stop, 0
  br i1 %s, label %leave, label %place
place:                                           ; more workers than runs: those at home go first
  %parts = load atomic i64, ptr @job_parts monotonic, align 8
  %spare = icmp uge i64 %id64, %parts
  br i1 %spare, label %defer, label %help
defer:
  %whole = load atomic i32, ptr @spin monotonic, align 4
  %bit = lshr i32 %whole, 5
  call void @rl_pause(i32 %bit)
  br label %help
help:
  %count = call i32 @share(i32 %id, i32 %e)
  %some = icmp ne i32 %count, 0
  br i1 %some, label %report, label %idle
report:                                          ; results before the count (release)
  %old = atomicrmw add ptr @done, i32 %count seq_cst, align 4
  %w = load atomic i32, ptr @waiting seq_cst, align 4
  %asleep = icmp ne i32 %w, 0
  br i1 %asleep, label %rouse, label %idle
rouse:
  call void @rl_wake(ptr @done, i32 1)
  br label %idle
idle:
  %budget = load atomic i32, ptr @spin monotonic, align 4
  br label %poll
poll:
  %turn = phi i32 [ 0, %idle ], [ %turn1, %relax ], [ 0, %sleep ]
  %now = load atomic i32, ptr @epoch acquire, align 4
  %changed = icmp ne i32 %now, %e
  br i1 %changed, label %go, label %still
still:
  %tired = icmp uge i32 %turn, %budget
  br i1 %tired, label %sleep, label %relax
relax:
  __PAUSE__
  %turn1 = add i32 %turn, 1
  br label %poll
sleep:                                           ; count, then look: the owner looks after it counts
  %a = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 4
  call void @rl_wait(ptr @epoch, i32 %e)
  %b = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 4
  br label %poll
leave:
  ret ptr null
}

; Make missing workers; signals stay with the threads that Python knows.
define internal void @ensure() noinline nounwind {
entry:
  %all = alloca [32 x i64], align 16
  %was = alloca [32 x i64], align 16
  %0 = call i32 @sigfillset(ptr %all)
  %1 = call i32 @pthread_sigmask(i32 __SIG_BLOCK__, ptr %all, ptr %was)
  br label %test
test:
  %live = load i32, ptr @live
  %threads = load i32, ptr @threads
  %id = add i32 %live, 1
  %missing = icmp slt i32 %id, %threads
  br i1 %missing, label %make, label %out
make:
  %at = zext i32 %live to i64
  %id64 = zext i32 %id to i64
  %handle = getelementptr [__MOST__ x i64], ptr @handles, i64 0, i64 %at
  %arg = inttoptr i64 %id64 to ptr
  %rc = call i32 @pthread_create(ptr %handle, ptr null, ptr @rl_worker, ptr %arg)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %made, label %refused
made:
  store atomic i32 %id, ptr @live monotonic, align 4
  br label %test
refused:                                         ; a process limit: go on with what there is
  store i32 %id, ptr @threads
  br label %out
out:
  %2 = call i32 @pthread_sigmask(i32 __SIG_SETMASK__, ptr %was, ptr null)
  ret void
}

define void @rl_parallel_for(ptr %fn, ptr %ctx, i64 %n, i64 %most) nounwind {
entry:
  %wanted = load atomic i32, ptr @threads monotonic, align 4
  %wanted64 = zext i32 %wanted to i64
  %able = call i64 @llvm.umin.i64(i64 %wanted64, i64 %most)
  %several = icmp ugt i64 %able, 1
  %big = icmp ugt i64 %n, 1
  %small = icmp ult i64 %n, 2147483648
  %c0 = and i1 %several, %big
  %c1 = and i1 %c0, %small
  br i1 %c1, label %try, label %inline
try:                                             ; taken: not waited for
  %x = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %mine = extractvalue { i32, i1 } %x, 1
  br i1 %mine, label %owner, label %inline
owner:
  %live0 = load i32, ptr @live
  %have0 = add i32 %live0, 1
  %short = icmp slt i32 %have0, %wanted
  br i1 %short, label %recruit, label %publish
recruit:
  call void @ensure()
  br label %publish
publish:
  %live = load i32, ptr @live
  %have = add i32 %live, 1
  %have64 = zext i32 %have to i64
  %want64 = zext i32 %wanted to i64
  %m0 = call i64 @llvm.umin.i64(i64 %have64, i64 %want64)
  %m1 = call i64 @llvm.umin.i64(i64 %m0, i64 %most)
  %parts = call i64 @llvm.umin.i64(i64 %m1, i64 %n)
  %olde = load atomic i32, ptr @epoch monotonic, align 4
  %e = add i32 %olde, 1
  store atomic ptr %fn, ptr @job_fn monotonic, align 8
  store atomic ptr %ctx, ptr @job_ctx monotonic, align 8
  store atomic i64 %n, ptr @job_n monotonic, align 8
  store atomic i64 %parts, ptr @job_parts monotonic, align 8
  store atomic i64 %most, ptr @job_most monotonic, align 8
  store atomic i32 0, ptr @done monotonic, align 4
  %e64 = zext i32 %e to i64
  %high = shl i64 %e64, 32
  br label %deal
deal:
  %j = phi i64 [ 0, %publish ], [ %j1, %deal ]
  %from = phi i64 [ 0, %publish ], [ %to, %deal ]
  %j1 = add i64 %j, 1
  %prod = mul i64 %j1, %n
  %to = udiv i64 %prod, %parts
  %size = sub i64 %to, %from
  %ticket = or i64 %high, %size
  %slot = getelementptr [__MOST__ x [16 x i64]], ptr @tickets, i64 0, i64 %j, i64 0
  store atomic i64 %ticket, ptr %slot release, align 8
  %more = icmp ult i64 %j1, %parts
  br i1 %more, label %deal, label %start
start:
  %ignored = atomicrmw xchg ptr @epoch, i32 %e seq_cst, align 4
  %calls = call i32 @lacking(i64 %parts)
  %some = icmp sgt i32 %calls, 0
  br i1 %some, label %call, label %join
call:
  call void @rl_wake(ptr @epoch, i32 %calls)
  br label %join
join:
  %own = call i32 @share(i32 0, i32 %e)
  %n32 = trunc i64 %n to i32
  %rest = sub i32 %n32, %own
  %budget = load atomic i32, ptr @spin monotonic, align 4
  br label %poll
poll:                                            ; for chunks that workers have begun
  %turn = phi i32 [ 0, %join ], [ %turn1, %relax ]
  %d = load atomic i32, ptr @done acquire, align 4
  %all = icmp eq i32 %d, %rest
  br i1 %all, label %release, label %still
still:
  %tired = icmp uge i32 %turn, %budget
  br i1 %tired, label %doze, label %relax
relax:
  __PAUSE__
  %turn1 = add i32 %turn, 1
  br label %poll
doze:
  %was = atomicrmw xchg ptr @waiting, i32 1 seq_cst, align 4
  br label %check
check:
  %d2 = load atomic i32, ptr @done seq_cst, align 4
  %all2 = icmp eq i32 %d2, %rest
  br i1 %all2, label %awake, label %sleep
sleep:
  call void @rl_wait(ptr @done, i32 %d2)
  br label %check
awake:
  store atomic i32 0, ptr @waiting monotonic, align 4
  br label %release
release:
  store atomic i32 0, ptr @busy release, align 4
  ret void
inline:
  call void @rl_inline(ptr %fn, ptr %ctx, i64 %n)
  ret void
}

; Ownership for the controls below.
define i32 @rl_own() nounwind {
  %x = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %ok = extractvalue { i32, i1 } %x, 1
  %r = zext i1 %ok to i32
  ret i32 %r
}
define void @rl_disown() nounwind {
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
; As owner: end the workers, and wait for their end.
define void @rl_stop() nounwind {
  store atomic i32 1, ptr @stopping monotonic, align 4
  %e = atomicrmw add ptr @epoch, i32 1 seq_cst, align 4
  call void @rl_wake(ptr @epoch, i32 2147483647)
  ret void
}
define void @rl_stopped() nounwind {
entry:
  br label %test
test:
  %i = phi i32 [ 0, %entry ], [ %i1, %one ]
  %live = load i32, ptr @live
  %more = icmp slt i32 %i, %live
  br i1 %more, label %one, label %out
one:
  %at = zext i32 %i to i64
  %place = getelementptr [__MOST__ x i64], ptr @handles, i64 0, i64 %at
  %handle = load i64, ptr %place
  %rc = call i32 @pthread_join(i64 %handle, ptr null)
  %i1 = add i32 %i, 1
  br label %test
out:
  store atomic i32 0, ptr @live monotonic, align 4
  store atomic i32 0, ptr @stopping monotonic, align 4
  ret void
}
; In a forked child: there are no workers, nobody owns the pool, nobody sleeps. The fork may have
; caught another thread's job half done, or half published for the epoch after this one: two on, no
; ticket fits, so that a new worker does not go on with the parent's job.
define void @rl_forked() nounwind {
  %old = atomicrmw add ptr @epoch, i32 2 seq_cst, align 4
  store atomic i32 0, ptr @live monotonic, align 4
  store atomic i32 0, ptr @sleepers monotonic, align 4
  store atomic i32 0, ptr @waiting monotonic, align 4
  store atomic i32 0, ptr @stopping monotonic, align 4
  store atomic i32 0, ptr @busy release, align 4
  call void @rl_wait_init()
  ret void
}
define void @rl_set(i32 %threads, i32 %spin) nounwind {
  store atomic i32 %threads, ptr @threads monotonic, align 4
  store atomic i32 %spin, ptr @spin monotonic, align 4
  ret void
}
define i32 @rl_live() nounwind {
  %r = load i32, ptr @live
  ret i32 %r
}
define void @rl_pause(i32 %n) nounwind {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]
  __PAUSE__
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, %n
  br i1 %more, label %loop, label %out
out:
  ret void
}
declare i64 @llvm.umin.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
"""

# Sleep while a word holds a value. Linux: the futex call itself.
FUTEX = r"""
define internal void @rl_wait(ptr %word, i32 %value) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 __FUTEX__, ptr %word, i32 128, i32 %value, ptr null)
  ret void
}
define internal void @rl_wake(ptr %word, i32 %count) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 __FUTEX__, ptr %word, i32 129, i32 %count)
  ret void
}
define void @rl_wait_init() nounwind {
  ret void
}
declare i64 @syscall(i64, ...)
"""

# Anywhere with pthreads: one mutex, one condition for the workers and one for the owner.
CONDITION = r"""
@mutex = internal global [128 x i8] zeroinitializer, align 16
@cond_workers = internal global [128 x i8] zeroinitializer, align 16
@cond_owner = internal global [128 x i8] zeroinitializer, align 16
define internal void @rl_wait(ptr %word, i32 %value) nounwind {
entry:
  %owner = icmp eq ptr %word, @done
  %cond = select i1 %owner, ptr @cond_owner, ptr @cond_workers
  %0 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %test
test:
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %value
  br i1 %same, label %sleep, label %out
sleep:
  %1 = call i32 @pthread_cond_wait(ptr %cond, ptr @mutex)
  br label %test
out:
  %2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}
define internal void @rl_wake(ptr %word, i32 %count) nounwind {
  %owner = icmp eq ptr %word, @done
  %cond = select i1 %owner, ptr @cond_owner, ptr @cond_workers
  %1 = call i32 @pthread_mutex_lock(ptr @mutex)
  %2 = call i32 @pthread_cond_broadcast(ptr %cond)
  %3 = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}
define void @rl_wait_init() nounwind {
  %1 = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %2 = call i32 @pthread_cond_init(ptr @cond_workers, ptr null)
  %3 = call i32 @pthread_cond_init(ptr @cond_owner, ptr null)
  ret void
}
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
"""

# Where no way to make threads is known: everything on the caller's.
SERIAL = r"""
define void @rl_parallel_for(ptr %fn, ptr %ctx, i64 %n, i64 %most) nounwind {
  call void @rl_inline(ptr %fn, ptr %ctx, i64 %n)
  ret void
}
"""
# All chunks on the calling thread.
INLINE = r"""
define internal void @rl_inline(ptr %fn, ptr %ctx, i64 %n) nounwind {
entry:
  %none = icmp eq i64 %n, 0
  br i1 %none, label %out, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  call void %fn(ptr %ctx, i64 %i, i64 0)
  %i1 = add i64 %i, 1
  %again = icmp ult i64 %i1, %n
  br i1 %again, label %loop, label %out
out:
  ret void
}
"""
X86 = ("x86_64", "amd64")
ARM = ("aarch64", "arm64")


def pool_text(sleep: str = "") -> str:
    """The text for this machine; `sleep` chooses futex, condition or serial."""
    processor = platform.machine().lower()
    if not sleep:
        known = processor in (*X86, *ARM)
        sleep = "serial" if sys.platform == "win32" else "condition"
        sleep = "futex" if known and sys.platform.startswith("linux") else sleep
    if sleep == "serial":
        return SERIAL + INLINE
    mac = sys.platform == "darwin"
    text = POOL + INLINE + (FUTEX if sleep == "futex" else CONDITION)
    declared = ""
    if processor in X86:
        pause, declared = (
            "call void @llvm.x86.sse2.pause()",
            "declare void @llvm.x86.sse2.pause()\n",
        )
    elif processor in ARM:
        pause = "call void @llvm.aarch64.hint(i32 1)"
        declared = "declare void @llvm.aarch64.hint(i32)\n"
    else:
        pause = 'call void asm sideeffect "", "~{memory}"()'
    for name, value in {
        "__PAUSE__": pause,
        "__MOST__": str(MOST),
        "__FUTEX__": "202" if processor in X86 else "98",
        "__SIG_BLOCK__": "1" if mac else "0",
        "__SIG_SETMASK__": "3" if mac else "2",
    }.items():
        text = text.replace(name, value)
    return text + declared
