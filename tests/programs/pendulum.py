"""A pendulum simulated with forces from autograd, and its start found by gradient descent."""

import math

import torch

torch.set_printoptions(precision=3, sci_mode=False)


def potential(angle):
    return 9.81 * (1 - torch.cos(angle))


def force(angle):
    angle = angle.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(potential(angle).sum(), angle)
    return -gradient


angle = torch.tensor([0.1, 1.0, 2.5], dtype=torch.float64)
speed = torch.zeros_like(angle)
energy = potential(angle) + speed**2 / 2
dt = 0.01
crossings = torch.zeros(3, dtype=torch.long)
for step in range(600):
    half = speed + dt / 2 * force(angle)
    fresh = angle + dt * half
    crossings += torch.sign(fresh) != torch.sign(angle)
    angle = fresh
    speed = half + dt / 2 * force(angle)
    if step % 150 == 0:
        print(step, angle, speed)
drift = (potential(angle) + speed**2 / 2 - energy).abs().max()
print("drift small", (drift < 1e-2).item(), "crossings", crossings.tolist())
print("small-angle period", round(2 * math.pi / math.sqrt(9.81), 4))


def landing(velocity, steps=50):
    position, dt = torch.zeros(2), 0.02
    v = velocity
    for _ in range(steps):
        v = v + dt * (torch.tensor([0.0, -9.81]) - 0.1 * v * v.norm())
        position = position + dt * v
    return position


velocity = torch.tensor([3.0, 4.0], requires_grad=True)
goal = torch.tensor([5.0, 1.0])
for step in range(40):
    miss = (landing(velocity) - goal).square().sum()
    (gradient,) = torch.autograd.grad(miss, velocity)
    velocity = (velocity - 0.3 * gradient).detach().requires_grad_()
    if step % 10 == 0:
        print(step, f"{miss.item():.4f}")
print(velocity, landing(velocity).detach())
torch.set_printoptions(profile="default")
