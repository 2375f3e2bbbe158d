"""torch's names for graphs and the frames of their code."""

from rushlight.graph.graph import Graph
from rushlight.graph.names import Namespace as _Namespace
from rushlight.graph.printing import (
    CodeGen,
    PythonCode,
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
    "PythonCode",
    "_BoxedCodeGen",
    "_Namespace",
    "_PyTreeCodeGen",
    "_PyTreeInfo",
    "inplace_methods",
    "magic_methods",
    "reflectable_magic_methods",
]
