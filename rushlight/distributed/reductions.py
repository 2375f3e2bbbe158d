"""How values of several processes become one: the reductions, as functions of arrays."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

__all__ = ["ReduceOp", "combiner", "finish_average", "reduce_op", "supports_complex"]


class ReduceOp(Enum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


reduce_op = ReduceOp
# torch: the enumeration within the class.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]

COMBINERS: dict[ReduceOp, Callable[..., Any]] = {
    ReduceOp.SUM: np.add,
    ReduceOp.AVG: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}
BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
# torch: how its errors call the integral dtypes.
OLD_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long",
}  # fmt: skip


def supports_complex(reduceOp: Any) -> bool:
    """Whether a reduction is defined for complex numbers."""
    return reduceOp not in (
        ReduceOp.MAX,
        ReduceOp.MIN,
        ReduceOp.PRODUCT,
        *BITWISE,
    )


def combiner(reduction: Any, dtype: np.dtype[Any], caller: str) -> Callable[..., Any]:
    """The function (a, b, out) of a reduction over arrays of `dtype`."""
    if not isinstance(reduction, ReduceOp):
        raise TypeError(f"{caller}: op must be a ReduceOp, got {type(reduction).__name__}")
    if reduction is ReduceOp.PREMUL_SUM:
        raise RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo")
    if dtype.kind == "c" and not supports_complex(reduction):
        raise ValueError(f"{caller} does not support RedOpType.{reduction.name} on complex tensors")
    integral = dtype.kind in "biu"
    if reduction in BITWISE and not integral:
        raise RuntimeError(f"Cannot use ReduceOp.{reduction.name} with non-integral dtype")
    if reduction is ReduceOp.AVG and integral:
        name = OLD_NAMES.get(dtype.name, dtype.name)
        raise RuntimeError(f"result type Float can't be cast to the desired output type {name}")
    return COMBINERS[reduction]


def finish_average(reduction: Any, values: Any, count: int) -> None:
    """Divide sums by the number of processes where the reduction is an average."""
    if reduction is ReduceOp.AVG:
        np.divide(values, np.asarray(count, values.dtype), out=values)
