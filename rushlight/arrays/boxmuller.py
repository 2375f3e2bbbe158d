"""Box and Muller's transform, in place on blocks of sixteen uniforms: eight radii, eight angles.

Single precision follows the Cephes library's logf, sinf and cosf, as torch does: the same reduced
arguments, polynomials and order of sums. torch contracts products and sums into one rounding; here
that is done where it shows, so that about one value in 600 differs, by its last bit.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F32Array = NDArray[np.float32]

TWO_PI = 2.0 * math.pi


def operand(value: float) -> F32Array:
    # As a ufunc operand a 0-d array costs less than a NumPy scalar.
    return np.array(value, np.float32)


ONE, HALF, MINUS_TWO = operand(1.0), operand(0.5), operand(-2.0)
FULL_TURN, EIGHTHS = operand(TWO_PI), operand(4.0 / math.pi)
# log(1 + x) = x - x**2 / 2 + x**3 * polynomial.
LOG_TERMS = tuple(
    operand(value)
    for value in (
        7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )
)  # fmt: skip
LOG_TWO_LOW, LOG_TWO_HIGH = operand(-2.12194440e-4), operand(0.693359375)
# An eighth of a turn in three parts, each with few bits.
EIGHTH_PARTS = tuple(
    operand(value) for value in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
)
SINE_TERMS = tuple(
    operand(value) for value in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
)
COSINE_TERMS = tuple(
    operand(value) for value in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
)
# The bits of sqrt(1/2), between which and sqrt(2) mantissas lie.
ROOT_BITS = np.array(0x3F3504F3, np.int32)
SIGN = np.array(-0x80000000, np.int32)
MANTISSA, EXPONENT_AT = np.array(0x7FFFFF, np.int32), np.array(23, np.int32)


def polynomial(x: F32Array, terms: tuple[F32Array, ...], out: F32Array) -> None:
    np.multiply(x, terms[0], out)
    for term in terms[1:-1]:
        out += term
        out *= x
    out += terms[-1]


def logarithm(x: F32Array, y: F32Array, z: F32Array, w: F32Array, e: F32Array) -> None:
    """log of positive numbers, in place; the others are overwritten."""
    bits = x.view(np.int32)
    bits -= ROOT_BITS
    np.right_shift(bits, EXPONENT_AT, y.view(np.int32))
    e[...] = y.view(np.int32)
    bits &= MANTISSA
    bits += ROOT_BITS
    x -= ONE
    np.multiply(x, x, z)
    polynomial(x, LOG_TERMS, y)
    y *= x
    y *= z
    z *= HALF
    y += np.multiply(e, LOG_TWO_LOW, w)
    y -= z
    x += y
    e *= LOG_TWO_HIGH
    x += e


def sine_and_cosine(
    x: F32Array,
    s: F32Array,
    c: F32Array,
    z: F32Array,
    octant: NDArray[np.int32],
    wide: NDArray[np.float64],
) -> None:
    """Of angles within a turn, into `s` and `c`; the others are overwritten."""
    np.multiply(x, EIGHTHS, z)
    octant[...] = z
    octant += 1
    octant &= ~1
    z[...] = octant
    for part in EIGHTH_PARTS:
        np.multiply(z, part, s)
        x += s
    np.multiply(x, x, z)
    polynomial(z, COSINE_TERMS, c)
    c *= z
    multiply_wide(c, z, wide)
    z *= HALF
    wide -= z
    c[...] = wide
    c += ONE
    z += z
    polynomial(z, SINE_TERMS, s)
    s *= z
    multiply_wide(s, x, wide)
    wide += x
    s[...] = wide
    # Sine and cosine change places in every other quarter: where `mask` is all ones.
    sine, cosine, mask = s.view(np.int32), c.view(np.int32), z.view(np.int32)
    np.left_shift(octant, 30, mask)
    mask >>= 31
    changed = x.view(np.int32)
    np.bitwise_xor(sine, cosine, changed)
    changed &= mask
    sine ^= changed
    cosine ^= changed
    # Their signs are the third bits of the octant and of its successor by a quarter.
    np.left_shift(octant, 29, mask)
    mask &= SIGN
    sine ^= mask
    octant += 2
    octant <<= 29
    octant &= SIGN
    cosine ^= octant


def multiply_wide(a: F32Array, b: F32Array, out: NDArray[np.float64]) -> None:
    """The exact product."""
    out[...] = a
    out *= b


# Four floats move as one: the halves of a block are two of these each.
LANE = np.dtype(np.complex128)


class Scratch(threading.local):
    """Memory that a thread's transforms use again, as long as they are not larger."""

    count = 0

    def fit(self, count: int) -> None:
        if count > self.count:
            self.count = count
            self.planes = np.empty(count // 4, LANE)
            self.rows = np.empty((4, count // 2), np.float32)
            self.octant = np.empty(count // 2, np.int32)
            self.wide = np.empty(count // 2, np.float64)


scratch = Scratch()


def transform32(values: F32Array) -> None:
    scratch.fit(values.shape[0])
    lanes = values.view(LANE).reshape(-1, 4)
    planes = scratch.planes[: lanes.size].reshape(4, -1)
    planes[...] = lanes.T
    half = values.shape[0] // 2
    radius = planes[:2].reshape(-1).view(np.float32)
    angle = planes[2:].reshape(-1).view(np.float32)
    s, c, z, e = scratch.rows[:, :half]
    np.subtract(ONE, radius, radius)
    logarithm(radius, s, c, z, e)
    radius *= MINUS_TWO
    np.sqrt(radius, radius)
    angle *= FULL_TURN
    sine_and_cosine(angle, s, c, z, scratch.octant[:half], scratch.wide[:half])
    np.multiply(radius, s, angle)
    radius *= c
    lanes[...] = planes.T


def transform64(values: NDArray[np.float64]) -> None:
    blocks = values.reshape(-1, 2, 8)
    radius = np.sqrt(-2.0 * np.log(1.0 - blocks[:, 0]))
    angle = TWO_PI * blocks[:, 1]
    np.multiply(radius, np.cos(angle), blocks[:, 0])
    np.multiply(radius, np.sin(angle), blocks[:, 1])
