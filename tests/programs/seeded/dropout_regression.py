"""A perceptron with dropout on noisy data: nothing is fixed but the seed."""

import torch
from torch import nn

torch.manual_seed(0)
inputs = torch.randn(128, 6)
targets = torch.sin(inputs.sum(1, keepdim=True)) + 0.1 * torch.randn(128, 1)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(40):
    order = torch.randperm(128)[:32]
    loss = nn.functional.mse_loss(model(inputs[order]), targets[order])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        print(step, f"{loss.item():.4f}")
model.eval()
print(f"{nn.functional.mse_loss(model(inputs), targets).item():.4f}")
