"""Writes tests/distributed/data/torch_dcp, with PyTorch: two processes that meet by gloo."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.tensor import Shard, distribute_tensor


def work(rank: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29613"}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    weight = distribute_tensor(torch.arange(15.0).reshape(5, 3), mesh, [Shard(0)])
    state = {
        "model": {"weight": weight, "half": torch.arange(4.0).bfloat16()},
        "optim": {
            "state": {0: {"step": torch.tensor(7.0)}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0]}],
        },
        "step": 3,
        "scalar": torch.tensor(7),
        "list": [1, None, "x"],
        "empty": torch.zeros(0, 3),
    }
    dcp.save(state, checkpoint_id=folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    target = Path(__file__).parents[1] / "tests" / "distributed" / "data" / "torch_dcp"
    mp.spawn(work, args=(str(target),), nprocs=2)
