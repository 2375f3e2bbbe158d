"""Counter-based random bits: Philox 4x32-10 and the generator that hands out its counters.

State is (seed, offset). `offset` counts the Philox blocks (four 32-bit words each) consumed since
seeding. Word w of a draw that begins at `offset` is word w % 4 of the block with counter words
(lo32(offset + w // 4), hi32(offset + w // 4), attempt, lane) and key (lo32(seed), hi32(seed));
attempt and lane are 0 except in rejection samplers, which own one counter per element.
So element i of a draw depends on (seed, offset, i) alone: never on chunking, threads or caching.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.rng import MASK32, MASK64, Generator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from numpy.typing import NDArray

    from rushlight.core.protocols import DeviceLike

    U32Array = NDArray[np.uint32]
    U64Array = NDArray[np.uint64]

MULTIPLIER_0, MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
WEYL_0, WEYL_1 = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10

# Six uint64 rows of this length fit a 1 MiB L2 cache, and the overhead of the ufunc calls
# is small beside the arithmetic.
CHUNK_BLOCKS = 16384
# Draws of at most this many blocks are served from the generator's window of precomputed words.
SMALL_BLOCKS = 256
WINDOW_FIRST, WINDOW_GROWTH, WINDOW_LIMIT = 8, 4, 4096
# Up to here one wide Python integer beats NumPy, whose cost is all call overhead.
WIDE_INTEGER_BLOCKS = 48

STATE_SIZE = 16


def _operand(value: int) -> U64Array:
    # As a ufunc operand a 0-d array costs 0.2 us less than a NumPy scalar.
    return np.array(value, np.uint64)


_M0, _M1 = _operand(MULTIPLIER_0), _operand(MULTIPLIER_1)
_LOW, _HALF = _operand(MASK32), _operand(32)


@lru_cache(maxsize=16)
def round_keys(seed: int) -> tuple[tuple[int, int], ...]:
    """The Weyl sequence of round keys for a 64-bit seed."""
    low, high = seed & MASK32, seed >> 32
    return tuple(((low + r * WEYL_0) & MASK32, (high + r * WEYL_1) & MASK32) for r in range(ROUNDS))


@lru_cache(maxsize=16)
def _round_operands(seed: int) -> tuple[tuple[U64Array, U64Array], ...]:
    return tuple((_operand(key_0), _operand(key_1)) for key_0, key_1 in round_keys(seed))


@lru_cache(maxsize=1)
def _chunk_ramp() -> U64Array:
    return np.arange(CHUNK_BLOCKS, dtype=np.uint64)


def _mix(rows: U64Array, keys: tuple[tuple[U64Array, U64Array], ...], out: U64Array) -> None:
    """Run the given rounds on counter words held in rows 0..3 as (c0, c2, c1, c3); rows 4, 5 are
    scratch. Words are kept zero-extended in uint64 so that one multiply gives both halves."""
    x0, x2, x1, x3, p0, p2 = rows
    multiply, shift, xor, mask = np.multiply, np.right_shift, np.bitwise_xor, np.bitwise_and
    for key_0, key_1 in keys:
        multiply(x0, _M0, p0)
        multiply(x2, _M1, p2)
        shift(p2, _HALF, x0)
        xor(x0, x1, x0)
        xor(x0, key_0, x0)
        shift(p0, _HALF, x2)
        xor(x2, x3, x2)
        xor(x2, key_1, x2)
        mask(p2, _LOW, x1)
        mask(p0, _LOW, x3)
    np.left_shift(x1, _HALF, x1)
    np.bitwise_or(x0, x1, out[:, 0])
    np.left_shift(x3, _HALF, x3)
    np.bitwise_or(x2, x3, out[:, 1])


def fill_blocks(
    seed: int, start: int, out: U64Array, attempt: int = 0, chunk: int = CHUNK_BLOCKS
) -> None:
    """Write blocks start, start + 1, ... into `out`, uint64 of shape [blocks, 2].

    Viewed as uint32 a row is the block's four words in order (little-endian hosts).
    """
    total = out.shape[0]
    (k0, k1), (j0, j1) = round_keys(seed)[:2]
    keys = _round_operands(seed)[2:]
    rows = np.empty((6, min(total, chunk)), np.uint64)
    ramp = _chunk_ramp()
    done = 0
    while done < total:
        counter = (start + done) & MASK64
        low, high = counter & MASK32, counter >> 32
        # A chunk never crosses a carry into the high word, which is then a scalar for it.
        count = min(total - done, chunk, CHUNK_BLOCKS, MASK32 + 1 - low)
        x0, x2, x1, x3, p0, _ = part = rows[:, :count]
        # Rounds 1 and 2 by hand: three of the four input words are scalars.
        q2 = MULTIPLIER_1 * attempt
        s0, s1 = (q2 >> 32) ^ high ^ k0, q2 & MASK32
        q0 = MULTIPLIER_0 * s0
        np.add(ramp[:count], np.uint64(low), x0)
        np.multiply(x0, _M0, p0)
        np.right_shift(p0, _HALF, x2)
        np.bitwise_xor(x2, np.uint64(k1), x2)
        np.bitwise_and(p0, _LOW, p0)
        np.multiply(x2, _M1, x1)
        np.right_shift(x1, _HALF, x0)
        np.bitwise_xor(x0, np.uint64(s1 ^ j0), x0)
        np.bitwise_and(x1, _LOW, x1)
        np.bitwise_xor(p0, np.uint64((q0 >> 32) ^ j1), x2)
        x3.fill(q0 & MASK32)
        _mix(part, keys, out[done : done + count])
        done += count


def blocks_at(seed: int, counters: U64Array, attempt: int = 0, lane: int = 0) -> U64Array:
    """Blocks at arbitrary 64-bit counters, as uint64 [counters, 2]; used by rejection samplers."""
    total = counters.shape[0]
    out = np.empty((total, 2), np.uint64)
    rows = np.empty((6, min(total, CHUNK_BLOCKS)), np.uint64)
    for begin in range(0, total, CHUNK_BLOCKS):
        piece = counters[begin : begin + CHUNK_BLOCKS]
        part = rows[:, : piece.shape[0]]
        np.bitwise_and(piece, _LOW, part[0])
        part[1].fill(attempt)
        np.right_shift(piece, _HALF, part[2])
        part[3].fill(lane)
        _mix(part, _round_operands(seed), out[begin : begin + piece.shape[0]])
    return out


@lru_cache(maxsize=8)
def _wide_lanes(blocks: int) -> tuple[int, int, int]:
    """For integers of `blocks` 64-bit lanes: a one in every lane, a mask, the lane numbers."""
    ones = int.from_bytes((1).to_bytes(8, "little") * blocks, "little")
    ramp = int.from_bytes(np.arange(blocks, dtype="<u8").tobytes(), "little")
    return ones, ones * MASK32, ramp


def _wide_integer_blocks(seed: int, start: int, blocks: int) -> U64Array:
    """The same as `fill_blocks`, with all blocks side by side in one Python integer per counter
    word: products of 32-bit lanes fit their 64 bits, so nothing carries between lanes."""
    ones, mask, ramp = _wide_lanes(blocks)
    c0 = ones * (start & MASK32) + ramp
    c1, c2, c3 = ones * (start >> 32), 0, 0
    for key_0, key_1 in round_keys(seed):
        p0, p2 = c0 * MULTIPLIER_0, c2 * MULTIPLIER_1
        c0, c1 = ((p2 >> 32) & mask) ^ c1 ^ (ones * key_0), p2 & mask
        c2, c3 = ((p0 >> 32) & mask) ^ c3 ^ (ones * key_1), p0 & mask
    out = np.empty((blocks, 2), np.uint64)
    out[:, 0] = np.frombuffer((c1 << 32 | c0).to_bytes(8 * blocks, "little"), np.uint64)
    out[:, 1] = np.frombuffer((c3 << 32 | c2).to_bytes(8 * blocks, "little"), np.uint64)
    return out


def philox_blocks(seed: int, start: int, blocks: int) -> U64Array:
    """Blocks start .. start + blocks as uint64 [blocks, 2], by whichever way is quicker."""
    if blocks <= WIDE_INTEGER_BLOCKS and (start & MASK32) + blocks <= MASK32:
        return _wide_integer_blocks(seed, start, blocks)
    out = np.empty((blocks, 2), np.uint64)
    fill_blocks(seed, start, out)
    return out


class PhiloxGenerator(Generator):
    """A stream of random bits: a seed and the number of Philox blocks taken from it so far.

    A draw first reserves its blocks under the lock, then computes without it, so threads that
    share a generator get disjoint parts of the stream.
    """

    __slots__ = ("_offset", "_recent")

    algorithm = "philox"

    def __init__(self, device: DeviceLike | None = "cpu", algorithm: str = "philox") -> None:
        super().__init__(device, algorithm)
        # (seed, first block, end block, read-only words). Replaced whole, so readers need no lock;
        # a stale window is only a cache miss.
        self._recent: tuple[int, int, int, U32Array] | None = None

    def _begin(self, seed: int) -> None:
        self._seed = seed
        self._offset = 0

    def get_offset(self) -> int:
        """The number of Philox blocks consumed since seeding."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        self._offset = int(offset) & MASK64

    def snapshot(self) -> tuple[int, int]:
        with self.lock:
            return self._seed, self._offset

    def restore(self, state: tuple[Any, ...]) -> None:
        with self.lock:
            self._seed, self._offset = state

    def state_bytes(self) -> bytes:
        """The state as 16 bytes: seed, then offset, each little-endian."""
        seed, offset = self.snapshot()
        return seed.to_bytes(8, "little") + offset.to_bytes(8, "little")

    def load_state_bytes(self, state: bytes | bytearray | memoryview | NDArray[np.uint8]) -> Self:
        raw = self._checked_state(state, STATE_SIZE)
        self.restore((int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")))
        return self

    def claim(self, blocks: int) -> tuple[int, int]:
        """Reserve `blocks` Philox blocks; returns (seed, first block), read together."""
        with self.lock:
            seed, offset = self._seed, self._offset
            self._offset = (offset + blocks) & MASK64
        return seed, offset

    def reserve(self, blocks: int) -> int:
        """Reserve `blocks` Philox blocks; returns the first one's number."""
        return self.claim(blocks)[1]

    def words(self, count: int) -> U32Array:
        """The next `count` words (whole blocks are consumed). May be read-only."""
        blocks = (count + 3) >> 2
        seed, offset = self.claim(blocks)
        return self.words_at(seed, offset, blocks)[:count]

    def words_at(self, seed: int, offset: int, blocks: int) -> U32Array:
        """All words of the given blocks. May be read-only: small draws share a window of words
        computed ahead, which grows while draws follow one another."""
        if blocks > SMALL_BLOCKS:
            return philox_blocks(seed, offset, blocks).reshape(-1).view(np.uint32)
        size = WINDOW_FIRST
        window = self._recent
        if window is not None and window[0] == seed:
            start, stop = window[1], window[2]
            if start <= offset:
                if offset + blocks <= stop:
                    begin = (offset - start) * 4
                    return window[3][begin : begin + blocks * 4]
                if offset <= stop:
                    size = min((stop - start) * WINDOW_GROWTH, WINDOW_LIMIT)
        size = max(size, blocks)
        words = philox_blocks(seed, offset, size).reshape(-1).view(np.uint32)
        words.setflags(write=False)
        self._recent = (seed, offset, offset + size, words)
        return words[: blocks * 4]

    def word_chunks(
        self, count: int, width: int, chunk: int = CHUNK_BLOCKS
    ) -> Iterator[tuple[int, int, U32Array]]:
        """Reserve `width` words for each of `count` elements and yield (begin, end, words) pieces.

        `words` holds whole blocks, so it may be longer than (end - begin) * width; it is
        overwritten by the next piece. `begin` is a multiple of four.
        """
        blocks = (count * width + 3) >> 2
        seed, offset = self.claim(blocks)
        if blocks <= min(SMALL_BLOCKS, chunk):
            yield 0, count, self.words_at(seed, offset, blocks)
            return
        buffer = np.empty((min(blocks, chunk), 2), np.uint64)
        words = buffer.reshape(-1).view(np.uint32)
        step = chunk * 4 // width
        for begin in range(0, count, step):
            end = min(count, begin + step)
            size = ((end - begin) * width + 3) >> 2
            fill_blocks(seed, offset + begin * width // 4, buffer[:size], chunk=chunk)
            yield begin, end, words[: size * 4]
