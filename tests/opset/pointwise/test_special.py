"""Special functions outside the domains that samples keep to."""

from __future__ import annotations

import math

import rushlight as torch


def test_entr_everywhere() -> None:
    x = torch.tensor([-1.0, 0.0, -0.0, math.nan, 2.0])
    found = torch.special.entr(x)
    assert found._array.dtype == "float32"
    below, zero, negative_zero, missing, above = found.tolist()
    assert below == -math.inf and (zero, negative_zero) == (0.0, 0.0)
    assert math.isnan(missing) and above == -1.3862943649291992


def test_functions_along_a_dim_are_public():
    x = torch.tensor([[1.0, 2.0], [0.5, -1.0]])
    assert torch.equal(torch.special.softmax(x, 1), torch.softmax(x, 1))
    assert torch.equal(torch.special.log_softmax(x, 0), torch.log_softmax(x, 0))
    assert torch.equal(torch.special.logsumexp(x, 1), torch.logsumexp(x, 1))
