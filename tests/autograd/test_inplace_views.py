"""Second derivatives through in-place ops on views."""

from __future__ import annotations

import rushlight as torch


def test_saved_result_leads_through_the_view():
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = (x * x).view(1, 2).tanh_().view(2)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    plain = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (h,) = torch.autograd.grad((plain * plain).tanh().sum(), plain, create_graph=True)
    (hh,) = torch.autograd.grad(h.sum(), plain)
    assert torch.allclose(gg, hh)
