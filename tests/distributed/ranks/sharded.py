"""Tensors and models spread over a mesh compute what whole ones do."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.distributed as dist
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.distributed.dtensor import DTensor, distribute_tensor, ones, randn
from rushlight.distributed.groups import ProcessGroup
from rushlight.distributed.lossparallel import loss_parallel
from rushlight.distributed.mesh import init_device_mesh
from rushlight.distributed.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from rushlight.distributed.placements import Partial, Replicate, Shard


def check_meshes(rank, size):
    line = init_device_mesh("cpu", (size,), mesh_dim_names=("all",))
    assert line.get_local_rank() == rank and line["all"].size() == size and line.ndim == 1
    assert repr(line) == f"DeviceMesh((all={size}), 'cpu')"
    if size == 4:
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
        assert square.get_coordinate() == [rank // 2, rank % 2]
        assert dist.get_process_group_ranks(square["model"].get_group()) == [
            rank // 2 * 2, rank // 2 * 2 + 1,
        ]  # fmt: skip
        with pytest.raises(KeyError, match="Invalid mesh_dim_name"):
            square["other"]
        cube = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
        joined = cube["b", "c"]._flatten()
        assert joined.mesh.tolist() == square["model"].mesh.tolist()
        assert dist.get_process_group_ranks(joined.get_group()) == joined.mesh.tolist()
        assert cube["b_c"] is joined and cube._flatten("all").get_group().size() == 4


def layouts(mesh):
    return [Replicate(), Shard(0), Shard(1), Partial()]


def check_redistribution(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    for shape in ((4 * size, 2 * size), (5, 3), (1, size + 1)):
        torch.manual_seed(1)
        whole = torch.randn(shape)
        for before in layouts(mesh):
            spread = distribute_tensor(whole, mesh, [before])
            assert tuple(spread.shape) == shape
            assert torch.allclose(spread.full_tensor(), whole)
            for after in layouts(mesh):
                moved = spread.redistribute(placements=[after])
                assert moved.placements == (after,) and tuple(moved.shape) == shape
                assert torch.allclose(moved.full_tensor(), whole), (before, after)
    if size == 4:
        square = init_device_mesh("cpu", (2, 2))
        whole = torch.arange(24.0).reshape(6, 4)
        for before in ([Shard(0), Shard(0)], [Shard(1), Shard(0)], [Replicate(), Shard(1)]):
            spread = distribute_tensor(whole, square, before)
            for after in ([Shard(0), Shard(1)], [Shard(0), Shard(0)], [Replicate()] * 2):
                moved = spread.redistribute(placements=after)
                assert torch.equal(moved.full_tensor(), whole), (before, after)


def same(spread, whole):
    found = spread.full_tensor() if isinstance(spread, DTensor) else spread
    assert found.shape == whole.shape, (found.shape, whole.shape)
    assert torch.allclose(found, whole, rtol=1e-4, atol=1e-5), (found, whole)


PROGRAMS = [
    lambda a, b: a + b * 2 - 1,
    lambda a, b: (a * b).relu().sum(),
    lambda a, b: a.sum(0) + b.mean(0),
    lambda a, b: a.sum(1, keepdim=True) * b,
    lambda a, b: a @ b.t(),
    lambda a, b: (a.t() @ b).tanh(),
    lambda a, b: F.gelu(a).view(-1).sum() + b.mean(),
    lambda a, b: F.layer_norm(a, (a.shape[1],)) * b,
    lambda a, b: F.softmax(a, 1) + F.log_softmax(b, 0),
    lambda a, b: a.view(a.shape[0], 2, -1).transpose(0, 1).reshape(2, -1) * 2 + b.sum(),
    lambda a, b: torch.cat([a, b], 1)[1:].std(),
    lambda a, b: torch.where(a > 0, a, b).exp(),
    lambda a, b: a.unsqueeze(1).expand(-1, 3, -1).sum(1) + b,
]


def check_operators(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    # Four processes take a while on two cores: fewer layouts there.
    firsts = (Replicate(), Shard(0), Shard(1)) if size == 2 else (Shard(0),)
    for rows, columns in ((2 * size, 4 * size), (5, 6)):
        for number, program in enumerate(PROGRAMS):
            for first in firsts:
                for second in (Replicate(), Shard(0), Shard(1), Partial())[-len(firsts) - 1 :]:
                    torch.manual_seed(number)
                    a = torch.randn(rows, columns, requires_grad=True)
                    b = torch.randn(rows, columns, requires_grad=True)
                    expected = program(a, b)
                    expected.sum().backward()
                    x = distribute_tensor(a, mesh, [first])
                    y = distribute_tensor(b, mesh, [second])
                    found = program(x, y)
                    same(found, expected.detach())
                    found.sum().backward()
                    same(x.grad, a.grad)
                    same(y.grad, b.grad)


def check_lists(rank, size):
    """Operators on lists, of parts of uneven length and of different layouts."""
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    whole = [torch.randn(5, 3), torch.randn(4)]
    for first in ([Shard(0)], [Replicate()]):
        a, b = ([distribute_tensor(t, mesh, first) for t in whole] for _ in range(2))
        mixed = [distribute_tensor(whole[0], mesh, [Replicate()]), b[1]]
        halves = [distribute_tensor(t / size, mesh, [Replicate()]) for t in whole]
        parts = [DTensor(each.to_local(), mesh, (Partial(),), tuple(each.shape)) for each in halves]
        for other in (b, mixed, whole, parts):
            found = torch._foreach_add(a, other, alpha=2)
            for one, each in zip(found, whole):
                same(one, each * 3)
        for one, each in zip(torch._foreach_norm(a), whole):
            same(one, each.norm())
        for one, each in zip(torch._foreach_max(a), whole):
            same(one, each.max())
        torch._foreach_addcdiv_(a, b, torch._foreach_exp(b), [2.0, 3.0])
        for one, each, scale in zip(a, whole, (2.0, 3.0)):
            same(one, each + scale * each / each.exp())


def check_making(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    made = ones(2 * size, 3, device_mesh=mesh, placements=[Shard(0)])
    assert made.to_local().shape == (2, 3) and made.full_tensor().sum() == 6 * size
    torch.manual_seed(3)
    drawn = randn(2 * size, device_mesh=mesh, placements=[Shard(0)]).full_tensor()
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.randn(2 * size))
    part = torch.full((2,), float(rank), requires_grad=True)
    whole = DTensor.from_local(part, mesh, [Shard(0)])
    (whole.full_tensor() * torch.arange(2.0 * size)).sum().backward()
    assert part.grad.tolist() == [2.0 * rank, 2.0 * rank + 1]


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.each = width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            f(x).view(*x.shape[:2], -1, self.each).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, width=16, heads=4, words=16, length=8):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1]))
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))


def train(model, x, y, optimiser=None, steps=4):
    optimiser = optimiser or torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        output = model(x)
        loss = F.cross_entropy(output.flatten(0, 1), y.flatten())
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


def data():
    torch.manual_seed(5)
    text = torch.randint(0, 16, (12, 9))
    return text[:, :-1], text[:, 1:]


def make():
    torch.manual_seed(0)
    return GPT()


def check_tensor_parallel(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    x, y = data()
    expected = train(make(), x, y)
    plan = {
        "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(),
        "attention.v": ColwiseParallel(), "attention.out": RowwiseParallel(),
        "up": ColwiseParallel(), "down": RowwiseParallel(),
    }  # fmt: skip
    model = make()
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    parallelize_module(
        model, mesh, {"head": ColwiseParallel(output_layouts=Replicate()),
                      "words": RowwiseParallel(input_layouts=Replicate())},
    )  # fmt: skip
    assert model.layers[0].up.weight.to_local().shape == (64 // size, 16)
    assert train(model, x, y) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="no module of the model is named"):
        parallelize_module(model, mesh, {"nowhere": ColwiseParallel()})


def check_loss_parallel(rank, size):
    """Cross entropy of split classes, which never come together."""
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    gathers = []
    before = ProcessGroup.collective

    def collective(group, name, detail, *rest):
        gathers.append(name)
        return before(group, name, detail, *rest)

    for classes, shape in ((8 * size, (6,)), (size + 1, (6,)), (4 * size, (3, 5))):
        logits = 3 * torch.randn(shape[0], classes, *shape[1:])
        target = torch.randint(0, classes, shape)
        target[1] = -100
        weight = torch.rand(classes)
        for options in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"weight": weight}):
            whole = logits.clone().requires_grad_()
            expected = F.cross_entropy(whole, target, **options)
            (expected * 2).sum().backward()
            spread = distribute_tensor(logits, mesh, [Shard(1)]).requires_grad_()
            gathers.clear()
            ProcessGroup.collective = collective
            try:
                with loss_parallel():
                    found = F.cross_entropy(spread, target, **options)
                    (found * 2).sum().backward()
            finally:
                ProcessGroup.collective = before
            assert set(gathers) == {"all_reduce"}, gathers
            same(found, expected.detach())
            assert spread.grad.placements == (Shard(1),)
            same(spread.grad, whole.grad)
    # Elsewhere the layouts decide, as ever.
    same(F.cross_entropy(spread, target), F.cross_entropy(whole, target))


def check_sequence_parallel(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    x, y = data()
    expected = train(make(), x, y)
    plan = {
        "norm1": SequenceParallel(), "norm2": SequenceParallel(),
        "attention": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(),
        "attention.v": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    }  # fmt: skip
    model = make()
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    parallelize_module(
        model, mesh,
        {"words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1),
                                  use_local_output=False),
         "places": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0),
                                   use_local_output=False),
         "norm": SequenceParallel(),
         "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())},
    )  # fmt: skip
    assert train(model, x, y) == pytest.approx(expected, rel=1e-5)
