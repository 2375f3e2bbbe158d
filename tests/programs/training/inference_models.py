"""Likelihoods: mixture densities, a hidden Markov model, a flow, variational inference."""

import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize


def fill(module, scale=0.5):
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_((torch.arange(p.numel()) * 0.81 + k).sin().view_as(p) * scale)
    return module


x = torch.linspace(-1, 1, 24)[:, None]
y = torch.where(torch.arange(24) % 2 == 0, x[:, 0] ** 2, -x[:, 0])
net = fill(nn.Sequential(nn.Linear(1, 16), nn.ReLU6(), nn.Linear(16, 6)))
optimizer = torch.optim.Adamax(net.parameters(), lr=0.02)
for step in range(20):
    weights, means, scales = net(x).chunk(3, dim=1)
    mixture = D.MixtureSameFamily(
        D.Categorical(logits=weights), D.Normal(means, F.softplus(scales) + 0.05)
    )
    loss = -mixture.log_prob(y).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"mixture {step} loss {loss.item():.5f}")

sequence = torch.tensor([0, 1, 1, 2, 0, 0, 1, 2, 2, 2, 1, 0, 0, 1])
transition = nn.Parameter((torch.arange(9) * 0.7).sin().view(3, 3))
emission = nn.Parameter((torch.arange(9) * 1.1).cos().view(3, 3))
optimizer = torch.optim.Rprop([transition, emission], lr=0.05)
for step in range(20):
    a, b = transition.log_softmax(1), emission.log_softmax(1)
    alpha = b[:, sequence[0]] - torch.log(torch.tensor(3.0))
    for symbol in sequence[1:]:
        alpha = torch.logsumexp(alpha[:, None] + a, dim=0) + b[:, symbol]
    loss = -alpha.logsumexp(0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"markov {step} loss {loss.item():.5f}")


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Linear(1, 8)
        self.out = parametrizations.weight_norm(nn.Linear(8, 2))

    def forward(self, x):
        a, b = x.flip(1).split(1, dim=1) if self.flip else x.split(1, dim=1)
        scale, shift = self.out(torch.tanh(self.net(a))).chunk(2, dim=1)
        scale = torch.tanh(scale)
        return torch.cat([a, b * scale.exp() + shift], dim=1), scale.squeeze(1)


flow = fill(nn.ModuleList([Coupling(k % 2 == 1) for k in range(3)]), 0.4)
print(parametrize.is_parametrized(flow[0].out), sorted(n for n, _ in flow[0].named_parameters()))
angles = torch.arange(20) * 0.6
points = torch.stack([angles.cos() * 2, angles.sin() + 0.2 * angles.cos()], dim=1)
base = D.Independent(D.Normal(torch.zeros(2), torch.ones(2)), 1)
optimizer = torch.optim.RAdam(flow.parameters(), lr=0.02)
for step in range(20):
    z, volume = points, 0.0
    for layer in flow:
        z, change = layer(z)
        volume = volume + change
    loss = -(base.log_prob(z) + volume).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"flow {step} loss {loss.item():.5f}")

mean = torch.zeros(2, requires_grad=True)
lower = torch.eye(2).mul(0.5).requires_grad_()
optimizer = torch.optim.ASGD([mean, lower], lr=0.05)
noise = (torch.arange(32) * 2.3).sin().view(16, 2) * 1.4
prior = D.MultivariateNormal(torch.zeros(2), torch.tensor([[2.0, 0.3], [0.3, 1.0]]))
for step in range(20):
    tril = lower.tril()
    q = D.MultivariateNormal(mean, scale_tril=tril)
    sample = mean + noise @ tril.T
    likelihood = D.StudentT(torch.tensor(4.0), loc=torch.tensor([1.0, -0.5]), scale=0.7)
    loss = -likelihood.log_prob(sample).sum(1).mean() + D.kl_divergence(q, prior)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"variational {step} loss {loss.item():.5f}")
