"""A variational autoencoder of small pictures; the noise of its samples is given."""

import torch
from torch import nn, optim
from torch.nn import functional as F


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


def normal(rows, columns, seed):
    """Gaussian noise from two uniform streams (Box and Muller)."""
    first = (values(rows * columns, seed) + 1.0001) / 2.0002
    second = (values(rows * columns, seed + 1) + 1) * torch.pi
    return (torch.sqrt(-2 * torch.log(first)) * torch.cos(second)).view(rows, columns)


class VAE(nn.Module):
    def __init__(self, pixels=64, hidden=32, latent=4):
        super().__init__()
        self.fc1 = nn.Linear(pixels, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, pixels)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, noise):
        std = torch.exp(0.5 * logvar)
        return mu + noise * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, noise):
        mu, logvar = self.encode(x.view(x.size(0), -1))
        z = self.reparameterize(mu, logvar, noise)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.flatten(1), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce, kld


model = VAE()
with torch.no_grad():
    for seed, p in enumerate(model.parameters()):
        bound = p.size(-1) ** -0.5
        p.copy_(values(p.numel(), seed + 3).reshape(p.shape) * bound)
rows, columns = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
k = torch.arange(16).view(-1, 1, 1)
pictures = ((rows - k % 8).abs() + (columns - k // 2).abs() < 4).float().unsqueeze(1)
print(tuple(pictures.shape), pictures.mean().item())

optimizer = optim.Adam(model.parameters(), lr=1e-2)
for step in range(20):
    noise = normal(16, 4, 100 + 2 * step)
    optimizer.zero_grad()
    recon, mu, logvar = model(pictures, noise)
    bce, kld = loss_function(recon, pictures, mu, logvar)
    loss = bce + kld
    loss.backward()
    optimizer.step()
    print(f"{step:2d} loss {loss.item() / 16:.5f} bce {bce / 16:.5f} kld {kld / 16:.5f}")

with torch.no_grad():
    sample = model.decode(normal(3, 4, 50)).view(3, 8, 8)
    means = sample.mean((1, 2)).tolist()
print("samples", [round(m, 4) for m in means])
