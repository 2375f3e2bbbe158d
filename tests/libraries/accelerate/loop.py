"""Accelerate: prepare, accumulate, clip, gather, and save and load the state."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from showing import show
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
loader = DataLoader(TensorDataset(torch.randn(32, 5), torch.randint(0, 2, (32,))), 4, shuffle=True)
model, optimizer, schedule, loader = accelerator.prepare(model, optimizer, schedule, loader)
losses = []
for x, y in loader:
    with accelerator.accumulate(model):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach()).mean().item())
show(losses=losses, rate=schedule.get_last_lr(), device=accelerator.device)
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    before = model(torch.ones(1, 5))
    torch.nn.init.zeros_(accelerator.unwrap_model(model)[0].weight)
    accelerator.load_state(folder)
    show(out=before, same=torch.equal(before, model(torch.ones(1, 5))))
