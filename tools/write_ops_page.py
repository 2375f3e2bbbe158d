"""Write docs/ops.md: every operator, its rules and where they come from. Run by `make docs`."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rushlight.opset import audit  # noqa: E402

PAGE = ROOT / "docs" / "ops.md"
MARKS = {"given": "●", "derived": "○"}
HEAD = """# Operators

{entries} entries under {names} names; {pairs:,} pairs of operator and dtype, tried on {samples:,}
samples and {errors:,} wrong calls. Written by `make docs` from the registry; `rushlight doctor
--ops` prints the same for the tree at hand, `rushlight doctor --op NAME` one operator in full.

● given with the operator, ○ derived from its kind, its definition or another rule, – refused (the
reasons are at the end). In-place and `out=` forms are derived and not listed. *shape*: sizes,
strides and dtype without values; *vjp*, *jvp*: reverse and forward mode; *batch*: `vmap`;
*errors*: wrong calls whose exception is checked. *dtypes*: of {dtypes} that are tried.
"""


def mark(state: str) -> str:
    return MARKS.get(state.split(":")[0], "–" if state.startswith("refused") else " ")


def main() -> None:
    found = audit.collect()
    ops = audit.records()
    lines = [
        HEAD.format(
            entries=found.entries,
            names=found.names,
            pairs=found.pairs,
            samples=found.samples,
            errors=found.errors,
            dtypes=len(audit.DTYPES),
        )
    ]
    reasons: list[str] = []
    entries = sorted(
        zip(ops, found.rows, strict=True), key=lambda entry: (entry[0].family, entry[1][0])
    )
    for family, members in groupby(entries, key=lambda entry: entry[0].family or "others"):
        lines.append(f"\n## {family}\n")
        lines.append(f"| operator | {' | '.join(audit.RULES)} | dtypes |")
        lines.append("| --- " * (len(audit.RULES) + 2) + "|")
        for op, (name, cells) in members:
            shown = " | ".join(mark(cells[rule]) for rule in audit.RULES)
            lines.append(f"| `{name}` | {shown} | {len(found.table[op.name()])} |")
            reasons += [
                f"- `{name}`, {rule}: {state.removeprefix('refused: ')}"
                for rule, state in cells.items()
                if state.startswith("refused")
            ]
    lines.append("\n## What is refused, and why\n")
    lines += reasons
    PAGE.write_text("\n".join(lines) + "\n")
    print(f"{PAGE.relative_to(ROOT)}: {found.entries} operators")


if __name__ == "__main__":
    main()
