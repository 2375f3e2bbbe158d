"""Seeds give torch's numbers: samplers, sizes and dtypes against recordings of torch 2.13.

`drawn.json` is written by tools/record_random.py.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.arrays import sampling, stream
from rushlight.core.rng import Generator
from tests.arrays import draws

RECORDED = json.loads((Path(__file__).parent / "drawn.json").read_text())
SAMPLED = [key for key in RECORDED if "|" in key]


def test_recordings_are_many():
    assert len(draws.CASES) >= 60
    assert sum(100003 in sizes for _, _, sizes, _ in draws.CASES.values()) >= 35
    assert len(SAMPLED) == sum(len(dtypes) * len(sizes) for _, dtypes, sizes, _ in
                               draws.CASES.values())  # fmt: skip


def assert_near(array, wanted, dtype, scale):
    """Two units in the last place of a value, or of the shift that its recipe adds."""
    *found, total = draws.picked(array)
    *expected, wanted_total = wanted
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23}
    step = unit.get(dtype, 2.0**-52)
    for ours, theirs in zip(found, expected, strict=True):
        largest = max(abs(theirs), scale)
        room = 2 * step * 2.0 ** math.floor(math.log2(largest)) if largest else 0.0
        assert ours == theirs or abs(ours - theirs) <= room, (ours, theirs)
    if not math.isfinite(wanted_total):
        return
    spread = float(np.abs(array.astype(np.float64)).sum()) + scale * array.size
    assert abs(total - wanted_total) <= 2 * step * spread


@pytest.mark.parametrize("name", draws.CASES)
@pytest.mark.filterwarnings("ignore")
def test_draws_torchs_numbers(name):
    _, dtypes, sizes, scale = draws.CASES[name]
    for dtype in dtypes:
        for n in sizes:
            shape, state, wanted = RECORDED[f"{name}|{dtype}|{n}"]
            values, found_state = draws.drawn(torch, name, dtype, n)
            where = (name, dtype, n)
            assert list(values.shape) == shape, where
            assert found_state == state, where
            array = draws.array_of(torch, values)
            if scale is None:
                assert draws.bits_fingerprint(array) == wanted, where
            else:
                assert_near(array, wanted, dtype, scale)


# Their weights are normal: the logarithm and the sine may differ in the last bit.
NORMAL_LAYERS = ("Embedding", "EmbeddingBag")


@pytest.mark.parametrize("name", draws.LAYERS)
@pytest.mark.filterwarnings("ignore")
def test_layers_begin_with_torchs_parameters(name):
    bits, values = RECORDED[f"layer {name}"]
    array = draws.layer_parameters(torch, name).numpy()
    if name in NORMAL_LAYERS:
        assert_near(array, values, "float32", 0.0)
    else:
        assert draws.bits_fingerprint(array) == bits


@pytest.mark.parametrize("n", [16, 100, 31, 40000])
def test_contracted_products_round_once(n):
    from fractions import Fraction

    gen = Generator().manual_seed(n)
    values = stream.doubles(gen, n)
    for factor, term in ((0.7559289460184544, -0.3779644730092272), (3.0, 2.0)):
        found = stream.multiply_add64(values, factor, term)
        exact = [float(Fraction(v) * Fraction(factor) + Fraction(term)) for v in values[:200]]
        assert found[:200].tolist() == exact


def test_a_long_permutation_takes_two_words_for_each_place(monkeypatch):
    monkeypatch.setattr(stream, "LONG_PERMUTATION", 5)
    gen = Generator().manual_seed(0)
    other = Generator().manual_seed(0)
    order = []
    for i, word in enumerate(stream.wide(other.take(14)).tolist()):
        place = word % (i + 1)
        order.append(i)
        order[i], order[place] = order[place], i
    assert sampling.permutation(gen, 7).tolist() == order
    assert sorted(order) == list(range(7))
    assert gen.get_state().tolist() == other.get_state().tolist()


def test_uniforms_never_reach_the_upper_bound():
    gen = Generator().manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        values = torch.empty(200_000, dtype=dtype).uniform_(generator=gen)
        assert values.max().item() < 1.0
        assert values.min().item() >= 0.0


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 50, 1000])
def test_a_shuffle_by_arrays_is_one_by_steps(n):
    gen = Generator().manual_seed(n)
    for _ in range(20 if n < 100 else 2):
        partners = [i + int(word) % (n - i) for i, word in enumerate(gen.take(n - 1))]
        order = list(range(n))
        for i, j in enumerate(partners):
            order[i], order[j] = order[j], order[i]
        assert stream.shuffled(np.array(partners, np.uint32), n).tolist() == order


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_long_draws_are_made_of_parts(dtype, monkeypatch):
    sizes = (stream.LOT - 16, stream.LOT, stream.LOT + 16, 3 * stream.LOT + 5)
    whole = []
    with monkeypatch.context() as patch:
        patch.setattr(stream, "LOT", 1 << 30)
        for size in sizes:
            torch.manual_seed(size)
            whole.append((torch.randn(size, dtype=dtype).tolist(), torch.rand(1).item()))
    for size, wanted in zip(sizes, whole, strict=True):
        torch.manual_seed(size)
        assert (torch.randn(size, dtype=dtype).tolist(), torch.rand(1).item()) == wanted
