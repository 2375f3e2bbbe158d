"""Pooling and resampling layers."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn

REPRS = [
    (nn.MaxPool1d(2), "kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False"),
    (
        nn.MaxPool2d((2, 3), padding=1),
        "kernel_size=(2, 3), stride=(2, 3), padding=1, dilation=1, ceil_mode=False",
    ),
    (nn.AvgPool1d(2), "kernel_size=(2,), stride=(2,), padding=(0,)"),
    (nn.AvgPool2d(2, 3), "kernel_size=2, stride=3, padding=0"),
    (nn.MaxUnpool2d(2, 3), "kernel_size=(2, 2), stride=(3, 3), padding=(0, 0)"),
    (nn.LPPool2d(2, 3), "norm_type=2, kernel_size=3, stride=None, ceil_mode=False"),
    (nn.AdaptiveAvgPool2d((None, 2)), "output_size=(None, 2)"),
    (nn.AdaptiveMaxPool1d(4, True), "output_size=4"),
    (nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.5)), ""),
    (nn.Upsample(scale_factor=2), "scale_factor=2.0, mode='nearest'"),
    (nn.UpsamplingBilinear2d(size=3), "size=3, mode='bilinear'"),
    (nn.Fold((4, 5), 2), "output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1"),
    (nn.Unfold(3, padding=1), "kernel_size=3, dilation=1, padding=1, stride=1"),
    (nn.PixelShuffle(2), "upscale_factor=2"),
    (nn.PixelUnshuffle(3), "downscale_factor=3"),
    (nn.ChannelShuffle(2), "groups=2"),
]


@pytest.mark.parametrize(("layer", "inside"), REPRS, ids=lambda value: type(value).__name__)
def test_repr(layer: nn.Module, inside: str) -> None:
    assert repr(layer) == f"{type(layer).__name__}({inside})"


@pytest.mark.parametrize(
    ("layer", "sizes", "expected"),
    [
        (nn.MaxPool1d(3, 2, ceil_mode=True), (2, 3, 8), (2, 3, 4)),
        (nn.MaxPool3d(2), (2, 3, 4, 4, 4), (2, 3, 2, 2, 2)),
        (nn.AvgPool1d(2), (3, 8), (3, 4)),
        (nn.AvgPool3d((1, 2, 2)), (1, 2, 3, 4, 4), (1, 2, 3, 2, 2)),
        (nn.LPPool1d(2, 3, stride=2), (3, 9), (3, 4)),
        (nn.LPPool3d(2, 2), (3, 4, 4, 4), (3, 2, 2, 2)),
        (nn.AdaptiveAvgPool3d((1, None, 2)), (1, 2, 3, 4, 5), (1, 2, 1, 4, 2)),
        (nn.AdaptiveMaxPool2d(3), (2, 5, 7), (2, 3, 3)),
        (nn.FractionalMaxPool3d(2, output_size=2), (1, 2, 5, 5, 5), (1, 2, 2, 2, 2)),
        (nn.UpsamplingNearest2d(scale_factor=2), (1, 2, 3, 3), (1, 2, 6, 6)),
        (nn.Upsample(size=5, mode="linear"), (1, 2, 3), (1, 2, 5)),
        (nn.Unfold(2), (1, 2, 3, 3), (1, 8, 4)),
        (nn.Fold((3, 3), 2), (1, 8, 4), (1, 2, 3, 3)),
        (nn.PixelShuffle(2), (1, 8, 2, 2), (1, 2, 4, 4)),
        (nn.ChannelShuffle(2), (1, 4, 2, 2), (1, 4, 2, 2)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_sizes(layer: nn.Module, sizes: tuple[int, ...], expected: tuple[int, ...]) -> None:
    given = torch.rand(sizes, requires_grad=True)
    result = layer(given)
    assert result.shape == expected
    result.sum().backward()
    assert given.grad is not None


def test_unpool_takes_an_output_size() -> None:
    pool, back = nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2)
    given = torch.tensor([[[1.0, 4.0, 2.0, 3.0, 9.0]]])
    values, places = pool(given)
    assert back(values, places).tolist() == [[[0.0, 4.0, 0.0, 3.0]]]
    assert back(values, places, output_size=given.size()).tolist() == [[[0.0, 4.0, 0.0, 3.0, 0.0]]]
    with pytest.raises(ValueError, match="dim 0 must be between 2 and 6"):
        back(values, places, output_size=[7])


def test_fractional_options() -> None:
    with pytest.raises(ValueError, match="either an output size, or a pooling ratio"):
        nn.FractionalMaxPool2d(2)
    with pytest.raises(ValueError, match="only one of"):
        nn.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.FractionalMaxPool2d(2, output_ratio=1.5)


def test_norms_over_windows() -> None:
    given = torch.tensor([[[3.0, 4.0, -6.0, 8.0]]])
    assert nn.LPPool1d(2, 2)(given).tolist() == [[[5.0, 10.0]]]
    assert nn.LPPool1d(float("inf"), 2)(given).tolist() == [[[4.0, 8.0]]]


def test_inside_a_model() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 2),
    )  # fmt: skip
    result = model(torch.randn(2, 3, 8, 8))
    result.square().sum().backward()
    assert result.shape == (2, 2)
    assert all(p.grad is not None for p in model.parameters())
