"""Training stopped and resumed from a file goes on as if it had never been stopped."""

import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.GELU())
        self.head = nn.Linear(16, 3)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            self.steps += 1
        return self.head(self.features(x))


def build():
    model = Net()
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            if p.dim() > 1:
                p.copy_((torch.arange(p.numel()).mul(0.37).add(k).sin() * 0.5).view_as(p))
            else:
                p.fill_(0.1 if k % 2 else 1.0)
    optimizer = optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.01)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    return model, optimizer, scheduler


def batch(step):
    x = torch.arange(8 * 6).mul(0.61).add(step % 5).sin().view(8, 6)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.3).long()
    return x, y


def train(model, optimizer, scheduler, first, last):
    losses = []
    model.train()
    for step in range(first, last):
        x, y = batch(step)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


model, optimizer, scheduler = build()
whole = train(model, optimizer, scheduler, 0, 20)
for step, loss in enumerate(whole):
    print(f"step {step} loss {loss:.5f}")

model, optimizer, scheduler = build()
before = train(model, optimizer, scheduler, 0, 9)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint.pt")
    torch.save(
        {
            "step": 9,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "losses": before,
        },
        path,
    )
    fresh, optimizer, scheduler = build()
    checkpoint = torch.load(path, map_location="cpu")
    whole_model = os.path.join(folder, "model.pt")
    torch.save(model, whole_model)
    trusted = torch.load(whole_model, weights_only=False)
print(sorted(checkpoint), type(checkpoint["model"]).__name__)
print(fresh.load_state_dict(checkpoint["model"]))
optimizer.load_state_dict(checkpoint["optimizer"])
scheduler.load_state_dict(checkpoint["scheduler"])
after = train(fresh, optimizer, scheduler, checkpoint["step"], 20)
print("same losses:", checkpoint["losses"] + after == whole)
print("learning rate", f"{scheduler.get_last_lr()[0]:.6f}", "batches seen", int(fresh.steps))

model.eval()
trusted.eval()
x, _ = batch(3)
print("same outputs:", torch.equal(model(x), trusted(x)))
state = fresh.state_dict()
del state["head.bias"]
state["extra"] = torch.zeros(1)
print(fresh.load_state_dict(state, strict=False))
try:
    fresh.load_state_dict(state)
except RuntimeError as error:
    print(error)
