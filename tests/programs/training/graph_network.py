"""Message passing over the edges of a graph: convolution by index_add, attention by scatter."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


class GCNConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x, edge_index):
        row, col = edge_index
        deg = torch.zeros(x.size(0)).scatter_add_(0, col, torch.ones(col.size(0)))
        inv = deg.pow(-0.5)
        inv[inv == float("inf")] = 0
        norm = inv[row] * inv[col]
        messages = norm.unsqueeze(-1) * self.lin(x)[row]
        out = torch.zeros(x.size(0), messages.size(1)).index_add_(0, col, messages)
        return out + self.bias


class GATConv(nn.Module):
    def __init__(self, in_channels, out_channels, heads):
        super().__init__()
        self.heads, self.out = heads, out_channels
        self.lin = nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))

    def forward(self, x, edge_index):
        row, col = edge_index
        h = self.lin(x).view(-1, self.heads, self.out)
        scores = (h * self.att_src).sum(-1)[row] + (h * self.att_dst).sum(-1)[col]
        scores = F.leaky_relu(scores, 0.2)
        index = col.unsqueeze(-1).expand_as(scores)
        top = torch.full((x.size(0), self.heads), float("-inf"))
        top = top.scatter_reduce(0, index, scores.detach(), reduce="amax")
        weight = (scores - top[col]).exp()
        total = torch.zeros(x.size(0), self.heads).scatter_add(0, index, weight)
        weight = weight / (total[col] + 1e-16)
        out = h.new_zeros(h.shape).index_add(0, col, h[row] * weight.unsqueeze(-1))
        return out.flatten(1)


class Net(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.conv1 = GCNConv(features, hidden)
        self.att = GATConv(hidden, 6, heads=2)
        self.conv2 = GCNConv(12, classes)
        self.pool = nn.Linear(12, 1)

    def forward(self, x, edge_index, batch):
        x = F.relu(self.conv1(x, edge_index))
        x = F.elu(self.att(x, edge_index))
        count = torch.bincount(batch, minlength=3).clamp(min=1)
        pooled = torch.zeros(3, x.size(1)).index_add(0, batch, x) / count.unsqueeze(1)
        return F.log_softmax(self.conv2(x, edge_index), dim=-1), self.pool(pooled).squeeze(-1)


nodes, features, classes = 30, 7, 3
batch = torch.arange(nodes) // 10
label = (torch.arange(nodes) * 5 // 7) % classes
pairs = [
    (i, j)
    for i in range(nodes)
    for j in range(nodes)
    if i // 10 == j // 10 and (i == j or label[i] == label[j] or (i * 3 + j * 5) % 11 == 0)
]
edge_index = torch.tensor(pairs).t().contiguous()
x = F.one_hot(label, features).float() * 0.3 + values(nodes * features, 1).view(nodes, features)
train_mask = torch.arange(nodes) % 3 != 0
print("edges", edge_index.shape[1], "degrees", torch.bincount(edge_index[1])[:8].tolist())

model = Net(features, 16, classes)
with torch.no_grad():
    for seed, (name, p) in enumerate(model.named_parameters()):
        if "bias" in name:
            p.zero_()
        else:
            p.copy_(values(p.numel(), seed + 4).view_as(p) * p.size(-1) ** -0.5)
optimizer = torch.optim.Adam(
    [
        {"params": model.conv1.parameters(), "weight_decay": 5e-3},
        {"params": [*model.att.parameters(), *model.conv2.parameters()]},
        {"params": model.pool.parameters(), "lr": 0.005},
    ],
    lr=0.02,
)
heights = torch.tensor([0.5, -0.5, 0.25])
for epoch in range(20):
    model.train()
    optimizer.zero_grad()
    out, height = model(x, edge_index, batch)
    node_loss = F.nll_loss(out[train_mask], label[train_mask])
    graph_loss = F.mse_loss(height, heights)
    loss = node_loss + graph_loss
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch:2d} nodes {node_loss.item():.6f} graphs {graph_loss.item():.6f}")
model.eval()
with torch.no_grad():
    found = model(x, edge_index, batch)[0].argmax(dim=-1)
    right = found[~train_mask] == label[~train_mask]
print("held out", int(right.sum()), "of", right.numel())
