"""Collectives as operators: values, gradients, graphs; checkpoints in parts."""

from __future__ import annotations

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed import differentiable, functional


def check_values_and_gradients(rank, size):
    group = dist.group.WORLD
    x = (torch.arange(2.0 * size) + rank).requires_grad_()
    weights = torch.arange(2.0 * size) * (rank + 1)
    total = sum(range(1, size + 1))
    (functional.all_reduce(x, "sum", group) * weights).sum().backward()
    assert torch.allclose(x.grad, torch.arange(2.0 * size) * total)
    x.grad = None
    gathered = functional.all_gather_tensor(x, 0, group)
    assert gathered.shape == (2 * size * size,)
    (gathered * (rank + 1)).sum().backward()
    assert torch.allclose(x.grad, torch.full((2 * size,), float(total)))
    x.grad = None
    part = functional.reduce_scatter_tensor(x, "avg", 0, group)
    expected = torch.arange(2.0 * size) + (size - 1) / 2
    assert torch.allclose(part, expected[2 * rank : 2 * rank + 2])
    (part * (rank + 1)).sum().backward()
    wanted = torch.arange(1.0, size + 1).repeat_interleave(2) / size
    assert torch.allclose(x.grad, wanted)
    x.grad = None
    swapped = functional.all_to_all_single(x, None, None, group)
    (swapped * (rank + 1)).sum().backward()
    assert torch.allclose(x.grad, torch.arange(1.0, size + 1).repeat_interleave(2))
    x.grad = None
    told = differentiable.broadcast(x, 1)
    assert torch.equal(told.detach(), torch.arange(2.0 * size) + 1)
    told.sum().backward()
    assert torch.equal(x.grad, torch.full((2 * size,), float(size if rank == 1 else 0)))
    every = differentiable.all_gather(torch.tensor([float(rank)]))
    assert [each.item() for each in every] == list(range(size))
    given = [torch.tensor([float(r)], requires_grad=True) for r in range(size)]
    out = torch.zeros(1)
    mine = differentiable.reduce_scatter(out, given)
    assert mine.item() == out.item() == rank * size and not out.requires_grad
    (mine * (rank + 1)).sum().backward()
    assert [each.grad.item() for each in given] == [r + 1.0 for r in range(size)]


def check_shapes_of_the_plain_ones(rank, size):
    """Each against what it is a sum of, by the gradient of one's own part."""
    x = torch.arange(2.0) + rank
    x.requires_grad_()
    out = torch.zeros(2 * size)
    found = differentiable.all_to_all_single(out, x.repeat(size))
    expected = torch.cat([torch.arange(2.0) + other for other in range(size)])
    assert torch.equal(found.detach(), expected) and torch.equal(out, expected)
    (found * (rank + 1)).sum().backward()
    total = sum(range(1, size + 1))
    assert x.grad.tolist() == [total] * 2
    x.grad = None
    into = [torch.zeros(2) for _ in range(size)]
    parts = differentiable.all_to_all(into, [x * (other + 1) for other in range(size)])
    for other, part in enumerate(parts):
        assert torch.equal(part.detach(), (torch.arange(2.0) + other) * (rank + 1))
        assert torch.equal(part.detach(), into[other])
    sum([part.sum() for part in parts]).backward()
    assert x.grad.tolist() == [total] * 2
    x.grad = None
    parts = differentiable.gather(x, 1)
    assert parts[0].tolist() == ([0.0, 1.0] if rank == 1 else [0.0, 0.0])
    (torch.stack(parts).sum() * (rank + 3)).backward()
    assert x.grad.tolist() == [4.0, 4.0]
    x.grad = None
    own = differentiable.scatter([x * (other + 1) for other in range(size)], 1)
    assert torch.equal(own.detach(), (torch.arange(2.0) + 1) * (rank + 1))
    own.sum().backward()
    assert x.grad.tolist() == ([total] * 2 if rank == 1 else [0.0, 0.0])
    x.grad = None
    whole = differentiable.reduce(x, 1)
    if rank == 1:
        assert whole.tolist() == [sum(range(size)), sum(range(size)) + size]
    (whole.sum() * (rank + 3)).backward()
    assert x.grad.tolist() == [4.0, 4.0]


def check_traced(rank, size):
    from rushlight.aot.tracing import make_fx

    group = dist.group.WORLD

    def program(x):
        return functional.all_reduce(x * 2, "sum", group) + 1

    x = torch.ones(3) * rank
    traced = make_fx(program)(x)
    assert "_c10d_functional.all_reduce" in traced.code
    assert torch.equal(traced(x + 1), program(x + 1))
    compiled = torch.compile(program)
    leaf = (x + 2).requires_grad_()
    found = compiled(leaf)
    assert torch.equal(found.detach(), program(x + 2))
    found.sum().backward()
    assert leaf.grad.tolist() == [2.0 * size] * 3
