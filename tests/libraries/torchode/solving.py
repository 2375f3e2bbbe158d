"""Initial value problems solved for a batch, each with its own steps, and gradients."""

import torch

import torchode as to
from showing import gradients, show

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def f(t, y):
    return net(y) - 0.5 * y


start = torch.randn(4, 2)
times = torch.linspace(0, 2, 5).repeat(4, 1)
problem = to.InitialValueProblem(y0=start, t_eval=times)
term = to.ODETerm(f)
for name, method in (("dopri5", to.Dopri5), ("tsit5", to.Tsit5), ("heun", to.Heun)):
    net.zero_grad()
    controller = to.IntegralController(atol=1e-5, rtol=1e-4, term=term)
    solver = to.AutoDiffAdjoint(method(term=term), controller)
    found = solver.solve(problem)
    found.ys[:, -1].square().sum().backward()
    show(
        **{
            name: found.ys,
            f"{name}_gradients": gradients(net),
            f"{name}_status": found.status,
            f"{name}_steps": found.stats["n_accepted"],
        }
    )
solver = to.AutoDiffAdjoint(to.Heun(term=term), to.FixedStepController())
show(fixed=solver.solve(problem, dt0=torch.full((4,), 0.1)).ys)
