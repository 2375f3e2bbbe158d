"""Pictures of autograd graphs and of fx graphs: as text, as DOT, and as one HTML file."""

from rushlight.viz.graphs import Drawing, graph
from rushlight.viz.programs import ProgramDrawing, program

__all__ = ["Drawing", "ProgramDrawing", "graph", "program"]
