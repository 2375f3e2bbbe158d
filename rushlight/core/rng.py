"""The random generator: the Mersenne twister mt19937, word for word the stream of torch's CPU one.

State is (seed, twister, place in its block, a normal value kept back). `take` hands out the next
32-bit words; the recipes that turn them into numbers are in `rushlight.arrays.stream`. Words are
computed a whole block of 624 ahead, so the twister itself always stands at the end of a block.
`Generator(algorithm="philox")` is the counter-based stream of `rushlight.core.philox`.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rushlight.base.errors import error
from rushlight.core.device import device as device_class
from rushlight.core.dtype import uint8
from rushlight.core.longdraws import native_draw

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from rushlight.core.protocols import DeviceLike
    from rushlight.core.tensor import Tensor

    U32Array = NDArray[np.uint32]
    # (seed, key, place, window, kept double, kept float)
    Snapshot = tuple[Any, ...]

MASK32 = 0xFFFFFFFF
MASK64 = 0xFFFFFFFFFFFFFFFF
DEFAULT_SEED = 67280421310721  # torch: seed of a generator that was never seeded
BLOCK = 624
NO_WORDS: NDArray[np.uint32] = np.empty(0, np.uint32)
SEEDING = "seed"  # in place of a block: the one that the seed gives

# torch's bytes of a state: the seed, words left in the block plus one, whether it is seeded, words
# used of the block, the block (each word in eight bytes), three doubles of which the second is the
# normal value kept back, whether it is, and the same for a single-precision one.
STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "key", "double", "has_double", "float",
                  "has_float"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", BLOCK), "<f8", "<i4", "<f4", "u1"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040, 5048, 5052],
        "itemsize": 5056,
    }
)  # fmt: skip
STATE_SIZE = STATE.itemsize


def block_memory(twister: Any) -> U32Array | None:
    """The words that a bit generator of NumPy's keeps, in its own memory; None where they are not
    found."""
    import ctypes

    words: Any = (ctypes.c_uint32 * BLOCK).from_address(twister.ctypes.state_address)
    found = np.frombuffer(words, np.uint32)
    return found if np.array_equal(found, twister.state["state"]["key"]) else None


class Generator:
    """A stream of random numbers.

    The default algorithm is the Mersenne twister, which draws torch's numbers for the same seed and
    whose states are torch's. `algorithm="philox"` makes a counter-based generator: element i of a
    draw depends on the seed, the number of blocks drawn before and i alone; it has `get_offset` and
    `set_offset`, and its numbers are this library's own.

    >>> Generator().manual_seed(0).initial_seed()
    0
    >>> Generator(algorithm="philox").get_offset()
    0
    """

    __slots__ = (
        "__weakref__", "_key", "_memory", "_place", "_seed", "_source", "_window", "device",
        "kept_double", "kept_float", "lock",
    )  # fmt: skip

    algorithm = "mt19937"
    device: Any

    def __new__(cls, device: DeviceLike | None = "cpu", algorithm: str = "mt19937") -> Self:
        if algorithm == "philox" and cls is Generator:
            from rushlight.core.philox import PhiloxGenerator

            return object.__new__(PhiloxGenerator)  # type: ignore[return-value]
        if algorithm not in ("mt19937", "philox"):
            raise ValueError(
                f"algorithm: expected 'mt19937' or 'philox', but got {algorithm!r}; "
                "leave it out for torch's numbers"
            )
        return object.__new__(cls)

    def __init__(self, device: DeviceLike | None = "cpu", algorithm: str = "mt19937") -> None:
        self.device = device_class("cpu" if device is None else device)
        if self.device.type != "cpu":
            raise error("RL1208", device=self.device.type)
        # Recipes hold it for a whole draw; the words of one draw follow one another.
        self.lock = RLock()
        self._source: Any = None
        # The block as the twister holds it, for native code; None where that is not known.
        self._memory: U32Array | None = None
        self._begin(DEFAULT_SEED)

    def _begin(self, seed: int) -> None:
        self._seed = seed
        # The block that the twister is to take up when the next word is asked for; None where it
        # stands there already.
        self._key: Any = SEEDING
        # The words of the current block, read-only, and how many are used; None before the first.
        self._window: U32Array | None = None
        self._place = BLOCK
        self.kept_double: float | None = None
        self.kept_float: float | None = None

    # -- seeds -----------------------------------------------------------------------------------

    def manual_seed(self, seed: int) -> Self:
        """Set the seed and rewind. Negative seeds mean 2**64 + seed."""
        if type(seed) is bool or not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        seed = int(seed)
        if not -(1 << 63) <= seed <= MASK64:
            raise ValueError(
                "Overflow when unpacking long long: the seed must lie in [-2**63, 2**64), "
                f"but got {seed}"
            )
        with self.lock:
            self._begin(seed & MASK64)
        return self

    def seed(self) -> int:
        """Seed from the operating system's entropy and return the seed used."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        return self._seed

    def get_offset(self) -> int:
        """Only counter-based generators have one."""
        self._refuse_offset()

    def set_offset(self, offset: int) -> None:
        """Only counter-based generators have one."""
        self._refuse_offset()

    def _refuse_offset(self) -> NoReturn:
        raise RuntimeError(
            "CPU Generator does not use offset: mt19937 has no counter; "
            'Generator(algorithm="philox") has'
        )

    # -- words -----------------------------------------------------------------------------------

    def _twister(self) -> Any:
        source = self._source
        if source is None:
            # numpy.random is imported with the first draw.
            source = self._source = np.random.Generator(np.random.MT19937(0))
        key = self._key
        if key is not None:
            if key is SEEDING:
                source.bit_generator._legacy_seeding(self._seed & MASK32)
            else:
                block = {"key": key, "pos": BLOCK}
                source.bit_generator.state = {"bit_generator": "MT19937", "state": block}
            self._key = None
        return source

    def _next_window(self) -> U32Array:
        words = self._twister().bit_generator.random_raw(BLOCK).astype(np.uint32)
        words.setflags(write=False)
        self._window = words
        return words  # type: ignore[no-any-return]

    def take(self, count: int) -> U32Array:
        """The next `count` words. May be read-only. The caller holds the lock."""
        place = self._place
        end = place + count
        if end <= BLOCK:
            self._place = end
            # Nothing is asked of a fresh generator.
            return NO_WORDS if self._window is None else self._window[place:end]
        words = np.empty(count, np.uint32)
        self.fill(words)
        return words

    def fill(self, out: U32Array) -> None:
        """Put the next words into contiguous memory. The caller holds the lock."""
        count = out.shape[0]
        place = self._place
        end = place + count
        if end <= BLOCK:
            if count:
                out[...] = self._window[place:end]  # type: ignore[index]
            self._place = end
            return
        done = BLOCK - place
        whole = (count - done) // BLOCK * BLOCK
        rest = count - done - whole
        if done:
            out[:done] = self._window[place:]  # type: ignore[index]
        if whole:
            self._draw_blocks(out[done : done + whole])
        if rest:
            out[count - rest :] = self._next_window()[:rest]
        else:
            self._window = NO_WORDS  # all are used
        self._place = rest or BLOCK

    def _draw_blocks(self, out: U32Array) -> None:
        """The next blocks, which the twister goes to the end of."""
        twister = self._twister()
        run = native_draw("words", out.shape[0])
        if run is not None and self._memory is None:
            self._memory = block_memory(twister.bit_generator)
        if run is None or self._memory is None:
            out[...] = twister.integers(0, 1 << 32, out.shape[0], np.uint32)
        else:
            run(self._memory, out, out.shape[0] // BLOCK)

    def take_block(self) -> U32Array:
        """What is left of the current block, or the whole next one. The caller holds the lock."""
        place, self._place = self._place, BLOCK
        if place == BLOCK:
            return self._next_window()
        return self._window[place:]  # type: ignore[index]

    def put_back(self, count: int) -> None:
        """Let the next draw begin `count` words earlier, in the block that was taken last."""
        self._place -= count

    # -- states ----------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The state for `restore`, without the detour over bytes."""
        with self.lock:
            key = self._key
            if key is None:
                key = self._source.bit_generator.state["state"]["key"]
            return self._seed, key, self._place, self._window, self.kept_double, self.kept_float

    def restore(self, state: Snapshot) -> None:
        """Return to a state that `snapshot` gave."""
        with self.lock:
            (self._seed, self._key, self._place, self._window, self.kept_double,
             self.kept_float) = state  # fmt: skip

    def state_bytes(self) -> bytes:
        """The state as torch writes it."""
        with self.lock:
            self._twister()
            seed, key, place, window, kept_double, kept_float = self.snapshot()
        state = np.zeros((), STATE)
        state["seed"], state["seeded"] = seed, 1
        state["key"] = key
        # torch: before the first word nothing of the block is used, and nothing is left of it.
        state["next"], state["left"] = (0, 1) if window is None else (place, BLOCK + 1 - place)
        if kept_double is not None:
            state["double"], state["has_double"] = kept_double, 1
        if kept_float is not None:
            state["float"], state["has_float"] = kept_float, 1
        return state.tobytes()

    def load_state_bytes(self, state: bytes | bytearray | memoryview | NDArray[np.uint8]) -> Self:
        """Restore what `state_bytes` gave, here or in torch, from bytes or any uint8 buffer."""
        raw = self._checked_state(state, STATE_SIZE)
        (found,) = np.frombuffer(raw, STATE)
        left, used = int(found["left"]), int(found["next"])
        if found["seeded"] != 1 or not 1 <= left <= BLOCK or used > BLOCK:
            raise RuntimeError(
                f"Invalid mt19937 state: seeded={int(found['seeded'])}, left={left}, next={used}; "
                "load a state that get_state() gave"
            )
        key = found["key"].astype(np.uint32)
        with self.lock:
            self._begin(int(found["seed"]))
            self._key = key
            if left > 1 or used:
                self._place = BLOCK + 1 - left
                self._window = self._words_of(key)
            if found["has_double"]:
                self.kept_double = float(found["double"])
            if found["has_float"]:
                self.kept_float = float(found["float"])
        return self

    @staticmethod
    def _words_of(key: U32Array) -> U32Array:
        """The words of a block: its key, tempered."""
        words = key ^ (key >> np.uint32(11))
        words ^= (words << np.uint32(7)) & np.uint32(0x9D2C5680)
        words ^= (words << np.uint32(15)) & np.uint32(0xEFC60000)
        words ^= words >> np.uint32(18)
        words.setflags(write=False)
        return words

    @staticmethod
    def _checked_state(state: Any, size: int) -> bytes:
        if isinstance(state, np.ndarray) and state.dtype != np.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor, but got dtype {state.dtype}")
        raw = state.tobytes() if isinstance(state, np.ndarray) else bytes(state)
        if len(raw) != size:
            raise error("RL1206", expected=size, found=len(raw))
        return raw

    def get_state(self) -> Tensor:
        """The state as a byte tensor."""
        from rushlight.core.tensor import wrap

        return wrap(np.frombuffer(bytearray(self.state_bytes()), np.uint8), uint8)

    def set_state(self, state: Tensor) -> Self:
        """Restore what `get_state` gave."""
        from rushlight.core.tensor import Tensor

        if not isinstance(state, Tensor) or state._dtype is not uint8 or state._array is None:
            raise TypeError("RNG state must be a torch.ByteTensor")
        return self.load_state_bytes(state._array)

    def clone_state(self) -> Self:
        """An independent generator in the same state."""
        return type(self)(self.device, self.algorithm).load_state_bytes(self.state_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.device, self.algorithm), self.state_bytes()

    def __setstate__(self, state: bytes | tuple[Any, ...]) -> None:
        # torch: its pickles hold the seed, an offset that devices have, and a tensor.
        if isinstance(state, tuple):
            self.set_state(state[2])
        else:
            self.load_state_bytes(state)


default_generator = Generator()
