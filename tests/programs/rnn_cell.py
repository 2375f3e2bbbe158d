"""A recurrent cell by hand learning to delay its input; gradients through time, clipped."""

import math

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.w_in = nn.Parameter(torch.empty(hidden, inputs))
        self.w_hidden = nn.Parameter(torch.empty(hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.reset()

    def reset(self):
        with torch.no_grad():
            for parameter in (self.w_in, self.w_hidden):
                wave = torch.cos(torch.arange(parameter.numel()) * 2.3)
                parameter.copy_(wave.view_as(parameter) / math.sqrt(parameter.size(1)))

    def forward(self, x, h):
        return torch.tanh(x @ self.w_in.T + h @ self.w_hidden.T + self.bias)


steps, batch, hidden = 12, 4, 8
t = torch.arange(steps).float()
signal = torch.stack([torch.sin(t * (0.5 + 0.2 * k)) for k in range(batch)], 1).unsqueeze(-1)
target = torch.cat([torch.zeros(2, batch, 1), signal[:-2]])
cell, readout = Cell(1, hidden), nn.Linear(hidden, 1)
nn.init.constant_(readout.weight, 0.1)
nn.init.zeros_(readout.bias)
parameters = [*cell.parameters(), *readout.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
for epoch in range(61):
    h = torch.zeros(batch, hidden)
    outputs = []
    for x in signal:
        h = cell(x, h)
        outputs.append(readout(h))
    loss = (torch.stack(outputs) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in parameters]).norm()
    scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
    for p in parameters:
        p.grad.mul_(scale)
    optimizer.step()
    if epoch % 20 == 0:
        print(epoch, f"{loss.item():.4f} {norm.item():.3f}")
print(cell.state_dict().keys())
print(h.shape, h.mean(1).detach())
