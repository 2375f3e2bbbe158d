"""Philox against published vectors, and the generator's state, windows and threads."""

import copy
import pickle
import threading

import numpy as np
import pytest

from rushlight.core import philox as rng
from rushlight.core.device import cpu
from rushlight.core.philox import PhiloxGenerator as Generator

# Known answers published with Random123: counter words, key words, result words.
KNOWN_ANSWERS = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words_of(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter, key, expected):
    c0, c1, c2, c3 = words_of(counter)
    k0, k1 = words_of(key)
    counters = np.array([c1 << 32 | c0], np.uint64)
    block = rng.blocks_at(k1 << 32 | k0, counters, attempt=c2, lane=c3)
    assert block.view(np.uint32)[0].tolist() == words_of(expected)


def test_first_words_of_seed_zero():
    words = Generator().manual_seed(0).words(4)
    assert words.tolist() == words_of(KNOWN_ANSWERS[0][2])


@pytest.mark.parametrize("start", [0, 5, 2**32 - 7, 2**33 - 20, 2**64 - 9])
def test_every_way_to_compute_a_block_agrees(start):
    seed = 0x123456789ABCDEF0
    counters = np.array([(start + i) % 2**64 for i in range(40)], np.uint64)
    expected = rng.blocks_at(seed, counters)
    for chunk in (1, 3, 16, 64):
        out = np.empty((40, 2), np.uint64)
        rng.fill_blocks(seed, start, out, chunk=chunk)
        np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(rng.philox_blocks(seed, start, 40), expected)


def test_attempt_word_of_contiguous_blocks():
    out = np.empty((9, 2), np.uint64)
    rng.fill_blocks(77, 3, out, attempt=5)
    expected = rng.blocks_at(77, np.arange(3, 12, dtype=np.uint64), attempt=5)
    np.testing.assert_array_equal(out, expected)
    assert not np.array_equal(out, rng.philox_blocks(77, 3, 9))


def test_long_fill_crosses_chunks():
    count = rng.CHUNK_BLOCKS * 2 + 5
    out = rng.philox_blocks(9, 11, count)
    picks = np.array([0, rng.CHUNK_BLOCKS - 1, rng.CHUNK_BLOCKS, count - 1], np.uint64)
    np.testing.assert_array_equal(out[picks], rng.blocks_at(9, picks + np.uint64(11)))


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 7, 300, 3001])
def test_word_chunks_do_not_depend_on_the_chunk(width, count):
    def collect(chunk):
        gen = Generator().manual_seed(3)
        pieces = [
            words[: (end - begin) * width].copy()
            for begin, end, words in gen.word_chunks(count, width, chunk)
        ]
        return np.concatenate(pieces), gen.get_offset()

    whole, offset = collect(rng.CHUNK_BLOCKS)
    assert whole.shape == (count * width,)
    assert offset == -(-count * width // 4)
    for chunk in (4, 64, 256):
        pieces, same_offset = collect(chunk)
        np.testing.assert_array_equal(pieces, whole)
        assert same_offset == offset


def test_small_draws_read_the_same_stream_as_a_large_one():
    gen = Generator().manual_seed(42)
    sizes = [4, 16, 4, 1024, 8, 4, 400, 12, 4, 4000, 4] * 6
    pieces = [gen.words(size).copy() for size in sizes]
    whole = Generator().manual_seed(42).words(sum(sizes))
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_window_words_cannot_be_overwritten():
    words = Generator().manual_seed(0).words(4)
    with pytest.raises(ValueError, match="read-only"):
        words[0] = 1


def test_rewinding_and_reseeding_are_not_fooled_by_the_window():
    gen = Generator().manual_seed(1)
    first = gen.words(8).copy()
    second = gen.words(8).copy()
    assert not np.array_equal(first, second)
    gen.set_offset(0)
    np.testing.assert_array_equal(gen.words(8), first)
    other = gen.manual_seed(2).words(8).copy()
    assert not np.array_equal(other, first)
    np.testing.assert_array_equal(gen.manual_seed(1).words(8), first)


def test_a_partial_block_is_consumed_whole():
    gen = Generator()
    gen.words(5)
    assert gen.get_offset() == 2


def test_seeds():
    gen = Generator()
    assert gen.initial_seed() == 67280421310721
    assert gen.manual_seed(-1) is gen
    assert gen.initial_seed() == 2**64 - 1
    assert gen.manual_seed(-(2**63)).initial_seed() == 2**63
    assert gen.manual_seed(2**64 - 1).initial_seed() == 2**64 - 1
    assert gen.manual_seed(np.int64(5)).initial_seed() == 5
    assert gen.get_offset() == 0


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seed_out_of_range(seed):
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", [1.5, "a", True, None])
def test_seed_of_wrong_type(seed):
    with pytest.raises(RuntimeError, match="manual_seed expected a long, but got"):
        Generator().manual_seed(seed)


def test_nondeterministic_seed_is_returned_and_installed():
    gen = Generator()
    gen.words(4)
    first = gen.seed()
    assert gen.initial_seed() == first
    assert gen.get_offset() == 0
    assert gen.seed() != first


def test_device():
    assert Generator().device is cpu
    assert Generator(None).device is cpu
    assert Generator("cpu").clone_state().device is cpu
    with pytest.raises(RuntimeError, match="cuda is not supported"):
        Generator("cuda")


@pytest.mark.parametrize("convert", [bytes, bytearray, lambda b: np.frombuffer(b, np.uint8)])
def test_state_round_trip(convert):
    gen = Generator().manual_seed(2**64 - 3)
    gen.words(10)
    state = gen.state_bytes()
    assert len(state) == 16
    expected = gen.words(10).copy()
    other = Generator().load_state_bytes(convert(state))
    assert other.initial_seed() == 2**64 - 3
    np.testing.assert_array_equal(other.words(10), expected)


def test_bad_states():
    with pytest.raises(RuntimeError, match="found the input RNG state size to be 3"):
        Generator().load_state_bytes(b"abc")
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        Generator().load_state_bytes(np.zeros(16, np.float32))


@pytest.mark.parametrize(
    "clone", [Generator.clone_state, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))]
)
def test_clones_go_their_own_way(clone):
    gen = Generator().manual_seed(8)
    gen.words(4)
    other = clone(gen)
    assert other is not gen
    np.testing.assert_array_equal(other.words(4), gen.words(4))
    gen.words(400)
    assert other.get_offset() == 2


def test_offset_wraps():
    gen = Generator()
    gen.set_offset(2**64 - 1)
    words = gen.words(8)
    assert gen.get_offset() == 1
    expected = rng.blocks_at(gen.initial_seed(), np.array([2**64 - 1, 0], np.uint64))
    np.testing.assert_array_equal(words, expected.reshape(-1).view(np.uint32))


def test_reserve():
    gen = Generator().manual_seed(4)
    assert gen.reserve(3) == 0
    assert gen.claim(2) == (4, 3)
    assert gen.reserve(1) == 5


def test_threads_get_disjoint_parts_of_one_stream():
    gen = Generator().manual_seed(6)
    draws_each, threads = 300, 4
    results = [[] for _ in range(threads)]
    barrier = threading.Barrier(threads)

    def work(collected):
        barrier.wait()
        for _ in range(draws_each):
            collected.append(gen.words(4).copy())

    workers = [threading.Thread(target=work, args=(collected,)) for collected in results]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    drawn = {tuple(words) for collected in results for words in collected}
    whole = Generator().manual_seed(6).words(4 * draws_each * threads).reshape(-1, 4)
    assert drawn == {tuple(words) for words in whole}
    assert gen.get_offset() == draws_each * threads
