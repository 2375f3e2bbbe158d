"""A small convolutional classifier fed by a shuffling loader."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(42)
images = torch.rand(96, 1, 10, 10)
labels = torch.randint(0, 3, (96,))
for image, label in zip(images, labels):
    image[0, 3 * label : 3 * label + 3] += 0.7
train, test = random_split(TensorDataset(images, labels), [80, 16])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.second = nn.Conv2d(6, 8, 3, padding=1)
        self.drop = nn.Dropout2d(0.25)
        self.last = nn.Linear(8 * 4 * 4, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.last(self.drop(F.relu(self.second(x))).flatten(1))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    for batch, (x, y) in enumerate(DataLoader(train, batch_size=16, shuffle=True)):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, batch, f"{loss.item():.4f}")
model.eval()
correct = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, batch_size=8))
print("correct", correct, "of", len(test))
