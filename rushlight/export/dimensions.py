"""`Dim`: names for sizes that may vary, and sizes that follow from others.

A derived dim is `factor * root + offset` with a positive factor; arithmetic on derived dims stays
in that form. Invariant: a dim is known by its name; two of one name mean the same size.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from rushlight.base.errors import annotate, fail, message
from rushlight.capture.exc import UserError, UserErrorType
from rushlight.core.tensor import Tensor

__all__ = ["DerivedDim", "Dim", "DimHint", "DimHintType", "dims", "dynamic_dim", "refuse"]

INFINITE = math.inf


def refuse(code: str, kind: UserErrorType = UserErrorType.INVALID_INPUT, **fields: Any) -> NoReturn:
    """Raises the `UserError` of a code."""
    error = UserError(kind, message(code, **fields), case_name="dynamic_shapes_validation")
    annotate(error, code, **fields)
    raise error


class DimHintType(enum.Enum):
    """How a size without a name of its own is treated."""

    AUTO = enum.auto()  # may vary if nothing speaks against it
    STATIC = enum.auto()  # is what it is in the example
    DYNAMIC = enum.auto()  # must be able to vary


class DimHint:
    """`Dim.AUTO`, `Dim.STATIC`, `Dim.DYNAMIC`; called, the same with bounds."""

    def __init__(
        self, type: DimHintType, min: int | None = None, max: int | None = None, plain: bool = True
    ) -> None:
        self.type = type
        self.min = min
        self.max = max
        self.plain = plain

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        if not self.plain:
            raise TypeError(f"'{type(self)}' object is not callable")
        for name, bound in (("min", min), ("max", max)):
            if bound is not None and bound < 0:
                raise AssertionError(f"{name} must be non-negative, got {bound}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return DimHint(self.type, min, max, plain=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimHint) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def key(self) -> tuple[Any, ...]:
        return self.type, self.min, self.max

    def __repr__(self) -> str:
        bounds = [
            f"{name}={bound}"
            for name, bound in (("min", self.min), ("max", self.max))
            if bound is not None
        ]
        return f"DimHint({', '.join([self.type.name, *bounds])})"


class Dim:
    """A size that may vary, by name, from `min` to `max`.

    >>> from rushlight.export import Dim
    >>> batch = Dim("batch", min=2, max=64)
    >>> 2 * batch + 1
    2*batch + 1
    """

    AUTO: ClassVar[DimHint] = DimHint(DimHintType.AUTO)
    DYNAMIC: ClassVar[DimHint] = DimHint(DimHintType.DYNAMIC)
    STATIC: ClassVar[DimHint] = DimHint(DimHintType.STATIC)

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        lower = 0 if min is None else min
        upper = INFINITE if max is None else max
        if not upper > lower:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.lower: float = lower
        self.upper: float = upper

    @property
    def min(self) -> int:
        return int(self.lower)

    @property
    def max(self) -> float:
        return self.upper

    @property
    def root(self) -> Dim:
        return self

    @property
    def factor(self) -> int:
        return 1

    @property
    def offset(self) -> int:
        return 0

    def derive(self, factor: int, offset: int) -> Dim:
        """`factor * self + offset`, over the root of this dim."""
        factor, offset = factor * self.factor, factor * self.offset + offset
        if factor == 1 and offset == 0:
            return self.root
        return DerivedDim(self.root, factor, offset)

    def __add__(self, other: int) -> Dim:
        if type(other) is not int:
            fail("RL1530", NotImplementedError, other=other, name=self.__name__)
        return self.derive(1, other)

    def __sub__(self, other: int) -> Dim:
        if type(other) is not int:
            fail("RL1531", NotImplementedError, other=other, name=self.__name__)
        return self.derive(1, -other)

    def __rsub__(self, other: object) -> NoReturn:
        fail("RL1532", NotImplementedError, name=self.__name__)

    def __mul__(self, other: int) -> Dim:
        if type(other) is not int or other <= 0:
            fail("RL1533", NotImplementedError, other=other, name=self.__name__)
        return self.derive(other, 0)

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.__name__)

    def key(self) -> tuple[Any, ...]:
        return self.root.__name__, self.factor, self.offset, self.root.lower, self.root.upper

    def __repr__(self) -> str:
        return readable(self.__name__, self.lower, self.upper)


class DerivedDim(Dim):
    """The size `factor * root + offset`."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        self.__name__ = affine_text(root.__name__, factor, offset)
        self._root = root
        self._factor = factor
        self._offset = offset

    @property
    def root(self) -> Dim:
        return self._root

    @property
    def factor(self) -> int:
        return self._factor

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def fn(self) -> Callable[[Any], Any]:
        return lambda value: self.factor * value + self.offset

    @property
    def min(self) -> int:
        lower = self.factor * self.root.min + self.offset
        if lower < 0:
            raise AssertionError(
                f"Expected derived min value of {self.__name__} to be >= 0. Please specify an "
                f"appropriate min value for {self.root.__name__} (currently {self.root.min})."
            )
        return lower

    @property
    def max(self) -> float:
        if self.root.upper == INFINITE:
            return INFINITE
        upper = self.factor * self.root.upper + self.offset
        if upper > sys.maxsize - 1:
            raise AssertionError(
                f"Expected derived max value of {self.__name__} to be <= {sys.maxsize - 1}. Please "
                f"specify an appropriate max value for {self.root.__name__} "
                f"(currently {self.root.upper})."
            )
        return upper

    def __repr__(self) -> str:
        return self.__name__


