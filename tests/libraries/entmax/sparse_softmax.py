"""entmax: sparse alternatives to softmax, their losses and gradients."""

import torch
from entmax import (
    budget_bisect,
    entmax15,
    entmax15_loss,
    entmax_bisect,
    entmax_bisect_loss,
    normmax_bisect,
    sparsemax,
    sparsemax_bisect,
    sparsemax_loss,
)
from showing import show

torch.manual_seed(0)
x = torch.randn(4, 7, requires_grad=True)
target = torch.tensor([1, 0, 6, 3])
alpha = torch.tensor(1.3, requires_grad=True)
RESULTS = {
    "sparsemax": lambda: sparsemax(x, -1), "entmax15": lambda: entmax15(x, -1),
    "top": lambda: entmax15(x, -1, k=3), "bisected": lambda: entmax_bisect(x, alpha),
    "sparsemax_bisected": lambda: sparsemax_bisect(x), "normmax": lambda: normmax_bisect(x),
    "budget": lambda: budget_bisect(x, 2), "sparsemax_loss": lambda: sparsemax_loss(x, target),
    "entmax15_loss": lambda: entmax15_loss(x, target), "bisected_loss": lambda: entmax_bisect_loss(x, target),
}  # fmt: skip
for name, make in RESULTS.items():
    out = make()
    (grad,) = torch.autograd.grad((out * torch.linspace(0, 1, out.numel()).view_as(out)).sum(), x)
    show(**{name: out, f"{name}_grad": grad})
entmax_bisect(x, alpha)[:, 0].sum().backward()
show(alpha=alpha.grad)
