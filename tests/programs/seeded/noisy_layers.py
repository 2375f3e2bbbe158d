"""Layers that draw while they train: alpha dropout, RReLU, Gumbel softmax, stochastic depth."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(23)
x = torch.empty(64, 5).uniform_(-2, 2)
y = (x.prod(1) > 0).long() + torch.poisson(torch.full((64,), 0.2)).clamp(max=1).long()


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(5, 20)
        self.blocks = nn.ModuleList([nn.Linear(20, 20) for _ in range(3)])
        self.gate = nn.Linear(20, 4)
        self.leave = nn.Linear(24, 3)
        for block in self.blocks:
            nn.init.orthogonal_(block.weight, gain=0.8)
        nn.init.trunc_normal_(self.leave.weight, std=0.2)

    def forward(self, x):
        x = F.alpha_dropout(F.selu(self.enter(x)), 0.1, self.training)
        for block in self.blocks:
            keep = torch.rand(x.shape[0], 1) < 0.8
            x = x + F.rrelu(block(x), training=self.training) * keep
        return self.leave(torch.cat([x, F.gumbel_softmax(self.gate(x), tau=0.7)], 1))


model = Noisy()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
for step in range(20):
    loss = F.cross_entropy(model(x + 0.05 * torch.randn_like(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 2 == 0:
        print(step, f"{loss.item():.4f}")
