"""Pictures of autograd graphs, of fx graphs and of compiled functions."""

from rushlight.viz.compiled import CompiledDrawing, compiled
from rushlight.viz.graphs import Drawing, graph
from rushlight.viz.programs import ProgramDrawing, program

__all__ = ["CompiledDrawing", "Drawing", "ProgramDrawing", "compiled", "graph", "program"]
