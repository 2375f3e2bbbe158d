"""Training over processes gives the losses of one process on the whole batch."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.distributed as dist
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.distributed import comm_hooks
from rushlight.distributed.join import Join
from rushlight.distributed.zero import ZeroRedundancyOptimizer
from rushlight.nn.parallel import DistributedDataParallel as DDP

BATCH = 12  # of 2, 3 and 4 processes alike


class Block(nn.Module):
    def __init__(self, inward, outward, stride):
        super().__init__()
        self.first = nn.Conv2d(inward, outward, 3, stride, 1, bias=False)
        self.norm = nn.GroupNorm(2, outward)
        self.second = nn.Conv2d(outward, outward, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(inward, outward, 1, stride)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.norm(self.first(x)))) + self.short(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block(3, 8, 1), Block(8, 16, 2))
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class GPT(nn.Module):
    def __init__(self, width=32, words=17, length=8):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList([
            nn.TransformerEncoderLayer(width, 4, 64, 0.0, batch_first=True, norm_first=True)
            for _ in range(2)
        ])  # fmt: skip
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
        h = self.words(x) + self.places(torch.arange(x.shape[1]))
        for layer in self.layers:
            h = layer(h, mask)
        return self.head(h).transpose(1, 2)


def make(kind):
    torch.manual_seed(0)
    if kind == "mlp":
        model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 5))
        return model, torch.randn(BATCH, 6), torch.randint(0, 5, (BATCH,))
    if kind == "resnet":
        return ResNet(), torch.randn(BATCH, 3, 8, 8), torch.randint(0, 5, (BATCH,))
    words = torch.randint(0, 17, (BATCH, 9))
    return GPT(), words[:, :-1], words[:, 1:]


def share(tensor, rank, size):
    count = len(tensor) // size
    return tensor[rank * count : (rank + 1) * count]


def losses(model, x, y, steps=4, lr=0.1, average=None):
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        told = loss.detach().clone()
        if average:
            dist.all_reduce(told, op=dist.ReduceOp.AVG)
        found.append(told.item())
    return found


def check_losses_of_one_process(rank, size):
    for kind in ("mlp", "resnet", "gpt"):
        model, x, y = make(kind)
        expected = losses(model, x, y)
        for options in ({}, {"bucket_cap_mb": 0.002}, {"gradient_as_bucket_view": True},
                        {"static_graph": True}, {"find_unused_parameters": True}):  # fmt: skip
            model, x, y = make(kind)
            if rank:  # what rank 0 has is what counts
                with torch.no_grad():
                    next(model.parameters()).add_(1.0)
            wrapped = DDP(model, **options)
            mine = losses(wrapped, share(x, rank, size), share(y, rank, size), average=True)
            assert mine == pytest.approx(expected, rel=1e-5), (kind, options, mine, expected)
    assert len(DDP(make("mlp")[0], bucket_cap_mb=0.0001).buckets) == 4


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


def check_no_sync(rank, size):
    model, x, y = make("mlp")
    F.cross_entropy(model(x), y).backward()
    expected = [2 * each for each in gradients(model)]
    wrapped = DDP(make("mlp")[0])
    part = share(x, rank, size), share(y, rank, size)
    with wrapped.no_sync():
        F.cross_entropy(wrapped(part[0]), part[1]).backward()
    own = gradients(wrapped)
    every = [None] * size
    dist.all_gather_object(every, own[0].sum().item())
    assert len(set(every)) == size
    F.cross_entropy(wrapped(part[0]), part[1]).backward()
    for mine, whole in zip(gradients(wrapped), expected):
        assert torch.allclose(mine, whole, rtol=1e-5, atol=1e-6)


class Forked(nn.Module):
    """Uses one of two layers, and a third never."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.never = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, left):
        return (self.left if left else self.right)(x)


