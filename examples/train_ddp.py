"""Trains a small classifier in several processes, each on its part of the data.

Plain PyTorch: run it with `rushlight launch -n 2 examples/train_ddp.py`, or with torch installed,
`torchrun --nproc_per_node=2 examples/train_ddp.py`. One process alone works, too.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def spirals(count, seed):
    """Points of three spirals, and which they are of."""
    drawn = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 3, (count,), generator=drawn)
    way = torch.rand(count, generator=drawn)
    angle = 4 * way + label * (2 * torch.pi / 3) + 0.1 * torch.randn(count, generator=drawn)
    return TensorDataset(torch.stack([way * angle.cos(), way * angle.sin()], 1), label)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=60, help="samples a step, of all processes")
    options = parser.parse_args()

    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                        "MASTER_PORT": "29512"}.items():  # fmt: skip
        os.environ.setdefault(name, value)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(rank)  # the weights that count are those of rank 0
    layers = [nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = spirals(1200, seed=1)
    sampler = DistributedSampler(data, seed=2)
    loader = DataLoader(data, options.batch // size, sampler=sampler)

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for points, label in loader:
            optimiser.zero_grad()
            loss = F.cross_entropy(model(points), label)
            loss.backward()
            optimiser.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0 and (epoch + 1) % 5 == 0:
            print(f"epoch {epoch + 1:3d}  loss {mean.item() / size:.4f}", flush=True)

    # Each process tests its part; the sums are everybody's.
    points, label = spirals(600, seed=3)[rank::size]
    with torch.no_grad():
        right = (model.module(points).argmax(1) == label).sum()
    counts = torch.stack([right, torch.tensor(len(label))])
    dist.all_reduce(counts)
    if rank == 0:
        print(f"accuracy {counts[0].item() / counts[1].item():.3f} on {size} processes")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
