"""Curves fitted with L-BFGS: closures, a strong Wolfe line search, and Rosenbrock's valley."""

import torch
import torch.nn as nn


class Decay(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.3, -0.4]))
        self.rate = nn.Parameter(torch.tensor([0.5, 2.0]))
        self.offset = nn.Parameter(torch.zeros(1))

    def forward(self, t):
        parts = self.log_scale.exp() * torch.exp(-self.rate * t.unsqueeze(-1))
        return parts.sum(-1) + self.offset


time = torch.linspace(0, 4, 50)
signal = 2.0 * torch.exp(-0.8 * time) + 0.7 * torch.exp(-3 * time) + 0.2
signal = signal + 0.02 * torch.sin(37 * time)

model = Decay()
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(
    model.parameters(), lr=1, max_iter=4, history_size=10, line_search_fn="strong_wolfe"
)
evaluations = 0
for step in range(6):

    def closure():
        global evaluations
        evaluations += 1
        optimizer.zero_grad()
        loss = criterion(model(time), signal)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(f"step {step} loss {loss.item():.5e}")
print("called", evaluations > 6)

rosenbrock = torch.tensor([-1.0, 1.5], dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([rosenbrock], max_iter=5, line_search_fn="strong_wolfe")


def valley():
    optimizer.zero_grad()
    x, y = rosenbrock
    loss = (1 - x) ** 2 + 100 * (y - x**2) ** 2
    loss.backward()
    return loss


for step in range(9):
    print(f"valley {step} {optimizer.step(valley).item():.6e}")
print([round(v, 4) for v in rosenbrock.tolist()])

matrix = torch.tensor([[3.0, 1.0], [1.0, 2.0]])
target = torch.tensor([1.0, -1.0])
x = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.LBFGS([x], lr=0.1, max_iter=20, tolerance_grad=1e-9)
for step in range(20):

    def energy():
        optimizer.zero_grad()
        value = 0.5 * x @ matrix @ x - target @ x
        value.backward()
        return value

    value = optimizer.step(energy)
    if step < 3:
        print(f"energy {value.item():.6f}")
print([f"{v:.4f}" for v in x.tolist()], [f"{v:.4f}" for v in torch.linalg.solve(matrix, target)])

# Twenty steps of a regularised logistic regression, in float32 like the curve above.
number = torch.arange(60 * 5) * 7919 + 1
features = ((number * number % 65537).float() / 32768.5 - 1).view(60, 5)
labels = (features[:, 0] - 0.5 * features[:, 1] + 0.3 * features[:, 2] > 0.05).float()
weight = nn.Parameter(torch.zeros(5))
bias = nn.Parameter(torch.zeros(1))
optimizer = torch.optim.LBFGS([weight, bias], lr=0.2, max_iter=1, history_size=5)


def regression():
    optimizer.zero_grad()
    logits = features @ weight + bias
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
    loss = loss + 0.01 * weight.square().sum()
    loss.backward()
    return loss


for step in range(20):
    print(f"regression {step} {optimizer.step(regression).item():.6f}")
