"""Arrays with derivatives of any order, in NumPy alone: the oracle of the composition tests.

A `Jet` is a polynomial in tags e0, e1, ... with e_k * e_k = 0: one array for each set of tags (a
bit mask). All arrays have TAGS leading axes, one for each tag's directions (size 1 where the tag
does not occur), then the axes of the tensor. A derivative is the coefficient of a tag, so a whole
Jacobian is one evaluation and nesting needs no second rule. Invariant: nothing here is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

TAGS = 6
MARGIN = 1e-4


class AtKinkError(Exception):
    """A value is so close to a kink that its derivative is a matter of convention."""


class UnfitError(Exception):
    """A value is too large to compare: the oracle's own rounding would show."""


class Jet:
    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, np.ndarray]) -> None:
        self.parts = parts

    # -- facts ------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.parts[0].shape[TAGS:]

    @property
    def ndim(self) -> int:
        return self.parts[0].ndim - TAGS

    @property
    def value(self) -> np.ndarray:
        """The array without tags."""
        return self.parts[0].reshape(self.shape)

    # -- linear in the axes of the tensor ---------------------------------------------------------

    def each(self, function: Callable[[np.ndarray], np.ndarray]) -> Jet:
        return Jet({tags: function(part) for tags, part in self.parts.items()})

    def take(self, index: np.ndarray) -> Jet:
        """Elements by their flat positions: every view and every gather."""

        def flat(part: np.ndarray) -> np.ndarray:
            lead = part.shape[:TAGS]
            return part.reshape(*lead, -1)[..., index.reshape(-1)].reshape(*lead, *index.shape)

        return self.each(flat)

    def positions(self) -> np.ndarray:
        return np.arange(math.prod(self.shape)).reshape(self.shape)

    def reshape(self, *shape: int) -> Jet:
        return self.each(lambda part: part.reshape(*part.shape[:TAGS], *shape))

    def expand(self, shape: tuple[int, ...]) -> Jet:
        return self.raised(len(shape)).each(lambda part: filled(part, shape))

    def sum(self, dim: int | tuple[int, ...] | None = None, keepdim: bool = False) -> Jet:
        dims = range(self.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
        axes = tuple(axis % self.ndim + TAGS for axis in dims)
        return self.each(lambda part: part.sum(axis=axes, keepdims=keepdim))

    def mean(self, dim: int | tuple[int, ...] | None = None, keepdim: bool = False) -> Jet:
        total = self.sum(dim, keepdim)
        count = math.prod(self.shape) // max(math.prod(total.shape), 1)
        return total * (1 / count)

    # -- arithmetic -------------------------------------------------------------------------------

    def raised(self, ndim: int) -> Jet:
        """With leading axes of size one, so that tensors of two ranks broadcast."""
        missing = ndim - self.ndim
        if not missing:
            return self
        return self.each(
            lambda part: part.reshape(*part.shape[:TAGS], *(1,) * missing, *part.shape[TAGS:])
        )

    def __add__(self, other: Jet | float | np.ndarray) -> Jet:
        one, two = aligned(self, other)
        found = dict(one.parts)
        for tags, part in two.parts.items():
            found[tags] = found[tags] + part if tags in found else part
        shape = np.broadcast_shapes(one.shape, two.shape)
        return Jet({tags: filled(part, shape) for tags, part in found.items()})

    def __mul__(self, other: Jet | float | np.ndarray) -> Jet:
        if isinstance(other, (int, float)):
            return self.each(lambda part: part * other)
        return product(*aligned(self, other), np.multiply)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Jet:
        return self * -1.0

    def __sub__(self, other: Jet | float | np.ndarray) -> Jet:
        return self + (-jet(other))

    def __rsub__(self, other: Jet | float | np.ndarray) -> Jet:
        return jet(other) - self

    def __truediv__(self, other: Jet | float) -> Jet:
        return self * reciprocal(jet(other))

    def __matmul__(self, other: Jet) -> Jet:
        """Of matrices and stacks of them."""
        ndim = max(self.ndim, other.ndim)
        return product(self.raised(ndim), other.raised(ndim), np.matmul)

    # -- tags -------------------------------------------------------------------------------------

    def without(self, mask: int) -> Jet:
        """The same value, constant in the tags of a mask."""
        return Jet({tags: part for tags, part in self.parts.items() if not tags & mask})

    def nilpotent(self) -> Jet:
        """The parts that have tags: a product of more of these than there are tags is zero."""
        found = {tags: part for tags, part in self.parts.items() if tags}
        found[0] = np.zeros_like(self.parts[0])
        return Jet(found)

    def varied(self, tag: int, directions: Jet) -> Jet:
        """Plus a new tag times `directions`, which has one axis in front: the direction."""

        def moved(part: np.ndarray) -> np.ndarray:
            lead = list(part.shape[:TAGS])
            assert lead[tag] == 1, "the tag is open already"
            lead[tag] = part.shape[TAGS]
            return np.swapaxes(part, tag, TAGS).reshape(*lead, *part.shape[TAGS + 1 :])

        found = dict(self.parts)
        for tags, part in directions.parts.items():
            found[tags | 1 << tag] = moved(part)
        return Jet(found)

    def derivative(self, tag: int, count: int) -> Jet:
        """The coefficient of a tag, with the direction as the axis in front."""
        shape = (count, *self.shape)
        found = {0: np.zeros((1,) * TAGS + shape)}
        for tags, part in self.parts.items():
            if tags >> tag & 1:
                lead = list(part.shape[:TAGS])
                lead[tag] = count
                part = np.broadcast_to(part, (*lead, *self.shape))
                lead[tag] = 1
                moved = np.expand_dims(part, TAGS)
                found[tags & ~(1 << tag)] = np.swapaxes(moved, tag, TAGS).reshape(*lead, *shape)
        return Jet(found)


def jet(value: Jet | float | np.ndarray) -> Jet:
    if isinstance(value, Jet):
        return value
    array = np.asarray(value, dtype=np.float64)
    return Jet({0: array.reshape((1,) * TAGS + array.shape)})


def filled(part: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if part.shape[TAGS:] == shape:
        return part
    return np.broadcast_to(part, (*part.shape[:TAGS], *shape))


def aligned(one: Jet | float | np.ndarray, two: Jet | float | np.ndarray) -> tuple[Jet, Jet]:
    one, two = jet(one), jet(two)
    ndim = max(one.ndim, two.ndim)
    return one.raised(ndim), two.raised(ndim)


def product(one: Jet, two: Jet, times: Callable[..., np.ndarray]) -> Jet:
    """Any bilinear operation on the arrays."""
    found: dict[int, np.ndarray] = {}
    for left, a in one.parts.items():
        for right, b in two.parts.items():
            if not left & right:
                part = times(a, b)
                tags = left | right
                found[tags] = found[tags] + part if tags in found else part
    return Jet(found)


def series(x: Jet, derivative: Callable[[int, np.ndarray], np.ndarray]) -> Jet:
    """An elementwise function from its k-th derivatives at the value."""
    value = x.parts[0]
    found = {0: derivative(0, value)}
    step = Jet({tags: part for tags, part in x.parts.items() if tags})
    raised, order = step, 1
    while raised.parts:
        scale = derivative(order, value) / math.factorial(order)
        for tags, part in raised.parts.items():
            found[tags] = found[tags] + part * scale if tags in found else part * scale
        raised, order = product(raised, step, np.multiply), order + 1
    return Jet(found)


# -- elementwise functions -------------------------------------------------------------------------


def exp(x: Jet) -> Jet:
    # Quotients of exponentials, to the fourth order, stay inside the range of the numbers.
    if x.value.size and not np.abs(x.value).max() < 100:
        raise UnfitError
    return series(x, lambda order, v: np.exp(v))


def log(x: Jet) -> Jet:
    def derivative(order: int, v: np.ndarray) -> np.ndarray:
        return np.log(v) if order == 0 else -math.factorial(order - 1) * (-1.0 / v) ** order

    return series(x, derivative)


def sin(x: Jet) -> Jet:
    return series(x, lambda order, v: np.sin(v + order * np.pi / 2))


def cos(x: Jet) -> Jet:
    return series(x, lambda order, v: np.cos(v + order * np.pi / 2))


def reciprocal(x: Jet) -> Jet:
    return series(x, lambda order, v: math.factorial(order) * (-1.0) ** order / v ** (order + 1))


def power(x: Jet, exponent: float) -> Jet:
    def derivative(order: int, v: np.ndarray) -> np.ndarray:
        falling = math.prod(exponent - i for i in range(order))
        return falling * v ** (exponent - order) if falling else np.zeros_like(v)

    return series(x, derivative)


def sqrt(x: Jet) -> Jet:
    return power(x, 0.5)


def sigmoid(x: Jet) -> Jet:
    return reciprocal(exp(-x) + 1.0)


def tanh(x: Jet) -> Jet:
    return sigmoid(x * 2.0) * 2.0 - 1.0


def softplus(x: Jet) -> Jet:
    return log(exp(x) + 1.0)


def choose(condition: np.ndarray, one: Jet | float, two: Jet | float) -> Jet:
    """`where`, with a condition that has no derivative."""
    mask = condition.astype(np.float64)
    return jet(one) * mask + jet(two) * (1 - mask)


def away_from_zero(array: np.ndarray) -> np.ndarray:
    if array.size and np.abs(array).min() < MARGIN:
        raise AtKinkError
    return array


def is_positive(x: Jet) -> np.ndarray:
    return away_from_zero(x.value) > 0


def maximum(one: Jet | float, two: Jet | float) -> Jet:
    return choose(is_positive(jet(one) - two), one, two)


def minimum(one: Jet | float, two: Jet | float) -> Jet:
    return choose(is_positive(jet(one) - two), two, one)


# -- along a dim -----------------------------------------------------------------------------------


def order_along(x: Jet, dim: int) -> np.ndarray:
    """Flat positions that sort; no two values may be close."""
    by = np.argsort(x.value, axis=dim)
    away_from_zero(np.diff(np.take_along_axis(x.value, by, dim), axis=dim))
    return by


def take_along(x: Jet, index: np.ndarray, dim: int) -> Jet:
    return x.take(np.take_along_axis(x.positions(), index, dim))


def logsumexp(x: Jet, dim: int, keepdim: bool = False) -> Jet:
    return log(exp(x).sum(dim, keepdim))


def softmax(x: Jet, dim: int) -> Jet:
    raised = exp(x)
    return raised / raised.sum(dim, True)


def variance(x: Jet, dim: int, correction: int) -> Jet:
    centred = x - x.mean(dim, True)
    return (centred * centred).sum(dim) * (1 / (x.shape[dim] - correction))


def layer_norm(x: Jet, eps: float) -> Jet:
    centred = x - x.mean(-1, True)
    return centred / sqrt((centred * centred).mean(-1, True) + eps)


def multiply_along(x: Jet, dim: int) -> Jet:
    columns = [x.take(np.take(x.positions(), i, axis=dim)) for i in range(x.shape[dim])]
    found = columns[0]
    for column in columns[1:]:
        found = found * column
    return found


def concatenate(jets: Sequence[Jet], dim: int) -> Jet:
    """Written as a sum of padded parts, so that each may have tags of its own."""
    total = sum(one.shape[dim] for one in jets)
    start, found = 0, None
    for one in jets:
        length = one.shape[dim]
        width = [(0, 0)] * (TAGS + one.ndim)
        width[TAGS + dim % one.ndim] = (start, total - start - length)
        padded = one.each(lambda part, width=width: np.pad(part, width))
        found = padded if found is None else found + padded
        start += length
    assert found is not None
    return found


def stack(jets: Sequence[Jet], dim: int) -> Jet:
    dim %= jets[0].ndim + 1
    return concatenate([one.reshape(*one.shape[:dim], 1, *one.shape[dim:]) for one in jets], dim)


# -- matrices --------------------------------------------------------------------------------------


def transpose(x: Jet) -> Jet:
    return x.take(np.swapaxes(x.positions(), -1, -2))


def inverse(a: Jet) -> Jet:
    """Newton's iteration, which doubles the order that is right."""
    found = Jet({0: np.linalg.inv(a.parts[0])})
    twice = jet(2 * np.eye(a.shape[-1]))
    for _ in range(TAGS.bit_length()):
        found = found @ (twice.raised(a.ndim) - a @ found)
    return found


def logdet(a: Jet) -> Jet:
    """log|det(A + N)| = log|det A| - sum over k of trace((-N / A)^k) / k."""
    found = Jet({0: np.linalg.slogdet(a.parts[0])[1]})
    step = -(Jet({0: np.linalg.inv(a.parts[0])}) @ a.nilpotent())
    raised = step
    for order in range(1, TAGS + 1):
        trace = raised.each(lambda part: np.trace(part, axis1=-2, axis2=-1))
        found = found - trace * (1 / order)
        raised = raised @ step
    return found


class Memory:
    """Elements that tensors share: a flat jet that writes replace."""

    def __init__(self, value: Jet) -> None:
        self.elements = value.reshape(value.positions().size)
        self.whole = value.positions()


class Array:
    """A tensor of the oracle: memory and the flat positions of its elements."""

    def __init__(self, memory: Memory, index: np.ndarray) -> None:
        self.memory = memory
        self.index = index

    @staticmethod
    def of(value: Jet) -> Array:
        memory = Memory(value)
        return Array(memory, memory.whole)

    def read(self) -> Jet:
        if self.index is self.memory.whole:
            return self.memory.elements.reshape(*self.index.shape)
        return self.memory.elements.take(self.index)

    def view(self, index: np.ndarray) -> Array:
        return Array(self.memory, index)

    def write(self, value: Jet) -> None:
        old = self.memory.elements
        source = np.zeros(old.shape, dtype=np.intp)
        is_written = np.zeros(old.shape, dtype=bool)
        source[self.index.reshape(-1)] = np.arange(self.index.size)
        is_written[self.index.reshape(-1)] = True
        new = value.expand(self.index.shape).reshape(-1).take(source)
        self.memory.elements = choose(is_written, new, old)
