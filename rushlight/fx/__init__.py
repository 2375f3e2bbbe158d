"""Graphs as plain data: torch's public names, each imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

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

# Running a graph as a module and tracing modules need `nn`, which lies above this package.
LAZY_NAMES = {
    "Argument": "rushlight.fx.node",
    "CodeGen": "rushlight.fx.graph",
    "Graph": "rushlight.fx.graph",
    "GraphModule": "rushlight.nn.graphmodule",
    "Interpreter": "rushlight.fx.interpreter",
    "Node": "rushlight.fx.node",
    "Proxy": "rushlight.fx.proxy",
    "ProxyableClassMeta": "rushlight.nn.tracing",
    "PH": "rushlight.nn.tracing",
    "TraceError": "rushlight.fx.proxy",
    "Tracer": "rushlight.nn.tracing",
    "Transformer": "rushlight.nn.tracing",
    "has_side_effect": "rushlight.fx.node",
    "map_aggregate": "rushlight.fx.node",
    "map_arg": "rushlight.fx.node",
    "replace_pattern": "rushlight.fx.subgraph_rewriter",
    "symbolic_trace": "rushlight.nn.tracing",
    "wrap": "rushlight.nn.tracing",
}
LAZY_MODULES = {
    "graph": "rushlight.fx.graph",
    "graph_module": "rushlight.nn.graphmodule",
    "immutable_collections": "rushlight.fx.immutable_collections",
    "interpreter": "rushlight.fx.interpreter",
    "node": "rushlight.fx.node",
    "passes": "rushlight.fx.passes",
    "proxy": "rushlight.fx.proxy",
    "subgraph_rewriter": "rushlight.fx.subgraph_rewriter",
    "traceback": "rushlight.fx.traceback",
}


def __getattr__(name: str) -> Any:
    if name in LAZY_MODULES:
        return import_module(LAZY_MODULES[name])
    if name in LAZY_NAMES:
        found = getattr(import_module(LAZY_NAMES[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'rushlight.fx' has no attribute '{name}'")
