"""The Mersenne twister: torch's words, its seeds and the bytes of its states."""

import copy
import hashlib
import pickle
import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import rng
from rushlight.core.philox import PhiloxGenerator
from rushlight.core.rng import Generator


def taken(gen, count):
    with gen.lock:
        return gen.take(count).copy()


def test_words_are_those_of_the_reference():
    # The generator's authors: the 10000th word for seed 5489 (also in the C++ standard).
    assert taken(Generator().manual_seed(5489), 10000)[-1] == 4123659995


@pytest.mark.parametrize("sizes", [(1, 622, 2), (624, 624), (5, 0, 2000, 3), (623, 1, 1, 1249, 7)])
def test_words_do_not_depend_on_how_they_are_taken(sizes):
    gen = Generator().manual_seed(3)
    pieces = [taken(gen, size) for size in sizes]
    whole = taken(Generator().manual_seed(3), sum(sizes) + 5)
    np.testing.assert_array_equal(np.concatenate(pieces), whole[:-5])
    np.testing.assert_array_equal(taken(gen, 5), whole[-5:])


def test_words_that_are_put_back_come_again():
    gen = Generator().manual_seed(3)
    taken(gen, 600)
    with gen.lock:
        block = gen.take_block()
        assert block.shape == (24,)
        gen.put_back(4)
    np.testing.assert_array_equal(taken(gen, 4), block[-4:])
    with gen.lock:
        block = gen.take_block()
        assert block.shape == (624,)
        gen.put_back(3)
    np.testing.assert_array_equal(taken(gen, 3), block[-3:])


# The bytes are torch 2.13's; 5056 of them, by their hash.
STATES = {
    "never seeded": (lambda gen: None,
        "7dbca2abd059af5d8a23d078cc0f4d4c7b21e4543592cea803dc5037dfcd008e"),
    "seeded": (lambda gen: gen.manual_seed(-5),
        "a4cd3c34b98f4b3ee509ecb757b69d2191dc91116cd309e3d8764b4230c9ba86"),
    "one word": (lambda gen: rl.rand(1, generator=gen.manual_seed(-5)),
        "741b4e97cc4266183fbe5e124ca8f0ec30665d126364818818851a024606949a"),
    "a normal kept back": (lambda gen: rl.randn(1, generator=gen.manual_seed(-5)),
        "e5d69e76e5f104e56562825c2e5f1fc00ba16390056223adf5f6491f65795a87"),
    "end of a block": (lambda gen: rl.rand(624, generator=gen.manual_seed(-5)),
        "38f0465171b4f38629a9e95a8a2ff319275d8b1d859b85c7f363e8f500c26fd9"),
    "the next block": (lambda gen: rl.rand(625, generator=gen.manual_seed(2**64 - 1)),
        "e6a15b498af11047fc265258f73661c83b27be9ccb94ec162b35f590ba09a908"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_states_are_torchs_bytes(name):
    prepare, expected = STATES[name]
    gen = Generator()
    prepare(gen)
    state = gen.get_state()
    assert state.shape == (5056,)
    assert hashlib.sha256(state.numpy().tobytes()).hexdigest() == expected
    other = Generator().set_state(state)
    assert other.get_state().tolist() == state.tolist()
    assert rl.randn(700, generator=other).tolist() == rl.randn(700, generator=gen).tolist()
    assert rl.randn(3, generator=other).tolist() == rl.randn(3, generator=gen).tolist()


@pytest.mark.parametrize("words", [0, 1, 623, 624, 625, 3000])
def test_snapshots(words):
    gen = Generator().manual_seed(11)
    taken(gen, words)
    rl.randn(1, generator=gen)
    state = gen.snapshot()
    first = rl.randn(1001, generator=gen).tolist(), rl.randn(3, generator=gen).tolist()
    gen.manual_seed(4)
    gen.restore(state)
    assert (rl.randn(1001, generator=gen).tolist(), rl.randn(3, generator=gen).tolist()) == first
    fresh = Generator().manual_seed(9)
    fresh.restore(state)
    assert rl.randn(1001, generator=fresh).tolist() == first[0]


def test_seeding_forgets_a_normal_kept_back():
    gen = Generator().manual_seed(2)
    first = rl.randn(1, generator=gen).item()
    assert rl.randn(1, generator=gen.manual_seed(2)).item() == first


def test_bad_states_are_refused():
    gen = Generator()
    with pytest.raises(
        RuntimeError, match="of size 5056 but found the input RNG state size to be 16"
    ):
        gen.set_state(rl.zeros(16, dtype=rl.uint8))
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        gen.set_state(rl.zeros(5056))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        gen.set_state(rl.zeros(5056, dtype=rl.uint8))


def test_copies_are_independent():
    gen = Generator().manual_seed(1)
    taken(gen, 10)
    for other in (gen.clone_state(), copy.deepcopy(gen), pickle.loads(pickle.dumps(gen))):
        assert isinstance(other, Generator)
        np.testing.assert_array_equal(taken(other, 30), taken(gen.clone_state(), 30))


def test_seeds():
    gen = Generator()
    assert gen.initial_seed() == rng.DEFAULT_SEED
    assert gen.manual_seed(-1).initial_seed() == 2**64 - 1
    assert gen.seed() == gen.initial_seed()
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        gen.manual_seed(2**64)
    with pytest.raises(RuntimeError, match="manual_seed expected a long, but got str"):
        gen.manual_seed("1")


def test_algorithms():
    counted = Generator(algorithm="philox")
    assert type(counted) is PhiloxGenerator
    assert isinstance(counted, rl.Generator)
    assert counted.get_state().shape == (16,)
    assert type(pickle.loads(pickle.dumps(counted))) is PhiloxGenerator
    assert rl.rand(3, generator=counted).tolist() != rl.rand(3, generator=Generator()).tolist()
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        Generator().get_offset()
    with pytest.raises(ValueError, match="expected 'mt19937' or 'philox', but got 'pcg'"):
        Generator(algorithm="pcg")


def test_threads_share_the_words():
    gen = Generator().manual_seed(6)
    collected = []

    def work():
        collected.extend(taken(gen, 40) for _ in range(50))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    whole = taken(Generator().manual_seed(6), 50 * 40 * 4).reshape(-1, 40)
    assert sorted(map(tuple, collected)) == sorted(map(tuple, whole))


def test_default_generator():
    assert isinstance(rng.default_generator, Generator)
    assert rl.default_generator is rng.default_generator
