"""Diffusion of pictures and of series: training steps and samples."""

import torch

from denoising_diffusion_pytorch import (
    GaussianDiffusion,
    GaussianDiffusion1D,
    Unet,
    Unet1D,
)
from showing import gradients, show

torch.manual_seed(0)
model = Unet(dim=16, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8, attn_heads=2)
diffusion = GaussianDiffusion(model, image_size=16, timesteps=20, sampling_timesteps=4)
step = torch.optim.Adam(model.parameters(), 1e-3)
losses = []
for _ in range(3):
    step.zero_grad()
    loss = diffusion(torch.rand(2, 3, 16, 16))
    loss.backward()
    step.step()
    losses.append(loss.item())
show(losses=losses, gradients=gradients(model))
torch.manual_seed(1)
show(samples=diffusion.sample(batch_size=2))
torch.manual_seed(0)
model = Unet1D(dim=16, dim_mults=(1, 2), channels=4)
d = GaussianDiffusion1D(model, seq_length=16, timesteps=10, objective="pred_v")
loss = d(torch.rand(2, 4, 16))
loss.backward()
show(one=loss, og=gradients(model), s=d.sample(batch_size=2))
