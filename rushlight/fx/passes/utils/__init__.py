"""Finding and fusing parts of graphs: torch's public names."""

from __future__ import annotations

from rushlight.fx.passes.utils.common import compare_graphs, lift_subgraph_as_module

__all__ = ["compare_graphs", "lift_subgraph_as_module"]
