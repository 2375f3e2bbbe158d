"""What was made of a graph, in words: which operators share a kernel, where memory goes.

`RUSHLIGHT_LOGS=fusion,memory` prints these while graphs are compiled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.codegen.loops import Buffer, Kernel, call_name, is_selection
from rushlight.codegen.steps import Native

if TYPE_CHECKING:
    from rushlight.codegen.driver import Compiled

__all__ = ["fusion_report", "memory_report", "places_of", "summary"]

PLACE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+)')


def places_of(kernel: Kernel) -> list[str]:
    """The lines of the user's source, file:line, that a kernel computes."""
    found = []
    for node in kernel.nodes():
        lines = PLACE.findall(node.stack_trace or "")
        if lines:
            file, line = lines[-1]
            found.append(f"{os.path.basename(file)}:{line}")
    return list(dict.fromkeys(found))


def sizes_text(sizes: Any) -> str:
    return " × ".join(map(str, sizes)) or "one element"


def fusion_report(compiled: Compiled) -> str:
    """A line for each step: what a kernel fuses and from which lines, or what is called."""
    lines = []
    for item in compiled.schedule:
        if not isinstance(item, Kernel):
            lines.append(str(item))
            continue
        places = places_of(item)
        lines.append(f"{summary(item)} from {', '.join(places)}" if places else summary(item))
    return "\n".join(lines)


def summary(kernel: Kernel) -> str:
    calls = [call_name(n.target) for n in kernel.nodes() if not is_selection(n.target)]
    loops = counted(len(kernel.loops), "loop")
    return f"{kernel.label}: {', '.join(calls)} in {loops} over {sizes_text(kernel.sizes)}"


def memory_report(compiled: Compiled) -> str:
    """A line for each native call: what it makes, what it keeps for itself, what fusion spared."""
    lines = []
    for entry, (kernels, scratch) in compiled.segments.items():
        labels = ", ".join([kernel.label for kernel in kernels])
        lines.append(f"{entry} ({labels}): {', '.join(parts_of(kernels, scratch))}")
    return "\n".join(lines)


def targets_of(item: Kernel | Native) -> list[Buffer]:
    if isinstance(item, Kernel):
        return [statement.target for statement in item.statements()]
    return [buffer for buffer in item.made if buffer is not None]


def parts_of(kernels: Sequence[Kernel | Native], scratch: Any) -> list[str]:
    targets = dict.fromkeys([b for kernel in kernels for b in targets_of(kernel)])
    spared = [buffer for buffer in targets if buffer.role == "register"]
    made = [b for b in targets if b.role != "register" and b not in scratch]
    parts = [f"writes {b.name} of {amount(b.nbytes)}{placed(b)}" for b in made]
    if scratch.fixed:
        inside = counted(len(scratch.offsets), "temporary value")
        parts.append(f"scratch of {amount(scratch.fixed)} for {inside}")
    if scratch.slots:
        parts.append(f"scratch of {' + '.join(map(str, scratch.slots))} bytes that sizes tell")
    if spared:
        parts.append(f"{counted(len(spared), 'value')} in registers")
    return parts


def placed(buffer: Buffer) -> str:
    return "" if buffer.home is None else f" in the memory of {buffer.home.name}"


def amount(nbytes: Any) -> str:
    return f"{nbytes:,} bytes" if type(nbytes) is int else f"{nbytes} bytes"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
