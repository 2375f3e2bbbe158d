"""Update rules beside 20 steps recorded from PyTorch 2.13 in float64."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import optim
from rushlight.base.errors import MissingFeature

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())


def made(text: str, *params):
    kind, _, arguments = text.partition("(")
    scope = {"optim": optim, "params": list(params)}
    return eval(f"optim.{kind}(params, {arguments}", scope)


def problem():
    p = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([[0.3, -0.7], [1.1, 0.2]], dtype=torch.float64, requires_grad=True)

    def loss():
        far = (p**2).sum() * 1.5 + (p[0] * q).sin().sum() + (q**4).sum()
        return far + (p.prod() - q[0, 0]) ** 2

    return p, q, loss


@pytest.mark.parametrize("text", RECORDED["rules"])
def test_twenty_steps(text):
    wanted = RECORDED["rules"][text]
    p, q, loss = problem()
    optimizer = made(text, p, q)

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    for _ in range(20):
        if text.startswith("LBFGS"):
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    found = p.tolist() + q.reshape(-1).tolist()
    assert found == pytest.approx(wanted["values"], rel=1e-9, abs=1e-12)
    assert sorted(optimizer.state[p]) == wanted["state"]
    assert list(optimizer.param_groups[0]) == wanted["options"]


@pytest.mark.parametrize("text", RECORDED["sparse"])
def test_sparse_gradients(text):
    w = torch.arange(8, dtype=torch.float64).reshape(4, 2).requires_grad_()
    optimizer = made(text, w)
    values = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]], dtype=torch.float64)
    for i in range(10):
        index = torch.tensor([[i % 4, (i * 2) % 4, i % 4]])
        w.grad = torch.sparse_coo_tensor(index, values * (i + 1), (4, 2))
        optimizer.step()
    assert w.reshape(-1).tolist() == pytest.approx(RECORDED["sparse"][text])


@pytest.mark.parametrize("text", RECORDED["muon"])
def test_orthogonal_steps(text):
    w = torch.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]], requires_grad=True)
    u = torch.tensor([[1.0], [2.0], [-0.5]], requires_grad=True)
    optimizer = made(text, w, u)
    for _ in range(10):
        optimizer.zero_grad()
        ((w @ u) ** 2).sum().backward()
        optimizer.step()
    found = w.reshape(-1).tolist() + u.reshape(-1).tolist()
    # Half precision inside: one rounding the other way moves a result by this much.
    assert found == pytest.approx(RECORDED["muon"][text], abs=5e-3)


OTHERS = ["Adamax", "NAdam", "RAdam", "Adadelta", "RMSprop", "Rprop", "ASGD", "Adagrad"]


@pytest.mark.parametrize("name", ["SGD", "Adam", *OTHERS])
def test_fused_and_single_steps_agree_with_complex_parameters(name):
    z = torch.tensor([1.0 + 2.0j, -0.5j], dtype=torch.complex128, requires_grad=True)
    pairs = torch.tensor([[1.0, 2.0], [0.0, -0.5]], dtype=torch.float64, requires_grad=True)
    kind = getattr(optim, name)
    complex_run, real_run = kind([z], lr=0.05), kind([pairs], lr=0.05)
    for _ in range(5):
        z.grad = torch.view_as_complex(pairs.detach().clone() * 2)
        pairs.grad = pairs.detach().clone() * 2
        complex_run.step()
        real_run.step()
    assert torch.view_as_real(z.detach()).reshape(-1).tolist() == pytest.approx(
        pairs.reshape(-1).tolist()
    )


@pytest.mark.parametrize("name", OTHERS[:-1])
def test_sparse_gradients_are_refused(name):
    w = torch.ones(3, requires_grad=True)
    w.grad = torch.ones(3).to_sparse()
    with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
        getattr(optim, name)([w]).step()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("Adamax(lr=-1.0)", ValueError, "Invalid learning rate: -1.0"),
        ("NAdam(momentum_decay=-1)", ValueError, "Invalid momentum_decay value: -1"),
        ("RAdam(betas=(0.9, 1.0))", ValueError, "Invalid beta parameter at index 1: 1.0"),
        ("Adadelta(rho=2)", ValueError, "Invalid rho value: 2"),
        ("Rprop(etas=(0.5, 0.9))", ValueError, "Invalid eta values: 0.5, 0.9"),
        ("RMSprop(alpha=-1)", ValueError, "Invalid alpha value: -1"),
        ("Adagrad(lr_decay=-1)", ValueError, "Invalid lr_decay value: -1"),
        ("Adafactor(d=0.5)", ValueError, "Clipping threshold d should be >= 1 but is: 0.5"),
        ("Muon()", ValueError, "Muon only supports 2D parameters"),
        ("SparseAdam(eps=0.0)", ValueError, "Invalid epsilon value: 0.0"),
        (
            "NAdam(lr=torch.ones(1, requires_grad=True), differentiable=True)",
            MissingFeature,
            "gradients for an optimiser's option",
        ),
        ("Adam(lr=torch.ones(2))", ValueError, "Tensor lr must be 1-element"),
        ("Adafactor(lr=torch.ones(2))", ValueError, "Tensor lr must be 1-element"),
        ("SparseAdam(lr=torch.ones(2))", ValueError, "Tensor lr must be 1-element"),
        (
            "AdamW(betas=(0.9, torch.tensor(0.9)))",
            ValueError,
            "betas must be either both floats or both Tensors",
        ),
        ("Adam(lr=torch.tensor(0.1), foreach=True)", ValueError, "lr as a Tensor is not supported"),
    ],
)
def test_bad_options(text, error, message):
    w = torch.ones(3, requires_grad=True)
    kind, _, arguments = text.partition("(")
    with pytest.raises(error, match=message.replace("(", r"\(")):
        eval(f"optim.{kind}([w], {arguments}", {"optim": optim, "w": w, "torch": torch})


def test_fused_steps_are_for_floats():
    w = torch.ones(3, dtype=torch.complex64, requires_grad=True)
    w.grad = torch.ones(3, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match="floating point Tensors of supported devices"):
        optim.Adam([w], fused=True).step()


def test_capturable_steps_need_another_device():
    w = torch.ones(3, requires_grad=True)
    w.grad = torch.ones(3)
    with pytest.raises(AssertionError, match="If capturable=True"):
        optim.RAdam([w], capturable=True).step()


def test_rates_may_be_tensors():
    w, v = (torch.ones(3, requires_grad=True) for _ in range(2))
    for value, lr in ((w, torch.tensor(0.25)), (v, 0.25)):
        value.grad = torch.ones(3)
        optim.RMSprop([value], lr=lr).step()
    assert w.tolist() == v.tolist()


def test_lbfgs_finds_a_minimum():
    p = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = optim.LBFGS([p], line_search_fn="strong_wolfe", max_iter=60)

    def closure():
        optimizer.zero_grad()
        loss = 100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert first.item() == pytest.approx(24.2)
    assert p.tolist() == pytest.approx([0.9999814210791366, 0.9999619651810989])
    with pytest.raises(ValueError, match="parameter groups"):
        optim.LBFGS([{"params": [p]}, {"params": [p.detach().requires_grad_()]}])
    with torch.no_grad():
        p.fill_(3.0)
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optim.LBFGS([p], line_search_fn="armijo").step(closure)


def test_state_round_trip():
    p, q, loss = problem()
    first = optim.NAdam([p, q], lr=0.05)
    loss().backward()
    first.step()
    second = optim.NAdam([p, q], lr=0.01)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["lr"] == 0.05
    assert second.state[p]["mu_product"].item() == first.state[p]["mu_product"].item()


def test_nadam_can_be_differentiated_by_its_momentum_so_far():
    def moved(product):
        value = torch.ones(2, dtype=torch.float64, requires_grad=True).clone()
        value.grad = torch.tensor([0.5, -2.0], dtype=torch.float64)
        optimizer = torch.optim.NAdam([value], lr=0.5, differentiable=True)
        optimizer.state[value].update(
            step=torch.tensor(3.0),
            mu_product=product,
            exp_avg=torch.ones(2, dtype=torch.float64),
            exp_avg_sq=torch.ones(2, dtype=torch.float64),
        )
        optimizer.step()
        return value[0]

    product = torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(moved(product), product)
    with torch.no_grad():
        numerical = (moved(product + 1e-6) - moved(product - 1e-6)) / 2e-6
    assert abs(found - numerical) < 1e-7 and found != 0
