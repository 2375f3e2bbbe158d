"""LeNet with batch norm on drawn bars; trained with its dropout frozen, then evaluated."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


class LeNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, kernel_size=5, padding=2, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 16, kernel_size=5)
        self.bn2 = nn.BatchNorm2d(16, momentum=0.3)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(16 * 5 * 5, 60)
        self.fc2 = nn.Linear(60, classes)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.pool(F.relu(self.bn2(self.conv2(x))))
        x = torch.flatten(x, 1)
        x = self.drop(F.relu(self.fc1(x)))
        return self.fc2(x)


def images(count, seed):
    pictures = values(count * 28 * 28, seed).view(count, 1, 28, 28) * 0.4
    labels = torch.arange(count) % 4
    for k in range(count):
        at = 4 + (k * 5) % 18
        if labels[k] == 0:
            pictures[k, 0, at : at + 3] += 1
        elif labels[k] == 1:
            pictures[k, 0, :, at : at + 3] += 1
        elif labels[k] == 2:
            pictures[k, 0] += torch.eye(28)
        else:
            pictures[k, 0] += torch.eye(28).flip(1)
    return TensorDataset(pictures, labels)


def initialise(module):
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        fan_in = module.weight[0].numel()
        with torch.no_grad():
            scale = (6 / fan_in) ** 0.5
            module.weight.copy_(values(module.weight.numel(), fan_in).view_as(module.weight))
            module.weight.mul_(scale)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


model = LeNet()
model.apply(initialise)
print(model)
loader = DataLoader(images(40, 1), batch_size=8, drop_last=True)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for epoch in range(4):
    model.train()
    model.drop.eval()
    for step, (inputs, labels) in enumerate(loader):
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print(f"[{epoch + 1}, {step + 1}] loss: {loss.item():.6f}")

model.eval()
correct = total = 0
with torch.inference_mode():
    for inputs, labels in DataLoader(images(20, 2), batch_size=10):
        outputs = model(inputs)
        _, predicted = torch.max(outputs, 1)
        total += labels.size(0)
        correct += (predicted == labels).sum().item()
        print(f"held out loss: {criterion(outputs, labels):.6f}")
print(f"accuracy: {100 * correct / total:.1f} %")
print("batches", model.bn1.num_batches_tracked.item())
print("mean", " ".join(f"{v:.5f}" for v in model.bn1.running_mean.tolist()))
print("var", " ".join(f"{v:.5f}" for v in model.bn2.running_var.tolist()))
