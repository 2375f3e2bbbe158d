"""Two classes told apart with nn and optim."""

import torch
from torch import nn

n = 60
t = torch.arange(n, dtype=torch.float32)
points = torch.stack([torch.cos(t * 1.7) * (1 + t / n), torch.sin(t * 0.9) * 2], dim=1)
labels = (points[:, 0] + 0.5 * points[:, 1] > 0.2).float()

model = nn.Linear(2, 1)
with torch.no_grad():
    model.weight.copy_(torch.tensor([[0.1, -0.1]]))
    model.bias.zero_()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
for epoch in range(60):
    optimizer.zero_grad()
    logits = model(points).squeeze(1)
    loss = criterion(logits, labels)
    loss.backward()
    optimizer.step()
    if epoch % 15 == 0:
        accuracy = ((logits > 0).float() == labels).float().mean()
        print(epoch, f"{loss.item():.4f}", f"{accuracy.item():.3f}")
print(model)
print({name: tuple(p.shape) for name, p in model.named_parameters()})
with torch.no_grad():
    probability = torch.sigmoid(model(points)).squeeze(1)
predicted = probability > 0.5
matrix = torch.zeros(2, 2, dtype=torch.long)
for truth, guess in zip(labels.long(), predicted.long()):
    matrix[truth, guess] += 1
print(matrix)
print(sorted(optimizer.state_dict()["param_groups"][0])[:4])
print(torch.topk(model(points).squeeze(1), 3).indices)
