"""Pooling: values, ties, padding, layouts and gradients, as verified against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.opset.window.windows import adaptive, box_maximum, box_spread, box_sum, regular

IMAGE = [[1.0, 5.0, 2.0, 0.0], [3.0, 5.0, 4.0, 1.0], [0.0, 2.0, 9.0, 9.0], [7.0, 1.0, 9.0, 3.0]]


def image() -> torch.Tensor:
    return torch.tensor([[IMAGE]])


# -- maxima ----------------------------------------------------------------------------------------


def test_the_first_of_equal_values_is_named() -> None:
    values, places = F.max_pool2d(image(), 3, 2, 1, return_indices=True)
    assert values.flatten().tolist() == [5.0, 5.0, 7.0, 9.0]
    assert places.flatten().tolist() == [1, 1, 12, 10]


def test_of_nans_the_last_is_named() -> None:
    given = image()
    given[0, 0, 1, 0] = given[0, 0, 0, 1] = float("nan")
    values, places = F.max_pool2d(given, 2, return_indices=True)
    assert bool(values[0, 0, 0, 0].isnan())
    assert values.flatten().tolist()[1:] == [4.0, 7.0, 9.0]
    assert places.flatten().tolist() == [4, 6, 12, 10]


def test_padding_is_never_named() -> None:
    given = torch.full((1, 1, 2, 2), -float("inf"))
    _, places = F.max_pool2d(given, 3, 1, 1, return_indices=True)
    assert places.flatten().tolist() == [0, 0, 0, 0]


def test_integers_pool_too() -> None:
    given = torch.tensor([[[-128, -128], [-128, -128]]], dtype=torch.int8)
    values, places = F.max_pool2d(given, 2, return_indices=True)
    assert (values.item(), places.item(), values.dtype) == (-128, 0, torch.int8)


def test_ceil_mode_keeps_windows_that_start_inside() -> None:
    assert F.max_pool2d(image(), 3, 2, 0, 1, True).flatten().tolist() == [9.0] * 4
    # The fourth window would start in the padding behind the input.
    assert F.max_pool1d(torch.ones(1, 1, 5), 2, 2, 1, ceil_mode=True).shape == (1, 1, 3)


def test_many_taps_have_larger_codes() -> None:
    given = torch.arange(400.0).reshape(1, 1, 20, 20)
    values, places = F.max_pool2d(given, 18, 1, return_indices=True)
    assert places.flatten().tolist() == [357, 358, 359, 377, 378, 379, 397, 398, 399]
    assert values.flatten().tolist() == [float(place) for place in places.flatten().tolist()]


def test_overlapping_windows_add_up_their_gradients() -> None:
    given = image().requires_grad_()
    F.max_pool2d(given, 3, 1).sum().backward()
    assert given.grad is not None
    assert given.grad.flatten().tolist() == [0.0] * 10 + [4.0] + [0.0] * 5


def test_indices_without_a_place_are_refused() -> None:
    grad = torch.ones(1, 1, 2, 2)
    places = torch.tensor([[[[0, 1], [2, 16]]]])
    with pytest.raises(RuntimeError, match="Found an invalid max index: 16"):
        torch.ops.aten.max_pool2d_with_indices_backward(
            grad, image(), [2, 2], [2, 2], [0, 0], [1, 1], False, places
        )


def test_channels_last_stays() -> None:
    given = torch.randn(2, 4, 4, 3).permute(0, 3, 1, 2)
    for result in (
        F.max_pool2d(given, 2),
        F.avg_pool2d(given, 2),
        F.adaptive_avg_pool2d(given, 2),
        F.adaptive_avg_pool2d(given, 1),
        F.adaptive_max_pool2d(given, 2),
        F.interpolate(given, scale_factor=2),
    ):
        assert result.is_contiguous(memory_format=torch.channels_last)
        assert result.stride()[1] == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: F.max_pool2d(torch.ones(4, 4), 2), "non-empty 3D or 4D"),
        (lambda: F.max_pool2d(torch.ones(1, 0, 4, 4), 2), r"optional 0 dim batch size.*\[1, 0, 4"),
        (lambda: F.max_pool2d(image(), 5), r"Given input size: \(1x4x4\). Calculated output size"),
        (lambda: F.max_pool2d(image(), 2, 1, 2), "at most half of effective kernel size"),
        (lambda: F.max_pool2d(image(), 3, 1, 2, 2), "padW = 2, padH = 2, kW = 3, kH = 3"),
        (lambda: F.max_pool2d(image(), 2, 0), "stride should not be zero"),
        (lambda: F.max_pool2d(image(), 2, 1, 0, 0), "dilationH: 0 dilationW: 0"),
        (lambda: F.max_pool2d(image(), [2, 2, 2]), "a tuple of two ints"),
        (lambda: F.max_pool1d(torch.ones(1, 4), 2, 1, 2), "padding=2 and kernel_size=2"),
        (lambda: F.avg_pool3d(torch.ones(1, 1, 4, 4, 4), 5), r"smaller than kernel size \(kT: 5"),
        (lambda: F.avg_pool2d(image(), 2, divisor_override=0), "divisor must be not zero"),
    ],
)
def test_refusals(call, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


def test_empty_batches_pass() -> None:
    given = torch.ones(0, 2, 4, 4, requires_grad=True)
    for result in (F.max_pool2d(given, 2), F.avg_pool2d(given, 2), F.adaptive_max_pool2d(given, 2)):
        assert result.shape == (0, 2, 2, 2)
        result.sum().backward()


# -- means -----------------------------------------------------------------------------------------


def test_divisors() -> None:
    given = image()
    plain = F.avg_pool2d(given, 3, 2, 1).flatten()
    inside = F.avg_pool2d(given, 3, 2, 1, count_include_pad=False).flatten()
    fixed = F.avg_pool2d(given, 3, 2, 1, ceil_mode=True, divisor_override=2).flatten()
    torch.testing.assert_close(plain, torch.tensor([14.0, 17.0, 18.0, 43.0]) / 9)
    torch.testing.assert_close(inside, torch.tensor([14 / 4, 17 / 6, 18 / 6, 43 / 9]))
    assert fixed.tolist() == [7.0, 8.5, 0.5, 9.0, 21.5, 6.5, 4.0, 6.5, 1.5]


def test_integers_are_divided_towards_zero() -> None:
    assert F.avg_pool2d(torch.tensor([[[-3, -4], [0, 0]]]), 2).tolist() == [[[-1]]]


def test_infinity_stays_in_its_window() -> None:
    given = image()
    given[0, 0, 0, 0] = float("inf")
    assert F.avg_pool2d(given, 2).isinf().flatten().tolist() == [True, False, False, False]
    assert F.adaptive_avg_pool2d(given, 2).isfinite().sum().item() == 3


def test_adaptive() -> None:
    means = F.adaptive_avg_pool2d(image(), 3).flatten().tolist()
    assert means == [3.5, 4.0, 1.75, 2.5, 5.0, 5.75, 2.5, 5.25, 7.5]
    places = F.adaptive_max_pool2d(image(), 3, return_indices=True)[1]
    assert places.flatten().tolist() == [1, 1, 6, 5, 10, 10, 12, 10, 10]


def test_more_places_than_pixels() -> None:
    given = torch.tensor([[[1.0, 2.0]]], requires_grad=True)
    result = F.adaptive_avg_pool1d(given, 5)
    assert result.tolist() == [[[1.0, 1.0, 1.5, 2.0, 2.0]]]
    result.sum().backward()
    assert given.grad is not None
    assert given.grad.tolist() == [[[2.5, 2.5]]]


# -- the rest --------------------------------------------------------------------------------------


def test_fractional_windows_follow_the_random_numbers() -> None:
    numbers = torch.tensor([[[0.3, 0.8]]])
    values, places = F.fractional_max_pool2d(
        image(), 2, (2, 2), _random_samples=numbers, return_indices=True
    )
    assert values.flatten().tolist() == [5.0, 4.0, 7.0, 9.0]
    assert places.flatten().tolist() == [1, 6, 12, 10]


def test_unpool_undoes_pool() -> None:
    values, places = F.max_pool2d(image(), 2, return_indices=True)
    back = F.max_unpool2d(values, places, 2)
    assert back.flatten().nonzero().flatten().tolist() == [1, 6, 10, 12]
    assert F.max_pool2d(back, 2).tolist() == values.tolist()


def test_patches() -> None:
    columns = F.unfold(image(), 2, stride=2)
    assert columns[0].tolist() == [
        [1.0, 2.0, 0.0, 9.0],
        [5.0, 0.0, 2.0, 9.0],
        [3.0, 4.0, 7.0, 9.0],
        [5.0, 1.0, 1.0, 3.0],
    ]
    assert F.fold(columns, 4, 2, stride=2).tolist() == image().tolist()


def test_nodes_are_named_as_the_ops() -> None:
    given = image().requires_grad_()
    found = [
        F.max_pool2d(given, 2),
        F.avg_pool2d(given, 2),
        F.adaptive_avg_pool2d(given, 2),
        F.adaptive_max_pool2d(given, 2),
        F.unfold(given, 2),
    ]
    assert [type(result.grad_fn).__name__ for result in found] == [
        "MaxPool2DWithIndicesBackward0",
        "AvgPool2DBackward0",
        "AdaptiveAvgPool2DBackward0",
        "AdaptiveMaxPool2DBackward0",
        "Im2ColBackward0",
    ]


def test_windows_on_arrays() -> None:
    generator = np.random.default_rng(3)
    array = generator.standard_normal((2, 7, 6))
    plan = [regular(7, 4, 3, 2, 1), regular(6, 5, 2, 1, 0)]
    total = box_sum(array, plan)
    padded = np.pad(array, ((0, 0), (1, 1), (0, 0)))
    boxes = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (1, 2))[:, ::2]
    np.testing.assert_allclose(total, boxes.sum((-1, -2)))
    best, places = box_maximum(array, plan)
    np.testing.assert_array_equal(best, np.take_along_axis(
        array.reshape(2, -1), places.reshape(2, -1), 1
    ).reshape(best.shape))  # fmt: skip
    weights = generator.standard_normal(total.shape)
    # The adjoint: <sum(x), w> = <x, spread(w)>.
    np.testing.assert_allclose((total * weights).sum(), (array * box_spread(weights, plan)).sum())
    uneven = adaptive(7, 3)
    assert uneven.starts.tolist() == [0, 2, 4]
    assert uneven.ends.tolist() == [3, 5, 7]


def test_volumes_without_batch_keep_their_format() -> None:
    volume = torch.rand(1, 6, 8, 8, 8).contiguous(memory_format=torch.channels_last_3d)[0]
    for found in F.max_pool3d(volume, 4, return_indices=True):
        assert found.stride() == (1, 24, 12, 6)
    assert F.max_pool3d(volume.contiguous(), 4).stride() == (8, 4, 2, 1)


@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "adaptive_max_pool3d"])
def test_gradients_of_nothing_are_refused(name: str) -> None:
    image = torch.rand(1, 4, 3, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="Expected grad_output to have non-zero size"):
        getattr(F, name)(image, 0).sum().backward()


def test_windows_of_other_dims_are_refused() -> None:
    volume = torch.ones(1, 3, 1, 1, 1)
    with pytest.raises(RuntimeError, match="max_unpool3d: kernel_size, stride and padding need 3"):
        F.max_unpool3d(volume, torch.zeros(volume.shape, dtype=torch.int64), [1, 1])
