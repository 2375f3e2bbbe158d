"""Gradients of each sample, and training with noise."""

import warnings

import torch
from opacus import GradSampleModule, PrivacyEngine
from showing import show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
torch.manual_seed(0)
each = GradSampleModule(nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2)))
each(torch.randn(5, 4)).square().sum().backward()
show(samples=[p.grad_sample for p in each.parameters()])

model = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2)
)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
pictures, classes = torch.randn(16, 1, 8, 8), torch.randint(0, 2, (16,))
engine = PrivacyEngine(accountant="rdp")
model, optimizer, loader = engine.make_private(
    module=model, optimizer=optimizer, noise_multiplier=1.0, max_grad_norm=1.0,
    data_loader=DataLoader(TensorDataset(pictures, classes), batch_size=8),
    noise_generator=torch.Generator().manual_seed(0), poisson_sampling=False,
)  # fmt: skip
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
show(epsilon=engine.get_epsilon(1e-5), weights=[p.detach() for p in model.parameters()])
