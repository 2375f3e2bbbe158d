"""Denoising diffusion on small pictures: time embedding, residual blocks, attention, EMA, DDIM."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


def sinusoidal(t, size):
    half = size // 2
    rates = torch.exp(-math.log(10000) * torch.arange(half) / half)
    angles = t.float()[:, None] * rates[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Block(nn.Module):
    def __init__(self, channels, time):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding="same")
        self.time = nn.Linear(time, 2 * channels)
        self.norm2 = nn.GroupNorm(4, channels, affine=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding="same")

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(t)[:, :, None, None].chunk(2, dim=1)
        return x + self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))


class Attention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Conv2d(channels, 3 * channels, 1, bias=False)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.qkv(x).reshape(b, 3, self.heads, c // self.heads, h * w)
        q, k, v = qkv.transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(b, c, h, w))


class Denoiser(nn.Module):
    def __init__(self, channels=8, time=16):
        super().__init__()
        self.time_size = time
        self.enter = nn.Conv2d(1, channels, 3, padding=1)
        self.blocks = nn.ModuleList([Block(channels, time) for _ in range(2)])
        self.attention = Attention(channels, 2)
        self.leave = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x, t):
        t = sinusoidal(t, self.time_size)
        h = self.blocks[0](self.enter(x), t)
        return self.leave(self.blocks[1](self.attention(h), t))


steps = 50
betas = torch.linspace(1e-3, 0.1, steps)
kept = torch.cumprod(1 - betas, dim=0)
net = Denoiser()
with torch.no_grad():
    for k, (name, p) in enumerate(net.named_parameters()):
        if p.dim() > 1:
            values = (torch.arange(p.numel()) * 0.77 + k).sin().view_as(p)
            p.copy_(values / math.sqrt(p[0].numel()))
        elif name.endswith("bias"):
            p.zero_()
ema = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, eps=1e-5)
grid = torch.stack(torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij"))
pictures = torch.stack([(grid[0] * (k + 1) * 0.3 + grid[1] * 0.4).sin() for k in range(6)])[:, None]
for step in range(20):
    t = (torch.arange(6) * 7 + step * 11) % steps
    noise = (torch.arange(pictures.numel()) * 12.9898 + step).sin().mul(43.7).frac().mul(1.7)
    noise = noise.view_as(pictures)
    a = kept[t].view(-1, 1, 1, 1)
    loss = F.mse_loss(net(a.sqrt() * pictures + (1 - a).sqrt() * noise, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        torch._foreach_lerp_(list(ema.parameters()), list(net.parameters()), 0.1)
    print(f"step {step} loss {loss.item():.5f}")

ema.eval()
x = (torch.arange(128) * 1.3).sin().view(2, 1, 8, 8)
with torch.inference_mode():
    for t in range(steps - 1, 0, -7):
        now, before = kept[t], kept[max(t - 7, 0)]
        e = ema(x, torch.full((2,), t))
        clean = ((x - (1 - now).sqrt() * e) / now.sqrt()).clamp(-1, 1)
        x = before.sqrt() * clean + (1 - before).sqrt() * e
print(f"{x.mean().item():.4f} {x.std().item():.4f}")
