"""Products of matrices that come in groups, and how scaled ones say what their scales are of."""

from __future__ import annotations

from enum import Enum
from typing import Any

from rushlight.opset import functions

__all__ = ["ScalingType", "SwizzleType", "assert_int_or_pair", "grouped_mm"]


class ScalingType(Enum):
    """What one scale of a low-precision matrix is of."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """How scales lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Raise `message`, with the name filled in, unless `arg` is a number or a pair."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


def grouped_mm(
    mat_a: Any, mat_b: Any, *, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Products of groups: matrices of both sides, or slices of one that `offs` gives the ends of.

    >>> import rushlight as torch
    >>> import rushlight.nn.functional as F
    >>> a, b = torch.ones(3, 2), torch.ones(2, 2, 4)
    >>> F.grouped_mm(a, b, offs=torch.tensor([1, 3], dtype=torch.int32)).shape
    torch.Size([3, 4])
    """
    if bias is not None:
        raise RuntimeError("grouped_mm(): bias is not supported yet")
    flat = mat_a.dim() == 2 or mat_b.dim() == 2
    if flat != (offs is not None):
        raise RuntimeError(
            "grouped_mm(): `offs` is for operands of two dims, and needed where there is one"
        )
    if not flat:
        found = functions.bmm(mat_a, mat_b)
    else:
        ends = offs.tolist()
        found = sliced(mat_a, mat_b, list(zip([0, *ends], ends)))
    return found if out_dtype is None else found.to(out_dtype)


def sliced(a: Any, b: Any, groups: list[tuple[int, int]]) -> Any:
    if a.dim() == 2 and b.dim() == 2:
        return functions.stack([a[:, i:j] @ b[i:j] for i, j in groups])
    if a.dim() == 2:
        return functions.cat([a[i:j] @ b[g] for g, (i, j) in enumerate(groups)])
    return functions.cat([a[g] @ b[:, i:j] for g, (i, j) in enumerate(groups)], -1)
