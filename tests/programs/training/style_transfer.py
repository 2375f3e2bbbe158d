"""Optimises a picture, not a network: content and Gram-matrix losses of a frozen conv net."""

import torch
import torch.nn.functional as F
from torch import nn


def gram(features):
    b, c, h, w = features.shape
    flat = features.view(b, c, h * w)
    return torch.bmm(flat, flat.mT) / (c * h * w)


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 12, 3, padding=1),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Conv2d(12, 16, 3, padding=1, padding_mode="reflect"),
            nn.LeakyReLU(0.1),
        )
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, x):
        x = (x - self.mean) / self.std
        found = []
        for layer in self.layers:
            x = layer(x)
            if isinstance(layer, nn.Conv2d):
                found.append(x)
        return found


net = Features()
with torch.no_grad():
    for p in net.parameters():
        p.copy_((torch.arange(p.numel()) * 1.13).sin().view_as(p) * 0.2)
net.eval().requires_grad_(False)

rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
content = torch.stack([(rows / 16), (columns / 16), ((rows - columns).abs() < 4).float()])[None]
style = torch.stack([(rows * w).sin() * (columns * w).cos() / 2 + 0.5 for w in (0.9, 1.7, 2.6)])[
    None
]
content_target = net(content)[2]
style_targets = [gram(f) for f in net(style)]

picture = content.clone().requires_grad_(True)
optimizer = torch.optim.Adam([picture], lr=0.03, eps=1e-4)
for step in range(20):
    optimizer.zero_grad()
    features = net(picture)
    content_loss = F.mse_loss(features[2], content_target)
    style_loss = sum(F.mse_loss(gram(f), t) for f, t in zip(features, style_targets))
    across = (picture[..., :, 1:] - picture[..., :, :-1]).square().mean()
    down = (picture[..., 1:, :] - picture[..., :-1, :]).square().mean()
    loss = content_loss + 100 * style_loss + 0.1 * (across + down)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        picture.clamp_(0, 1)
    print(f"step {step} loss {loss.item():.7f} style {style_loss.item():.4e}")
print("frozen", all(p.grad is None for p in net.parameters()), picture.grad.shape)

picture = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([picture], max_iter=4, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = 1e3 * sum(F.mse_loss(gram(f), t) for f, t in zip(net(picture), style_targets))
    loss.backward()
    return loss


for step in range(3):
    print(f"lbfgs {step} {optimizer.step(closure).item():.7f}")
