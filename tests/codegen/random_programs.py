"""Random functions of tensors whose sizes are free, for comparisons of compiled and eager runs.

All are continuous: the last digit of a value decides nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import rushlight as torch

__all__ = ["inputs_for", "random_program"]

F = torch.nn.functional
UNARY: list[Callable[[Any], Any]] = [
    lambda x: x.tanh(),
    lambda x: x.sigmoid() * 2,
    lambda x: x.relu(),
    lambda x: F.gelu(x),
    lambda x: x.abs() + 0.5,
    lambda x: x.sin() - 0.1,
    lambda x: -x,
    lambda x: x * x,
    lambda x: x.clamp(-1.0, 1.5),
    lambda x: torch.where(x > 0, x, x * 0.1),
    lambda x: x.masked_fill(x < 0, 0.0),
    lambda x: x / x.shape[0] if x.dim() else x,
    lambda x: x + x.shape[-1] * 0.01 if x.dim() else x,
    lambda x: x.exp().clamp(max=3.0),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x - y * 0.5,
    lambda x, y: x * y,
    lambda x, y: torch.maximum(x, y),
    lambda x, y: x / (y.abs() + 1),
    lambda x, y: torch.where(x > y, x, y) * 0.3,
]
# What needs two dims.
MATRIX: list[Callable[[Any], Any]] = [
    lambda x: x.t(),
    lambda x: x.t().contiguous(),
    lambda x: x - x.mean(0),
    lambda x: x - x.mean(1, keepdim=True),
    lambda x: x.softmax(-1),
    lambda x: x.log_softmax(0),
    lambda x: x / (1 + x.square().sum(1, keepdim=True).sqrt()),
    lambda x: F.layer_norm(x, (x.shape[1],)),
    lambda x: x[1:],
    lambda x: x[:, 1:],
    lambda x: x[:, ::2],
    lambda x: x[:1] + x,
    lambda x: x + x[:, -1:],
    lambda x: x.reshape(-1).view(x.shape[1], x.shape[0]),
    lambda x: x.unsqueeze(1).expand(x.shape[0], 2, x.shape[1]).sum(1),
    lambda x: x.tril() + x.triu(1),
    lambda x: torch.cat([x, x * 2], 1),
    lambda x: torch.stack([x, x + 1], 0).amax(0),
    lambda x: x.flip(0),
    lambda x: (x @ x.t()).tanh(),
    lambda x: x.cumsum(0) * 0.1,
]
ENDS: list[Callable[[Any], Any]] = [
    lambda x: x,
    lambda x: x.sum(),
    lambda x: x.sum(0),
    lambda x: x.mean(-1),
    lambda x: x.amax(0),
    lambda x: x.reshape(-1) * 2,
    lambda x: x.std(),
]


def random_program(seed: int) -> Callable[..., Any]:
    """A function of two matrices of equal sizes and a vector as long as their rows."""
    rng = random.Random(seed)
    steps = [
        (rng.choice("ubm"), rng.randrange(1 << 30), rng.randrange(4))
        for _ in range(rng.randrange(3, 12))
    ]
    ends = [rng.choice(ENDS) for _ in range(rng.randrange(1, 4))]

    def program(x: Any, y: Any, w: Any) -> Any:
        values = [x, y, x * w]
        for kind, number, place in steps:
            value = values[-1 - place % len(values)]
            if kind == "u":
                values.append(UNARY[number % len(UNARY)](value))
            elif kind == "b":
                others = [v for v in values if v.dim() == value.dim() and v.shape == value.shape]
                other = others[number % len(others)]
                values.append(BINARY[number % len(BINARY)](value, other))
            else:
                values.append(MATRIX[number % len(MATRIX)](value))
        return tuple([end(values[-1 - at]) for at, end in enumerate(ends)])

    return program


def inputs_for(seed: int, rows: int, columns: int) -> list[Any]:
    torch.manual_seed(seed)
    shapes = ((rows, columns), (rows, columns), (columns,))
    return [torch.randn(shape).requires_grad_() for shape in shapes]
