"""Pictures of autograd graphs, of fx graphs and of compiled functions and their code."""

from rushlight.viz.compiled import CompiledDrawing, compiled
from rushlight.viz.graphs import Drawing, graph
from rushlight.viz.native import native
from rushlight.viz.programs import ProgramDrawing, program

__all__ = ["CompiledDrawing", "Drawing", "ProgramDrawing", "compiled", "graph", "native", "program"]
