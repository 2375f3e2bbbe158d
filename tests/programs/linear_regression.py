"""A line fitted by hand: gradients from autograd, steps under no_grad."""

import torch

x = torch.linspace(-1, 1, 21)
y = 3 * x - 0.5 + 0.1 * torch.sin(12 * x)
weight = torch.zeros(1, requires_grad=True)
bias = torch.zeros(1, requires_grad=True)
for step in range(201):
    loss = ((weight * x + bias - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.3 * weight.grad
        bias -= 0.3 * bias.grad
    if step % 50 == 0:
        print(f"step {step:3d} loss {loss.item():.6f} grad {weight.grad.item():+.4f}")
    weight.grad.zero_()
    bias.grad = None
print(weight, bias)

design = torch.stack([x, torch.ones_like(x)], dim=1)
gram, moment = design.t() @ design, design.t() @ y
(a, b), (c, d) = gram.tolist()
det = a * d - b * c
inverse = torch.tensor([[d, -b], [-c, a]]) / det
print("closed form", inverse @ moment)
print(torch.allclose(inverse @ moment, torch.cat([weight, bias]), atol=1e-4))
