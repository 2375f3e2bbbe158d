"""`torch.optim.adam.adam` and its kin do what a step of the class does."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.optim import functional

PARAMS = ([1.0, -2.0, 3.0], [0.5])
GRADS = ([0.1, 0.2, -0.3], [2.0])
CASES = {
    "Adadelta": dict(lr=0.1, rho=0.9, eps=1e-6, weight_decay=0.1),
    "Adagrad": dict(lr=0.1, weight_decay=0.1, lr_decay=0.1, eps=1e-8),
    "Adam": dict(amsgrad=True, betas=(0.9, 0.99), lr=0.1, weight_decay=0.1, eps=1e-8),
    "AdamW": dict(amsgrad=False, betas=(0.9, 0.99), lr=0.1, weight_decay=0.1, eps=1e-8),
    "Adamax": dict(eps=1e-8, betas=(0.9, 0.99), lr=0.1, weight_decay=0.1),
    "ASGD": dict(lambd=1e-4, lr=0.1, t0=1.0, alpha=0.75, weight_decay=0.1),
    "NAdam": dict(betas=(0.9, 0.99), lr=0.1, weight_decay=0.1, momentum_decay=4e-3, eps=1e-8),
    "RAdam": dict(betas=(0.9, 0.99), lr=0.1, weight_decay=0.1, eps=1e-8),
    "RMSprop": dict(lr=0.1, alpha=0.9, eps=1e-8, weight_decay=0.1, momentum=0.9, centered=True),
    "Rprop": dict(step_sizes=(1e-6, 50), etas=(0.5, 1.2)),
    "SGD": dict(weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.0, nesterov=True),
}


def made(values):
    return [torch.tensor(each) for each in values]


@pytest.mark.parametrize("name", CASES)
def test_a_function_steps_as_its_class(name):
    options = CASES[name]
    params = made(PARAMS)
    optimizer = getattr(torch.optim, name)(params, foreach=False, **options)
    for value, grad in zip(params, made(GRADS), strict=True):
        value.grad = grad
    optimizer.step()
    # The second step is taken by the class and by the function, from the same state.
    form = functional.FORMS[name.lower()]
    lists = [
        [
            optimizer.state[value][entry].clone()
            for value in params
            if entry in optimizer.state[value]
        ]
        for entry in form.lists.values()
    ]
    copies = [value.clone() for value in params]
    given = dict(options)
    for pair, (first, second) in functional.PAIRS.items():
        if pair in given:
            given[first], given[second] = given.pop(pair)
    known = {*form.required.split(), *form.optional.split()}
    defaults = {"maximize": False} if "maximize" in form.required else {}
    if name == "Rprop":
        given.pop("lr", None)
    step = getattr(functional, name.lower())
    step(
        copies,
        made(GRADS),
        *lists,
        **{**defaults, **{k: v for k, v in given.items() if k in known}},
    )
    optimizer.step()
    for value, copy in zip(params, copies, strict=True):
        assert torch.allclose(value, copy, rtol=1e-6)
    for entry, column in zip(form.lists.values(), lists, strict=True):
        for value, kept in zip(params, column, strict=False):
            assert torch.allclose(optimizer.state[value][entry], kept, rtol=1e-6), entry


def test_the_first_momentum_buffer_comes_into_the_list():
    params, buffers = made(PARAMS), [None, None]
    functional.sgd(params, made(GRADS), buffers, weight_decay=0.0, momentum=0.9, lr=0.1,
                   dampening=0.0, nesterov=False, maximize=False)  # fmt: skip
    assert [each.tolist() for each in buffers] == [each.tolist() for each in made(GRADS)]
    assert all(value.grad is None for value in params)


def test_missing_options_are_told():
    with pytest.raises(TypeError, match=r"adam\(\) missing 4 required positional arguments"):
        functional.adam([], [])
