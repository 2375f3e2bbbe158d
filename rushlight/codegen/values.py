"""What the steps of a program are made of: values, calls, products, names of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rushlight.codegen.expressions import Expression
from rushlight.codegen.loops import Buffer, Ints
from rushlight.core import dtype as dtypes
from rushlight.core.dtype import dtype
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor, wrap
from rushlight.symbolic.numbers import SymFloat

__all__ = [
    "Call",
    "Name",
    "Operand",
    "Product",
    "Scalar",
    "Value",
    "has_scalars",
    "has_variables",
    "number_tensor",
]


class Value:
    """What a node stands for: an expression over `shape`, or a tensor that only calls see."""

    __slots__ = ("base", "buffer", "dtype", "expr", "name", "shape", "strides")

    def __init__(
        self, name: str, shape: Ints, strides: Ints, dtype: dtype, expr: Expression | None
    ) -> None:
        self.name = name
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.expr = expr
        self.buffer: Buffer | None = None
        # For a view: (op, arguments, place among several results), to make the tensor with.
        self.base: Any = None


class Scalar:
    """A float that is known only when the graph runs: a variable, and once loops read it a tensor
    without dims."""

    __slots__ = ("name", "symbol", "value")

    def __init__(self, name: str, symbol: SymFloat) -> None:
        self.name = name
        self.symbol = symbol
        self.value: Value | None = None


def number_tensor(number: float) -> Tensor:
    return wrap(np.array(number, np.float64), dtypes.float64)


class Call:
    """A step that runs an op on tensors. `results` are the names of what it makes."""

    __slots__ = (
        "args",
        "binds",
        "given",
        "kwargs",
        "made",
        "many",
        "op",
        "picks",
        "results",
        "through_dispatch",
        "views",
    )

    def __init__(
        self,
        op: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
        results: list[str | None],
    ) -> None:
        self.op = op
        self.args = args
        self.kwargs = kwargs
        self.results = results
        # Which of several results is meant, and whether there are several.
        self.picks: int | None = None
        self.many = False
        self.given: set[Buffer] = set()
        self.made: list[Buffer] = []
        self.through_dispatch = False
        # Whether it gives one view of its first argument, made below autograd.
        self.views = False
        # Lines that keep sizes which only its results tell.
        self.binds: list[str] = []

    @property
    def is_barrier(self) -> bool:
        if self.op is number_tensor:
            return False
        is_pure = isinstance(self.op, OpOverload) and not self.op._schema.is_mutable
        return bool(self.binds) or not is_pure

    def reads(self) -> set[Buffer]:
        return self.given

    def writes(self) -> set[Buffer]:
        return set(self.made)

    def __str__(self) -> str:
        names = ", ".join([name or "_" for name in self.results])
        args = ", ".join(map(str, self.args))
        return f"{names} = {self.op}({args})"


# Memory, whether its last two dims are swapped, and the sizes to read it with where they are not
# its own: dense memory holds the elements of other sizes in the same order.
Operand = tuple[Buffer, bool, Ints | None]


class Product:
    """A step that multiplies matrices, or batches of them, through BLAS."""

    __slots__ = ("left", "right", "target")

    is_barrier = False

    def __init__(self, left: Operand, right: Operand, target: Buffer) -> None:
        self.left = left
        self.right = right
        self.target = target

    def reads(self) -> set[Buffer]:
        return {self.left[0], self.right[0]}

    def writes(self) -> set[Buffer]:
        return {self.target}

    def __str__(self) -> str:
        sides = [f"{b}.mT" if swapped else str(b) for b, swapped, _ in (self.left, self.right)]
        return f"{self.target} = {sides[0]} @ {sides[1]}"


class Name:
    """A tensor variable in the arguments of a call."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def has_variables(args: Iterable[Any]) -> bool:
    """Whether an argument is known only when the graph runs, and no tensor."""
    return any(
        [
            isinstance(value, Name) or (isinstance(value, (list, tuple)) and has_variables(value))
            for value in args
        ]
    )


def has_scalars(args: Iterable[Any]) -> bool:
    return any(
        [
            isinstance(value, Scalar) or (isinstance(value, (list, tuple)) and has_scalars(value))
            for value in args
        ]
    )