def check_unused_parameters(rank, size):
    torch.manual_seed(0)
    model = Forked()
    wrapped = DDP(model, find_unused_parameters=True)
    for _ in range(8):
        model.zero_grad()
        wrapped(torch.ones(1, 3), rank == 0).sum().backward()
        assert torch.allclose(model.left.bias.grad, torch.full((3,), 1 / size))
        assert torch.allclose(model.right.bias.grad, torch.full((3,), (size - 1) / size))
        assert model.never.weight.grad is None
    both = DDP(nn.ModuleDict({"a": nn.Linear(3, 1), "b": nn.Linear(3, 1)}),
               find_unused_parameters=True)  # fmt: skip
    both.module.forward = lambda x: sum(
        layer(x) for name, layer in both.module.items() if name == "a" or rank == 0
    )
    for _ in range(4):
        both.zero_grad()
        both(torch.ones(1, 3)).sum().backward()
        assert both.module["a"].bias.grad.item() == 1.0
        assert abs(both.module["b"].bias.grad.item() - 1 / size) < 1e-6
    wrapped = DDP(Forked())
    with pytest.raises(RuntimeError, match="no gradient came for .*never.weight"):
        wrapped(torch.ones(1, 3), True).sum().backward()
    static = DDP(Forked(), static_graph=True)
    for _ in range(3):
        static.zero_grad()
        static(torch.ones(1, 3), True).sum().backward()
        assert static.module.left.bias.grad.tolist() == [1.0] * 3
        assert static.module.never.weight.grad is None


def check_buffers_and_different_models(rank, size):
    model = nn.BatchNorm1d(3)
    wrapped = DDP(model)
    wrapped(torch.randn(4, 3) + rank)
    wrapped.eval()(torch.zeros(4, 3))
    every = [None] * size
    dist.all_gather_object(every, model.running_mean.tolist())
    assert every == [every[0]] * size
    with pytest.raises(RuntimeError, match="expects same model across all ranks"):
        DDP(nn.Linear(3, 3 + rank))
    with pytest.raises(RuntimeError, match="doesn't have any parameter that requires a gradient"):
        DDP(nn.ReLU())


def check_hooks(rank, size):
    model, x, y = make("mlp")
    expected = losses(model, x, y)
    part = share(x, rank, size), share(y, rank, size)
    cases = [
        (comm_hooks.allreduce_hook, None, 1e-5),
        (comm_hooks.fp16_compress_hook, None, 1e-2),
        (comm_hooks.bf16_compress_hook, None, 1e-2),
        (comm_hooks.fp16_compress_wrapper(comm_hooks.allreduce_hook), None, 1e-2),
        (comm_hooks.powerSGD_hook, comm_hooks.PowerSGDState(None, 32, 2), 1e-4),
        (comm_hooks.powerSGD_hook, comm_hooks.PowerSGDState(None, 2, 2), 0.2),
        (comm_hooks.batched_powerSGD_hook, comm_hooks.PowerSGDState(None, 4, 2), 0.2),
    ]
    for hook, state, tolerance in cases:
        wrapped = DDP(make("mlp")[0])
        wrapped.register_comm_hook(state, hook)
        mine = losses(wrapped, *part, average=True)
        assert mine == pytest.approx(expected, rel=tolerance), (hook, state)
        with pytest.raises(RuntimeError, match="only be called once"):
            wrapped.register_comm_hook(None, hook)
    wrapped = DDP(make("mlp")[0])
    comm_hooks.register_ddp_comm_hook(comm_hooks.DDPCommHookType.NOOP, wrapped)
    assert losses(wrapped, *part)[0] > 0


def check_uneven_inputs(rank, size):
    for divides_by_all in (True, False):
        torch.manual_seed(0)
        wrapped = DDP(nn.Linear(2, 1, bias=False))
        with torch.no_grad():
            wrapped.module.weight.zero_()
        optimiser = torch.optim.SGD(wrapped.parameters(), lr=1.0)
        with wrapped.join(divide_by_initial_world_size=divides_by_all):
            for _ in range(rank + 1):
                optimiser.zero_grad()
                wrapped(torch.ones(1, 2)).sum().backward()
                optimiser.step()
        # Step s is made by the ranks from s on.
        active = [size - step for step in range(size)]
        steps = sum([a / size if divides_by_all else 1.0 for a in active])
        assert torch.allclose(wrapped.module.weight, torch.full((1, 2), -steps)), divides_by_all
    if size == 2:
        wrapped = DDP(nn.Linear(2, 1))
        throwing = wrapped.join(throw_on_early_termination=True)
        with pytest.raises(RuntimeError, match="exhausted"), throwing:
            for _ in range(rank + 1):
                wrapped(torch.ones(1, 2)).sum().backward()


