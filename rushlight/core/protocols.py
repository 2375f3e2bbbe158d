"""Types that signatures of the engine share. Read by type checkers, never imported when running."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rushlight.core.device import device
from rushlight.core.dtype import dtype
from rushlight.symbolic.numbers import IntLike, SymNumber

if TYPE_CHECKING:
    from rushlight.core.op import OpOverload

# What an op is called with: as written by a caller, and in the order of its schema.
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Function = Callable[..., Any]

Array = np.ndarray[Any, Any]
# A number of Python's, or one that may be a symbol.
Scalar = complex | SymNumber
Sizes = Sequence[IntLike]
Strides = Sequence[IntLike]
# A dim's name as users write it: `...` stands for the dims that are not named.
DimName = str | EllipsisType | None
# As users name them.
DeviceLike = device | str | int
DtypeLike = dtype | type


class OpKind(Protocol):
    """How the ops of one kind are computed and what follows from that (`opset.kinds.Kind`)."""

    @property
    def name(self) -> str: ...
    @property
    def options(self) -> Mapping[str, str]: ...
    @property
    def recompute(self) -> bool: ...
    def may_raise(self, op: OpOverload) -> bool: ...
    def derive(self, op: OpOverload, rule: str) -> Any: ...
    def make_backend(self, op: OpOverload) -> Function: ...
    def array_kernel(self, op: OpOverload) -> Function: ...
    def run_shape(self, op: OpOverload, args: Args) -> Any: ...
    def shells(self, op: OpOverload, args: Args) -> Any: ...
