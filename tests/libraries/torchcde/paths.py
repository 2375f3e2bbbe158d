"""Controlled differential equations along three kinds of paths."""

import torch
import torchcde
from showing import gradients, show
from torch import nn

torch.manual_seed(0)
data = torch.randn(2, 6, 3)
data[..., 0] = torch.linspace(0, 1, 6)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(4, 12)

    def forward(self, t, z):
        return self.linear(z).tanh().view(-1, 4, 3)


paths = {
    "hermite": torchcde.CubicSpline(
        torchcde.hermite_cubic_coefficients_with_backward_differences(data)
    ),
    "natural": torchcde.CubicSpline(torchcde.natural_cubic_coeffs(data)),
    "linear": torchcde.LinearInterpolation(torchcde.linear_interpolation_coeffs(data)),
}
for name, path in paths.items():
    for adjoint in (False, True):
        field = Field()
        found = torchcde.cdeint(
            X=path, func=field, z0=torch.ones(2, 4), t=path.interval, adjoint=adjoint,
            method="rk4", options={"step_size": 0.2},
        )  # fmt: skip
        found.sum().backward()
        show(**{f"{name}_{adjoint}": found, "gradients": gradients(field)})
