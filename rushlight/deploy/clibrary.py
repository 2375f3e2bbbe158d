"""A program as a C library: header, source, object file, and all of it linked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any

from rushlight.base.errors import error
from rushlight.deploy.csource import CSource
from rushlight.deploy.csteps import decompositions
from rushlight.deploy.targets import Target, find_target
from rushlight.deploy.units import Units, is_worth_it
from rushlight.deploy.writing import facts_of, flat_module, written_state
from rushlight.export.program import ExportedProgram

__all__ = ["write_c_library"]

COMPILERS = ("cc", "gcc", "clang")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,60}\Z", re.ASCII)
# Features that C compilers ask a processor for by the same names.
ASKED = frozenset(
    ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2",
     "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
)  # fmt: skip


def write_c_library(
    program: ExportedProgram, folder: Any, name: str, *, target: str = "x86-64"
) -> str:
    """Write `name.h`, `name.c`, `name.o` and weights into a folder, and link `libname.so` with
    the C compiler of this machine, whose path is given back."""
    if NAME.match(name) is None:
        raise ValueError(f"name has to be a name of C, got {name!r}")
    compiler = find_compiler()
    wanted = find_target(target)
    made = program.run_decompositions(decompositions())
    units = Units([wanted])
    units.fast = False
    units.add(flat_module(made))
    if len(units.facts) > 1:
        raise error("RL1587", NotImplementedError, what="a graph within the graph")
    writer = units.writers[0]
    state, weights = written_state(made)
    records = facts_of(made)["inputs"]
    header, source = CSource(writer, state, records).text(name, attributes_of(wanted))
    files: dict[str, Any] = {
        f"{name}.h": header.encode(),
        f"{name}.c": checked_cpu(source, name, wanted).encode(),
        f"{name}_weights.bin": weights,
    }
    objects = []
    if writer.entries:
        files[f"{name}.o"] = units.machines[0].object_of(
            writer.module, is_worth_it(writer.schedule)
        )
        objects.append(f"{name}.o")
    os.makedirs(folder, exist_ok=True)
    for entry, content in files.items():
        with open(os.path.join(folder, entry), "wb") as file:
            file.write(content)
    library = f"lib{name}.so"
    command = [compiler, "-O3", "-fPIC", "-shared", "-o", library, f"{name}.c", *objects, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise error("RL1589", RuntimeError, compiler=compiler, text=done.stderr[-2000:])
    return os.path.join(os.fspath(folder), library)


def find_compiler() -> str:
    """The C compiler that the environment names, or the first that is installed."""
    for name in (os.environ.get("CC"), *COMPILERS):
        found = shutil.which(name) if name else None
        if found is not None:
            return found
    raise error("RL1588", RuntimeError, names=", ".join(COMPILERS))


def attributes_of(target: Target) -> str:
    """What a function may use, as C says it."""
    known = [name for name in target.features if name in ASKED]
    return f'__attribute__((target("{",".join(known)}")))' if known else ""


def checked_cpu(source: str, name: str, target: Target) -> str:
    """The source with a question to the processor at the start of a run."""
    tests = [
        f'    if (!__builtin_cpu_supports("{feature}")) {{\n'
        f'        snprintf(message, sizeof message, "this CPU lacks {feature} (RL1584)");\n'
        "        return 1;\n    }\n"
        for feature in target.features
        if feature in ASKED
    ]
    start = "    message[0] = 0;\n"
    return source.replace(start, start + "".join(tests), 1)
