"""Training a small U-Net to predict noise, with an average of its weights."""

import torch
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel
from showing import show

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8),
    down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2, norm_num_groups=4,
)  # fmt: skip
scheduler = DDPMScheduler(100, beta_schedule="squaredcos_cap_v2")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
rates = get_cosine_schedule_with_warmup(optimizer, 2, 6)
average = EMAModel(model.parameters(), decay=0.9)
losses = []
for _ in range(6):
    clean = torch.rand(4, 1, 8, 8)
    noise = torch.randn_like(clean)
    times = torch.randint(0, 100, (4,))
    guess = model(scheduler.add_noise(clean, noise, times), times).sample
    loss = torch.nn.functional.mse_loss(guess, noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    rates.step()
    optimizer.zero_grad()
    average.step(model.parameters())
    losses.append(loss.item())
show(losses=losses, rate=rates.get_last_lr()[0])
average.copy_to(model.parameters())
show(averaged=next(model.parameters()))
