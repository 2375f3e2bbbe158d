"""A generator and a discriminator learn a normal distribution."""

import torch
from torch import nn

torch.manual_seed(11)
generator = nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.1), nn.Linear(16, 1))
judge = nn.Sequential(nn.Linear(1, 16), nn.LeakyReLU(0.1), nn.Dropout(0.1), nn.Linear(16, 1))
to_fool = torch.optim.Adam(generator.parameters(), lr=1e-2, betas=(0.5, 0.999))
to_judge = torch.optim.Adam(judge.parameters(), lr=1e-2, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
yes, no = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(24):
    real = torch.empty(32, 1).normal_(4.0, 0.5)
    fake = generator(torch.rand(32, 3))
    judged = criterion(judge(real), yes) + criterion(judge(fake.detach()), no)
    to_judge.zero_grad()
    judged.backward()
    to_judge.step()
    fooled = criterion(judge(generator(torch.rand(32, 3))), yes)
    to_fool.zero_grad()
    fooled.backward()
    to_fool.step()
    if step % 3 == 0:
        print(step, f"{judged.item():.4f}", f"{fooled.item():.4f}", f"{fake.mean().item():.4f}")
