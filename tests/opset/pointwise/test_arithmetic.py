"""Arithmetic, choice and the operators of Python: promotion, errors, gradients at kinks, nodes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as torch


def leaf(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def gradient(function, *leaves):
    return [g.tolist() for g in torch.autograd.grad([function(*leaves).sum()], list(leaves))]


@pytest.mark.parametrize(
    ("compute", "values", "dtype"),
    [
        (lambda: torch.tensor([1, 2]) + 1.5, [2.5, 3.5], torch.float32),
        (lambda: torch.tensor([1, 2], dtype=torch.int8) + torch.tensor(5), [6, 7], torch.int8),
        (lambda: torch.tensor([1.0], dtype=torch.float64) + 1j, [1 + 1j], torch.complex128),
        (lambda: torch.tensor([True]) + torch.tensor([True]), [True], torch.bool),
        (lambda: torch.tensor([1, 3], dtype=torch.uint8) - 2, [255, 1], torch.uint8),
        (lambda: torch.tensor([7, -7]) / 2, [3.5, -3.5], torch.float32),
        (lambda: torch.tensor([7, -7]) // 2, [3, -4], torch.int64),
        (lambda: torch.div(torch.tensor([7, -7]), 2, rounding_mode="trunc"), [3, -3], torch.int64),
        (lambda: torch.tensor([7.0, -7.0]) % 3, [1.0, 2.0], torch.float32),
        (lambda: torch.fmod(torch.tensor([7, -7]), 3), [1, -1], torch.int64),
        (lambda: torch.tensor([2, 3]) ** torch.tensor([-1, 2]), [0, 9], torch.int64),
        (lambda: torch.float_power(torch.tensor([2, 3]), 2), [4.0, 9.0], torch.float64),
        (lambda: torch.tensor([True]).square(), [1], torch.int64),
        (lambda: torch.add(2, torch.tensor([1, 2]), alpha=3), [5, 8], torch.int64),
        (lambda: torch.clamp(torch.tensor([1, 2, 3]), min=1.5), [1.5, 2.0, 3.0], torch.float32),
        (lambda: torch.where(torch.tensor([True, False]), 1, 2.5), [1.0, 2.5], torch.float32),
        (lambda: torch.lerp(torch.tensor([1.0]), torch.tensor([3.0]), 0.25), [1.5], torch.float32),
    ],
)
def test_values(compute, values, dtype):
    result = compute()
    assert result.tolist() == values
    assert result.dtype is dtype


@pytest.mark.parametrize(
    ("compute", "values"),
    [
        (lambda x: 3 - x, [2, 1]),
        (lambda x: 6 / x, [6.0, 3.0]),
        (lambda x: 7 // x, [7, 3]),
        (lambda x: 7 % x, [0, 1]),
        (lambda x: 3**x, [3, 9]),
        (lambda x: 6 & x, [0, 2]),
        (lambda x: 4 | x, [5, 6]),
        (lambda x: 1 ^ x, [0, 3]),
        (lambda x: 1 << x, [2, 4]),
        (lambda x: 8 >> x, [4, 2]),
    ],
)
def test_reflected(compute, values):
    assert compute(torch.tensor([1, 2])).tolist() == values


def test_inplace_operators():
    x = torch.tensor([5, 6])
    same = x
    x += 1
    x *= 2
    x -= 4
    x //= 2
    x <<= 1
    x ^= 1
    x &= 15
    assert same is x
    assert x.tolist() == [9, 11]
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        x /= 2


def test_foreign_operands():
    x = torch.tensor([1.0, 2.0])
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    with pytest.raises(TypeError):
        x < "a"  # noqa: B015
    with pytest.raises(TypeError):
        x + "a"
    assert (np.float64(2) * x).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("compute", "error", "words"),
    [
        (lambda t, b: b - b, RuntimeError, "with two bool tensors is not supported"),
        (lambda t, b: b - 1, RuntimeError, "with two bool|with a bool tensor"),
        (lambda t, b: -b, RuntimeError, "on a bool tensor is not supported"),
        (lambda t, b: t // 0, RuntimeError, "ZeroDivisionError"),
        (lambda t, b: t % 0, RuntimeError, "ZeroDivisionError"),
        (lambda t, b: t**-1, RuntimeError, "Integers to negative integer powers"),
        (lambda t, b: torch.add(t, t, alpha=0.5), RuntimeError, "alpha must not be a floating"),
        (lambda t, b: torch.clamp(t), RuntimeError, "At least one of 'min' or 'max'"),
        (lambda t, b: torch.div(t, 2, rounding_mode="up"), RuntimeError, "rounding_mode to be"),
        (lambda t, b: torch.where(t, t, t), RuntimeError, "condition to be a boolean"),
        (lambda t, b: torch.addcdiv(t, t, t), RuntimeError, "Integer division with addcdiv"),
        (lambda t, b: torch.maximum(t, 3), TypeError, "must be Tensor"),
        (lambda t, b: t + torch.tensor([1, 2, 3]), RuntimeError, "must match the size"),
    ],
)
def test_errors(compute, error, words):
    with pytest.raises(error, match=words):
        compute(torch.tensor([4, 5]), torch.tensor([True, False]))


def test_gradients_at_kinks():
    x, y = leaf([1.0, 2.0, 3.0]), leaf([2.0, 2.0, 2.0])
    assert gradient(torch.maximum, x, y) == [[0.0, 0.5, 1.0], [1.0, 0.5, 0.0]]
    assert gradient(torch.fmax, x, y) == [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    assert gradient(lambda x: x.clamp(2, 2.5), x) == [[0.0, 1.0, 0.0]]
    assert gradient(lambda x: x.abs(), leaf([-1.0, 0.0, 1.0])) == [[-1.0, 0.0, 1.0]]
    assert gradient(lambda x: x**0, leaf([0.0, 1.0])) == [[0.0, 0.0]]
    assert gradient(lambda x, y: x**y, leaf([0.0]), leaf([2.0])) == [[0.0], [0.0]]
    assert gradient(torch.atan2, leaf([0.0]), leaf([0.0])) == [[0.0], [0.0]]


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        (lambda x: x + 1, "AddBackward0"),
        (lambda x: 1 - x, "RsubBackward1"),
        (lambda x: x**2, "PowBackward0"),
        (lambda x: x**x, "PowBackward1"),
        (lambda x: 2**x, "PowBackward2"),
        (lambda x: 1 / x, "MulBackward0"),
        (lambda x: x % 2, "RemainderBackward0"),
        (lambda x: x % x, "RemainderBackward1"),
        (lambda x: x.div(2, rounding_mode="floor"), "DivBackward2"),
        (lambda x: x.clamp(0, 1), "ClampBackward1"),
        (lambda x: x.clamp(x, x), "ClampBackward0"),
        (lambda x: x.lerp(x, 0.5), "LerpBackward0"),
        (lambda x: x.square(), "PowBackward0"),
        (lambda x: x.log1p(), "Log1PBackward0"),
    ],
)
def test_node_names(compute, name):
    assert compute(leaf([0.5, 1.5])).grad_fn.name() == name


def test_undifferentiable_node():
    y = leaf([4.0]) // 2
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
        y.backward()


def test_scalars_of_halves():
    # Sums round the number to the tensor's dtype first, products do not.
    x = torch.tensor([0.1, 1 / 3, 7.3], dtype=torch.bfloat16)
    assert (x - 0.3).tolist() == [-0.201171875, 0.033203125, 7.0]
    assert (x * 0.3).tolist() == [0.030029296875, 0.10009765625, 2.1875]
    assert (torch.tensor([0.1], dtype=torch.float16) == 0.1).tolist() == [True]


def test_strides_follow_operands():
    x = torch.arange(6.0).reshape(2, 3).t()
    assert (x + 1).stride() == (1, 3)
    assert (x + torch.ones(3, 2)).stride() == (1, 3)
    assert (torch.ones(3, 2) + x).stride() == (2, 1)
    assert torch.rsub(x, torch.ones(3, 2)).stride() == (2, 1)


def test_where_method_and_out():
    x = torch.tensor([1.0, 2.0])
    assert x.where(torch.tensor([True, False]), 0).tolist() == [1.0, 0.0]
    out = torch.zeros(0)
    assert torch.add(x, 1, out=out) is out
    assert out.tolist() == [2.0, 3.0]
    assert torch.square(x, out=out).tolist() == [1.0, 4.0]


def test_nan_is_kept_or_ignored():
    x, y = torch.tensor([math.nan, 1.0]), torch.tensor([2.0, math.nan])
    assert all(math.isnan(v) for v in torch.maximum(x, y).tolist())
    assert torch.fmin(x, y).tolist() == [2.0, 1.0]
    assert math.isnan(torch.clamp(x, 0, 1).tolist()[0])


def test_power_of_a_number_is_contiguous():
    x = torch.ones(3, 4).t()
    assert torch.pow(2, x).stride() == (3, 1) == torch.pow(2, x.to("meta")).stride()
    assert torch.pow(x, 2).stride() == (1, 4)


@pytest.mark.parametrize(
    ("kind", "mode", "x", "y", "expected"),
    [
        # What torch answers; quotients in float32 give the next number.
        ("bfloat16", "trunc", -12.875, 0.053466796875, -241),
        ("bfloat16", "trunc", 44.0, 0.62890625, 70),
        ("bfloat16", "floor", 64.5, -0.68359375, -96),
        ("bfloat16", "floor", -55.25, -0.205078125, 270),
        ("float16", "trunc", 25.125, 0.01806640625, 1391),
        ("float16", "floor", 24.53125, 0.00930023193359375, 2638),
        ("float16", "floor", -44.9375, -0.048095703125, 933),
    ],
)
def test_quotients_of_halves_are_rounded_on_the_way(kind, mode, x, y, expected):
    a, b = (torch.tensor([value], dtype=getattr(torch, kind)) for value in (x, y))
    assert torch.div(a, b, rounding_mode=mode).item() == expected
    assert a.clone().div_(b, rounding_mode=mode).item() == expected
    if mode == "floor":
        assert (a // b).item() == expected


@pytest.mark.parametrize(
    ("kind", "x", "y", "trunc", "floor"),
    [
        ("bfloat16", -36.75, 2.3, -15, -16),
        ("bfloat16", 22.375, -0.7, -31, -32),
        ("float16", 11.5, 2.3, 5, 5),
        ("float16", 50.40625, -0.7, -72, -73),
    ],
)
def test_numbers_divide_halves_at_full_precision(kind, x, y, trunc, floor):
    a = torch.tensor([x], dtype=getattr(torch, kind))
    for divisor in (y, torch.tensor(y)):
        assert torch.div(a, divisor, rounding_mode="trunc").item() == trunc
        assert torch.div(a, divisor, rounding_mode="floor").item() == floor
        assert torch.floor_divide(a, divisor).item() == floor


def test_a_negative_factor_wraps_for_unsigned_numbers():
    five, one = (torch.tensor([n], dtype=torch.uint8) for n in (5, 1))
    assert torch.add(five, one, alpha=-3).tolist() == [2]
    assert torch.add(five, 1, alpha=-3).tolist() == [2]
    assert torch.sub(five, one, alpha=-3).tolist() == [8]
    assert five.clone().add_(one, alpha=-3).tolist() == [2]
    for alpha, operand in ((300, five), (-256, five), (200, five.char())):
        with pytest.raises(RuntimeError, match="without overflow"):
            torch.add(operand, operand, alpha=alpha)


def test_pairs_of_halves_add_and_multiply():
    x = torch.tensor([1 + 2j, 0.5]).to(torch.complex32)
    assert (x + x).to(torch.complex64).tolist() == [2 + 4j, 1]
    assert (x - 2).to(torch.complex64).tolist() == [-1 + 2j, -1.5]
    assert (x * x).to(torch.complex64).tolist() == [-3 + 4j, 0.25]
    assert (-x).dtype is torch.complex32
    assert torch.addcmul(x, x, x, value=2).to(torch.complex64).tolist() == [-5 + 10j, 1]
    assert (x == x.clone()).tolist() == [True, True]
    assert x.abs().dtype is torch.float16
    assert torch.where(torch.tensor([True, False]), x, -x).to(torch.complex64)[1] == -0.5
    assert x.conj().resolve_conj().to(torch.complex64).tolist() == [1 - 2j, 0.5]
    assert repr(x) == "tensor([1.0000+2.j, 0.5000+0.j], dtype=torch.complex32)"
    assert torch.randn(3, dtype=torch.complex32).dtype is torch.complex32
    for refused in (torch.exp, torch.div, torch.reciprocal):
        with pytest.raises(NotImplementedError, match="ComplexHalf"):
            refused(x, x) if refused is torch.div else refused(x)


@pytest.mark.parametrize("name", ["remainder", "floor_divide", "fmod"])
def test_no_integers_divide_by_zero(name):
    divide, none = getattr(torch, name), torch.empty(0, 2, dtype=torch.int64)
    assert divide(none, 0).shape == (0, 2)
    assert divide(none, torch.zeros(2, dtype=torch.int64)).shape == (0, 2)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(torch.ones(1, dtype=torch.int64), 0)
