"""Decompositions of elementwise ops, read off their texts.

An elementwise op is a text over a math namespace. With `MATH`, a namespace of ops, the text of an
op is the op as a program over others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.arrays.numpy_ import MATH as NUMBER_MATH
from rushlight.arrays.precision import HALVES
from rushlight.core.dtype import COMPLEX, INTEGER, bool_, dtype, float32
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.opset.elementwise import NUMBERS, POINTWISE, number_array
from rushlight.opset.rules import aten

__all__ = ["MATH", "as_tensor", "cast", "from_text", "wide"]

# Ops whose texts have no core ops to say what they do with complex numbers.
REAL = frozenset(("logaddexp", "sgn"))
# What a math namespace calls otherwise than aten does.
NAMES = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow",
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "negative": "neg",
}  # fmt: skip


def as_tensor(number: Any, like: Tensor) -> Tensor:
    """A number as a tensor that a core op takes beside `like`."""
    if isinstance(number, Tensor):
        return number
    found: Tensor = aten.scalar_tensor(number, dtype=like.dtype, device=like.device)
    return found


def cast(tensor: Tensor, to: dtype) -> Tensor:
    return tensor if tensor.dtype is to else aten._to_copy(tensor, dtype=to)


def wide(self: Tensor | None) -> Any:
    """Halves in float32."""
    assert self is not None
    return cast(self, float32) if self.dtype in HALVES else self


class OpMath:
    """The math namespace of ops. Operands are tensors or numbers, one of them a tensor."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        called = NAMES.get(name, name)
        if not hasattr(aten, called):
            called = f"special_{name}"
        single, double = getattr(aten, called), pairwise(called)

        def call(*operands: Any) -> Any:
            if not any([isinstance(operand, Tensor) for operand in operands]):
                return getattr(NUMBER_MATH, name)(*operands).item()
            return (single if len(operands) == 1 else double)(*operands)

        return call

    def subtract(self, x: Tensor, y: Tensor) -> Any:
        return aten.sub(x, y) if isinstance(x, Tensor) else aten.add(aten.neg(y), x)

    def floor_divide(self, x: Tensor, y: Tensor) -> Any:
        return pairwise("div")(x, y, rounding_mode="floor")

    def trunc_divide(self, x: Tensor, y: Tensor) -> Any:
        return pairwise("div")(x, y, rounding_mode="trunc")

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if not isinstance(condition, Tensor):
            return x if condition else y
        like = x if isinstance(x, Tensor) else y
        return aten.where(condition, as_tensor(x, like), as_tensor(y, like))

    def zero_where(self, mask: Tensor, x: Tensor) -> Any:
        return self.where(mask, 0, x)

    def positive(self, x: Tensor) -> Any:
        return x

    def real(self, x: Tensor) -> Any:
        return x if x.dtype.category != COMPLEX else aten.select(aten.view_as_real(x), -1, 0)

    def conj(self, x: Tensor) -> Any:
        return x if x.dtype.category != COMPLEX else aten._conj_physical(x)

    def isfinite(self, x: Tensor) -> Any:
        if x.dtype.category <= INTEGER:
            return aten.full_like(x, True, dtype=bool_)
        return aten.logical_not(aten.logical_or(aten.isinf(x), aten.isnan(x)))

    def sign(self, x: Tensor) -> Any:
        return aten.sign(x)

    def heaviside(self, x: Tensor, values: Tensor) -> Any:
        return self.where(aten.eq(x, 0), values, cast(aten.gt(x, 0), x.dtype))

    def logaddexp(self, x: Tensor, y: Tensor) -> Any:
        return self.log_of_sum(x, y, aten.exp, aten.log1p)

    def logaddexp2(self, x: Tensor, y: Tensor) -> Any:
        return self.log_of_sum(x, y, lambda d: aten.pow(2, d), lambda d: aten.log2(aten.add(d, 1)))

    def log_of_sum(self, x: Tensor, y: Tensor, power: Any, log: Any) -> Any:
        top = aten.maximum(x, y)
        both = aten.logical_and(aten.isinf(x), aten.eq(x, y))
        return self.where(both, x, aten.add(top, log(power(aten.neg(aten.abs(aten.sub(x, y)))))))


# Core ops of two operands that take no number as the second.
TENSORS_ONLY = frozenset(
    ("maximum", "minimum", "atan2", "logical_and", "logical_or", "logical_xor", "fmax", "fmin")
)


def pairwise(name: str) -> Callable[..., Any]:
    """An op of two operands, the first of which may be a number too."""
    packet = getattr(aten, name)

    def call(x: Tensor, y: Tensor, **options: Any) -> Any:
        if not isinstance(x, Tensor):
            x = as_tensor(x, y)
        elif not isinstance(y, Tensor) and name in TENSORS_ONLY:
            y = as_tensor(y, x)
        return packet(x, y, **options)

    return call


MATH = OpMath()


def from_text(op: OpOverload) -> Callable[..., Any]:
    """An elementwise op as the program that its text is."""

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        bound = op.bind(*args, **kwargs)
        if op.base_name in REAL and POINTWISE.common_dtype(op, bound).category == COMPLEX:
            return NotImplemented
        plan = POINTWISE.plan(op, bound)
        operands = list(bound)
        for position, chain in plan.casts:
            value = bound[position]
            if isinstance(value, Tensor):
                for step in chain:
                    value = cast(value, step)
                operands[position] = value
            elif type(value) in NUMBERS:
                operands[position] = number_array(value, chain).item()
        result = op.rule("kernel")(MATH, *operands)
        if isinstance(result, tuple):
            return tuple([cast(entry, plan.result) for entry in result])
        return cast(result, plan.result)

    decomposition.__name__ = decomposition.__qualname__ = op.base_name
    return decomposition
