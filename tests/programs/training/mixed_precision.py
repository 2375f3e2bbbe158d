"""Training under autocast in bfloat16, with a gradient scaler on and off."""

import torch
import torch.nn as nn


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 8, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        x = torch.relu(self.conv(x)).mean(-1)
        x = self.norm(x)
        return self.head(torch.relu(self.fc(x))).squeeze(-1)


def build():
    model = Net()
    with torch.no_grad():
        for seed, p in enumerate(model.parameters()):
            if p.dim() > 1:
                p.copy_(values(p.numel(), seed).view_as(p) * (3 / p[0].numel()) ** 0.5)
            elif p is not model.norm.weight:
                p.zero_()
    return model


data = values(16 * 2 * 12, 30).view(16, 2, 12)
target = data[:, 0].mean(-1) * 4 + data[:, 1, 0]


def train(use_amp, use_scaler, steps):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=use_scaler, init_scale=1024.0, growth_interval=8)
    print(f"amp {use_amp} scaler {use_scaler} scale {scaler.get_scale()}")
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=use_amp):
            output = model(data)
            with torch.autocast("cpu", enabled=False):
                loss = nn.functional.mse_loss(output.float(), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"{step:2d} {output.dtype} loss {loss.item():.6f} norm {norm.item():.5f}")
    print("scale", scaler.get_scale(), model.fc.weight.dtype, model.fc.weight.grad.dtype)
    return model


train(False, False, 20)
train(True, False, 20)
train(True, True, 20)
