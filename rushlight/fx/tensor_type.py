"""Types of tensors by their dims, where a dim may be any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.symbolic.numbers import SymInt

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class AnyType:
    """Stands where nothing is known."""

    __name__ = "_DynType"

    def __repr__(self) -> str:
        return "Dyn"


Dyn = AnyType()


class TensorType:
    """A tensor of these dims.

    >>> from rushlight.fx.tensor_type import Dyn, TensorType, is_consistent
    >>> is_consistent(TensorType((2, Dyn)), TensorType((2, 3)))
    True
    """

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(tuple(self.__args__))

    def __class_getitem__(cls, *args: Any) -> TensorType:
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


def pairwise(first: Any, second: Any, fits: Any) -> bool:
    if not (isinstance(first, TensorType) and isinstance(second, TensorType)):
        return False
    if len(first.__args__) != len(second.__args__):
        return False
    return all([fits(a, b) for a, b in zip(first.__args__, second.__args__, strict=True)])


def is_consistent(t1: Any, t2: Any) -> bool:
    """Whether some tensor, or some number, is of both types."""
    if t1 is Dyn or t2 is Dyn or t1 == t2 or isinstance(t1, SymInt) or isinstance(t2, SymInt):
        return True
    return pairwise(t1, t2, is_consistent)


def is_more_precise(t1: Any, t2: Any) -> bool:
    """Whether every tensor of type `t1` is of type `t2`."""
    if t2 is Dyn or t1 == t2 or isinstance(t2, SymInt):
        return True
    return pairwise(t1, t2, is_more_precise)
