"""Parameters, gradients and optimiser states in parts give the losses of whole ones."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.distributed as dist
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.distributed.dtensor import DTensor
from rushlight.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from rushlight.distributed.mesh import init_device_mesh
from rushlight.distributed.zero import ZeroRedundancyOptimizer
from tests.distributed.ranks.sharded import data, make, train


def mean_losses(model, x, y, rank, size, optimiser=None, steps=4):
    """Training on this process's part of the batch; the mean losses."""
    count = len(x) // size
    part = slice(rank * count, (rank + 1) * count)
    own = torch.tensor(train(model, x[part], y[part], optimiser, steps))
    dist.all_reduce(own, op=dist.ReduceOp.AVG)
    return own.tolist()


def sharded(mesh=None, **options):
    model = make()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def check_fully_shard(rank, size):
    x, y = data()
    expected = train(make(), x, y)
    for reshards in (True, False) if size == 2 else (True,):
        model = sharded(reshard_after_forward=reshards)
        assert isinstance(model, FSDPModule) and type(model).__name__ == "FSDPGPT"
        for parameter in model.parameters():
            assert isinstance(parameter, DTensor)
            assert parameter.to_local().shape[0] <= -(-parameter.shape[0] // size)
        assert mean_losses(model, x, y, rank, size) == pytest.approx(expected, rel=1e-5)
        for parameter in model.parameters():
            assert isinstance(parameter.grad, DTensor)
            assert parameter.grad.to_local().shape == parameter.to_local().shape
    # Nothing whole is left, and what a forward keeps for the backward are parts.
    model = sharded()
    loss = model(x).sum()
    spread = model.layers[0]._fully_sharded.bundles[0].spread
    assert all([each.whole is None for each in spread])
    loss.backward()
    assert all([each.whole is None for each in spread])


def check_state_is_in_parts(rank, size):
    model = sharded()
    x, y = data()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    mean_losses(model, x, y, rank, size, optimiser, 1)
    for parameter in model.parameters():
        state = optimiser.state[parameter]
        assert state["exp_avg"].to_local().shape == parameter.to_local().shape
    whole = {name: value.full_tensor() for name, value in model.state_dict().items()}
    twin = make()
    twin.load_state_dict(whole)
    with torch.no_grad():
        assert torch.allclose(twin(x), model(x), rtol=1e-5, atol=1e-6)


def check_accumulation_and_clipping(rank, size):
    x, y = data()
    whole, model = make(), sharded()
    count = len(x) // size
    part = slice(rank * count, (rank + 1) * count)
    for _ in range(2):
        F.cross_entropy(whole(x).flatten(0, 1), y.flatten()).backward()
        F.cross_entropy(model(x[part]).flatten(0, 1), y[part].flatten()).backward()
    for mine, theirs in zip(model.parameters(), whole.parameters()):
        assert torch.allclose(mine.grad.full_tensor(), theirs.grad, rtol=1e-4, atol=1e-6)
    before = nn.utils.clip_grad_norm_(whole.parameters(), 0.1)
    found = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    found = found.full_tensor() if isinstance(found, DTensor) else found
    assert found.item() == pytest.approx(before.item(), rel=1e-4)


def check_mixed_precision(rank, size):
    x, y = data()
    expected = train(make(), x, y)
    kinds = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    model = make()
    for layer in model.layers:
        fully_shard(layer, mp_policy=MixedPrecisionPolicy(**kinds))
    fully_shard(model, mp_policy=MixedPrecisionPolicy(output_dtype=torch.float32, **kinds))
    assert model(x).dtype == torch.float32
    assert mean_losses(model, x, y, rank, size) == pytest.approx(expected, rel=0.03)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def check_replicas_of_parts(rank, size):
    if size == 4:
        x, y = data()
        expected = train(make(), x, y)
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copy", "part"))
        model = sharded(mesh)
        assert model.head.weight.to_local().shape == (8, 16)
        assert mean_losses(model, x, y, rank, size) == pytest.approx(expected, rel=1e-5)


def check_spread_optimiser(rank, size):
    from rushlight.nn.parallel import DistributedDataParallel

    x, y = data()
    expected = train(make(), x, y, steps=6)
    model = DistributedDataParallel(make())
    optimiser = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    mine = mean_losses(model, x, y, rank, size, optimiser, 3)
    assert mine == pytest.approx(expected[:3], rel=1e-5)
    count = len(list(model.parameters()))
    kept = [0] * size
    dist.all_gather_object(kept, len(optimiser.optim.state))
    assert sum(kept) == count and max(kept) < count
    with pytest.raises(RuntimeError, match="has not been consolidated"):
        optimiser.state_dict()
    optimiser.consolidate_state_dict()
    state = [optimiser.state_dict() if rank == 0 else None]
    dist.broadcast_object_list(state)
    again = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.5)
    again.load_state_dict(state[0])
    assert again.param_groups[0]["lr"] == 0.01
    mine = mean_losses(model, x, y, rank, size, again, 3)
    assert mine == pytest.approx(expected[3:], rel=1e-5)
    # The state is a plain optimiser's, too.
    plain = torch.optim.AdamW(model.parameters(), lr=0.5)
    plain.load_state_dict(state[0])
    assert len(plain.state_dict()["state"]) == count
