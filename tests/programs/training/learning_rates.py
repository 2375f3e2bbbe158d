"""Finds a learning rate, then trains with one cycle, plateaus, and a few other schedules."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler


def fill(module):
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_((torch.arange(p.numel()) * 0.51 + k).sin().view_as(p) * 0.4)
    return module


x = (torch.arange(32 * 4) * 0.93).sin().view(32, 4)
y = (x[:, :2] ** 2).sum(1, keepdim=True) - x[:, 2:3]
start = fill(nn.Sequential(nn.Linear(4, 16), nn.Mish(), nn.Linear(16, 1)))


def step(model, optimizer):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def find_rate(low=1e-4, high=1.0, count=20):
    model = copy.deepcopy(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=low)
    grow = lr_scheduler.LambdaLR(optimizer, lambda k: (high / low) ** (k / (count - 1)))
    average, found = 0.0, []
    for k in range(count):
        rate = grow.get_last_lr()[0]
        average = 0.8 * average + 0.2 * step(model, optimizer)
        smooth = average / (1 - 0.8 ** (k + 1))
        found.append((rate, smooth))
        print(f"rate {rate:.6f} loss {smooth:.5f}")
        if not math.isfinite(smooth) or smooth > 4 * min(s for _, s in found):
            break
        grow.step()
    return 0.08


best = find_rate()
model = copy.deepcopy(start)
optimizer = torch.optim.SGD(model.parameters(), lr=best, momentum=0.9)
cycle = lr_scheduler.OneCycleLR(optimizer, max_lr=best, total_steps=20, pct_start=0.3)
for k in range(20):
    loss = step(model, optimizer)
    group = optimizer.param_groups[0]
    print(f"cycle {k} loss {loss:.5f} rate {group['lr']:.6f} momentum {group['momentum']:.5f}")
    cycle.step()

model = copy.deepcopy(start)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
plateau = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, threshold=0.05)
for k in range(20):
    loss = step(model, optimizer)
    # a signal that stalls by construction
    plateau.step(1.0 / (1 + k // 4))
    print(f"plateau {k} loss {loss:.5f} rate {plateau.get_last_lr()[0]:.6f}")

schedules = {
    "step": lambda o: lr_scheduler.StepLR(o, 3, gamma=0.3),
    "multistep": lambda o: lr_scheduler.MultiStepLR(o, [2, 5], gamma=0.1),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="triangular2"),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, total_iters=6, power=2.0),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.5, total_iters=3), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
}
for name, make in schedules.items():
    model = copy.deepcopy(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    schedule = make(optimizer)
    rates, loss = [], 0.0
    for _ in range(8):
        rates.append(optimizer.param_groups[0]["lr"])
        loss = step(model, optimizer)
        schedule.step()
    print(name, " ".join(f"{rate:.5f}" for rate in rates), f"loss {loss:.5f}")
