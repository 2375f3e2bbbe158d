"""Schedules beside rates recorded from PyTorch 2.13."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.optim import lr_scheduler as S
from rushlight.optim.swa_utils import SWALR

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())["schedules"]
METRICS = [5, 4, 4, 4, 4, 4, 3, 3.5, 6, 7, 8, 8, 8, 8, 9, 9]


def sequential(o):
    parts = [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9), S.StepLR(o, 2)]
    return S.SequentialLR(o, parts, [3, 9])


def chained(o):
    return S.ChainedScheduler([S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)])


def one_cycle(o):
    return S.OneCycleLR(
        o, [0.5, 0.2], epochs=4, steps_per_epoch=5, three_phase=True, anneal_strategy="linear"
    )


MAKERS = {
    "LambdaLR": lambda o: S.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "MultiplicativeLR": lambda o: S.MultiplicativeLR(o, lambda e: 0.95),
    "StepLR": lambda o: S.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda o: S.MultiStepLR(o, [2, 5, 5, 9], 0.5),
    "ConstantLR": lambda o: S.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda o: S.LinearLR(o, 0.25, 0.75, 6),
    "ExponentialLR": lambda o: S.ExponentialLR(o, 0.9),
    "SequentialLR": sequential,
    "CosineAnnealingLR": lambda o: S.CosineAnnealingLR(o, 5, 0.01),
    "ChainedScheduler": chained,
    "ReduceLROnPlateau": lambda o: S.ReduceLROnPlateau(
        o, "min", 0.5, 1, cooldown=1, min_lr=[0.01, 0.02]
    ),
    "ReduceLROnPlateau2": lambda o: S.ReduceLROnPlateau(
        o, "max", 0.5, 2, threshold=0.1, threshold_mode="abs"
    ),
    "CyclicLR": lambda o: S.CyclicLR(o, 0.01, [0.1, 0.3], 3, 4),
    "CyclicLR2": lambda o: S.CyclicLR(o, 0.01, 0.1, 3, mode="triangular2"),
    "CyclicLR3": lambda o: S.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9),
    "CosineAnnealingWarmRestarts": lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "OneCycleLR": lambda o: S.OneCycleLR(o, 0.5, total_steps=20),
    "OneCycleLR3": one_cycle,
    "PolynomialLR": lambda o: S.PolynomialLR(o, 8, 2.0),
    "SWALR": lambda o: SWALR(o, 0.05, anneal_epochs=5),
    "SWALRlin": lambda o: SWALR(o, [0.05, 0.2], anneal_epochs=0, anneal_strategy="linear"),
}


def optimizer_of(kind, second=0.4):
    p, q = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    groups = [{"params": [p]}, {"params": [q], "lr": second}]
    if kind == "SGD":
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    return torch.optim.Adam(groups, lr=0.1)


def momentum_of(group):
    return group["momentum"] if "momentum" in group else group["betas"][0]


def advance(optimizer, scheduler, epoch):
    optimizer.step()
    if isinstance(scheduler, S.ReduceLROnPlateau):
        scheduler.step(METRICS[epoch])
    else:
        scheduler.step()


@pytest.mark.parametrize("key", RECORDED)
def test_rates(key):
    kind = "Adam" if key.startswith("Adam") else "SGD"
    make, wanted = MAKERS[key.removeprefix(kind)], RECORDED[key]
    optimizer = optimizer_of(kind)
    scheduler = make(optimizer)
    for epoch in range(16):
        groups = optimizer.param_groups
        found = [group["lr"] for group in groups] + [momentum_of(group) for group in groups]
        assert found == pytest.approx(wanted["rates"][epoch]), epoch
        advance(optimizer, scheduler, epoch)
    assert scheduler.get_last_lr() == pytest.approx(wanted["rates"][16])
    # A bound method of its own is not what a schedule is saved by.
    assert sorted(scheduler.state_dict()) == wanted["saved"]
    if wanted["jump"] is not None:
        optimizer = optimizer_of("SGD", second=0.3)
        scheduler = make(optimizer)
        optimizer.step()
        scheduler.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            scheduler.step(7)
        assert scheduler.get_last_lr() == pytest.approx(wanted["jump"])


@pytest.mark.parametrize("name", MAKERS)
def test_saved_schedules_go_on(name):
    first, second = optimizer_of("SGD"), optimizer_of("SGD")
    before, after = MAKERS[name](first), MAKERS[name](second)
    for epoch in range(6):
        advance(first, before, epoch)
    second.load_state_dict(first.state_dict())
    after.load_state_dict(before.state_dict())
    for epoch in range(6, 10):
        advance(first, before, epoch)
        advance(second, after, epoch)
    assert after.get_last_lr() == before.get_last_lr()


def test_warnings():
    optimizer = optimizer_of("SGD")
    scheduler = S.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before"):
        scheduler.step()
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        scheduler.get_lr()
    optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step"):
        scheduler.step(3)


def test_a_tensor_stays_the_rate():
    rate = torch.tensor(0.5)
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=rate)
    scheduler = S.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25
    assert scheduler.get_last_lr()[0] is not rate


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda o: S.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda o: S.LambdaLR(o, [abs]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda o: S.ConstantLR(o, 2.0), ValueError, "expected to be between 0 and 1"),
        (lambda o: S.LinearLR(o, 0.0), ValueError, "greater than 0 and less or equal"),
        (lambda o: S.OneCycleLR(o, 0.1), ValueError, "You must define either total_steps"),
        (lambda o: S.CyclicLR(o, 0.1, [0.2]), ValueError, "max_lr must have the same length"),
        (lambda o: S.ReduceLROnPlateau(o, "mid"), ValueError, "mode mid is unknown!"),
        (lambda o: S.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be < 1.0"),
        (lambda o: S.ChainedScheduler([]), ValueError, "at least one scheduler to be chained"),
        (lambda o: S.SequentialLR(o, [S.StepLR(o, 1)], [1]), ValueError, "one more than"),
        (
            lambda o: S.CosineAnnealingWarmRestarts(o, 0),
            ValueError,
            "Expected positive integer T_0",
        ),
        (lambda o: S.StepLR(o, 1, last_epoch=3), KeyError, "initial_lr"),
    ],
)
def test_bad_options(make, error, message):
    with pytest.raises(error, match=message):
        make(optimizer_of("SGD"))


def test_cycles_need_momentum():
    optimizer = torch.optim.Adagrad([torch.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        S.CyclicLR(optimizer, 0.1, 0.2)
