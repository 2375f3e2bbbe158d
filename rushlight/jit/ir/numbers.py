"""Numbers that stand for tensors: `x + 2` as a node of `aten::add.Tensor` has a tensor for the 2.

Such a tensor says less than one that the user made: its dtype does not widen the result. The mark
lies on the tensor, where every copy of a graph finds it again.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor

MARK = "_is_wrapped_number"


def wrap_number(number: bool | int | float | complex) -> Tensor:
    """The tensor that stands for a number in a graph."""
    from rushlight.core.construct import tensor
    from rushlight.core.dtype import bool_, complex128, float64, int64

    dtypes: dict[type, Any] = {bool: bool_, int: int64, float: float64, complex: complex128}
    made: Tensor = tensor(number, dtype=dtypes[type(number)])
    made.__dict__[MARK] = True
    return made


def is_wrapped_number(value: object) -> bool:
    """Whether a constant is a number that stands for a tensor."""
    return isinstance(value, Tensor) and bool(value.__dict__.get(MARK))


def unwrapped_number(value: Any) -> Any:
    """The number behind such a tensor; any other value as it is."""
    return value.item() if is_wrapped_number(value) else value
