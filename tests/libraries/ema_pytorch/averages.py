"""Averages of weights by torch_ema and ema_pytorch, stored, restored and copied."""

import copy
import io

import torch
from torch_ema import ExponentialMovingAverage

from ema_pytorch import EMA
from showing import show

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 1))
average, other = (
    ExponentialMovingAverage(model.parameters(), 0.9),
    EMA(model, beta=0.8, update_after_step=1, update_every=2),
)
step = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(8):
    step.zero_grad()
    model(torch.randn(6, 3)).square().mean().backward()
    step.step()
    average.update()
    other.update()
x = torch.randn(4, 3)
model.eval()
other.eval()
with average.average_parameters():
    show(averaged=model(x))
show(
    now=model(x), other=other(x), names=sorted(average.state_dict()), others=len(other.state_dict())
)
memory = io.BytesIO()
torch.save({"a": average.state_dict(), "b": other.state_dict()}, memory)
memory.seek(0)
saved = torch.load(memory)
fresh = ExponentialMovingAverage(copy.deepcopy(model).parameters(), 0.5)
fresh.load_state_dict(saved["a"])
other.load_state_dict(saved["b"])
fresh.copy_to(model.parameters())
show(decay=fresh.decay, updates=fresh.num_updates, copied=model(x), again=other(x))
