"""What CPUs can do: sets of instructions by LLVM's names, and which of them this machine has.

The processor itself is asked (`cpuid`), and the system whether it keeps the wide registers
(`xgetbv`): neither a compiler nor a file of the system is needed to say what code may run here.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from rushlight.base.errors import error
from rushlight.deploy.memory import Code, check_machine

__all__ = ["Target", "best_target", "find_target", "here"]

# Registers of the answer, and what the system has to keep: 0 nothing, 6 ymm, 0xE6 zmm.
EAX, EBX, ECX, EDX = range(4)
YMM, ZMM = 0x06, 0xE6

# name -> (leaf, subleaf, register, bit, state)
FEATURES: dict[str, tuple[int, int, int, int, int]] = {
    **{
        name: (1, 0, ECX, bit, state)
        for name, bit, state in (
            ("sse3", 0, 0), ("pclmul", 1, 0), ("ssse3", 9, 0), ("fma", 12, YMM), ("cx16", 13, 0),
            ("sse4.1", 19, 0), ("sse4.2", 20, 0), ("movbe", 22, 0), ("popcnt", 23, 0),
            ("aes", 25, 0), ("avx", 28, YMM), ("f16c", 29, YMM),
        )
    },
    **{name: (1, 0, EDX, bit, 0) for name, bit in (("cmov", 15), ("sse", 25), ("sse2", 26))},
    **{
        name: (7, 0, EBX, bit, state)
        for name, bit, state in (
            ("bmi", 3, 0), ("avx2", 5, YMM), ("bmi2", 8, 0), ("avx512f", 16, ZMM),
            ("avx512dq", 17, ZMM), ("avx512ifma", 21, ZMM), ("avx512cd", 28, ZMM),
            ("avx512bw", 30, ZMM), ("avx512vl", 31, ZMM),
        )
    },
    **{
        name: (7, 0, ECX, bit, state)
        for name, bit, state in (
            ("avx512vbmi", 1, ZMM), ("avx512vbmi2", 6, ZMM), ("gfni", 8, 0), ("vaes", 9, YMM),
            ("vpclmulqdq", 10, YMM), ("avx512vnni", 11, ZMM), ("avx512bitalg", 12, ZMM),
            ("avx512vpopcntdq", 14, ZMM),
        )
    },
    "avx512fp16": (7, 0, EDX, 23, ZMM),
    "avxvnni": (7, 1, EAX, 4, YMM),
    "avx512bf16": (7, 1, EAX, 5, ZMM),
    "sahf": (0x80000001, 0, ECX, 0, 0),
    "lzcnt": (0x80000001, 0, ECX, 5, 0),
}  # fmt: skip
OSXSAVE = (1, 0, ECX, 27)

BASELINE = ("cmov", "sse", "sse2")
SECOND = (*BASELINE, "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
THIRD = (*SECOND, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
FOURTH = (*THIRD, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
# The levels of the x86-64 ABI.
LEVELS = {"x86-64": BASELINE, "x86-64-v2": SECOND, "x86-64-v3": THIRD, "x86-64-v4": FOURTH}

# cpuid(leaf, subleaf, found) and xgetbv(which, found), as C calls them.
CPUID = bytes.fromhex("53 89f8 89f1 4989d0 0fa2 418900 41895804 41894808 4189500c 5b c3")
XGETBV = bytes.fromhex("89f9 0f01d0 8906 895604 c3")


class Target:
    """Instructions that code may use, under a name."""

    def __init__(self, name: str, features: Any) -> None:
        self.name = name
        self.features = tuple(sorted(features))

    def missing(self) -> list[str]:
        """What this machine lacks of it."""
        present = here()
        return [feature for feature in self.features if feature not in present]


class Processor:
    """Asks this machine's processor."""

    def __init__(self) -> None:
        check_machine()
        code = Code(CPUID.ljust(64, b"\x90") + XGETBV)
        code.close()
        self.code = code
        words = ctypes.POINTER(ctypes.c_uint32)
        self.cpuid = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, words)(code.address)
        self.xgetbv = ctypes.CFUNCTYPE(None, ctypes.c_uint32, words)(code.address + 64)

    def ask(self, leaf: int, subleaf: int) -> list[int]:
        found = (ctypes.c_uint32 * 4)()
        self.cpuid(leaf & 0x80000000, 0, found)
        if found[EAX] < leaf:
            return [0, 0, 0, 0]
        self.cpuid(leaf, subleaf, found)
        return list(found)

    def kept_state(self) -> int:
        """The registers that the system keeps, as bits."""
        leaf, subleaf, register, bit = OSXSAVE
        if not self.ask(leaf, subleaf)[register] >> bit & 1:
            return 0
        found = (ctypes.c_uint32 * 2)()
        self.xgetbv(0, found)
        return int(found[0])


@functools.cache
def here() -> frozenset[str]:
    """The features of this machine that code for a target may use."""
    processor = Processor()
    kept = processor.kept_state()
    found = set()
    for name, (leaf, subleaf, register, bit, state) in FEATURES.items():
        if kept & state == state and processor.ask(leaf, subleaf)[register] >> bit & 1:
            found.add(name)
    return frozenset(found)


def find_target(name: str) -> Target:
    """A level of x86-64, or "host": all that this machine can do."""
    if name == "host":
        return Target("host", here())
    if name not in LEVELS:
        known = ", ".join(["host", *LEVELS])
        raise error("RL1583", ValueError, name=name, known=known)
    return Target(name, LEVELS[name])


def best_target(targets: list[Target], name: str | None = None) -> int:
    """Which of the targets, the best first, runs here; `name` allows one alone."""
    check_machine()
    if name is not None and name not in [target.name for target in targets]:
        known = ", ".join([target.name for target in targets])
        raise error("RL1583", ValueError, name=name, known=known)
    lacking = [target.missing() for target in targets]
    for at, (target, missing) in enumerate(zip(targets, lacking)):
        if not missing and name in (None, target.name):
            return at
    wanted = "; ".join(
        [f"{target.name} needs {', '.join(missing)}" for target, missing in zip(targets, lacking)]
    )
    raise error("RL1584", RuntimeError, wanted=wanted)
