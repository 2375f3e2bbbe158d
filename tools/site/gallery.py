"""The gallery: programs of examples/gallery, what they print and the pictures that they write."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from pages import Page, fenced, prose

__all__ = ["pages"]

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "examples" / "gallery"
LIMIT = 120


@cache
def pages() -> tuple[Page, ...]:
    beside: dict[str, bytes | str] = {}
    parts = [
        "# Gallery\n",
        "Programs as PyTorch users write them, run by `rushlight run` while this page was built.\n",
    ]
    parts += [shown(program, beside) for program in sorted(PROGRAMS.glob("*.py"))]
    return (Page("Gallery", "gallery.md", "\n".join(parts), beside),)


def shown(program: Path, beside: dict[str, bytes | str]) -> str:
    text = program.read_text(encoding="utf-8")
    _, docstring, code = text.split('"""', 2)
    title, _, rest = docstring.strip().partition("\n")
    with tempfile.TemporaryDirectory() as place:
        printed = run(program, place)
        made = sorted(Path(place).iterdir())
        parts = [f"## {title.rstrip('.')}\n", prose(rest), fenced(code.strip(), "python")]
        parts.append(fenced(printed, "text"))
        for picture in made:
            name = f"{program.stem}-{picture.name}"
            beside[f"gallery/{name}"] = picture.read_bytes()
            parts.append(embedded(name, title))
    return "\n".join(parts)


def run(program: Path, place: str) -> str:
    """What a program prints, run in a folder of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", str(program)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if done.returncode:
        raise RuntimeError(f"{program.name} of the gallery fails:\n{done.stderr}")
    return done.stdout


def embedded(name: str, title: str) -> str:
    if name.endswith(".html"):
        frame = f'<iframe src="{name}" width="100%" height="480" title="{title}"></iframe>'
        return f"{frame}\n\n[alone](gallery/{name})\n"
    return f"![{title}](gallery/{name})\n"
