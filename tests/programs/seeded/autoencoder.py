"""A variational autoencoder on random blobs."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)
centres = torch.tensor([[2.0, 0.0, 1.0, -1.0], [-1.0, 1.5, 0.0, 2.0]])
data = centres[torch.randint(2, (100,))] + 0.3 * torch.randn(100, 4)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.mean, self.log_variance = nn.Linear(16, 2), nn.Linear(16, 2)
        self.decode = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 4))

    def forward(self, x):
        hidden = self.encode(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decode(code), mean, log_variance


model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(30):
    found, mean, log_variance = model(data)
    error = F.mse_loss(found, data, reduction="sum") / len(data)
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
    loss = error + 0.1 * divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        print(step, f"{error.item():.4f}", f"{divergence.item():.4f}")
with torch.no_grad():
    print(model.decode(torch.randn(3, 2)).sum(1))
