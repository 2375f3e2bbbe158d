"""Fused optimiser steps: small and large tensors, halves, scaled gradients; scale updates."""

from __future__ import annotations

import math
from typing import Any

import pytest

import rushlight as rl
from rushlight.opset.lists import fused

OPTIONS = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-6, "maximize": False}


def tensors(shapes: Any, dtype: Any = rl.float64) -> list[list[Any]]:
    rl.manual_seed(0)
    return [[rl.randn(shape).abs_().to(dtype) for shape in shapes] for _ in range(5)]


def adam(lists: Any, steps: list[float], amsgrad: bool, **more: Any) -> None:
    counts = [rl.tensor(step) for step in steps]
    last = lists[4] if amsgrad else []
    rl._fused_adam_(*lists[:4], last, counts, lr=0.1, amsgrad=amsgrad, **OPTIONS, **more)


def by_hand(lists: Any, row: int, step: float, amsgrad: bool) -> Any:
    value, grad, average, square, most = (column[row].clone() for column in lists)
    grad = grad + 0.1 * value
    average = 0.9 * average + 0.1 * grad
    square = 0.99 * square + 0.01 * grad * grad
    largest = rl.maximum(most, square) if amsgrad else square
    root = largest.sqrt() / math.sqrt(1 - 0.99**step) + 1e-6
    return value - 0.1 / (1 - 0.9**step) * average / root


@pytest.mark.parametrize("amsgrad", [False, True])
def test_tensors_of_all_sizes(amsgrad: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(fused, "SMALL", 8)
    monkeypatch.setattr(fused, "PIECE", 16)
    shapes = [(3,), (2, 2), (50,), (0,), (), (5,), (4, 10), (7,)]
    steps = [1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 2.0, 1.0]
    lists = tensors(shapes)
    lists[0][6] = lists[0][6].t().contiguous().t()
    wanted = [by_hand(lists, row, steps[row], amsgrad) for row in range(len(shapes))]
    adam(lists, steps, amsgrad)
    for found, value in zip(lists[0], wanted, strict=True):
        assert rl.allclose(found, value, rtol=1e-12)


def test_halves_are_rounded_once() -> None:
    lists, wide = tensors([(5,), (3,)], rl.bfloat16), tensors([(5,), (3,)])
    wide = [[t.to(rl.bfloat16).float() for t in column] for column in wide]
    adam(lists, [2.0, 2.0], False)
    adam(wide, [2.0, 2.0], False)
    for found, value in zip(lists[0], wide[0], strict=True):
        assert rl.equal(found, value.to(rl.bfloat16))


def test_scaled_gradients() -> None:
    lists, plain = tensors([(4,)]), tensors([(4,)])
    lists[1][0].mul_(8.0)
    adam(lists, [1.0], False, grad_scale=rl.tensor(8.0))
    adam(plain, [1.0], False)
    assert rl.allclose(lists[0][0], plain[0][0]) and rl.allclose(lists[1][0], plain[1][0])
    before = lists[0][0].clone()
    adam(lists, [1.0], False, found_inf=rl.tensor(1.0))
    assert rl.equal(lists[0][0], before)


def test_writes_count_as_versions_and_leave_the_functional_form_s_inputs() -> None:
    lists = tensors([(4,)])
    version = lists[0][0]._version
    adam(lists, [1.0], False)
    assert lists[0][0]._version == version + 1
    kept = lists[0][0].clone()
    results = rl.ops.aten._fused_adam(
        *lists[:4], [], [rl.tensor(2.0)], lr=0.1, amsgrad=False, **OPTIONS
    )
    assert rl.equal(lists[0][0], kept) and not rl.equal(results[0][0], kept)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: adam(tensors([(2,)], rl.int64), [1.0], False),
            NotImplementedError,
            "\"fused_adam_kernel\" not implemented for 'Long'",
        ),
        (
            lambda: rl._amp_update_scale_(rl.ones(1), rl.ones(1), rl.ones(1), 2.0, 0.5, 1),
            RuntimeError,
            "growth_tracker must be an int tensor.",
        ),
        (
            lambda: rl._amp_foreach_non_finite_check_and_unscale_(
                [rl.ones(1)], rl.ones(2), rl.ones(1)
            ),
            RuntimeError,
            "found_inf must be a 1-element tensor.",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_infinite_gradients_are_found() -> None:
    grads, found = [rl.tensor([2.0, 4.0]), rl.tensor([6.0])], rl.zeros(1)
    rl._amp_foreach_non_finite_check_and_unscale_(grads, found, rl.tensor([0.5]))
    assert [g.tolist() for g in grads] == [[1.0, 2.0], [3.0]] and found.item() == 0
    grads[1][0] = math.nan
    rl._amp_foreach_non_finite_check_and_unscale_(grads, found, rl.tensor([0.5]))
    assert found.item() == 1


def test_scale_grows_and_backs_off() -> None:
    scale, tracker = rl.tensor(4.0), rl.tensor(0, dtype=rl.int32)
    history = []
    for infinite in (0.0, 0.0, 1.0, 0.0):
        rl._amp_update_scale_(scale, tracker, rl.tensor(infinite), 2.0, 0.5, 2)
        history.append((scale.item(), tracker.item()))
    assert history == [(4.0, 1), (8.0, 0), (4.0, 0), (4.0, 1)]
