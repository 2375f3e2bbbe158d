"""Complex tensors as two real ones, and Fourier transforms as products with matrices of waves.

ONNX Runtime computes with no complex numbers. What moves elements moves them in both parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.dtype import dtype
from rushlight.onnx.building import INT64, Builder, Value, find_translation, translates
from rushlight.onnx.refusals import refuse, refuse_op

__all__ = ["Complex", "translate_complex"]


class Complex:
    """A complex value: its parts, which know what the program says of them."""

    __slots__ = ("imag", "real")

    def __init__(self, real: Value, imag: Value) -> None:
        self.real = real
        self.imag = imag

    @property
    def rank(self) -> int:
        return self.real.rank


# Ops that move elements, whatever they are.
MOVES = frozenset(
    (
        "alias", "cat", "clone", "constant_pad_nd", "expand", "flip", "index_select", "pad",
        "permute", "repeat", "reshape", "roll", "select", "slice", "split", "split_with_sizes",
        "squeeze", "stack", "t", "transpose", "unbind", "unfold", "unsqueeze", "view", "detach",
        "lift_fresh_copy", "mean", "sum",
    )
)  # fmt: skip


def translate_complex(b: Builder, name: str, overload: str, args: Sequence[Any]) -> Any:
    """The result of an op with complex operands."""
    found = COMPUTED.get(f"{name}.{overload}") or COMPUTED.get(name)
    if found is not None:
        return found(b, *args)
    translation = find_translation(name, overload)
    if name not in MOVES or translation is None:
        raise refuse_op(f"aten.{name}.{overload} of complex numbers")
    like = b.result
    b.result = part_of(like)
    parts = [
        told_parts(translation(b, *[part(arg, which) for arg in args]), b.result)
        for which in ("real", "imag")
    ]
    b.result = like
    return paired(*parts)


def part(value: Any, which: str) -> Any:
    if isinstance(value, list):
        return [part(each, which) for each in value]
    return getattr(value, which) if isinstance(value, Complex) else value


def part_of(like: Any) -> Any:
    """What is said of each part of what is said."""
    if isinstance(like, (list, tuple)):
        return [part_of(each) for each in like]
    return like.new_empty(like.shape, dtype=real_dtype(like.dtype))


def told_parts(found: Any, like: Any) -> Any:
    if isinstance(found, list):
        return [told_parts(each, described) for each, described in zip(found, like)]
    found.like = like
    return found


def paired(real: Any, imag: Any) -> Any:
    if isinstance(real, list):
        return [paired(*pair) for pair in zip(real, imag, strict=True)]
    return Complex(real, imag)


def real_dtype(kind: dtype) -> Any:
    return kind.to_real()


def made(b: Builder, real: Value, imag: Value) -> Complex:
    like = part_of(b.result)
    return Complex(told_parts(real, like), told_parts(imag, like))


# -- computing -------------------------------------------------------------------------------------


def parts_in(b: Builder, value: Any, of: Any) -> tuple[Value, Value | None]:
    """The parts of an operand; None for the imaginary part of a real one."""
    if isinstance(value, Complex):
        return value.real, value.imag
    if isinstance(value, complex):
        return b.number(value.real, of), b.number(value.imag, of)
    return b.number(value, of), None


def dtype_of(*values: Any) -> Any:
    return next(each.real.dtype for each in values if isinstance(each, Complex))


def mul(b: Builder, x: Any, y: Any) -> Complex:
    of = dtype_of(x, y)
    (a, c), (d, e) = parts_in(b, x, of), parts_in(b, y, of)
    if c is None or e is None:
        plain, one, two = (a, d, e) if c is None else (d, a, c)
        assert two is not None
        return made(b, b.op("Mul", one, plain), b.op("Mul", two, plain))
    real = b.op("Sub", b.op("Mul", a, d), b.op("Mul", c, e))
    return made(b, real, b.op("Add", b.op("Mul", a, e), b.op("Mul", c, d)))


def div(b: Builder, x: Any, y: Any) -> Complex:
    if isinstance(y, (Complex, complex)):
        raise refuse("a division by complex numbers")
    by = b.number(y, dtype_of(x))
    return made(b, b.op("Div", x.real, by), b.op("Div", x.imag, by))


def summed(op: str) -> Any:
    def apply(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Complex:
        if alpha != 1:
            raise refuse("a sum of complex numbers with a factor")
        of = dtype_of(x, y)
        (a, c), (d, e) = parts_in(b, x, of), parts_in(b, y, of)
        zero = b.number(0.0, of)
        imag = b.op(op, zero if c is None else c, zero if e is None else e)
        sized = b.op("Expand", imag, b.op("Shape", real := b.op(op, a, d), dtype=INT64))
        return made(b, real, sized)

    return apply


def conj(b: Builder, x: Complex) -> Complex:
    return Complex(x.real, told_parts(b.op("Neg", x.imag), x.imag.like))


def neg(b: Builder, x: Complex) -> Complex:
    return made(b, b.op("Neg", x.real), b.op("Neg", x.imag))


def magnitude(b: Builder, x: Complex) -> Value:
    square = b.op("Add", b.op("Mul", x.real, x.real), b.op("Mul", x.imag, x.imag))
    return b.op("Sqrt", square)


def angle(b: Builder, x: Complex) -> Any:
    translation = find_translation("atan2", "default")
    assert translation is not None
    return translation(b, x.imag, x.real)


def view_as_real(b: Builder, x: Complex) -> Value:
    return b.op("Concat", b.unsqueeze(x.real, -1), b.unsqueeze(x.imag, -1), axis=-1)


@translates("view_as_complex.default")
def view_as_complex(b: Builder, x: Value) -> Complex:
    parts = [b.op("Gather", x, b.number(place, INT64), axis=-1) for place in (0, 1)]
    return made(b, *parts)


@translates("complex.default")
def complex_(b: Builder, real: Value, imag: Value) -> Complex:
    return made(b, b.op("Identity", real), b.op("Identity", imag))


# -- Fourier transforms ----------------------------------------------------------------------------


def waves(
    b: Builder, rows: int, columns: int, size: int, sign: int, of: Any, weights: Any = 1.0
) -> tuple[Value, Value]:
    """(cosines, sines) of the product of row and column over `size` turns."""
    # Whole turns are left out before the angle is rounded.
    turns = np.outer(np.arange(rows), np.arange(columns)) % size
    angles = 2 * np.pi * turns / size
    parts = [np.cos(angles) * weights, sign * np.sin(angles) * weights]
    # What is nearly nothing is nothing, whose sign tells angles.
    cosines, sines = [np.where(np.abs(each) < 1e-12, 0.0, each).astype(of.np) for each in parts]
    return b.array(cosines, of), b.array(sines, of)


def along(b: Builder, x: Value, dim: int, matrix: Value) -> Value:
    """The product with a matrix along a dim."""
    order = [axis for axis in range(x.rank) if axis != dim] + [dim]
    back = sorted(range(x.rank), key=order.__getitem__)
    return b.transpose(b.op("MatMul", b.transpose(x, order), matrix), back)


def size_along(x: Value, dim: int) -> int:
    size = x.shape[dim]
    if type(size) is not int:
        raise refuse("a Fourier transform over a size that varies")
    return size


def scaled(b: Builder, parts: Sequence[Value], mode: int, count: int) -> list[Value]:
    """torch: 0 leaves sums as they are, 1 divides them by the root of their length, 2 by that."""
    if mode == 0:
        return list(parts)
    by = b.number(count**-0.5 if mode == 1 else 1 / count, parts[0].dtype)
    return [b.op("Mul", each, by) for each in parts]


def turned(b: Builder, x: Complex, dim: int, sign: int) -> Complex:
    """One dim of a complex transform; the sizes stay."""
    size = size_along(x.real, dim)
    cosines, sines = waves(b, size, size, size, sign, x.real.dtype)
    products = [along(b, each, dim, m) for each in (x.real, x.imag) for m in (cosines, sines)]
    real = b.op("Sub", products[0], products[3])
    imag = b.op("Add", products[1], products[2])
    return Complex(told_parts(real, x.real.like), told_parts(imag, x.real.like))


@translates("_fft_r2c.default")
def from_real(b: Builder, x: Value, dims: Sequence[int], mode: int, onesided: bool) -> Complex:
    dims = [dim % x.rank for dim in dims]
    size = size_along(x, dims[-1])
    columns = size // 2 + 1 if onesided else size
    parts = [along(b, x, dims[-1], m) for m in waves(b, size, columns, size, -1, x.dtype)]
    found = made(b, parts[0], parts[1])
    count = size
    for dim in dims[:-1]:
        count *= size_along(x, dim)
        found = turned(b, found, dim, -1)
    return made(b, *scaled(b, (found.real, found.imag), mode, count))


def between(b: Builder, x: Complex, dims: Sequence[int], mode: int, forward: bool) -> Complex:
    count, found = 1, x
    for dim in dims:
        count *= size_along(x.real, dim)
        found = turned(b, found, dim % x.rank, -1 if forward else 1)
    return made(b, *scaled(b, (found.real, found.imag), mode, count))


def to_real(b: Builder, x: Complex, dims: Sequence[int], mode: int, size: Any) -> Value:
    if type(size) is not int:
        raise refuse("a Fourier transform over a size that varies")
    dims = [dim % x.rank for dim in dims]
    count, found = size, x
    for dim in dims[:-1]:
        count *= size_along(x.real, dim)
        found = turned(b, found, dim, 1)
    rows = size // 2 + 1
    if size_along(x.real, dims[-1]) != rows:
        raise refuse("a Fourier transform of more or fewer waves than its result has")
    # Waves that are left out are those that are there, turned the other way.
    weights = np.full((rows, 1), 2.0)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    cosines, sines = waves(b, rows, size, size, -1, x.real.dtype, weights)
    parts = along(b, found.real, dims[-1], cosines), along(b, found.imag, dims[-1], sines)
    return scaled(b, [b.op("Add", *parts)], mode, count)[0]


COMPUTED: dict[str, Any] = {
    "mul.Tensor": mul, "mul.Scalar": mul, "div.Tensor": div, "div.Scalar": div,
    "add.Tensor": summed("Add"), "sub.Tensor": summed("Sub"), "_conj": conj,
    "_conj_physical": conj, "conj_physical": conj, "neg": neg, "abs": magnitude,
    "angle": angle, "view_as_real": view_as_real, "_fft_c2c": between, "_fft_c2r": to_real,
}  # fmt: skip
