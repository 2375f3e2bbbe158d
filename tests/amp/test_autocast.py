"""Autocast and gradient scaling."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_products_go_down_and_delicate_ops_up():
    x = torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = torch.mm(x, x)
        assert low.dtype is torch.bfloat16
        assert torch.nn.functional.linear(x, x).dtype is torch.bfloat16
        assert torch.nn.functional.mse_loss(low, low * 2).dtype is torch.float32
        assert torch.cdist(low, low).dtype is torch.float32
        assert torch.cat([x, low]).dtype is torch.float32
        assert (x + 1).dtype is torch.float32
        assert (x.double() @ x.double()).dtype is torch.float64
    low.sum().backward()
    assert x.grad.dtype is torch.float32


def test_blocks_nest_and_restore():
    x = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.float16):
        assert torch.get_autocast_dtype("cpu") is torch.float16
        with torch.autocast("cpu", enabled=False):
            assert (x @ x).dtype is torch.float32
            assert not torch.is_autocast_enabled("cpu")
        assert (x @ x).dtype is torch.float16
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16
    assert not torch.is_autocast_cpu_enabled()
    assert (x @ x).dtype is torch.float32


def test_decorator_and_cache():
    weight = torch.ones(2, 2, requires_grad=True)
    seen = []

    @torch.autocast("cpu")
    def run(x):
        y = x @ weight
        z = x @ weight
        for result in (y, z):
            edges = result.grad_fn.next_functions
            seen.append(edges[1][0])
        return y

    assert run(torch.ones(2, 2)).dtype is torch.bfloat16
    assert seen[0] is seen[1]


def test_unavailable_devices_and_dtypes_are_switched_off():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        block = torch.autocast("cuda")
    with block:
        assert not torch.is_autocast_enabled()
    with pytest.warns(UserWarning, match="the target dtype is not supported"):
        torch.autocast("cpu", dtype=torch.float64)
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(torch.float32)


def test_custom_function_remembers_the_state():
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append(torch.is_autocast_enabled("cpu"))
            return grad.float()

    x = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        y = Product.apply(x)
    y.sum().backward()
    assert y.dtype is torch.bfloat16 and seen == [True]


def test_scaler_skips_infinite_steps():
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    scaler.scale(weight.sum()).backward()
    assert weight.grad.tolist() == [4.0, 4.0]
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.0, 0.0]
    assert scaler.get_scale() == 8.0
    weight.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.0, 0.0]
    assert scaler.get_scale() == 4.0
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4.0


def test_scaler_without_device_does_nothing():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = torch.amp.GradScaler()
    assert not scaler.is_enabled() and scaler.state_dict() == {}
    x = torch.ones(2)
    assert scaler.scale(x) is x
