"""A few steps of every optimiser that takes no more than parameters."""

import pytorch_optimizer
import torch
from showing import show
from torch import nn

torch.manual_seed(3)
inputs, targets = torch.randn(32, 4), torch.randn(32, 2)
NEEDS_MORE = {"lomo", "adalomo", "galore", "sgdsai"}


def steps(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    cls = pytorch_optimizer.load_optimizer(name)
    try:
        optimizer = cls(model.parameters(), lr=1e-2)
    except TypeError:
        optimizer = cls(model.parameters())
    if hasattr(optimizer, "train"):
        optimizer.train()

    def closure():
        optimizer.zero_grad()
        loss = (model(inputs) - targets).square().mean()
        loss.backward()
        return loss

    losses = []
    for _ in range(4):
        loss = closure()
        try:
            optimizer.step()
        except TypeError:
            loss = optimizer.step(closure)
        losses.append(float(loss))
    return losses


for name in sorted(map(str, pytorch_optimizer.get_supported_optimizers())):
    if name in NEEDS_MORE or "bnb" in name or name.startswith("q_"):
        continue
    try:
        found = steps(name)
    except (AttributeError, NameError, RuntimeError, TypeError, ValueError) as error:
        found = type(error).__name__
    except Exception as error:  # an error of the library's own
        found = type(error).__name__
    show(**{name: found})
