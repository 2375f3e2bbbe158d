"""Activations: values, kinks, the backward ops they record, errors."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.opset import functions


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("name", "args", "values"),
    [
        ("relu", (), [0.0, 0.0, 2.0]),
        ("leaky_relu", (0.5,), [-0.5, 0.0, 2.0]),
        ("hardtanh", (), [-1.0, 0.0, 1.0]),
        ("relu6", (), [0.0, 0.0, 2.0]),
        ("threshold", (0, 5), [5.0, 5.0, 2.0]),
        ("hardsigmoid", (), [1 / 3, 0.5, 5 / 6]),
        ("hardswish", (), [-1 / 3, 0.0, 5 / 3]),
        ("hardshrink", (), [-1.0, 0.0, 2.0]),
        ("softshrink", (), [-0.5, 0.0, 1.5]),
        ("elu", (), [-0.6321205588285577, 0.0, 2.0]),
        ("celu", (2.0,), [-0.7869386805747332, 0.0, 2.0]),
        ("selu", (), [-1.1113307378125625, 0.0, 2.1014019747109609]),
        ("gelu", (), [-0.15865525393145707, 0.0, 1.9544997361036416]),
        ("silu", (), [-0.2689414213699951, 0.0, 1.7615941559557649]),
        ("mish", (), [-0.30340146137410895, 0.0, 1.9439589595339946]),
        ("softplus", (), [0.31326168751822286, 0.6931471805599453, 2.1269280110429727]),
        ("log_sigmoid", (), [-1.3132616875182228, -0.6931471805599453, -0.1269280110429725]),
        ("sigmoid", (), [0.2689414213699951, 0.5, 0.8807970779778823]),
    ],
)
def test_values(name, args, values):
    x = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)
    assert getattr(functions, name)(x, *args).tolist() == pytest.approx(values, rel=1e-14)


def test_gelu_tanh():
    x = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    found = functions.gelu(x, approximate="tanh").tolist()
    assert found == pytest.approx([-0.1588080093917233, 1.9545976940877752], rel=1e-14)


def test_relu_records_threshold_backward():
    x = leaf([-1.0, 0.0, 2.0])
    y = x.relu()
    weight = leaf([1.0, 1.0, 1.0])
    (grad,) = torch.autograd.grad([y], [x], [weight], create_graph=True)
    assert grad.tolist() == [0.0, 0.0, 1.0]
    assert y.grad_fn.name() == "ReluBackward0"
    assert grad.grad_fn.name() == "ThresholdBackwardBackward0"


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "gelu", "silu", "mish", "softplus", "elu"])
def test_second_order(name):
    function = getattr(functions, name)
    x, step = leaf([-0.7, 0.3, 1.9]), 1e-5
    (first,) = torch.autograd.grad([function(x).sum()], [x], create_graph=True)
    (second,) = torch.autograd.grad([first.sum()], [x])
    with torch.no_grad():
        differences = function(x + step) - 2 * function(x) + function(x - step)
    assert second.tolist() == pytest.approx((differences / step**2).tolist(), abs=1e-4)


def test_prelu():
    x, weight = leaf([[-1.0, 2.0], [-3.0, -4.0]]), leaf([0.1, 0.2])
    y = torch.prelu(x, weight)
    y.sum().backward()
    assert y.tolist() == [[-0.1, 2.0], [-0.30000000000000004, -0.8]]
    assert weight.grad.tolist() == [-4.0, -4.0]
    assert y.grad_fn.name() == "PreluKernelBackward0"
    with pytest.raises(RuntimeError, match="channel size = 2"):
        torch.prelu(x, leaf([0.1, 0.2, 0.3]))


def test_glu():
    x = leaf([1.0, 2.0, 0.0, 0.0])
    y = functions.glu(x)
    assert y.tolist() == [0.5, 1.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.25, 0.5]
    with pytest.raises(RuntimeError, match="Halving dimension must be even"):
        functions.glu(leaf([1.0, 2.0, 3.0]))


def test_inplace_and_errors():
    x = torch.tensor([-1.0, 2.0])
    assert x.relu_() is x
    assert x.tolist() == [0.0, 2.0]
    with pytest.raises(RuntimeError, match="Boolean inputs not supported for relu"):
        torch.relu(torch.tensor([True]))
    with pytest.raises(NotImplementedError, match="\"GeluKernelImpl\" not implemented for 'Long'"):
        functions.gelu(torch.tensor([1]))
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        functions.gelu(x, approximate="cubic")


@pytest.mark.parametrize(
    ("name", "node", "expected"),
    [
        ("leaky_relu_", "LeakyReluBackward1", [0.01, 1.0]),
        ("elu_", "EluBackward1", [0.36787944117144233, 1.0]),
        ("celu_", "CeluBackward1", [0.36787944117144233, 1.0]),
        ("hardtanh_", "HardtanhBackward0", [0.0, 0.0]),
        ("silu_", "SiluBackward0", [0.07232948812851325, 1.0907842487848955]),
    ],
)
def test_inplace_gradients(name, node, expected):
    x = leaf([-1.0, 2.0])
    y = x * 1
    assert getattr(functions, name)(y) is y
    assert y.grad_fn.name() == node
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx(expected, rel=1e-14)


def test_inplace_gradients_refuse_a_negative_slope():
    for name, slope, word in (("leaky_relu_", -0.5, "leakyReLu"), ("elu_", -0.5, "elu")):
        y = getattr(functions, name)(leaf([-1.0, 2.0]) * 1, slope)
        with pytest.raises(RuntimeError, match=f"In-place {word} backward .* negative slope"):
            y.sum().backward()
    x, grad = torch.ones(2), torch.ones(2)
    assert functions.leaky_relu_backward(grad, -x, -0.5, False).tolist() == [-0.5, -0.5]


def test_glu_keeps_the_memory_order_of_its_halves():
    x = torch.rand(4, 6).t()
    assert functions.glu(x, 0).stride() == (1, 3)
    assert functions.glu(x, 1).stride() == (1, 6)
    assert functions.glu(x.to("meta"), 1).stride() == (1, 6)
    images = torch.rand(2, 4, 3, 3).to(memory_format=torch.channels_last)
    assert functions.glu(images, 1).stride() == (18, 1, 6, 2)


def test_glu_backward_refuses_sizes_that_do_not_fit():
    x = torch.rand(4, 6)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match .* tensor b \(2\)"):
        functions.glu_backward(torch.rand(4, 2), x, 1)
    with pytest.raises(RuntimeError, match=r"shape \[4, 3\] doesn't match the broadcast shape"):
        functions.glu_backward(torch.rand(2, 4, 3), x.to("cpu"), 1)
    with pytest.raises(RuntimeError, match="glu does not support scalars"):
        functions.glu(torch.tensor(1.0))


def test_operands_of_one_dtype():
    single, double = torch.ones(2), torch.ones(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Found dtype Float but expected Double"):
        functions.log_sigmoid_backward(single, double, single)
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        functions._prelu_kernel(single, double)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_the_bound_of_shrinking_is_rounded_to_halves(kind):
    for bound in (0.1, 0.7, 2.3):
        x = torch.tensor([bound, -bound], dtype=kind, requires_grad=True)
        result = torch.nn.functional.hardshrink(x, bound)
        assert result.tolist() == [0, 0]
        result.sum().backward()
        assert x.grad.tolist() == [0, 0]