def check_uneven_inputs_of_spread_optimisers(rank, size):
    """What has ended still makes its share of the steps: all have the same parameters."""
    torch.manual_seed(0)
    wrapped = DDP(nn.Linear(2, 3))
    optimiser = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.SGD, lr=0.5)
    with Join([wrapped, optimiser]):
        for _ in range(rank + 1):
            optimiser.zero_grad()
            wrapped(torch.ones(1, 2)).sum().backward()
            optimiser.step()
    every = [None] * size
    dist.all_gather_object(every, [p.tolist() for p in wrapped.parameters()])
    assert every == [every[0]] * size


def check_synced_norm(rank, size):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1))
    x = torch.randn(BATCH, 3, 4, 4)
    twin = nn.SyncBatchNorm.convert_sync_batchnorm(
        nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1))
    )
    twin.load_state_dict(model.state_dict())
    wrapped = DDP(twin)
    whole, part = x.clone().requires_grad_(), share(x, rank, size).clone().requires_grad_()
    weights = torch.randn(BATCH, 2, 4, 4)
    (model(whole) * weights).sum().backward()
    (wrapped(part) * share(weights, rank, size)).sum().backward()
    assert torch.allclose(part.grad, share(whole.grad, rank, size), rtol=1e-4, atol=1e-5)
    for own, theirs in zip(twin.parameters(), model.parameters()):
        assert torch.allclose(own.grad * size, theirs.grad, rtol=1e-4, atol=1e-4)
    for own, theirs in zip(twin.buffers(), model.buffers()):
        assert torch.allclose(own.float(), theirs.float(), rtol=1e-5)


class Residual(nn.Module):
    def __init__(self, inward, outward, stride, act):
        super().__init__()
        self.first, self.second = (
            nn.Sequential(nn.Conv2d(a, outward, 3, b, 1, bias=False), nn.BatchNorm2d(outward))
            for a, b in ((inward, stride), (outward, 1))
        )
        self.short = nn.Identity()
        if stride > 1:
            self.short = nn.Sequential(
                nn.Conv2d(inward, outward, 1, stride, bias=False), nn.BatchNorm2d(outward)
            )
        self.act = act

    def forward(self, x):
        return self.act(self.second(self.act(self.first(x))) + self.short(x))


def resnet18(act, width=16):
    """Its eighteen layers and batch norms, narrower than it is."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)]
    inward = width
    for stride in (1, 2, 2, 2):
        for each in (stride, 1):
            outward = inward * each
            layers.append(Residual(inward, outward, each, act))
            inward = outward
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inward, 10))


def check_resnet18(rank, size):
    """Batch norms of the whole batch. In single precision without kinks: an activation that is zero
    but for rounding falls on one side of ReLU's or the other, and its gradient with it."""
    for act, dtype, near in ((F.relu, torch.float64, 1e-10), (F.gelu, torch.float32, 1e-5)):
        whole = resnet18(act).to(dtype)
        x, y = torch.randn(BATCH, 3, 16, 16, dtype=dtype), torch.randint(0, 10, (BATCH,))
        expected = losses(whole, x, y, steps=5, lr=0.05)
        wrapped = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(resnet18(act).to(dtype)))
        mine = losses(wrapped, share(x, rank, size), share(y, rank, size), 5, 0.05, average=True)
        assert mine == pytest.approx(expected, rel=near), (dtype, mine, expected)


def check_sampler(rank, size):
    from rushlight.utils.data import DistributedSampler

    sampler = DistributedSampler(list(range(10)), shuffle=True, seed=3)
    every = [None] * size
    dist.all_gather_object(every, list(sampler))
    seen = [index for each in every for index in each]
    assert set(seen) == set(range(10)) and len({len(each) for each in every}) == 1
