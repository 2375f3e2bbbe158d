"""Graphs of programs, and what traces, runs and rewrites them: torch's public names.

Graphs themselves are plain data in `rushlight.graph`. Every name is imported when first used.
"""

from __future__ import annotations

from rushlight.base.lazy import namespace

__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

HOMES = {
    "Argument": ".node",
    "CodeGen": ".graph",
    "Graph": ".graph",
    "GraphModule": ".graph_module",
    "Interpreter": ".interpreter",
    "Node": ".node",
    "PH": ".tracing",
    "Proxy": ".proxy",
    "ProxyableClassMeta": ".tracing",
    "TraceError": ".proxy",
    "Tracer": ".tracing",
    "Transformer": ".interpreter",
    "has_side_effect": ".node",
    "map_aggregate": ".node",
    "map_arg": ".node",
    "replace_pattern": ".subgraph_rewriter",
    "symbolic_trace": ".tracing",
    "wrap": ".tracing",
}
MODULES = (
    "graph",
    "graph_module",
    "immutable_collections",
    "interpreter",
    "node",
    "operator_schemas",
    "passes",
    "proxy",
    "subgraph_rewriter",
    "traceback",
)

__getattr__, __dir__ = namespace(__name__, HOMES, MODULES)
