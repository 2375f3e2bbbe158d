"""Source lines with the part that is meant underlined, as errors of compiled code show them."""

from __future__ import annotations

from rushlight.jit.ir.parts import SourceRange

# How many ends of lines around the highlighted ones are crossed.
CONTEXT = 3


def highlighted(place: SourceRange, function: str = "") -> str:
    """`  File "f.py", line 3` and the lines around, the range underlined with `~`."""
    text = place.text
    if not text:
        return ""
    if place.start == 0 and place.end == len(text):
        # The whole of it: calls of Python, each with its line.
        return text
    head = f'  File "{place.file}", line {place.line}{f", in {function}" if function else ""}\n'
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    end = min(place.end, len(text))
    first = text.count("\n", 0, place.start)
    last = max(text.count("\n", 0, max(end, place.start)), first)
    while last > first and not text[starts[last] : end].strip():
        last -= 1
    shown = lines[max(first - CONTEXT + 1, 0) : first]
    for row in range(first, last + 1):
        line = lines[row]
        shown.append(line)
        left = max(place.start - starts[row], len(line) - len(line.lstrip(" ")))
        right = min(end - starts[row], len(line))
        if right > left:
            mark = " " * left + "~" * (right - left)
            shown.append(mark + (" <--- HERE" if row == last else ""))
    after = lines[last + 1 : last + CONTEXT]
    while after and not after[-1]:
        after.pop()
    return head + "\n".join(shown + after) + "\n"
