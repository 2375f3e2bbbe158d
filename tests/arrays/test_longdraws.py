"""Native loops of draws: the bits, and the states behind them, are those of NumPy's ways."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import rushlight as torch
from rushlight.arrays import stream
from rushlight.base.config import config
from rushlight.core import longdraws
from rushlight.core.rng import Generator

pytest.importorskip("llvmlite")

SIZES = (*range(201), 623, 624, 625, 1000, stream.LOT - 1, stream.LOT + 16, 100_003)
DRAWS = {
    "rand": lambda n, g: torch.rand(n, generator=g),
    "rand, float64": lambda n, g: torch.rand(n, dtype=torch.float64, generator=g),
    "rand, float16": lambda n, g: torch.rand(n, dtype=torch.float16, generator=g),
    "uniform_": lambda n, g: torch.empty(n).uniform_(-0.3, 7.1, generator=g),
    "randn": lambda n, g: torch.randn(n, generator=g),
    "randn, float64": lambda n, g: torch.randn(n, dtype=torch.float64, generator=g),
    "randn, bfloat16": lambda n, g: torch.randn(n, dtype=torch.bfloat16, generator=g),
    "normal_": lambda n, g: torch.empty(n).normal_(0.7, 1.3, generator=g),
    "bernoulli_": lambda n, g: torch.empty(n).bernoulli_(0.3, generator=g),
    "bernoulli_, bool": lambda n, g: torch.empty(n, dtype=torch.bool).bernoulli_(0.9, generator=g),
    "bernoulli_, int64": lambda n, g: torch.empty(n, dtype=torch.int64).bernoulli_(1, generator=g),
    "randint": lambda n, g: torch.randint(-5, 1000, (n,), generator=g),
    "randint, wide": lambda n, g: torch.randint(1 << 40, (n,), generator=g),
    "randperm": lambda n, g: torch.randperm(n, generator=g),
    "exponential_": lambda n, g: torch.empty(n).exponential_(generator=g),
}


@pytest.fixture(autouse=True)
def loops_are_loaded(monkeypatch):
    """Every loop, whatever the size of the draw that asks for it."""
    monkeypatch.setattr(longdraws, "LARGE", 0)
    monkeypatch.setattr(longdraws, "LOOPS", {})


def bits(tensor):
    return tensor.view(torch.uint8).tolist() if tensor.numel() else []


def plainly(draw, *given):
    with config.patch(eager_native=False):
        return draw(*given)


@pytest.mark.parametrize("name", DRAWS)
def test_bits_and_states_are_those_of_numpy(name):
    draw = DRAWS[name]
    ours, plain = Generator().manual_seed(7), Generator().manual_seed(7)
    # One stream for all sizes: places in a block are many.
    for n in SIZES:
        assert np.array_equal(
            draw(n, ours).view(torch.uint8).numpy() if n else [],
            plainly(draw, n, plain).view(torch.uint8).numpy() if n else [],
        ), n
        assert ours.state_bytes() == plain.state_bytes(), n
    assert longdraws.LOOPS


def test_a_million():
    for name in ("rand", "randn", "randperm", "bernoulli_"):
        n = 1_000_000
        ours, plain = Generator().manual_seed(1), Generator().manual_seed(1)
        ours.take(13), plain.take(13)
        assert torch.equal(DRAWS[name](n, ours), plainly(DRAWS[name], n, plain)), name
        assert ours.state_bytes() == plain.state_bytes()


def test_interleaved_draws_clones_and_states():
    order = np.random.default_rng(0)
    ours, plain = Generator().manual_seed(3), Generator().manual_seed(3)
    names = list(DRAWS)
    for step in range(150):
        name, n = names[order.integers(len(names))], int(order.integers(2000))
        found, wanted = DRAWS[name](n, ours), plainly(DRAWS[name], n, plain)
        assert bits(found) == bits(wanted), (step, name, n)
        if step % 10 == 0:
            # A clone goes on where the first one is, and neither sees the other.
            left, ours = ours, ours.clone_state()
            DRAWS["randn"](700, left)
        if step % 15 == 0:
            state = ours.get_state()
            DRAWS["rand"](1999, ours)
            ours.set_state(state)
            kept = ours.snapshot()
            DRAWS["randperm"](701, ours)
            ours.restore(kept)
        assert ours.state_bytes() == plain.state_bytes()


def test_threads_with_generators_of_their_own_and_a_shared_one():
    wanted = [plainly(DRAWS["randn"], 5000, Generator().manual_seed(seed)) for seed in range(4)]
    shared, differ = Generator().manual_seed(9), []
    parts = []

    def work(seed):
        for _ in range(20):
            if not torch.equal(DRAWS["randn"](5000, Generator().manual_seed(seed)), wanted[seed]):
                differ.append(seed)
            parts.append(tuple(DRAWS["rand"](1300, shared).tolist()))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not differ
    whole = plainly(DRAWS["rand"], 80 * 1300, Generator().manual_seed(9)).reshape(80, 1300)
    assert sorted(parts) == sorted(map(tuple, whole.tolist()))


def test_the_switch(monkeypatch):
    asked = []
    monkeypatch.setattr(longdraws.ports, "native_draw", lambda name: asked.append(name))
    plainly(DRAWS["randn"], 100_000, Generator())
    assert not asked
    DRAWS["randn"](100_000, Generator())
    assert {"normals32", "words"} <= set(asked)


def test_small_draws_do_not_load_the_compiler(monkeypatch):
    monkeypatch.setattr(longdraws, "LARGE", 1 << 14)
    for draw in DRAWS.values():
        draw(1000, Generator())
    assert not longdraws.LOOPS


def test_a_twister_whose_memory_is_not_found_draws_the_same(monkeypatch):
    monkeypatch.setattr("rushlight.core.rng.block_memory", lambda twister: None)
    wanted = plainly(DRAWS["rand"], 5000, Generator().manual_seed(2))
    assert torch.equal(DRAWS["rand"](5000, Generator().manual_seed(2)), wanted)


def test_only_the_memory_drawn_is_written():
    """What lies around a draw stays."""
    run = longdraws.native_draw("unit32", 1)
    memory = np.full(80, 0xFFFFFFFF, np.uint32)
    for count in (1, 7, 16, 33):
        memory[:] = 0xFFFFFFFF
        run(memory[20 : 20 + count], count)
        assert (memory[:20] == 0xFFFFFFFF).all()
        assert (memory[20 + count :] == 0xFFFFFFFF).all()
        assert (memory[20 : 20 + count].view(np.float32) == np.float32(1 - 2**-24)).all()
