"""A picture as inline SVG, and as one HTML page that needs nothing from elsewhere."""

from __future__ import annotations

from html import escape

from rushlight.viz.collect import Picture, Vertex
from rushlight.viz.graphs import saved_lines
from rushlight.viz.layout import layered

__all__ = ["page", "svg"]

CHARACTER, LINE, MARGIN = 6.7, 15.0, 9.0

STYLE = """
body { margin: 1rem; font: 14px system-ui, sans-serif; color: #222; background: #fff; }
.graph { font: 11px ui-monospace, monospace; }
.graph rect { stroke: #8a8a8a; fill: #f4f4f4; }
.graph .output rect { fill: #d5e8d4; }
.graph .leaf rect { fill: #dae8fc; }
.graph .function rect { fill: #ffe6cc; }
.graph .more rect { stroke: none; fill: none; }
.graph text { fill: #222; text-anchor: middle; }
.graph .title { font-weight: 600; }
.graph path { fill: none; stroke: #999; }
.graph path.head { fill: #999; stroke: none; }
.graph g.box:hover rect { stroke: #000; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1c1c1c; }
  .graph text { fill: #eee; }
  .graph rect { fill: #333; }
  .graph .output rect { fill: #2f5d34; }
  .graph .leaf rect { fill: #27456b; }
  .graph .function rect { fill: #6b4a1f; }
}
"""


def box_lines(vertex: Vertex) -> list[str]:
    lines = [vertex.title]
    if vertex.shape:
        lines.append(vertex.shape)
    return lines + saved_lines(vertex)


def svg(picture: Picture) -> str:
    """The picture as one `<svg>` element, with its style."""
    texts = [box_lines(vertex) for vertex in picture.vertices]
    sizes = [
        (max(len(line) for line in lines) * CHARACTER + 2 * MARGIN, len(lines) * LINE + MARGIN)
        for lines in texts
    ]
    edges = [
        (target.number, vertex.number) for vertex in picture.vertices for target in vertex.inputs
    ]
    layout = layered(sizes, edges)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" width="{layout.width:.0f}" '
        f'height="{layout.height:.0f}" viewBox="0 0 {layout.width:.0f} {layout.height:.0f}" '
        f'role="img" aria-label="{escape(picture.summary, quote=True)}">',
        f"<style>{STYLE}</style>",
    ]
    for route in layout.routes:
        out.append(f'<path d="{curve(route)}"/>')
        x, y = route[-1]
        out.append(f'<path class="head" d="M{x:.1f} {y:.1f}l-3.5 -7h7z"/>')
    for vertex, lines, (width, height), (x, y) in zip(
        picture.vertices, texts, sizes, layout.centers, strict=True
    ):
        out.append(f'<g class="box {vertex.kind}">')
        out.append(f"<title>{escape(', '.join(lines))}</title>")
        radius = 8 if vertex.kind in ("leaf", "output") else 2
        out.append(
            f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="{radius}"/>'
        )
        top = y - height / 2 + MARGIN / 2 + LINE * 0.75
        for number, line in enumerate(lines):
            kind = ' class="title"' if number == 0 else ""
            out.append(
                f'<text{kind} x="{x:.1f}" y="{top + number * LINE:.1f}">{escape(line)}</text>'
            )
        out.append("</g>")
    out.append("</svg>")
    return "\n".join(out)


def curve(route: list[tuple[float, float]]) -> str:
    """A smooth path through points that lie below one another."""
    x, y = route[0]
    parts = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in route[1:]:
        middle = (y + next_y) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return "".join(parts)


def page(picture: Picture) -> str:
    names = ", ".join(vertex.title for vertex in picture.outputs)
    title = escape(f"Autograd graph of {names}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{title}</title>\n</head>\n<body>\n<p>{title}: {escape(picture.summary)}</p>\n"
        f"{svg(picture)}\n</body>\n</html>"
    )
