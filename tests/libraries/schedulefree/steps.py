"""Optimisers without schedules, and Lion: losses in training and in evaluation."""

import schedulefree
import torch
from lion_pytorch import Lion
from showing import show
from torch import nn

torch.manual_seed(3)
inputs, targets = torch.randn(32, 4), torch.randn(32, 2)
makers = {
    "lion": lambda params: Lion(params, lr=1e-2, weight_decay=0.1),
    "sgd": lambda params: schedulefree.SGDScheduleFree(params, lr=0.5, warmup_steps=2),
    "adamw": lambda params: schedulefree.AdamWScheduleFree(params, lr=1e-2),
    "each": lambda params: schedulefree.AdamWScheduleFree(params, lr=1e-2, foreach=False),
    "radam": lambda params: schedulefree.RAdamScheduleFree(params, lr=1e-2),
    "reference": lambda params: schedulefree.AdamWScheduleFreeReference(params, lr=1e-2),
    "closure": lambda params: schedulefree.AdamWScheduleFreeClosure(params, lr=1e-2),
}
for name, make in makers.items():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = make(model.parameters())

    def loss():
        optimizer.zero_grad()
        found = (model(inputs) - targets).square().mean()
        found.backward()
        return found

    if hasattr(optimizer, "train"):
        optimizer.train()
    losses = [float(optimizer.step(loss)) for _ in range(6)]
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    show(**{name: [losses, loss()]})
