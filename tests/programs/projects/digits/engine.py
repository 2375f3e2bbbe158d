"""The training loop."""

import torch
from torch import nn


def initialise(model: nn.Module) -> None:
    with torch.no_grad():
        for k, (name, p) in enumerate(model.named_parameters()):
            if name.endswith("bias"):
                nn.init.zeros_(p)
            else:
                fan = p[0].numel()
                p.copy_((torch.arange(p.numel()) * 0.67 + k).sin().view_as(p) * (2 / fan) ** 0.5)


def train(model, loader, optimizer, steps):
    criterion = nn.CrossEntropyLoss()
    done = 0
    while True:
        for pictures, digits in loader:
            if done == steps:
                return
            optimizer.zero_grad()
            loss = criterion(model(pictures), digits)
            loss.backward()
            optimizer.step()
            done += 1
            yield done, loss.item()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)
