"""Trains a small network to tell three interleaved spirals apart.

Plain PyTorch: run it with `rushlight run examples/train_mlp.py`, or with torch installed, `python`.
"""

import argparse
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def spirals(points, classes, noise, generator):
    """Points on `classes` spirals, with their labels."""
    inputs, labels = [], []
    for label in range(classes):
        radius = torch.linspace(0.05, 1, points)
        angle = 4 * radius + label * 2 * math.pi / classes
        angle = angle + noise * torch.randn(points, generator=generator)
        inputs.append(torch.stack([radius * torch.sin(angle), radius * torch.cos(angle)], dim=1))
        labels.append(torch.full((points,), label))
    return torch.cat(inputs), torch.cat(labels)


class Classifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, classes),
        )

    def forward(self, x):
        return self.layers(x)


def accuracy(model, inputs, labels):
    with torch.no_grad():
        return (model(inputs).argmax(dim=1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    inputs, labels = spirals(400, 3, 0.3, generator)
    test_inputs, test_labels = spirals(200, 3, 0.3, generator)
    model = Classifier(options.width, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)

    start = time.perf_counter()
    for step in range(1, options.steps + 1):
        chosen = torch.randint(len(inputs), (options.batch,), generator=generator)
        loss = F.cross_entropy(model(inputs[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == options.steps:
            filled = 30 * step // options.steps
            bar = "#" * filled + "." * (30 - filled)
            rate = step / (time.perf_counter() - start)
            sys.stdout.write(
                f"\r[{bar}] step {step}/{options.steps}  loss {loss.item():.4f}  {rate:.0f} steps/s"
            )
            sys.stdout.flush()
    print()
    print(f"train accuracy {accuracy(model, inputs, labels):.3f}")
    print(f"test accuracy  {accuracy(model, test_inputs, test_labels):.3f}")


if __name__ == "__main__":
    main()
