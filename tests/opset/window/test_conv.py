"""Convolutions: values by hand, transposes as adjoints, refusals."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.autograd.checking import gradcheck, gradgradcheck


def test_values():
    x = torch.arange(9.0).reshape(1, 1, 3, 3)
    weight = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]]]])
    assert torch.conv2d(x, weight).tolist() == [[[[8.0, 11.0], [17.0, 20.0]]]]
    assert torch.conv2d(x, weight, torch.ones(1), stride=2).tolist() == [[[[9.0]]]]
    assert torch.conv2d(x, weight, dilation=2).tolist() == [[[[16.0]]]]
    assert tuple(torch.conv2d(x[0], weight, padding=1).shape) == (1, 4, 4)


def test_groups_do_not_mix():
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    weight = torch.tensor([[[1.0, 1.0]], [[1.0, -1.0]]])
    assert torch.conv1d(x, weight, groups=2).tolist() == [[[3.0], [-1.0]]]


def test_same_padding_puts_the_odd_zero_last():
    x = torch.tensor([[[1.0, 2.0, 3.0]]])
    weight = torch.ones(1, 1, 2)
    assert torch.conv1d(x, weight, padding="same").tolist() == [[[3.0, 5.0, 3.0]]]
    with pytest.raises(RuntimeError, match="not supported for strided"):
        torch.conv1d(x, weight, stride=2, padding="same")


@pytest.mark.parametrize("options", [(1, 0, 1, 1), (2, 1, 1, 2), (2, 1, 2, 1)])
def test_transposed_is_the_adjoint(options):
    stride, padding, dilation, groups = options
    torch.manual_seed(0)
    x = torch.randn(2, 4, 7, 6, dtype=torch.float64)
    weight = torch.randn(6, 4 // groups, 3, 2, dtype=torch.float64)
    y = torch.conv2d(x, weight, None, stride, padding, dilation, groups)
    v = torch.randn(y.shape, dtype=torch.float64)
    back = torch.ops.aten.convolution_backward(
        v, x, weight, None, [stride], [padding], [dilation], False, [0], groups, [True, True, False]
    )
    assert back[2] is None
    assert (y * v).sum().item() == pytest.approx((x * back[0]).sum().item())
    assert (y * v).sum().item() == pytest.approx((weight * back[1]).sum().item())
    again = torch.conv_transpose2d(v, weight, None, stride, padding, 0, groups, dilation)
    sizes = [slice(0, size) for size in again.shape]
    assert torch.allclose(again, back[0][tuple(sizes)])


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients(transposed):
    torch.manual_seed(0)
    x = torch.randn(1, 2, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 2, 2, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, dtype=torch.float64, requires_grad=True)

    def run(x, weight, bias):
        return torch.convolution(x, weight, bias, [2], [1], [1], transposed, [0], 1)

    assert gradcheck(run, (x, weight, bias))
    assert gradgradcheck(run, (x, weight, bias))


def test_results_follow_channels_last():
    x = torch.ones(2, 2, 4, 4).to(memory_format=torch.channels_last)
    assert torch.conv2d(x, torch.ones(3, 2, 3, 3)).stride() == (12, 1, 6, 3)


@pytest.mark.parametrize(
    ("shape", "weight", "options", "text"),
    [
        ((1, 3, 3, 3), (1, 1, 2, 2), {}, "to have 1 channels, but got 3 channels instead"),
        ((3, 3), (1, 1, 2, 2), {}, r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d"),
        ((1, 1, 2, 2), (1, 1, 3, 3), {}, "Kernel size can't be greater than actual input size"),
        ((1, 1, 4, 4), (1, 1, 3, 3), {"stride": 0}, "non-positive stride is not supported"),
        ((1, 1, 4, 4), (1, 1, 3, 3), {"padding": -1}, "negative padding is not supported"),
        ((1, 2, 4, 4), (3, 1, 3, 3), {"groups": 2}, "expected weight to be divisible by 2"),
        ((1, 1, 4, 4), (1, 1, 3, 3), {"padding": "odd"}, "Invalid padding string: 'odd'"),
    ],
)
def test_refusals(shape, weight, options, text):
    with pytest.raises(RuntimeError, match=text):
        torch.conv2d(torch.ones(shape), torch.ones(weight), **options)


def test_gradients_are_channels_last_where_the_result_is():
    x = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    weight = torch.rand(2, 3, 2, 2, requires_grad=True)
    grads = torch.autograd.grad(torch.conv2d(x, weight).sum(), (x, weight))
    assert [grad.stride() for grad in grads] == [(48, 1, 12, 3), (12, 1, 6, 3)]
    volume = torch.rand(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d)
    kernel = torch.rand(2, 3, 2, 2, 2)
    assert torch.conv3d(volume, kernel).stride() == (54, 1, 18, 6, 2)
    assert torch.conv3d(volume.double(), kernel.double()).stride() == (54, 27, 9, 3, 1)


def test_inputs_without_elements():
    assert torch.conv1d(torch.ones(2, 0, 4), torch.ones(2, 0, 2)).tolist() == [[[0.0] * 3] * 2] * 2
    assert tuple(torch.conv1d(torch.ones(0, 3, 4), torch.ones(2, 3, 2)).shape) == (0, 2, 3)
    with pytest.raises(RuntimeError, match=r"Only zero batch .* got input shape: \[2, 3, 1, 0\]"):
        torch.conv1d(torch.ones(2, 3, 0), torch.ones(2, 3, 2), padding=1)


def test_refusals_are_worded_here():
    x, weight = torch.ones(2, 3, 4), torch.ones(3, 2, 2)
    with pytest.raises(RuntimeError, match="negative output_padding is not supported"):
        torch.conv_transpose1d(x, weight, stride=2, output_padding=-1)
    with pytest.raises(RuntimeError, match="output_padding_height: 0 output_padding_width: 1"):
        torch.conv_transpose1d(x, weight, output_padding=1)
    with pytest.raises(RuntimeError, match=r"output size per channel: \(-2\)"):
        torch.conv_transpose1d(torch.ones(2, 3, 1), weight, padding=2)
    with pytest.raises(RuntimeError, match=r"Input type \(torch.FloatTensor\) and weight type"):
        torch.conv1d(x, torch.ones(2, 3, 2, dtype=torch.float64))
    with pytest.raises(RuntimeError, match=r"Input type \(float\) and bias type \(double\)"):
        torch.conv1d(x, torch.ones(2, 3, 2), torch.ones(2, dtype=torch.float64))
    options = (None, [1], [0], [1], False, [0], 1, [True] * 3)
    for place in ("cpu", "meta"):
        given = [torch.ones(*size, device=place) for size in ((2, 2, 9), (2, 3, 4), (2, 3, 2))]
        with pytest.raises(RuntimeError, match=r"expected grad_output of size \[2, 2, 3\]"):
            torch.ops.aten.convolution_backward(*given, *options)


def test_far_windows_cost_what_they_hold():
    layer = torch.nn.ConvTranspose3d(1, 1, 16, stride=16, padding=7)
    x = torch.randn(1, 15, 13, 13, requires_grad=True)
    result = layer(x)
    assert result.shape == (1, 226, 194, 194)
    # Without overlap each output is one value times one weight.
    expected = x[0, 3, 4, 5] * layer.weight[0, 0, 2, 1, 9] + layer.bias[0]
    assert torch.allclose(result[0, 3 * 16 + 2 - 7, 4 * 16 + 1 - 7, 5 * 16 + 9 - 7], expected)
    result.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("stride", [1, 2])
def test_large_columns_are_made_in_parts(stride, monkeypatch):
    from rushlight.opset.window import correlation

    x = torch.randn(2, 3, 9, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, 3, 2, dtype=torch.float64, requires_grad=True)

    def answers():
        result = torch.conv2d(x, weight, stride=stride, padding=1, dilation=(1, 2))
        return [result, *torch.autograd.grad(result.square().sum(), (x, weight))]

    whole = answers()
    monkeypatch.setattr(correlation, "LARGEST", 40)
    for found, expected in zip(answers(), whole, strict=True):
        assert torch.allclose(found, expected)


def test_time_first_gradients_of_complex_numbers():
    torch.manual_seed(0)
    operands = [
        torch.randn(*sizes, dtype=torch.complex128, requires_grad=True)
        for sizes in ((3, 1, 2), (2, 2, 1), (1,))
    ]
    assert gradcheck(torch.conv_tbc, operands, check_forward_ad=True)


def test_gradients_pass_a_convolution_of_no_channels():
    x = torch.randn(2, 0, 15, requires_grad=True)
    weight = torch.randn(8, 0, 2, requires_grad=True)
    torch.nn.functional.conv1d(x, weight, torch.ones(8), stride=2).sum().backward()
    assert x.grad.shape == x.shape and weight.grad.shape == weight.shape
