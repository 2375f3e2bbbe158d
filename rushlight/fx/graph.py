"""torch's names for graphs and the frames of their code."""

from rushlight.graph.graph import Graph
from rushlight.graph.immutable_collections import immutable_dict
from rushlight.graph.names import Namespace as _Namespace
from rushlight.graph.node import Node, map_arg
from rushlight.graph.printing import (
    CodeGen,
    PythonCode,
    TransformCodeFunc,
    _BoxedCodeGen,
    _PyTreeCodeGen,
    _PyTreeInfo,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)

__all__ = [
    "CodeGen",
    "Graph",
    "Node",
    "PythonCode",
    "TransformCodeFunc",
    "_BoxedCodeGen",
    "_Namespace",
    "_PyTreeCodeGen",
    "_PyTreeInfo",
    "immutable_dict",
    "inplace_methods",
    "magic_methods",
    "map_arg",
    "reflectable_magic_methods",
]
