"""torchsde: paths of stochastic equations, by several methods, and their gradients."""

import torch
import torchsde
from showing import gradients, show


class Equation(torch.nn.Module):
    def __init__(self, kind, noise):
        super().__init__()
        self.sde_type, self.noise_type = kind, noise
        self.drift, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return torch.sigmoid(self.spread(y)) * 0.3


times = torch.linspace(0, 0.5, 4)
for kind, method in (
    ("ito", "euler"),
    ("ito", "milstein"),
    ("ito", "srk"),
    ("stratonovich", "midpoint"),
    ("stratonovich", "heun"),
):
    torch.manual_seed(0)
    equation = Equation(kind, "diagonal")
    start = torch.full((4, 3), 0.2)
    noise = torchsde.BrownianInterval(
        0.0, 0.5, size=(4, 3), entropy=7, levy_area_approximation="space-time"
    )
    path = torchsde.sdeint(equation, start, times, bm=noise, method=method, dt=0.05)
    path[-1].square().sum().backward()
    show(**{f"{kind}_{method}": path[-1], f"{kind}_{method}_gradients": gradients(equation)})
torch.manual_seed(0)
equation = Equation("stratonovich", "diagonal")
noise = torchsde.BrownianInterval(
    0.0, 0.5, size=(4, 3), entropy=7, levy_area_approximation="space-time"
)
torchsde.sdeint_adjoint(
    equation, torch.full((4, 3), 0.2), times, bm=noise, method="midpoint", dt=0.05
)[-1].sum().backward()
show(adjoint=gradients(equation))
