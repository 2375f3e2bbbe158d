"""How ops of aten are said in ONNX: one function each, a module a family.

A translation takes the builder and the op's arguments in the order of its schema, defaults
included. `builder.result` is what the program says of the result.
"""

from __future__ import annotations

from rushlight.onnx.translations import (
    complexes,
    creation,
    indexing,
    network,
    numbers,
    pointwise,
    products,
    quantizing,
    recurrent,
    reductions,
    shapes,
)

__all__ = [
    "complexes",
    "creation",
    "indexing",
    "network",
    "numbers",
    "pointwise",
    "products",
    "quantizing",
    "recurrent",
    "reductions",
    "shapes",
]
