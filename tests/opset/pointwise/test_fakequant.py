"""Fake quantization at the edges."""

from __future__ import annotations

import math
from typing import Any

import pytest

import rushlight as torch
from rushlight.func import grad, vmap

VALUES = torch.tensor([-3.0, 0.3, 0.05, 0.15, 9.0, math.nan, math.inf])


def test_values_and_mask() -> None:
    output, mask = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(VALUES, 0.1, 1, 0, 15)
    assert output.tolist() == pytest.approx([-0.1, 0.3, 0, 0.2, 1.4, -0.1, 1.4])
    assert mask.tolist() == [False, True, True, True, False, False, False]


def test_gradient_passes_where_nothing_was_clamped() -> None:
    x = VALUES[:5].clone().requires_grad_()
    scale, zero_point = torch.tensor(0.1), torch.tensor(1)
    torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, 15).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0]


def test_channels() -> None:
    x = torch.tensor([[0.26, 5.0], [0.26, 5.0]])
    scale, zero_point = torch.tensor([0.1, 0.5]), torch.tensor([0, 1], dtype=torch.int32)
    found = torch.fake_quantize_per_channel_affine(x, scale, zero_point, 0, 0, 15)
    assert found.tolist() == [pytest.approx([0.3, 1.5]), pytest.approx([0.5, 5.0])]
    with pytest.raises(RuntimeError, match="Zero-point must be Int32, Float or Half, found Long"):
        torch.fake_quantize_per_channel_affine(x, scale, zero_point.long(), 0, 0, 15)


def by_tensor(x: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.fake_quantize_per_tensor_affine.tensor_qparams(x, s, z, 0, 15).sum()


def by_channel(x: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    both = torch.stack([x, x])
    wide = s.reshape(1).expand(2).contiguous(), z.reshape(1).expand(2).contiguous()
    return torch.fake_quantize_per_channel_affine(both, *wide, 0, 0, 15).sum()


@pytest.mark.parametrize("function", [by_tensor, by_channel])
@pytest.mark.parametrize("batched", ["x", "sz", "xsz"])
def test_gradients_of_samples_with_their_own_scales(function: Any, batched: str) -> None:
    given = {
        "x": torch.stack([VALUES[:5], VALUES[:5] * 3]),
        "s": torch.tensor([0.1, 0.7]),
        "z": torch.tensor([1, 2], dtype=torch.int32),
    }
    args = [value if name in batched else value[0] for name, value in given.items()]
    dims = tuple([0 if name in batched else None for name in given])
    rows = [
        [v if dim is None else v[i] for v, dim in zip(args, dims, strict=True)] for i in range(2)
    ]
    wanted = torch.stack([grad(function)(*row) for row in rows])
    assert vmap(grad(function), in_dims=dims)(*args).tolist() == wanted.tolist()
    outside = grad(lambda *a: vmap(function, in_dims=dims)(*a).sum())(*args)
    assert outside.tolist() == (wanted if "x" in batched else wanted.sum(0)).tolist()
    assert wanted.any()


def test_gradients_through_batches_of_learnt_scales():
    x = torch.linspace(-1, 4, 12, dtype=torch.float64).view(2, 6)
    scales = torch.tensor([[0.5], [0.25]], dtype=torch.float64)
    zero = torch.tensor([1.0], dtype=torch.float64)

    def quantise(x, scale):
        return torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 7)

    def total(scales):
        return torch.func.vmap(quantise)(x, scales).square().sum()

    alone = torch.func.grad(lambda s: sum(quantise(x[i], s[i]).square().sum() for i in (0, 1)))
    assert torch.allclose(torch.func.grad(total)(scales), alone(scales))


def test_tangents_of_learnt_scales_along_an_axis_are_adjoint_to_gradients():
    values = torch.linspace(-2, 5, 12).view(3, 4), torch.tensor([0.5, 0.25, 0.75]), torch.ones(3)

    def quantise(*values):
        return torch._fake_quantize_learnable_per_channel_affine(*values, 0, 0, 7, 0.5)

    ways = torch.linspace(-1, 1, 12).view(3, 4), torch.tensor([1.0, -2.0, 0.5]), torch.arange(3.0)
    weights = torch.linspace(2, -1, 12).view(3, 4)
    pushed = torch.func.jvp(quantise, values, ways)[1]
    pulled = torch.func.vjp(quantise, *values)[1](weights)
    products = sum((way * part).sum() for way, part in zip(ways, pulled, strict=True))
    assert torch.allclose((pushed * weights).sum(), products) and products.abs() > 0.1
