"""First-class dims: dims that are objects, with which tensors are indexed and functions batched.

torch: `functorch.dim`.
"""

from __future__ import annotations

import sys
from typing import Any

from rushlight.func.dim.naming import assigned_names
from rushlight.func.dim.tensors import (
    Dim,
    DimList,
    Tensor,
    _Tensor,
    cat,
    index,
    order,
    softmax,
    split,
    stack,
)
from rushlight.func.errors import DimensionBindError, DimensionMismatchError

__all__ = [
    "Dim",
    "DimList",
    "DimensionBindError",
    "DimensionMismatchError",
    "Tensor",
    "_Tensor",
    "cat",
    "dimlists",
    "dims",
    "index",
    "order",
    "softmax",
    "split",
    "stack",
]


def dims(n: int | None = None, sizes: Any = None) -> Any:
    """New dims, named after the variables that they are assigned to.

    >>> from rushlight.func.dim import dims
    >>> batch, channel = dims(sizes=[None, 3])
    >>> batch, channel.size
    (batch, 3)
    """
    names = wanted_names("dims", n, sizes)
    given = [None] * len(names) if sizes is None else sizes
    made = [Dim(name, -1 if s is None else s) for name, s in zip(names, given, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def dimlists(n: int | None = None, sizes: Any = None) -> Any:
    """New lists of dims; sizes are numbers of dims, or the sizes of all dims of a list."""
    names = wanted_names("dimlists", n, sizes)
    given = [None] * len(names) if sizes is None else sizes
    made = [named_list(name, size) for name, size in zip(names, given, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def named_list(name: str, size: Any) -> DimList:
    made = DimList(name=name)
    if isinstance(size, int):
        made.bind_len(size)
    elif size is not None:
        made.bind_len(len(size))
        for place, bound in enumerate(size):
            if bound is not None:
                made[place].size = bound
    return made


def wanted_names(function: str, n: int | None, sizes: Any) -> list[str]:
    """A name for each dim that the caller of the caller wants."""
    count, names = assigned_names(sys._getframe(2))
    wanted = n if n is not None else None if sizes is None else len(sizes)
    if wanted is None:
        if count == 0:
            raise SyntaxError(
                f"{function}() must be assigned to a sequence of variable names or have argument n "
                "specified"
            )
        wanted = count
    if sizes is not None and len(sizes) != wanted:
        raise ValueError(f"expected {wanted} sizes but found {len(sizes)}")
    if count != wanted:
        names = []
    return [*names, *[f"d{place}" for place in range(len(names), wanted)]]
