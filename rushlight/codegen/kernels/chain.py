"""What runs a recipe within other native code: `@chained`, in LLVM IR.

A template has everything that sizes decide: a head, words, which of them are addresses of arrays
and which of scratch memory, and jobs. Words are copied to the start of scratch memory for each run,
so that several may be on their way.
"""

from __future__ import annotations

from rushlight.codegen.kernels.emit import Function, Target
from rushlight.codegen.kernels.words import Words

__all__ = ["HEAD", "chain_texts"]

# Who runs it, what runs a job, what lets go of the interpreter's lock and takes it again; how many
# words there are, of those how many addresses of arrays and of scratch memory; how many jobs.
HEAD = Words("chained parallel release acquire words given places jobs")
JOB = ("function", "offset", "chunks", "most", "is_long")


def chained_text(target: Target) -> str:
    """`%t`: the template, `%s`: scratch memory, `%a`: addresses of arrays."""
    f = Function(target, "chained", ("ptr %t", "ptr %s", "ptr %a", "i64 %threads"))
    head = {
        name: f.word("%t", place, "i64" if place > 3 else "ptr")
        for name, place in HEAD.places.items()
    }
    words = f.at("%t", len(HEAD.names), "i64")
    given = f.at(words, head["words"], "i64")
    places = f.at(given, f.mul(head["given"], 2), "i64")
    jobs = f.at(places, f.mul(head["places"], 2), "i64")
    with f.loop(0, head["words"]) as at:
        f.store(f.word(words, at), f.at("%s", at, "i64"), "i64", 8)
    with f.loop(0, f.mul(head["given"], 2), 2) as at:
        array = f.word("%a", f.word(given, f.add(at, 1)), "ptr")
        f.store(array, f.at("%s", f.word(given, at), "i64"), "ptr", 8)
    with f.loop(0, f.mul(head["places"], 2), 2) as at:
        place = f.at("%s", f.word(places, f.add(at, 1)), "i8")
        f.store(place, f.at("%s", f.word(places, at), "i64"), "ptr", 8)
    state = f.slot("ptr")
    with f.loop(0, head["jobs"]) as number:
        job = f.at(jobs, f.mul(number, len(JOB)), "i64")
        function, *numbers = [f.word(job, at, "i64" if at else "ptr") for at in range(len(JOB))]
        offset, chunks, most, is_long = numbers
        lets_go = f.compare("ne", is_long, 0)
        with f.when(lets_go):
            f.store(f.value(f"call ptr {head['release']}()"), state, "ptr", 8)
        f.call(
            head["parallel"], f"ptr {function}", f"ptr {f.at('%s', offset, 'i8')}",
            f"i64 {chunks}", f"i64 {f.least(most, '%threads')}",
        )  # fmt: skip
        with f.when(lets_go):
            f.call(head["acquire"], f"ptr {f.load(state, 'ptr', 8)}")
    return f.text("")


def chain_texts(target: Target) -> list[str]:
    return [chained_text(target)]
