"""torch's names for nodes and their arguments."""

from rushlight.graph.node import (
    Argument,
    Node,
    Target,
    _side_effectful_functions,
    has_side_effect,
    map_aggregate,
    map_arg,
)

__all__ = [
    "Argument",
    "Node",
    "Target",
    "_side_effectful_functions",
    "has_side_effect",
    "map_aggregate",
    "map_arg",
]
