"""Sobol points equal PyTorch 2.13's, scrambled ones too."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.quasirandom import SobolEngine


def test_all_dimensions():
    points = SobolEngine(1111).draw(1000, dtype=torch.float64)
    weights = torch.arange(1.0, 1112.0, dtype=torch.float64)
    assert points.sum().item() == PLAIN[0]
    assert abs((points * weights).sum().item() / PLAIN[1] - 1) < 1e-12
    assert points[-1, -3:].tolist() == PLAIN[2]


@pytest.mark.parametrize("seed", [0, 5])
def test_scrambled(seed):
    engine = SobolEngine(7, scramble=True, seed=seed)
    drawn = engine.draw(5).tolist()
    assert drawn[0] == FIRST[seed]
    rest = engine.draw(3).tolist()
    engine.reset()
    assert engine.draw(8).tolist() == drawn + rest


def test_leaving_points_out():
    engine, other = SobolEngine(3), SobolEngine(3)
    every = other.draw(40).tolist()
    assert engine.fast_forward(4).draw(2).tolist() == every[4:6]
    assert engine.fast_forward(10).draw(3).tolist() == every[16:19]
    out = torch.empty(0)
    assert engine.draw(2, out=out) is out and out.tolist() == every[19:21]


def test_powers_of_two():
    engine = SobolEngine(2)
    assert engine.draw_base2(3).shape == (8, 2)
    with pytest.raises(ValueError, match="balance properties"):
        engine.draw_base2(4)
    assert repr(SobolEngine(2, True, 3)) == "SobolEngine(dimension=2, scramble=True, seed=3)"


def test_more_dimensions_than_the_table_has():
    with pytest.raises(ValueError, match=r"1111 dimensions, not for 1112 \(RL1312\)"):
        SobolEngine(1112)
    with pytest.raises(ValueError, match=r"\[1, 21201\]"):
        SobolEngine(0)


# Of 1,000 points in 1,111 dimensions: the sum, the sum weighted by dimension, the last numbers.
PLAIN = (554961.8671875, 308561114.828125, [0.6748046875, 0.8017578125, 0.6826171875])
FIRST = {
    0: [
        0.47510719299316406,
        0.592523992061615,
        0.4944792091846466,
        0.3138517439365387,
        0.9560918211936951,
        0.08330223709344864,
        0.09876348823308945,
    ],
    5: [
        0.4802905321121216,
        0.11725887656211853,
        0.12398969382047653,
        0.34623226523399353,
        0.21347513794898987,
        0.5481463670730591,
        0.425818532705307,
    ],
}
