"""Initial values: ranges, spreads and what cannot be initialised."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
from rushlight.nn import init


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_constants():
    assert init.ones_(torch.empty(2)).tolist() == [1.0, 1.0]
    assert init.zeros_(torch.empty(2)).tolist() == [0.0, 0.0]
    assert init.constant_(torch.empty(2), 3).tolist() == [3.0, 3.0]
    assert init.eye_(torch.empty(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("fill", "bound"),
    [
        (lambda t: init.uniform_(t, -0.5, 0.5), 0.5),
        (lambda t: init.xavier_uniform_(t, gain=2.0), 2.0 * math.sqrt(6 / 100)),
        (lambda t: init.kaiming_uniform_(t, nonlinearity="relu"), math.sqrt(6 / 60)),
        (lambda t: init.kaiming_uniform_(t, math.sqrt(5), "fan_out"), math.sqrt(1 / 40)),
    ],
)
def test_uniform_values(fill, bound):
    found = fill(torch.empty(40, 60))
    assert found.abs().max().item() <= bound
    assert found.abs().max().item() > 0.99 * bound
    assert found.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (lambda t: init.normal_(t, 0.0, 2.0), 2.0),
        (lambda t: init.xavier_normal_(t), math.sqrt(2 / 100)),
        (lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 40)),
        (lambda t: init.kaiming_normal_(t, 0.2), math.sqrt(2 / 1.04 / 60)),
    ],
)
def test_normal_values(fill, std):
    found = fill(torch.empty(40, 60))
    assert found.std().item() == pytest.approx(std, rel=0.06)
    assert abs(found.mean().item()) < 0.1 * std


def test_truncated_normal_values():
    found = init.trunc_normal_(torch.empty(4000), std=1.0, a=-1.0, b=2.0)
    assert found.min().item() >= -1.0 and found.max().item() <= 2.0
    # Mean of a normal variable cut off at -1 and 2.
    assert found.mean().item() == pytest.approx(0.2296, abs=0.04)
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        tail = init.trunc_normal_(torch.empty(2000), mean=6.0, a=-2.0, b=2.0)
    assert tail.min().item() >= -2.0 and tail.max().item() <= 2.0
    # Close to 2 - 1/4: the density falls there like exp(-4 x).
    assert tail.mean().item() == pytest.approx(1.774, abs=0.03)


def test_gains():
    assert init.calculate_gain("linear") == init.calculate_gain("conv2d") == 1.0
    assert init.calculate_gain("tanh") == 5 / 3 and init.calculate_gain("selu") == 0.75
    assert init.calculate_gain("relu") == math.sqrt(2.0)
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2.0 / 1.04)
    for wrong in ("x", True):
        with pytest.raises(ValueError, match=f"negative_slope {wrong} not a valid number"):
            init.calculate_gain("leaky_relu", wrong)
    with pytest.raises(ValueError, match="Unsupported nonlinearity zz"):
        init.calculate_gain("zz")


def test_what_cannot_be_initialised():
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(torch.empty(2))
    with pytest.raises(ValueError, match="Mode x not supported"):
        init.kaiming_uniform_(torch.empty(2, 2), mode="x")
    with pytest.raises(ValueError, match="Only tensors with 2 dimensions are supported"):
        init.eye_(torch.empty(2))
    for fill in (init.kaiming_uniform_, init.kaiming_normal_):
        with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
            assert fill(torch.empty(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("size", [(3, 3), (4, 2), (2, 3, 2)])
def test_orthogonal_values(size):
    matrix = init.orthogonal_(torch.empty(size), gain=2.0).flatten(1)
    matrix = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wanted = 4 * torch.eye(matrix.shape[0])
    assert torch.allclose(matrix @ matrix.T, wanted, atol=1e-5)


def test_dirac_values():
    weight = init.dirac_(torch.empty(4, 2, 3), groups=2)
    x = torch.arange(10.0).reshape(1, 2, 5)
    passed = torch.nn.functional.conv1d(x, weight, padding=1)
    assert torch.equal(passed, x.repeat(1, 2, 1))
    flat = init.dirac_(torch.empty(3, 2, 2, 3)).flatten().nonzero().flatten().tolist()
    assert flat == [4, 22]
    assert init.dirac_(torch.empty(2, 2, 3, 3, 3)).sum().item() == 2.0


def test_sparse_values():
    weight = init.sparse_(torch.empty(10, 4), 0.33, std=2.0)
    assert (weight == 0).sum(0).tolist() == [4] * 4
    assert weight.abs().max().item() > 0.5


def test_what_these_refuse():
    with pytest.raises(ValueError, match="Only tensors with 3, 4, or 5 dimensions"):
        init.dirac_(torch.ones(2, 2))
    with pytest.raises(ValueError, match="dim 0 must be divisible by groups"):
        init.dirac_(torch.ones(3, 2, 2), 2)
    with pytest.raises(ValueError, match="Only tensors with 2 or more dimensions"):
        init.orthogonal_(torch.ones(2))
    with pytest.raises(ValueError, match="Only tensors with 2 dimensions"):
        init.sparse_(torch.ones(2), 0.1)


def test_older_names():
    with pytest.warns(FutureWarning, match="`nn.init.constant` is now deprecated in favor of"):
        assert init.constant(torch.empty(2), 3).tolist() == [3.0, 3.0]
    older = "uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform "
    for name in (older + "kaiming_normal orthogonal sparse").split():
        assert getattr(init, name).__name__ == name