def affine_text(name: str, factor: int, offset: int) -> str:
    """`factor * name + offset`, as it is written."""
    text = name if factor == 1 else f"{factor}*{name}"
    if offset:
        text += f" {'+' if offset > 0 else '-'} {abs(offset)}"
    return text


def readable(name: str, lower: float | None, upper: float | None) -> str:
    """The call that makes a dim. Sizes below 2 are not reasoned about: a minimum of 2 is none."""
    parts = [repr(name)]
    if lower is not None and lower != 2:
        parts.append(f"min={lower}")
    if upper is not None and upper != INFINITE:
        parts.append(f"max={upper}")
    return f"Dim({', '.join(parts)})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several dims with the same bounds."""
    return tuple(Dim(name, min=min, max=max) for name in names)


# ---------------------------------------------------------------- dynamic_dim


class DynamicDim:
    """A dimension of one tensor, as `dynamic_dim` gives it, with bounds from comparisons."""

    def __init__(
        self,
        tensor: Tensor,
        dim: int,
        lower: float = 0,
        upper: float = INFINITE,
        shared: DynamicDim | None = None,
    ) -> None:
        self.tensor = tensor
        self.dim = dim
        self.lower = lower
        self.upper = upper
        self.shared = shared

    def bounded(self, lower: float = 0, upper: float = INFINITE) -> DynamicDim:
        return DynamicDim(
            self.tensor, self.dim, max(self.lower, lower), min(self.upper, upper), self.shared
        )

    def __ge__(self, lower: int) -> DynamicDim:
        return self.bounded(lower=lower)

    def __gt__(self, lower: int) -> DynamicDim:
        return self.bounded(lower=lower + 1)

    def __le__(self, upper: int) -> DynamicDim:
        return self.bounded(upper=upper)

    def __lt__(self, upper: int) -> DynamicDim:
        return self.bounded(upper=upper - 1)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, DynamicDim):
            raise TypeError(
                "A dynamic dim is compared with another one, to say that they are equal"
            )
        return DynamicDim(
            self.tensor,
            self.dim,
            max(self.lower, other.lower),
            min(self.upper, other.upper),
            shared=other,
        )

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "Cannot determine truth value of a dynamic dim. Bounds that are combined by `and` or "
            "by a chain of comparisons are to be given one by one."
        )


def dynamic_dim(t: Tensor, index: int) -> DynamicDim:
    """Marks a dimension of a tensor as one that may vary. `Dim` is the newer way."""
    if not isinstance(t, Tensor):
        refuse("RL1534", UserErrorType.DYNAMIC_DIM, actual=type(t))
    if t.dim() < 1:
        refuse("RL1535", UserErrorType.DYNAMIC_DIM)
    if index >= t.dim():
        refuse("RL1536", UserErrorType.DYNAMIC_DIM, last=t.dim() - 1, index=index)
    return DynamicDim(t, index)
