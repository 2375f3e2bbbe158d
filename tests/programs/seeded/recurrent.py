"""An LSTM learns to tell which of two frequencies a noisy wave has."""

import torch
from torch import nn

torch.manual_seed(7)
time = torch.linspace(0, 6, 24)
kind = torch.bernoulli(torch.full((48,), 0.5))
phase = torch.rand(48, 1) * 3
waves = torch.sin(time * (1 + kind[:, None]) + phase) + 0.2 * torch.randn(48, 24)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 12, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        return self.head(self.lstm(x.unsqueeze(-1))[0][:, -1]).squeeze(-1)


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(20):
    loss = nn.functional.binary_cross_entropy_with_logits(model(waves), kind)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 2 == 0:
        print(step, f"{loss.item():.4f}")
