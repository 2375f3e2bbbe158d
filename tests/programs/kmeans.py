"""k-means with distances by broadcasting and centres by scatter."""

import torch

t = torch.arange(90, dtype=torch.float64)
group = (t.long() * 7) % 3
offset = torch.tensor([[0.0, 0.0], [5.0, 1.0], [2.0, 6.0]], dtype=torch.float64)
points = offset[group] + torch.stack([torch.sin(t * 1.3), torch.cos(t * 2.1)], dim=1)
centres = points[:3].clone() + torch.tensor([0.5, -0.25], dtype=torch.float64)
for step in range(10):
    distance = ((points[:, None, :] - centres[None]) ** 2).sum(-1)
    nearest = distance.argmin(1)
    sums = torch.zeros_like(centres).scatter_add_(0, nearest[:, None].expand(-1, 2), points)
    counts = torch.bincount(nearest, minlength=3)
    fresh = sums / counts.clamp(min=1)[:, None]
    shift = (fresh - centres).norm()
    centres = fresh
    print(step, counts.tolist(), f"{distance.min(1).values.mean():.4f} {shift:.2e}")
    if shift < 1e-9:
        break
order = centres[:, 0].argsort()
print(centres[order])
print(
    "radius",
    torch.zeros(3, dtype=torch.float64).scatter_reduce(
        0, nearest, distance.gather(1, nearest[:, None]).squeeze(1).sqrt(), "amax"
    ),
)
print(torch.stack([nearest, group]).unique(dim=1, return_counts=True))
print(torch.cdist(centres, centres).round(decimals=3))
