"""Graphs of ONNX as they are built: values, constants, and the nodes that translations ask for.

A value knows its dtype, for ONNX converts nothing by itself, and its sizes where the program tells.
Numbers that are known when a program runs are int64 (or float, or bool) values without dims.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.onnx.messages import ELEMENT_TYPES, Graph, Info, Node, Weight
from rushlight.onnx.refusals import refuse
from rushlight.symbolic.numbers import SymBool, SymFloat, SymNumber

__all__ = [
    "BOOL", "FLOAT", "INT64", "Builder", "Translation", "Value", "find_translation", "number_type",
    "told", "translates",
]  # fmt: skip

BOOL, INT32, INT64, FLOAT = (dtypes.BY_NAME[name] for name in ("bool", "int32", "int64", "float32"))

# Operators of ONNX that take numbers, and no truth values.
NUMERIC = frozenset(
    (
        *("Abs", "Add", "ArgMax", "ArgMin", "CumSum", "DepthToSpace", "Div", "Einsum", "MatMul"),
        *("Max", "Min", "Mod", "Mul", "Neg", "Pow", "ReduceMax", "ReduceMin", "ReduceProd"),
        *("ReduceSum", "Relu", "Sign", "Sub", "TopK"),
    )
)
Translation = Callable[..., Any]
F = TypeVar("F", bound=Translation)
TABLE: dict[str, Translation] = {}


def translates(*names: str) -> Callable[[F], F]:
    """Registers the translation of ops of aten: `name.overload`, or `name` for every overload."""

    def register(function: F) -> F:
        for name in names:
            TABLE[name] = function
        return function

    return register


def find_translation(name: str, overload: str) -> Translation | None:
    return TABLE.get(f"{name}.{overload}") or TABLE.get(name)


class Value:
    """A value of the graph. `like` is what the program says of it: a tensor, or a number."""

    __slots__ = ("constant", "dtype", "like", "name")

    def __init__(self, name: str, dtype: Any, like: Any = None, constant: Any = None) -> None:
        self.name = name
        self.dtype = dtype
        self.like = like
        # The array, where the value is one that is known.
        self.constant = constant

    @property
    def shape(self) -> tuple[Any, ...]:
        if isinstance(self.like, Tensor):
            return tuple(self.like.shape)
        if self.constant is not None:
            return tuple(self.constant.shape)
        return ()

    @property
    def rank(self) -> int:
        return len(self.shape)


class Builder:
    """A graph that is being made. Graphs within it share its names and its constants."""

    def __init__(self, opset: int, outer: Builder | None = None) -> None:
        self.opset = opset
        self.nodes: list[Node] = []
        self.top: Builder = outer.top if outer is not None else self
        self.names: dict[str, int] = {} if outer is None else outer.names
        self.weights: list[Weight] = []
        self.constants: dict[Any, Value] = {}
        # Symbols of sizes: the input and the dim that say what they are.
        self.symbols: dict[Any, tuple[Value, int]] = {} if outer is None else outer.symbols
        # Symbol -> the name that its user gave it.
        self.dim_names: dict[str, str] = {} if outer is None else outer.dim_names
        # What the node in hand gives, and is called.
        self.result: Any = None
        self.label = ""

    # -- names and nodes ---------------------------------------------------------------------------

    def name(self, wanted: str) -> str:
        count = self.names.get(wanted)
        self.names[wanted] = 1 if count is None else count + 1
        if count is None:
            return wanted
        return self.name(f"{wanted}_{count}")

    def many(
        self, op: str, inputs: Sequence[Value | None], outputs: Sequence[Any], **attributes: Any
    ) -> list[Value]:
        """A node with results of the dtypes `outputs`."""
        if op in NUMERIC and any(each is not None and each.dtype is BOOL for each in inputs):
            inputs = [
                self.cast(each, INT32) if each is not None and each.dtype is BOOL else each
                for each in inputs
            ]
            outputs = [INT32 if each is BOOL else each for each in outputs]
        names = [self.name(self.label or op.lower()) for _ in outputs]
        given = [each.name if each is not None else "" for each in inputs]
        while given and not given[-1]:
            given.pop()
        kept = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(Node(op, given, names, kept, self.name(f"{self.label}/{op}")))
        return [Value(name, dtype) for name, dtype in zip(names, outputs)]

    def op(self, op: str, *inputs: Value | None, dtype: Any = None, **attributes: Any) -> Value:
        """A node with one result, of the first input's dtype unless one is given."""
        if dtype is None:
            dtype = next(each.dtype for each in inputs if each is not None)
        return self.many(op, inputs, [dtype], **attributes)[0]

    # -- constants ---------------------------------------------------------------------------------

    def weight(self, name: str, array: Any, dtype: Any, like: Any = None) -> Value:
        """A tensor with values."""
        unique = self.name(name)
        self.top.weights.append(Weight(unique, dtype, array))
        return Value(unique, dtype, like, array)

    def array(self, array: Any, dtype: Any) -> Value:
        """A small constant; equal ones are one."""
        array = np.asarray(array)
        key = (dtype, array.shape, array.tobytes())
        found = self.top.constants.get(key)
        if found is None:
            found = self.top.constants[key] = self.weight("const", array, dtype)
        return found

    def number(self, value: Any, dtype: Any) -> Value:
        """A number without dims, of a dtype; one that is a value already is converted."""
        if isinstance(value, Value):
            return self.cast(value, dtype)
        return self.array(np.asarray(value).astype(dtype.np), dtype)

    def ints(self, values: Sequence[Any]) -> Value:
        """A list of integers, some of which may be values."""
        if all(not isinstance(value, Value) for value in values):
            return self.array(np.asarray([int(value) for value in values], np.int64), INT64)
        parts: list[Value] = []
        for value in values:
            if isinstance(value, Value):
                parts.append(self.op("Reshape", self.cast(value, INT64), self.ints([1])))
            else:
                parts.append(self.ints([value]))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    # -- conversions -------------------------------------------------------------------------------

    def cast(self, value: Value, dtype: Any) -> Value:
        if value.dtype is dtype:
            return value
        made = self.op("Cast", value, dtype=dtype, to=ELEMENT_TYPES[dtype])
        made.like = value.like
        return made

    def size(self, value: Value, dim: int) -> Any:
        """A size of a value: a number where it is known, else a value."""
        shape = value.shape
        size = shape[dim]
        if isinstance(size, int):
            return size
        dim %= len(shape)
        found = self.op("Shape", value, dtype=INT64, start=dim, end=dim + 1)
        return self.op("Reshape", found, self.array(np.zeros(0, np.int64), INT64))

    def note_symbols(self, value: Value) -> None:
        """Remember the sizes of an input that are symbols."""
        for dim, size in enumerate(value.shape):
            if not isinstance(size, int) and size.node.expr.is_Symbol:
                self.symbols.setdefault(size.node.expr, (value, dim))

    def reshape(self, value: Value, sizes: Sequence[Any]) -> Value:
        """Zeros are sizes, not "as it was"."""
        plain = [size for size in sizes if isinstance(size, int)]
        keep_zero = 1 if 0 in plain and -1 not in plain else None
        return self.op("Reshape", value, self.ints(sizes), allowzero=keep_zero)

    def unsqueeze(self, value: Value, *dims: int) -> Value:
        return self.op("Unsqueeze", value, self.ints(dims))

    def squeeze(self, value: Value, *dims: int) -> Value:
        return self.op("Squeeze", value, self.ints(dims))

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        if list(order) == list(range(len(order))):
            return value
        return self.op("Transpose", value, perm=list(order))

    def slice(self, value: Value, dim: int, start: Any, end: Any, step: int = 1) -> Value:
        return self.op(
            "Slice",
            value,
            self.ints([start]),
            self.ints([end]),
            self.ints([dim]),
            None if step == 1 else self.ints([step]),
        )

    def reduce(self, op: str, value: Value, dims: Sequence[int], keep: bool) -> Value:
        if not dims:
            return self.op(op, value, keepdims=int(keep))
        return self.op(op, value, self.ints(dims), keepdims=int(keep))

    # -- graphs ------------------------------------------------------------------------------------

    def graph(self, name: str, outputs: list[Value]) -> Graph:
        """The graph whose results are `outputs`."""
        infos = [self.info(value) for value in outputs]
        return Graph(name, self.nodes, self.weights, [], infos)

    def info(self, value: Value) -> Info:
        """The type of a value, with names for the sizes that vary."""

        def shown(size: Any) -> int | str:
            if isinstance(size, int):
                return size
            return re.sub(r"\w+", lambda word: self.dim_names.get(word[0], word[0]), str(size))

        dims = None
        if isinstance(value.like, Tensor):
            dims = tuple([shown(size) for size in value.like.shape])
        elif isinstance(value.like, (int, float, SymNumber)):
            dims = ()
        return Info(value.name, value.dtype, dims)


def number_type(value: Any) -> Any:
    """The dtype that a number has as a value."""
    if isinstance(value, (bool, SymBool)):
        return BOOL
    return FLOAT if isinstance(value, (float, SymFloat)) else INT64


def told(builder: Builder, found: Any, like: Any) -> Any:
    """Results that know what the program says of them, in the dtypes that it says."""
    if isinstance(found, Value):
        if isinstance(like, Tensor):
            if like.dtype.is_complex:
                raise refuse(f"a tensor of {like.dtype}")
            found = builder.cast(found, like.dtype)
        found.like = like
    elif isinstance(found, list):
        return [told(builder, each, described) for each, described in zip(found, like)]
    return found
