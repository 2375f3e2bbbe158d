"""A vision transformer on stripes: patches, class token, nn.TransformerEncoder, accumulation."""

import torch
import torch.nn.functional as F
from torch import nn


class ViT(nn.Module):
    def __init__(self, image=12, patch=4, dim=16, depth=2, heads=4, classes=3):
        super().__init__()
        self.patches = nn.Conv2d(1, dim, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, dim))
        layer = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(
            layer, depth, norm=nn.LayerNorm(dim), enable_nested_tensor=False
        )
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.position
        return self.head(self.encoder(x)[:, 0])


class LoRA(nn.Module):
    def __init__(self, linear, rank):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        n, m = linear.out_features, linear.in_features
        self.down = nn.Parameter((torch.arange(rank * m) * 0.3).sin().view(rank, m) * 0.2)
        self.up = nn.Parameter(torch.zeros(n, rank))

    def forward(self, x):
        return self.linear(x) + F.linear(F.linear(x, self.down), self.up)


def stripes(count, size=12):
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    kinds = [rows, columns, rows + columns]
    labels = torch.arange(count) % 3
    images = torch.stack([((kinds[k % 3] + k) * 1.1).sin() for k in range(count)])
    return images[:, None], labels


torch.manual_seed(0)
model = ViT()
with torch.no_grad():
    for k, (name, p) in enumerate(model.named_parameters()):
        if p.dim() > 1:
            p.copy_((torch.arange(p.numel()) * 0.63 + k).sin().view_as(p) * 0.25)
        elif "norm" not in name:
            p.zero_()
images, labels = stripes(12)
decay = [p for p in model.parameters() if p.dim() > 1]
rest = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.NAdam(
    [{"params": decay, "weight_decay": 0.05}, {"params": rest}], lr=4e-3, eps=1e-5
)
for step in range(20):
    total = 0.0
    for part in range(3):
        rows = slice(4 * part, 4 * part + 4)
        loss = F.cross_entropy(model(images[rows]), labels[rows]) / 3
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {total:.5f}")
model.eval()
with torch.no_grad():
    print(f"eval {F.cross_entropy(model(images), labels).item():.5f}")
    model.train()
    print(f"train {F.cross_entropy(model(images), labels).item():.5f}")

model.requires_grad_(False)
for layer in model.encoder.layers:
    layer.linear1 = LoRA(layer.linear1, 2)
    layer.linear2 = LoRA(layer.linear2, 2)
trainable = [p for p in model.parameters() if p.requires_grad]
print(
    "trainable", sum(p.numel() for p in trainable), "of", sum(p.numel() for p in model.parameters())
)
optimizer = torch.optim.SGD(trainable, lr=0.2, momentum=0.8)
turned = labels.roll(1)
for step in range(20):
    loss = F.cross_entropy(model(images), turned)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"lora {step} loss {loss.item():.5f}")
print([name for name, p in model.named_parameters() if p.grad is not None][:4])
