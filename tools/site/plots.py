"""Pages of benchmarks: the tables of docs/benchmarks, each column of ratios drawn."""

from __future__ import annotations

import math
from pathlib import Path

from pages import Page

__all__ = ["pages"]

TABLES = Path(__file__).resolve().parent.parent.parent / "docs" / "benchmarks"
WIDTH, ROW, LEFT = 900, 14, 230
LEAST, MOST = 0.05, 20.0


def pages() -> list[Page]:
    return [page(path) for path in sorted(TABLES.glob("*.md"))]


def page(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    title = text.splitlines()[0].lstrip("# ")
    drawn = []
    beside: dict[str, bytes | str] = {}
    for number, (heading, rows) in enumerate(columns(text)):
        name = f"benchmarks/{path.stem}-{number}.svg"
        beside[name] = svg(rows)
        drawn.append(f"\n## {heading}\n\n![{heading}]({Path(name).name})\n")
    head, _, rest = text.partition("\n\n")
    return Page(title, f"benchmarks/{path.name}", head + "\n\n" + rest + "".join(drawn), beside)


def columns(text: str) -> list[tuple[str, list[tuple[str, float]]]]:
    """Each column of the first table whose cells are numbers, with the first cells as labels."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    if len(lines) < 3:
        return []
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    found = []
    for place, heading in enumerate(table[0][1:], 1):
        rows = []
        for cells in table[2:]:
            try:
                rows.append((cells[0], float(cells[place])))
            except (ValueError, IndexError):
                continue
        if len(rows) > len(table) // 2:
            found.append((heading, sorted(rows, key=lambda row: row[1])))
    return found


def place(ratio: float) -> float:
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (WIDTH - LEFT - 20)


def svg(rows: list[tuple[str, float]]) -> str:
    """Dots on a logarithmic scale: left of 1 is quicker than the peer."""
    height = ROW * (len(rows) + 3)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="10" fill="#888">'
    ]
    for mark in (0.1, 0.2, 0.5, 1, 2, 5, 10):
        x = place(mark)
        colour = "#888" if mark == 1 else "#8883"
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{ROW}" y2="{height}" stroke="{colour}"/>')
        out.append(f'<text x="{x:.1f}" y="10" text-anchor="middle">{mark:g}</text>')
    for number, (label, ratio) in enumerate(rows):
        y = ROW * (number + 2)
        colour = "#2a9d5c" if ratio <= 1 else "#e07a1f" if ratio <= 2 else "#c8372d"
        named = label.replace("&", "&amp;").replace("<", "&lt;")
        out.append(f'<text x="{LEFT - 10}" y="{y + 3}" text-anchor="end">{named}</text>')
        out.append(
            f'<line x1="{place(1):.1f}" x2="{place(ratio):.1f}" y1="{y}" y2="{y}"'
            f' stroke="{colour}" stroke-width="3"/>'
        )
        out.append(f'<circle cx="{place(ratio):.1f}" cy="{y}" r="4" fill="{colour}"/>')
    return "\n".join([*out, "</svg>"])
