"""Generators of one's own, saved states, checkpointed dropout and double precision."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, RandomSampler

torch.manual_seed(99)
torch.set_default_dtype(torch.float64)
mine = torch.Generator().manual_seed(2147483647)
table = torch.randn(40, 3, generator=mine)
target = table @ torch.rand(3, generator=mine) + 0.01 * torch.randn(40)
body = nn.Sequential(nn.Linear(3, 20), nn.Dropout(0.1), nn.GELU())
head = nn.Linear(20, 1)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
sampler = RandomSampler(range(40), replacement=True, num_samples=48, generator=mine)
state = torch.get_rng_state()
for _ in range(2):
    torch.set_rng_state(state)
    for step, rows in enumerate(DataLoader(range(40), batch_size=12, sampler=sampler)):
        found = head(checkpoint(body, table[rows], use_reentrant=False)).squeeze(1)
        loss = (found - target[rows]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.random.fork_rng():
            aside = torch.rand(1).item()
        print(step, f"{loss.item():.4f}", f"{aside:.4f}", f"{torch.rand(1).item():.4f}")
torch.set_default_dtype(torch.float32)
