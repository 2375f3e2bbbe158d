"""Products of bytes, whose sums are kept in int32."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.op import refuse
from rushlight.opset.kinds import CONTRACTION
from rushlight.opset.registry import op
from rushlight.opset.rules import sample

__all__ = ["int_mm"]

# The most terms of a sum of products of bytes that float32 holds exactly.
EXACT = 2**24 // 2**16


SIGNED, UNSIGNED = (dtypes.int8, np.int8), (dtypes.uint8, np.uint8)


def check_int_mm(self: Any, mat2: Any) -> None:
    for name, value in (("self", self), ("mat2", mat2)):
        if len(value.shape) != 2:
            raise RuntimeError(f"_int_mm: {name} must be a matrix, got {len(value.shape)}-D")
        allowed = SIGNED + UNSIGNED if name == "self" else SIGNED
        if value.dtype not in allowed:
            raise RuntimeError(f"_int_mm: {name} must be of int8, got {value.dtype}")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"_int_mm: self has {self.shape[1]} columns and mat2 {mat2.shape[0]} rows"
        )


int_mm = op(
    "_int_mm(Tensor self, Tensor mat2) -> Tensor",
    kind=CONTRACTION,
    sizes="mk, kn -> mn int32",
    requires=check_int_mm,
    method=False,
    vjp=refuse("its numbers are integers"),
    samples=lambda make: [
        (
            make.ints(3, 4, low=-128, high=127, dtype=dtypes.int8),
            make.ints(4, 2, low=-128, high=127, dtype=dtypes.int8),
        ),
        (
            make.ints(2, 3, low=0, high=255, dtype=dtypes.uint8),
            make.ints(3, 5, low=-128, high=127, dtype=dtypes.int8),
        ),
    ],
    errors=lambda make: [(RuntimeError, sample(make(3, 4), make(4, 2)))],
)


def exact_dtype(self: Any) -> Any:
    """A dtype that holds the sums exactly."""
    return dtypes.float32 if self.shape[1] <= EXACT else dtypes.float64


@int_mm.batch
def _(level: Any, op: Any, self: Any, mat2: Any) -> Any:
    check_int_mm(self, mat2)
    exact = exact_dtype(self)
    return self.to(exact).mm(mat2.to(exact)).to(dtypes.int32)


@int_mm.kernel
def _(xp: Any, self: Any, mat2: Any) -> Any:
    check_int_mm(self, mat2)
    exact = exact_dtype(self).np
    return self.astype(exact).dot(mat2.astype(exact)).astype(np.int32)
