"""The messages of an ONNX model: plain data, and its bytes.

Numbers of fields are those of onnx.proto. Tensors beyond a size go into a file beside the model:
a message may not be larger than 2 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.onnx.protobuf import (
    bytes_field,
    float_field,
    floats_field,
    int_field,
    ints_field,
    text_field,
)

__all__ = ["ELEMENT_TYPES", "Graph", "Info", "Model", "Node", "Weight"]

ELEMENT_TYPES: dict[Any, int] = {
    dtypes.BY_NAME[name]: number
    for name, number in (
        ("float32", 1), ("uint8", 2), ("int8", 3), ("uint16", 4), ("int16", 5), ("int32", 6),
        ("int64", 7), ("bool", 9), ("float16", 10), ("float64", 11), ("uint32", 12),
        ("uint64", 13), ("complex64", 14), ("complex128", 15), ("bfloat16", 16),
        ("float8_e4m3fn", 17), ("float8_e4m3fnuz", 18), ("float8_e5m2", 19),
        ("float8_e5m2fnuz", 20),
    )
}  # fmt: skip
# Weights from so many bytes on go into a file beside the model, if there is one.
EXTERNAL_FROM = 1024
ALIGNMENT = 64
FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS = 1, 2, 3, 4, 5, 6, 7, 8


@dataclass
class Weight:
    """A tensor with values."""

    name: str
    dtype: Any
    array: Any

    def raw(self) -> bytes:
        return np.ascontiguousarray(self.array).tobytes()

    def data(self, outside: Outside | None = None) -> bytes:
        """Its message; with `outside` the values of large ones are put there."""
        found = ints_field(1, self.array.shape) + int_field(2, ELEMENT_TYPES[self.dtype])
        found += text_field(8, self.name)
        if outside is None or self.array.nbytes < EXTERNAL_FROM:
            return found + bytes_field(9, self.raw())
        for key, value in outside.put(self.raw()).items():
            found += bytes_field(13, text_field(1, key) + text_field(2, value))
        return found + int_field(14, 1)


class Outside:
    """The file beside a model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: list[bytes] = []
        self.length = 0

    def put(self, raw: bytes) -> dict[str, str]:
        padding = -self.length % ALIGNMENT
        self.parts += [bytes(padding), raw]
        offset = self.length + padding
        self.length = offset + len(raw)
        return {"location": self.name, "offset": str(offset), "length": str(len(raw))}


@dataclass
class Info:
    """The type of a value; a dim is a number or a name."""

    name: str
    dtype: Any
    dims: tuple[int | str, ...] | None

    def data(self) -> bytes:
        kind = int_field(1, ELEMENT_TYPES[self.dtype])
        if self.dims is not None:
            kind += bytes_field(2, b"".join([bytes_field(1, dim_data(dim)) for dim in self.dims]))
        return text_field(1, self.name) + bytes_field(2, bytes_field(1, kind))


def dim_data(dim: int | str) -> bytes:
    return int_field(1, dim) if isinstance(dim, int) else text_field(2, dim)


@dataclass
class Node:
    """A call of an operator of ONNX."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def data(self) -> bytes:
        found = b"".join([text_field(1, name) for name in self.inputs])
        found += b"".join([text_field(2, name) for name in self.outputs])
        found += text_field(3, self.name) + text_field(4, self.op)
        for name, value in self.attributes.items():
            found += bytes_field(5, attribute_data(name, value))
        return found


def attribute_data(name: str, value: Any) -> bytes:
    found = text_field(1, name)
    if isinstance(value, float):
        return found + float_field(2, value) + int_field(20, FLOAT)
    if isinstance(value, int):
        return found + int_field(3, value) + int_field(20, INT)
    if isinstance(value, str):
        return found + text_field(4, value) + int_field(20, STRING)
    if isinstance(value, Weight):
        return found + bytes_field(5, value.data()) + int_field(20, TENSOR)
    if isinstance(value, Graph):
        return found + bytes_field(6, value.data()) + int_field(20, GRAPH)
    if value and isinstance(value[0], float):
        return found + floats_field(7, value) + int_field(20, FLOATS)
    if value and isinstance(value[0], str):
        texts = b"".join([text_field(9, text) for text in value])
        return found + texts + int_field(20, STRINGS)
    return found + ints_field(8, value) + int_field(20, INTS)


@dataclass
class Graph:
    """Nodes in order, what they start from and what comes out."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    weights: list[Weight] = field(default_factory=list)
    inputs: list[Info] = field(default_factory=list)
    outputs: list[Info] = field(default_factory=list)

    def data(self, outside: Outside | None = None) -> bytes:
        found = b"".join([bytes_field(1, node.data()) for node in self.nodes])
        found += text_field(2, self.name)
        parts = [bytes_field(5, weight.data(outside)) for weight in self.weights]
        parts += [bytes_field(11, info.data()) for info in self.inputs]
        parts += [bytes_field(12, info.data()) for info in self.outputs]
        return found + b"".join(parts)


# Version of the operators -> version of the format.
FORMATS = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}


@dataclass
class Model:
    """A graph and the operators it is written in."""

    graph: Graph
    opset: int
    producer: str
    producer_version: str

    def data(self, outside: Outside | None = None) -> bytes:
        found = int_field(1, FORMATS[self.opset]) + text_field(2, self.producer)
        found += text_field(3, self.producer_version)
        found += bytes_field(7, self.graph.data(outside))
        return found + bytes_field(8, text_field(1, "") + int_field(2, self.opset))
