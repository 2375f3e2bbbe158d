"""A network that tells spirals apart.

An ordinary training loop; the picture shows what the network says of the whole plane.
"""

import math

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import torch
import torch.nn as nn

torch.manual_seed(0)
radius = torch.linspace(0.05, 1, 100).repeat(3)
labels = torch.arange(3).repeat_interleave(100)
angle = 4 * radius + labels * 2 * math.pi / 3 + 0.1 * torch.randn(300)
points = torch.stack([radius * angle.sin(), radius * angle.cos()], 1)

model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
for number in range(601):
    loss = nn.functional.cross_entropy(model(points), labels)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if number % 200 == 0:
        right = (model(points).argmax(1) == labels).float().mean()
        print(f"step {number:3}  loss {loss:.4f}  right {right:.1%}")

line = torch.linspace(-1.1, 1.1, 200)
grid = torch.cartesian_prod(line, line)
with torch.no_grad():
    said = model(grid).argmax(1).reshape(200, 200).T
figure, axes = plt.subplots(figsize=(4, 4))
axes.imshow(said, extent=(-1.1, 1.1, -1.1, 1.1), origin="lower", alpha=0.3, cmap="brg")
axes.scatter(points[:, 0], points[:, 1], c=labels, s=8, cmap="brg")
axes.set_axis_off()
figure.savefig("spirals.svg", bbox_inches="tight")
