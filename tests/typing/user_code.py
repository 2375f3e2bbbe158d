"""A program as users write it, for the type checker: see test_types_of_users.py."""

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = F.relu(self.first(x))
        out: torch.Tensor = self.second(hidden)
        return out


def accuracy(logits: torch.Tensor, target: torch.Tensor) -> float:
    return (logits.argmax(1) == target).float().mean().item()


torch.manual_seed(0)
x = torch.randn(16, 4)
y = torch.randint(0, 2, (16,))
loader = DataLoader(TensorDataset(x, y), batch_size=4)
net = Net()
optimizer = optim.Adam(net.parameters(), lr=1e-2)
for inputs, target in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(inputs), target)
    loss.backward()
    optimizer.step()

with torch.no_grad():
    total: torch.Tensor = torch.stack([x.sum(), x.mean()]).sum() + 1
    rows = torch.cat([x, x.clone()], dim=0).reshape(-1, 4).to(torch.float64)
    values, indices = torch.max(rows, dim=1)
    scaled = 2 * rows @ rows.t() - rows.mean(dim=0, keepdim=True).sum()
    wide = torch.zeros(2, 3, dtype=torch.int64).float().unsqueeze(0)[:, 0]
kind: torch.dtype = torch.float32
place: torch.device = torch.device("cpu")
print(accuracy(net(x), y), total.item(), scaled.shape, wide.shape, kind, place)
torch.save(net.state_dict(), "/dev/null")
