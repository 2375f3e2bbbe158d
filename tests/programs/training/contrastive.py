"""Two views of each sample attract, all others repel: NT-Xent and a CLIP-like loss."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(inputs, 32), nn.LayerNorm(32), nn.SiLU(), nn.Linear(32, 12)
        )
        with torch.no_grad():
            for k in (0, 3):
                weight = self.net[k].weight
                n = weight.numel()
                weight.copy_((torch.arange(n) * 0.47 + inputs).sin().view_as(weight) * 0.4)
                self.net[k].bias.zero_()

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


def nt_xent(a, b, temperature=0.5):
    z = torch.cat([a, b])
    similarity = F.cosine_similarity(z.unsqueeze(1), z.unsqueeze(0), dim=-1) / temperature
    similarity = similarity.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    n = len(a)
    labels = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(similarity, labels)


data = (torch.arange(12 * 6) * 1.37).sin().view(12, 6)
encoder = Encoder(6)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.3, momentum=0.9, weight_decay=1e-4)
for step in range(20):
    shake = (torch.arange(72) * 2.1 + step).cos().view(12, 6) * 0.2
    loss = nt_xent(encoder(data + shake), encoder(data.roll(1, 1) - shake))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"simclr {step} loss {loss.item():.5f}")

images, texts = Encoder(6), Encoder(4)
scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
groups = [
    {"params": [*images.parameters(), *texts.parameters()]},
    {"params": [scale], "lr": 1e-3, "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-2, weight_decay=0.1)
captions = data[:, :4].tanh() + data[:, 2:]
for step in range(20):
    logits = scale.exp() * images(data) @ texts(captions).T
    labels = torch.arange(len(data))
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        scale.clamp_(0, math.log(100))
    print(f"clip {step} loss {loss.item():.5f} scale {scale.item():.4f}")
print([len(g["params"]) for g in optimizer.param_groups])
