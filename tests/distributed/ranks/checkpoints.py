"""Checkpoints in parts: written by some processes, read by others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed import checkpoint as dcp
from rushlight.distributed.dtensor import distribute_tensor, zeros
from rushlight.distributed.mesh import init_device_mesh
from rushlight.distributed.placements import Replicate, Shard
from rushlight.distributed.statedict import StateDictOptions, get_state_dict, set_state_dict
from tests.distributed.ranks.fullysharded import data, make, mean_losses, sharded, train

STEPS = 4


def folder():
    return Path(os.environ["CHECKPOINTS"])


def begin():
    model = sharded()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def state_of(model, optimiser):
    mine, theirs = get_state_dict(model, optimiser)
    return {"model": mine, "optimiser": theirs, "step": STEPS, "name": "curve"}


def write(rank, size):
    """Half of a training, and its state."""
    x, y = data()
    expected = train(make(), x, y, steps=STEPS)
    model, optimiser = begin()
    assert mean_losses(model, x, y, rank, size, optimiser, STEPS) == pytest.approx(
        expected, rel=1e-5
    )
    state = state_of(model, optimiser)
    dcp.save(state, checkpoint_id=folder() / "now")
    done = dcp.async_save(state, checkpoint_id=folder() / "later")
    # What is saved is the state of before.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0)
    dist.barrier()
    done.wait()


def resume(rank, size):
    """The other half."""
    x, y = data()
    whole = train(make(), x, y, steps=2 * STEPS)
    for name in ("now", "later"):
        model, optimiser = begin()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0)
        state = state_of(model, optimiser)
        state |= {"step": 0, "name": ""}
        dcp.load(state, checkpoint_id=folder() / name)
        assert state["step"] == STEPS and state["name"] == "curve"
        set_state_dict(
            model, optimiser, model_state_dict=state["model"], optim_state_dict=state["optimiser"]
        )
        mine = mean_losses(model, x, y, rank, size, optimiser, STEPS)
        assert mine == pytest.approx(whole[STEPS:], rel=1e-5), name
        full, _ = get_state_dict(model, optimiser, options=StateDictOptions(full_state_dict=True))
        assert {type(value) for value in full.values()} == {torch.Tensor}


def layouts(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        whole = (torch.randn(5, 2 * size + 1) * 9).to(dtype)
        for before in (Shard(0), Shard(1), Replicate()):
            spread = distribute_tensor(whole, mesh, [before])
            dcp.save({"deep": [{"x": spread}], "plain": whole}, checkpoint_id=folder() / "layouts")
            for after in (Shard(0), Shard(1), Replicate()):
                into = zeros(5, 2 * size + 1, dtype=dtype, device_mesh=mesh, placements=[after])
                plain = torch.zeros_like(whole)
                dcp.load(
                    {"deep": [{"x": into}], "plain": plain}, checkpoint_id=folder() / "layouts"
                )
                assert torch.equal(into.full_tensor(), whole) and torch.equal(plain, whole)
    own = list(folder().glob("layouts/*.distcp"))
    assert own


def alone(rank, size):
    if rank == 1:
        state = {"w": torch.arange(3.0)}
        dcp.save(state, checkpoint_id=folder() / "alone", no_dist=True)
        state["w"].zero_()
        dcp.load(state, checkpoint_id=folder() / "alone", no_dist=True)
        assert state["w"].tolist() == [0.0, 1.0, 2.0]
    dist.barrier()
