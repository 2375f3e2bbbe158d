"""GradScaler: the factor over steps, skipped steps, and the order of calls."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.amp import GradScaler


def start(**options):
    p = torch.tensor([2.0], requires_grad=True)
    return p, torch.optim.SGD([p], lr=0.1), GradScaler("cpu", init_scale=4.0, **options)


def test_factor_grows_and_backs_off():
    p, optimizer, scaler = start(growth_interval=2)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale((p * 2).sum()).backward()
        found.append(p.grad.item())
        scaler.step(optimizer)
        scaler.update()
    assert found == [8.0, 8.0, 16.0] and scaler.get_scale() == 8.0
    assert p.item() == pytest.approx(1.4)
    p.grad = torch.tensor([float("inf")])
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0 and p.item() == pytest.approx(1.4)


def test_nothing_is_known_before_the_first_loss():
    _, optimizer, scaler = start()
    assert scaler.get_scale() == 4.0
    for what, call in (
        ("update", scaler.update),
        ("step", lambda: scaler.step(optimizer)),
        ("unscale_", lambda: scaler.unscale_(optimizer)),
    ):
        with pytest.raises(AssertionError, match=f"Attempted {what} but _scale is None"):
            call()


def test_order_of_calls():
    p, optimizer, scaler = start()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0]
    with pytest.raises(RuntimeError, match="unscale_\\(\\) has already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="step\\(\\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="called after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        scaler.update()


def test_state_round_trip():
    p, optimizer, scaler = start(growth_interval=3)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update(16.0)
    state = scaler.state_dict()
    assert state == {
        "scale": 16.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3,
        "_growth_tracker": 0,
    }  # fmt: skip
    other = GradScaler("cpu")
    other.load_state_dict(state)
    assert other.get_scale() == 16.0 and other.state_dict() == state
    assert other.scale(torch.ones(1)).tolist() == [16.0]
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        other.load_state_dict({})


def test_disabled():
    scaler = GradScaler("cpu", enabled=False)
    assert scaler.scale(3) == 3 and scaler.get_scale() == 1.0 and scaler.state_dict() == {}


class Halving(GradScaler):
    """Divides by the scale in its own way."""

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        found = super()._unscale_grads_(optimizer, inv_scale * 0.5, found_inf, allow_fp16)
        self.seen = [device.type for device in found]
        return found


def test_subclasses_unscale_their_own_way():
    p = torch.tensor([2.0], requires_grad=True)
    optimizer, scaler = torch.optim.SGD([p], lr=0.1), Halving("cpu", init_scale=4.0)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [0.5] and scaler.seen == ["cpu"]
    state = scaler._per_optimizer_states[id(optimizer)]
    assert state["stage"].name == "UNSCALED"
    assert [found.item() for found in state["found_inf_per_device"].values()] == [0.0]


class Unscaling(torch.optim.SGD):
    """An optimizer that divides by the scale itself."""

    _step_supports_amp_scaling = True

    def step(self, closure=None):
        self.seen = self.grad_scale.item(), self.found_inf.item()


def test_optimizers_that_divide_by_the_scale_themselves():
    p = torch.tensor([2.0], requires_grad=True)
    optimizer, scaler = Unscaling([p], lr=0.1), GradScaler("cpu", init_scale=4.0)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    assert optimizer.seen == (4.0, 0.0) and p.grad.tolist() == [4.0]
    assert not hasattr(optimizer, "grad_scale")
    p.grad = torch.tensor([float("inf")])
    scaler.update()
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.seen == (4.0, 1.0) and scaler.get_scale() == 2.0
