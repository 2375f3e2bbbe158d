"""A double pendulum from its Lagrangian.

The equations of motion are never written down: `grad`, `jacfwd` and `hessian` derive them from the
energies, and `vmap` lets many pendulums with slightly different starts swing at once.
"""

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import torch
from torch.func import grad, hessian, jacfwd, vmap

torch.set_default_dtype(torch.float64)


def energies(angles, speeds):
    a, b = angles
    p, q = speeds
    kinetic = p**2 + q**2 / 2 + p * q * torch.cos(a - b)
    potential = -2 * torch.cos(a) - torch.cos(b)
    return kinetic, 9.81 * potential


def lagrangian(angles, speeds):
    kinetic, potential = energies(angles, speeds)
    return kinetic - potential


def acceleration(angles, speeds):
    force = grad(lagrangian, 0)(angles, speeds)
    mass = hessian(lagrangian, 1)(angles, speeds)
    drift = jacfwd(grad(lagrangian, 1), 0)(angles, speeds) @ speeds
    return torch.linalg.solve(mass, force - drift)


def rates(state):
    angles, speeds = state.chunk(2)
    return torch.cat([speeds, acceleration(angles, speeds)])


def step(state, h=0.01):
    k1 = rates(state)
    k2 = rates(state + h / 2 * k1)
    k3 = rates(state + h / 2 * k2)
    k4 = rates(state + h * k3)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def energy(state):
    kinetic, potential = energies(*state.chunk(2))
    return kinetic + potential


start = torch.tensor([2.0, 2.5, 0.0, 0.0])
states = start + 1e-3 * torch.linspace(0, 1, 24)[:, None]
path = [states]
for _ in range(500):
    states = vmap(step)(states)
    path.append(states)
path = torch.stack(path)

drift = (vmap(energy)(path[-1]) - vmap(energy)(path[0])).abs().max()
print(f"energy after 5 seconds differs by {drift:.1e}")
print(f"angles that began 0.001 apart now span {path[-1, :, 1].max() - path[-1, :, 1].min():.2f}")

figure, axes = plt.subplots(figsize=(8, 3))
axes.plot(torch.arange(501) * 0.01, path[:, :, 1], linewidth=0.8)
axes.set(xlabel="seconds", ylabel="angle of the outer bob")
figure.savefig("pendulum.svg", bbox_inches="tight")
