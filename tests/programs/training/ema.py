"""Moving averages of weights: an exponential one and the stochastic average, with its schedule."""

import torch
import torch.nn as nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(5, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU())
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(self.features(x)).squeeze(-1)


model = Net()
for seed, (name, p) in enumerate(model.named_parameters()):
    if p.dim() > 1:
        p.data = values(p.numel(), seed).view(p.shape) * p.shape[1] ** -0.5
    elif name != "features.1.weight":
        p.data.zero_()

data = values(24 * 5, 40).view(24, 5)
target = torch.sin(2 * data[:, 0]) + data[:, 1] * data[:, 2]
batches = list(zip(data.split(8), target.split(8)))

ema_model = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8))
own = AveragedModel(
    model, avg_fn=lambda mean, now, n: 0.8 * mean + (1 - 0.8) * now, use_buffers=True
)
swa_model = AveragedModel(model)
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.5)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
swa_scheduler = SWALR(optimizer, swa_lr=0.005, anneal_epochs=3)
loss_fn = nn.SmoothL1Loss(beta=0.5)

for step in range(20):
    inputs, wanted = batches[step % 3]
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    ema_model.update_parameters(model)
    own.update_parameters(model)
    if step >= 12:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
    print(f"{step:2d} loss {loss.item():.6f} lr {optimizer.param_groups[0]['lr']:.6f}")

update_bn(batches, swa_model)
update_bn((x for x, _ in batches), ema_model)
model.eval()
for name, network in [("last", model), ("ema", ema_model), ("own", own), ("swa", swa_model)]:
    network.eval()
    with torch.no_grad():
        print(f"{name} {loss_fn(network(data), target).item():.6f}")
print(int(ema_model.n_averaged), int(swa_model.n_averaged))
print(sorted(ema_model.state_dict())[:4])
state = {name: value.clone() for name, value in ema_model.state_dict().items()}
again = AveragedModel(Net(), multi_avg_fn=get_ema_multi_avg_fn(0.8))
print(again.load_state_dict(state))
