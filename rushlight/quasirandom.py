"""torch.quasirandom: Sobol sequences, points that fill a cube more evenly than random ones.

`sobol_numbers.npz` has the direction numbers of S. Joe and F. Y. Kuo (criterion D6) for the first
1,111 dimensions: the degree and the polynomial of each dimension after the first, and the numbers
that its recurrence starts with.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.base.errors import error
from rushlight.core.construct import from_numpy
from rushlight.core.dtype import get_default_dtype, int64
from rushlight.core.rng import Generator
from rushlight.opset import functions

__all__ = ["SobolEngine"]

BITS = 30
DIMENSIONS = 1111
Array = np.ndarray[Any, np.dtype[Any]]


@cache
def direction_numbers() -> Array:
    """[dimension, bit], each number shifted to the top of 30 bits."""
    with np.load(Path(__file__).with_name("sobol_numbers.npz")) as stored:
        degrees, polynomials = stored["degrees"].tolist(), stored["polynomials"].tolist()
        starts = stored["numbers"].astype(np.int64)
    found = np.ones((DIMENSIONS, BITS), np.int64)
    begin = 0
    for row, degree, polynomial in zip(found[1:], degrees, polynomials, strict=True):
        row[:degree] = starts[begin : begin + degree]
        begin += degree
        for j in range(degree, BITS):
            row[j] = row[j - degree] ^ (row[j - degree] << degree)
            for k in range(1, degree):
                if polynomial >> (degree - 1 - k) & 1:
                    row[j] ^= row[j - k] << k
    found <<= np.arange(BITS - 1, -1, -1)
    found.flags.writeable = False
    return found


def parity(numbers: Array) -> Array:
    """Whether each number has an odd count of ones."""
    for shift in (32, 16, 8, 4, 2, 1):
        numbers = numbers ^ (numbers >> shift)
    return numbers & 1


class SobolEngine:
    """Draws points of a Sobol sequence, one after another; scrambled ones by a seed.

    >>> from rushlight.quasirandom import SobolEngine
    >>> SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension < 1:
            raise ValueError("Supported range of dimensionality for SobolEngine is [1, 21201]")
        if dimension > DIMENSIONS:
            raise error("RL1312", ValueError, dimension=dimension, most=DIMENSIONS)
        self.dimension = dimension
        self.scramble = scramble
        self.seed = seed
        self.directions = direction_numbers()[:dimension]
        self.shift = np.zeros(dimension, np.int64)
        if scramble:
            self.mix()
        self.num_generated = 0
        self.quasi = self.shift.copy()

    def mix(self) -> None:
        """Owen's scrambling: a triangular matrix of random bits and a random shift each."""
        generator = Generator()
        if self.seed is None:
            generator.seed()
        else:
            generator.manual_seed(self.seed)

        def bits(*size: int) -> Array:
            found: Array = functions.randint(2, size, dtype=int64, generator=generator).numpy()
            return found

        self.shift = bits(self.dimension, BITS) @ (1 << np.arange(BITS))
        rows = np.tril(bits(self.dimension, BITS, BITS)) | np.eye(BITS, dtype=np.int64)
        # Column k of the matrix meets bit 29 - k of a number.
        masks = rows @ (1 << np.arange(BITS - 1, -1, -1))
        mixed = parity(masks[:, None, :] & self.directions[:, :, None])
        self.directions = mixed @ (1 << np.arange(BITS - 1, -1, -1))

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """The next `n` points, [n, dimension]."""
        dtype = get_default_dtype() if dtype is None else dtype
        points = np.empty((n, self.dimension), np.int64)
        for i in range(n):
            if self.num_generated + i:
                self.advance(self.num_generated + i - 1)
            points[i] = self.quasi
        self.num_generated += n
        found = from_numpy(points * 0.5**BITS).to(dtype)
        return found if out is None else out.resize_(found.shape).copy_(found)

    def advance(self, index: int) -> None:
        """From point `index` to the next: one direction for the lowest zero of its number."""
        zero = (~index & (index + 1)).bit_length() - 1
        if zero >= BITS:
            raise ValueError(f"a Sobol sequence ends after 2**{BITS} points")
        self.quasi ^= self.directions[:, zero]

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """The next 2**m points; the points so far must be as many as keep the sequence balanced."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next `n` points."""
        # The point of a number is made of the directions of the ones in its Gray code.
        self.num_generated += n
        target = max(self.num_generated - 1, 0)
        code = target ^ (target >> 1)
        self.quasi = self.shift.copy()
        for bit in range(code.bit_length()):
            if code >> bit & 1:
                self.quasi ^= self.directions[:, bit]
        return self

    def reset(self) -> SobolEngine:
        """Begin anew."""
        self.quasi = self.shift.copy()
        self.num_generated = 0
        return self

    def __repr__(self) -> str:
        facts = [f"dimension={self.dimension}"]
        if self.scramble:
            facts.append("scramble=True")
        if self.seed is not None:
            facts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(facts)})"
