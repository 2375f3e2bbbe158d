"""Switches of grad mode and of autocast in a graph become regions: graphs that ops call.

A graph is cut at its switches. A part in another mode than the graph is exported in becomes a
graph of its own; the rest stays where it is.
"""

from __future__ import annotations

from rushlight.fx.graph_module import GraphModule

__all__ = ["make_regions"]


def make_regions(module: GraphModule) -> None:
    pass
