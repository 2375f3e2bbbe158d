"""Pictures of autograd graphs: as text, as DOT, and as one HTML file."""

from rushlight.viz.graphs import Drawing, graph

__all__ = ["Drawing", "graph"]
