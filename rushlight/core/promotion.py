"""Type promotion: which dtype an operation on several operands computes in.

`promote_types` joins two dtypes; `result_type` also weighs what the operands are,
for a tensor with dimensions outranks a 0-dim tensor, which outranks a Python number:
an operand of lower rank counts only where its category is higher. The table is
computed on demand and remembered; nothing here depends on values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from rushlight.base.errors import error
from rushlight.core import dtype as dtypes
from rushlight.core.dtype import BOOL, COMPLEX, FLOAT, FLOAT8, INTEGER, SHELLS, dtype
from rushlight.symbolic.numbers import SymBool

if TYPE_CHECKING:
    from rushlight.core.protocols import Scalar

# Ranks of operands.
DIM: Final = 0
ZERO_DIM: Final = 1
WRAPPED: Final = 2

# Unsigned types that promote with floating point types only.
BAREBONES_UNSIGNED: Final = frozenset((dtypes.uint16, dtypes.uint32, dtypes.uint64))

_joined: Final[dict[tuple[dtype, dtype], dtype]] = {}
_results: Final[dict[tuple[dtype, bool, dtype, bool], dtype]] = {}
_scalar_results: Final[dict[tuple[dtype, dtype], dtype]] = {}


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that holds both, in torch's lattice."""
    if type1 is type2:
        return type1
    found = _joined.get((type1, type2))
    if found is None:
        found = _joined[type1, type2] = join(type1, type2)
    return found


def join(a: dtype, b: dtype) -> dtype:
    """`promote_types` of two different dtypes, from the rules."""
    check_dtype("promote_types", "type1", 1, a)
    check_dtype("promote_types", "type2", 2, b)
    for each in (a, b):
        if each.code in SHELLS:
            raise error("RL0018", NotImplementedError, dtype=each.name)
    if a in FLOAT8 or b in FLOAT8:
        refuse("Float8 Types", a, b)
    if a in BAREBONES_UNSIGNED or b in BAREBONES_UNSIGNED:
        other = b if a in BAREBONES_UNSIGNED else a
        if other.category != FLOAT:
            refuse("uint16, uint32, uint64 types", a, b)
        return other
    if a.category > b.category:
        a, b = b, a
    if b.category == COMPLEX and a.category >= FLOAT:
        return promote_types(a.real, b.real).to_complex()
    if a.category != b.category:
        return b
    if a.itemsize != b.itemsize:
        return a if a.itemsize > b.itemsize else b
    # Two of one size that differ: uint8 with int8, or float16 with bfloat16.
    return dtypes.int16 if a.category == INTEGER else dtypes.float32


def refuse(what: str, a: dtype, b: dtype) -> None:
    raise RuntimeError(
        f"Promotion for {what} is not supported, attempted to promote"
        f" {a.scalar_type_name} and {b.scalar_type_name}"
    )


def check_dtype(function: str, argument: str, position: int, value: object) -> None:
    if not isinstance(value, dtype):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be torch.dtype,"
            f" not {type(value).__name__}"
        )


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of `from_` may be written to `to`: no category is lost."""
    check_dtype("can_cast", "from_", 1, from_)
    check_dtype("can_cast", "to", 2, to)
    # A float may not lose its fraction nor an integer become a truth value,
    # yet widths and signs do not matter.
    return from_.category <= to.category


def scalar_dtype(value: Scalar) -> dtype:
    """The dtype a Python (or symbolic) number counts as."""
    cls = type(value)
    if cls is float:
        return dtypes.default_dtype
    if cls is int:
        return dtypes.int64
    if cls is bool:
        return dtypes.bool_
    if cls is complex:
        return dtypes.default_complex_dtype
    if isinstance(value, bool | np.bool_):
        return dtypes.bool_
    if isinstance(value, np.generic):
        category = dtypes.from_numpy(value.dtype).category
        if category == INTEGER:
            return dtypes.int64
        return dtypes.default_dtype if category == FLOAT else dtypes.default_complex_dtype
    # Subclasses and symbolic numbers: the narrowest conversion they offer decides.
    if hasattr(cls, "__index__"):
        return dtypes.int64
    if hasattr(cls, "__float__"):
        return dtypes.default_dtype
    if hasattr(cls, "__complex__"):
        return dtypes.default_complex_dtype
    if isinstance(value, SymBool):
        return dtypes.bool_
    raise TypeError(f"expected a number, got {cls.__name__}")


def combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    """Join operands of two ranks: the higher one's dtype unless its category is less."""
    if higher is None or lower is None:
        return higher or lower
    if higher.category == COMPLEX:
        return higher
    if higher.category == FLOAT:
        return higher.to_complex() if lower.category == COMPLEX else higher
    if lower.category == COMPLEX:
        return lower
    if higher.category == BOOL or lower.category == FLOAT:
        return promote_types(higher, lower)
    return higher


def wrapped_dtype(number: dtype) -> dtype:
    """What a wrapped number of this dtype counts as: its own width says nothing."""
    if number.category == FLOAT:
        return dtypes.default_dtype
    if number.category == COMPLEX:
        return dtypes.default_complex_dtype
    return number


def result_type(operands: Iterable[tuple[dtype, int]]) -> dtype:
    """The dtype that operands described as (dtype, rank) compute in."""
    ranks: list[dtype | None] = [None, None, None]
    for operand, rank in operands:
        if rank == WRAPPED:
            operand = wrapped_dtype(operand)
        known = ranks[rank]
        ranks[rank] = operand if known is None else promote_types(known, operand)
    found = combine(ranks[DIM], combine(ranks[ZERO_DIM], ranks[WRAPPED]))
    if found is None:
        raise RuntimeError("result_type() needs at least one operand")
    return found


def result_dtype2(a: dtype, a_is_dim: bool, b: dtype, b_is_dim: bool) -> dtype:
    """`result_type` of two tensors, remembered."""
    if a is b:
        return a
    key = (a, a_is_dim, b, b_is_dim)
    found = _results.get(key)
    if found is None:
        ranks = ((a, DIM if a_is_dim else ZERO_DIM), (b, DIM if b_is_dim else ZERO_DIM))
        found = _results[key] = result_type(ranks)
    return found


def result_dtype_scalar(tensor: dtype, value: Scalar) -> dtype:
    """`result_type` of a tensor, whatever its dimensions, and a Python number."""
    cls = type(value)
    if cls is float and tensor.category >= FLOAT:
        return tensor
    if cls is int and tensor.category >= INTEGER:
        return tensor
    key = (tensor, scalar_dtype(value))
    found = _scalar_results.get(key)
    if found is None:
        found = _scalar_results[key] = result_type(((tensor, DIM), (key[1], WRAPPED)))
    return found
