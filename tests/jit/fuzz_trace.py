"""Random tensor programs for comparing traces with eager runs, forward and backward.

A program is a list of steps over a growing list of matrices. Each step works for matrices of any
size of at least 2 x 2, so that a trace on one shape must hold for others.
"""

from __future__ import annotations

import random

import rushlight as torch

F = torch.nn.functional


def corner(a):
    return a[:1, :1]


UNARY = (
    torch.tanh,
    torch.sigmoid,
    lambda a: a.relu() + a * 0.1,
    lambda a: a * 0.5 - 1,
    lambda a: 2 - a,
    lambda a: a / 3 + True,
    lambda a: a.clamp(-2, 2),
    lambda a: F.gelu(a),
    lambda a: F.softmax(a, dim=-1),
    lambda a: F.layer_norm(a, (1,)) if a.dim() < 2 else a - a.mean(1, keepdim=True),
    lambda a: a.t(),
    lambda a: a.t().contiguous(),
    lambda a: a.flip(0),
    lambda a: a.roll(1, 1),
    lambda a: a.contiguous().view(a.size(1), a.size(0)),
    lambda a: a.reshape(-1).view(a.shape),
    lambda a: a.flatten()[: a.size(0) * a.size(1)].view(a.size(0), -1),
    lambda a: a[: (a.size(0) + 2) // 2 + 1],
    lambda a: a[:, a.size(1) - 2 :],
    lambda a: a[1:].repeat(2, 1),
    lambda a: torch.cat([a, a * 2]),
    lambda a: torch.stack([a, a + 1]).sum(0),
    lambda a: a.chunk(2, 0)[0].repeat(2, 1),
    lambda a: a.sum(0, keepdim=True).expand(a.size(0), a.size(1)),
    lambda a: a + torch.arange(a.size(1)),
    lambda a: a + torch.zeros(a.size(0), 1),
    lambda a: a * torch.full(a.shape, 0.5),
    lambda a: a / a.numel(),
    lambda a: a / (a.size(0) + 1),
    lambda a: a[a.size(0) - 1].unsqueeze(0).repeat(a.size(0), 1),
    lambda a: a.masked_fill(a > 0.5, 0.25),
    lambda a: torch.where(a > 0, a, a * 0.1),
    lambda a: a.index_select(1, torch.arange(a.size(1) - 1, -1, -1)),
    lambda a: a.sort(1)[0],
    lambda a: a.cumsum(0) * 0.5,
    lambda a: a.max(1, keepdim=True)[0] + a,
    lambda a: a.norm() * 0.1 + a,
    lambda a: F.pad(a, (1, 0)),
    lambda a: a.detach() + a,
    lambda a: (a @ a.t()) * 0.1,
    lambda a: torch.einsum("ij,kj->ik", a, a) * 0.1,
    lambda a: F.linear(a, a) * 0.1,
    lambda a: a.double().float(),
    lambda a: a.tril() + a.triu(1),
)
WRITES = (
    lambda b: b.add_(1),
    lambda b: b.mul_(0.5),
    lambda b: b.t().add_(0.25),
    lambda b: b[0].mul_(2),
    lambda b: b[:, 1:].tanh_(),
    lambda b: b.view_as(b).sub_(0.5),
    lambda b: b.clamp_(max=1.5),
    lambda b: b.__setitem__(0, 0.5),
    lambda b: b.__setitem__((slice(None), 1), b[:, 0]),
    lambda b: b.__setitem__(b > 1, 0.75),
    lambda b: b.zero_(),
)
BINARY = (
    lambda a, b: a + corner(b),
    lambda a, b: a * corner(b) - 1,
    lambda a, b: torch.maximum(a, corner(b)),
    lambda a, b: a - b.mean(),
    lambda a, b: torch.cat([a.flatten(), b.flatten()]).view(-1, 1).repeat(1, 2) * 0.5,
    lambda a, b: torch.outer(a[:, 0], b[0]),
    lambda a, b: torch.lerp(a, corner(b), 0.3),
)


class Program:
    """A function of two matrices, made from a seed."""

    def __init__(self, seed: int, length: int = 6) -> None:
        source = random.Random(seed)
        self.steps = []
        for _ in range(source.randint(2, length)):
            kind = source.random()
            if kind < 0.6:
                self.steps.append((source.choice(UNARY), "unary", source.random(), 0.0))
            elif kind < 0.8:
                pair = source.random(), source.random()
                self.steps.append((source.choice(BINARY), "binary", *pair))
            else:
                self.steps.append((source.choice(WRITES), "write", source.random(), 0.0))

    def __call__(self, x, y):
        made = [x, y]
        for step, kind, first, second in self.steps:
            a = made[int(first * len(made))]
            if kind == "unary":
                made.append(step(a))
            elif kind == "binary":
                made.append(step(a, made[int(second * len(made))]))
            else:
                b = a.clone()
                step(b)
                made.append(b)
        return made[-1], made[-2].sum()


def gradients(function, inputs):
    leaves = [value.clone().requires_grad_() for value in inputs]
    results = function(*leaves)
    total = sum([(result * 0.5 + result * result).sum() for result in results])
    found = torch.autograd.grad(total, leaves, allow_unused=True)
    return (*results, *[leaf * 0 if g is None else g for leaf, g in zip(leaves, found)])


def compare(seed: int) -> None:
    """Traces a program and runs it on the traced shape and on two others."""
    from rushlight.testing.comparison import assert_close

    program = Program(seed)
    torch.manual_seed(seed)
    example = torch.rand(4, 3), torch.rand(3, 2)
    traced = torch.jit.trace(program.__call__, example, check_trace=False)
    for rows, columns in ((4, 3), (5, 2), (2, 6)):
        inputs = torch.rand(rows, columns) - 0.3, torch.rand(columns, 3) - 0.3
        expected = gradients(program, inputs)
        assert_close(gradients(traced, inputs), expected, equal_nan=True)
