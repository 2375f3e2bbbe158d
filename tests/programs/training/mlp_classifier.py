"""A multilayer perceptron on clusters of points: options, batches from a loader, train and test."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, Sampler


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


class Clusters(Dataset):
    def __init__(self, count, classes, features, seed):
        self.targets = torch.arange(count) % classes
        centres = values(classes * features, 1).view(classes, features)
        noise = values(count * features, seed).view(count, features)
        self.points = centres[self.targets] + 0.9 * noise

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.points[index], self.targets[index]


class Strided(Sampler):
    """A fixed order that changes from pass to pass."""

    def __init__(self, source):
        self.size = len(source)
        self.passes = 0

    def __len__(self):
        return self.size

    def __iter__(self):
        self.passes += 1
        return iter([(k * 7 + 3 * self.passes) % self.size for k in range(self.size)])


class MLP(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, classes),
        )

    def forward(self, x):
        return F.log_softmax(self.layers(x), dim=1)


@torch.no_grad()
def initialise(model):
    for seed, parameter in enumerate(model.parameters(), 10):
        bound = (3 / parameter.shape[-1]) ** 0.5 if parameter.dim() > 1 else 0.1
        parameter.copy_(values(parameter.numel(), seed).view_as(parameter) * bound)


def train(model, loader, optimizer, epoch):
    model.train()
    for batch, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch} batch {batch} loss {loss.item():.6f}")


def test(model, loader):
    model.eval()
    total, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            total += F.nll_loss(output, target, reduction="sum").item()
            correct += output.argmax(dim=1, keepdim=True).eq(target.view_as(target)[:, None]).sum()
    size = len(loader.dataset)
    print(f"test loss {total / size:.6f}, accuracy {int(correct)}/{size}")


def main():
    parser = argparse.ArgumentParser(description="MLP on clusters")
    parser.add_argument("--batch-size", type=int, default=13)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--hidden", type=int, default=24)
    parser.add_argument("--no-accel", action="store_true")
    args = parser.parse_args()

    device = torch.device("cuda" if not args.no_accel and torch.cuda.is_available() else "cpu")
    training, testing = Clusters(65, 5, 8, 2), Clusters(40, 5, 8, 3)
    train_loader = DataLoader(training, batch_size=args.batch_size, sampler=Strided(training))
    test_loader = DataLoader(testing, batch_size=16, shuffle=False)

    model = MLP(8, args.hidden, 5)
    initialise(model)
    model = model.to(device)
    optimizer = optim.SGD(
        model.parameters(),
        lr=args.lr,
        momentum=args.momentum,
        weight_decay=args.weight_decay,
        nesterov=True,
    )
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for epoch in range(1, args.epochs + 1):
        train(model, train_loader, optimizer, epoch)
        test(model, test_loader)
        scheduler.step()
    print("lr", scheduler.get_last_lr())


if __name__ == "__main__":
    main()
