"""Integrals by every rule and by VEGAS, with gradients of an integral."""

import torch
from torchquad import Boole, GaussLegendre, MonteCarlo, Simpson, Trapezoid, VEGAS, set_up_backend

from showing import show

set_up_backend("torch", data_type="float64")
domain = torch.tensor([[0.0, 1.0], [-1.0, 2.0]])


def f(x):
    return torch.exp(-x[:, 0]) * torch.sin(x[:, 1]) + x[:, 0] * x[:, 1] ** 2


for rule in (Trapezoid, Simpson, Boole, GaussLegendre):
    show(
        **{
            rule.__name__: rule().integrate(
                f, dim=2, N=2001, integration_domain=domain, backend="torch"
            )
        }
    )
show(carlo=MonteCarlo().integrate(f, dim=2, N=10000, integration_domain=domain, seed=0))
show(vegas=VEGAS().integrate(f, dim=2, N=10000, integration_domain=domain, seed=0))
limits = domain.clone().requires_grad_()
area = Simpson().integrate(f, dim=2, N=1001, integration_domain=limits)
area.backward()
show(area=area, grad=limits.grad)
