"""torchdiffeq: every solver, the adjoint method, and an event."""

import torch
from showing import gradients, show
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
        )

    def forward(self, t, y):
        return self.net(y) - 0.5 * y


field = Field()
start = torch.tensor([[1.0, 0.0], [0.2, -0.7]], requires_grad=True)
times = torch.linspace(0, 1, 5)
for method in (
    "dopri5",
    "dopri8",
    "bosh3",
    "fehlberg2",
    "adaptive_heun",
    "euler",
    "midpoint",
    "rk4",
    "explicit_adams",
    "implicit_adams",
):
    show(**{method: odeint(field, start, times, method=method)[-1]})
for solve in (odeint, odeint_adjoint):
    field.zero_grad()
    start.grad = None
    solve(field, start, times, rtol=1e-5, atol=1e-6).square().sum().backward()
    show(**{solve.__name__: start.grad, f"{solve.__name__}_gradients": gradients(field)})
fall = lambda t, state: (state[1], torch.full_like(state[1], -9.8))
when, states = odeint_event(
    fall,
    (torch.tensor([10.0]), torch.tensor([0.0])),
    torch.tensor(0.0),
    event_fn=lambda t, s: s[0].squeeze(),
)
show(when=when, speed=states[1][-1])
