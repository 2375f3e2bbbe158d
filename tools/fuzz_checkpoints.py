"""Reads mutated checkpoints: python tools/fuzz_checkpoints.py 100000 [seed]

Good files (zip archives, old streams, safetensors) are changed at random and read. A file must be
read or refused with CheckpointError, within a second. Archives are changed as they are, and within
their pickle with checksums that fit.
"""

from __future__ import annotations

import io
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import rushlight
from rushlight.base.errors import CheckpointError
from rushlight.core.tensor import Tensor, values_of
from rushlight.io import safetensors
from rushlight.io.checkpoint import load_inert
from rushlight.io.zipformat import Span, ZipWriter, read_directory

FILES = Path(__file__).parent.parent / "tests" / "io" / "files"
MAX_SECONDS = 1.0
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, -1)
OPCODES = (
    b"(.0123FIJKLMNPQRSTUVXabcdeghijlopqrstu}]\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8b\x8c"
    + (b"\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97")
)


def samples() -> list[tuple[str, bytes]]:
    """(container, bytes) of good files."""
    found = []
    for path in sorted(FILES.glob("*.pt")):
        kind = "stream" if path.stem.endswith("_old") else "zip"
        found.append((kind, path.read_bytes()))
    file = io.BytesIO()
    rushlight.save({"w": rushlight.ones(2, 3), "n": [1, "a", (2.5, None)]}, file)
    found.append(("zip", file.getvalue()))
    tensors = {"a": rushlight.ones(2, 3), "b": rushlight.arange(5), "c": rushlight.zeros(0)}
    found.append(("safetensors", safetensors.save(tensors, {"k": "v"})))
    return found


def mutated(data: bytes, random: random.Random) -> bytes:
    """A few changes of bytes, numbers or pieces."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        if not out:
            break
        place = random.randrange(len(out))
        way = random.randrange(9)
        if way == 0:
            out[place] ^= 1 << random.randrange(8)
        elif way == 1:
            out[place] = random.randrange(256)
        elif way == 2:
            out[place] = random.choice(OPCODES)
        elif way == 3:
            width = random.choice((1, 2, 4, 8))
            number = random.choice(NUMBERS) % (1 << 8 * width)
            out[place : place + width] = number.to_bytes(width, "little")
        elif way == 4:
            del out[place : place + random.choice((1, 2, 4, 16, 64))]
        elif way == 5:
            start = random.randrange(len(out))
            out[place:place] = out[start : start + random.choice((1, 2, 4, 16, 64))]
        elif way == 6:
            start, count = random.randrange(len(out)), random.choice((1, 2, 4, 16))
            out[place : place + count] = out[start : start + count]
        elif way == 7:
            out[place:place] = bytes(random.choices(OPCODES, k=random.choice((1, 2, 5))))
        else:
            del out[place:]
    return bytes(out)


def repacked(data: bytes, random: random.Random) -> bytes:
    """An archive with a mutated pickle (or another entry) and checksums that fit."""
    span = Span(io.BytesIO(data), 0, len(data))
    entries = read_directory(span)
    names = list(entries)
    chosen = random.choice(names) if random.random() < 0.1 else names[0]
    out = io.BytesIO()
    writer = ZipWriter(out.write)
    for name, entry in entries.items():
        content = span.at(entry.start(span), entry.size)
        writer.add(name.decode(), mutated(content, random) if name == chosen else content)
    writer.close()
    return out.getvalue()


def touch(value: Any, seen: set[int], left: list[int]) -> None:
    """Look at what was read: the memory of every tensor must be there."""
    waiting = [value]
    while waiting and left[0] > 0:
        value = waiting.pop()
        left[0] -= 1
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            if value._array is not None and value.numel() <= 1 << 16:
                values_of(value).tobytes()
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting.extend(value)


def read(kind: str, data: bytes) -> Any:
    if kind == "safetensors":
        return safetensors.load(data)
    return load_inert(io.BytesIO(data))


def fuzz(count: int, seed: int = 0) -> tuple[Counter[str], list[str], float]:
    """(outcomes, complaints, the longest time) of `count` mutated files."""
    source = random.Random(seed)
    good = samples()
    outcomes: Counter[str] = Counter()
    complaints: list[str] = []
    longest = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, data in good:
            touch(read(kind, data), set(), [10_000])
        for number in range(count):
            kind, data = source.choice(good)
            if kind == "zip" and source.random() < 0.7:
                bad = repacked(data, source)
            else:
                bad = mutated(data, source)
            began = time.process_time()
            try:
                touch(read(kind, bad), set(), [10_000])
                outcomes[f"{kind} read"] += 1
            except CheckpointError:
                outcomes[f"{kind} refused"] += 1
            except Exception as error:
                complaints.append(f"seed {seed} file {number} ({kind}): {error!r}"[:300])
            spent = time.process_time() - began
            longest = max(longest, spent)
            if spent > MAX_SECONDS:
                complaints.append(f"seed {seed} file {number} ({kind}): {spent:.1f} s")
    return outcomes, complaints, longest


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    outcomes, complaints, longest = fuzz(count, seed)
    for outcome, number in sorted(outcomes.items()):
        print(f"{outcome:22}{number:>10}")
    print(f"longest {longest * 1000:.0f} ms, complaints {len(complaints)}")
    print("\n".join(complaints[:20]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
