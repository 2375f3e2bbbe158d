"""Write docs/errors.md: every code of a refusal, why it says no, what to do. Run by `make docs`."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rushlight.base.reasons import AREAS, REASONS  # noqa: E402

PAGE = ROOT / "docs" / "errors.md"
HEAD = """# Errors with a code

Where Rushlight says no to something that PyTorch has or a user may expect, the exception has a
`code`; why, and what to do instead, travel with it as a note, which tracebacks print. Errors for
wrong calls have PyTorch's class and words, and no code. `rushlight explain RL0401` prints one
entry. Words in braces are filled in. Written by `make docs` from `rushlight/base/reasons.py`.
"""


def page() -> str:
    """The text of the page."""
    lines = [HEAD]
    for area, codes in groupby(sorted(REASONS), key=lambda code: code[:4]):
        lines.append(f"## {AREAS[area]} ({area}xx)\n")
        for code in codes:
            reason = REASONS[code]
            lines += [f"### {code}\n", "```text", reason.what, "```\n"]
            lines += [f"{part}\n" for part in (reason.why, reason.remedy) if part]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    PAGE.write_text(page())
    print(f"{PAGE.relative_to(ROOT)}: {len(REASONS)} codes")


if __name__ == "__main__":
    main()
