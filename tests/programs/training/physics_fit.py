"""A network that solves u'' = -u with double backward, and a neural ODE that fits a spiral."""

import itertools
import math

import torch
from torch import nn


def initialise(module, scale):
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_((torch.arange(p.numel()) * 0.83 + 0.7 * k).sin().view_as(p) * scale)


net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
initialise(net, 0.5)
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
t = torch.linspace(0, math.pi, 24).unsqueeze(1).requires_grad_()
zero = torch.zeros(1, 1, requires_grad=True)
for step in range(20):
    optimizer.zero_grad()
    u = net(t)
    du = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
    ddu = torch.autograd.grad(du.sum(), t, create_graph=True)[0]
    residual = (ddu + u).square().mean()
    u0 = net(zero)
    (du0,) = torch.autograd.grad(u0.sum(), zero, create_graph=True)
    loss = residual + u0.square().sum() + (du0 - 1).square().sum()
    loss.backward()
    optimizer.step()
    print(f"pinn {step} loss {loss.item():.5f} residual {residual.item():.5f}")


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 12), nn.Softplus(), nn.Linear(12, 2))

    def forward(self, t, y):
        return self.layers(y**3)


def rk4(field, y, times):
    path = [y]
    for a, b in itertools.pairwise(times):
        h = b - a
        k1 = field(a, y)
        k2 = field(a + h / 2, y + h / 2 * k1)
        k3 = field(a + h / 2, y + h / 2 * k2)
        k4 = field(b, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(y)
    return torch.stack(path)


times = torch.linspace(0.0, 1.5, 12)
matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
with torch.no_grad():
    truth = rk4(lambda t, y: (y**3) @ matrix, torch.tensor([1.2, 0.3]), times)
field = Field()
initialise(field, 0.4)
optimizer = torch.optim.RMSprop(field.parameters(), lr=0.01)
for step in range(20):
    optimizer.zero_grad()
    loss = (rk4(field, truth[0], times) - truth).abs().mean()
    loss.backward()
    optimizer.step()
    print(f"ode {step} loss {loss.item():.5f}")
