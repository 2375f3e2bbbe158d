"""A multilayer perceptron on two spirals, with Adam and a checkpoint of its state."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def spirals(count):
    angle = torch.linspace(0.3, 3.0, count)
    arm = torch.stack([angle * torch.cos(2 * angle), angle * torch.sin(2 * angle)], 1)
    data = torch.cat([arm, -arm]) / 3
    return data, torch.cat([torch.zeros(count), torch.ones(count)]).long()


class Net(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.head = nn.Linear(hidden, 2)
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x):
        self.steps += 1
        return self.head(self.layers(x))


def fill(model):
    for number, parameter in enumerate(model.parameters()):
        count = parameter.numel()
        values = torch.sin(torch.arange(count) * 12.9898 + number) * 0.7
        parameter.data.copy_(values.reshape(parameter.shape))


data, target = spirals(40)
model = Net()
fill(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(121):
    loss = F.cross_entropy(model(data), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(f"{step:4d} {loss.item():.3f}")
print(model)
print("steps", model.steps.item(), "parameters", sum(p.numel() for p in model.parameters()))
state = {name: value.clone() for name, value in model.state_dict().items()}
other = Net()
print(other.load_state_dict(state))
model.eval()
other.eval()
with torch.no_grad():
    print(torch.equal(model(data), other(data)))
    print("errors", (model(data).argmax(1) != target).sum().item())
print(model.training, [name for name, _ in model.named_modules()])
