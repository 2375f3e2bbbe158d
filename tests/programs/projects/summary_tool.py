"""A command-line tool: summary of a model, a seeded run, and a check that runs itself again."""

import argparse
import os
import subprocess
import sys

import torch
from torch import nn


def build(width, depth):
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    for k in range(depth):
        layers += [nn.Conv2d(width << k, width << k + 1, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << depth, 5)
    )


def summary(model, size):
    rows, handles = [], []

    def note(name):
        def hook(module, inputs, output):
            count = sum(p.numel() for p in module.parameters() if p.requires_grad)
            rows.append((f"{name} ({type(module).__name__})", tuple(output.shape), count))

        return hook

    for name, module in model.named_modules():
        if not list(module.children()):
            handles.append(module.register_forward_hook(note(name)))
    model.eval()
    with torch.no_grad():
        model(torch.zeros(size))
    for handle in handles:
        handle.remove()
    print(f"{'layer':<26}{'output':<20}{'parameters':>12}")
    for name, shape, count in rows:
        print(f"{name:<26}{shape!s:<20}{count:>12,}")
    total = sum(p.numel() for p in model.parameters())
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    print(f"total {total:,}  {total * 4 / 1024:.1f} KiB  buffers {buffers} B")


def train(seed, width, depth, steps):
    torch.manual_seed(seed)
    model = build(width, depth).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        x, y = torch.randn(6, 3, 8, 8), torch.randint(5, (6,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=4, metavar="N")
    parser.add_argument("--depth", type=int, default=2, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("summary")
    once = commands.add_parser("train")
    once.add_argument("--steps", type=int, default=3)
    commands.add_parser("check")
    options = parser.parse_args()

    if options.command == "summary":
        summary(build(options.width, options.depth), (1, 3, 8, 8))
    elif options.command == "train":
        for loss in train(options.seed, options.width, options.depth, options.steps):
            print(float.hex(loss))
    else:
        command = [sys.executable, os.path.abspath(__file__), "--seed"]
        runs = [
            subprocess.run([*command, seed, "train"], capture_output=True, text=True, check=True)
            for seed in ("7", "7", "8")
        ]
        first, again, other = (run.stdout.splitlines() for run in runs)
        here = [float.hex(loss) for loss in train(7, options.width, options.depth, 3)]
        print("same seed, same losses:", first == again == here)
        print("other seed, other losses:", first != other)
        print("same seed twice in one process:", train(7, 4, 2, 3) == train(7, 4, 2, 3))
        failed = subprocess.run([*command, "x", "train"], capture_output=True, text=True)
        print(failed.returncode, failed.stderr.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
