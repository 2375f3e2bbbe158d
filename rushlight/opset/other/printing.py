"""`_print`: a text on standard output, as an operator."""

from __future__ import annotations

from typing import Any

from rushlight.core.op import refuse
from rushlight.opset.kinds import STATEMENT
from rushlight.opset.registry import op

NOTHING = refuse("it returns nothing")


def write_text(xp: Any, s: str) -> None:
    print(s)


op(
    "_print(str s) -> ()",
    kind=STATEMENT,
    method=False,
    out=False,
    jvp=NOTHING,
    shape=lambda s: None,
    kernel=write_text,
    samples=refuse("it writes to the output of the program"),
)
