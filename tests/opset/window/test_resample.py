"""Resampling and grids: values and refusals as verified against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.opset.window import gridsample

IMAGE = [[1.0, 5.0, 2.0, 0.0], [3.0, 5.0, 4.0, 1.0], [0.0, 2.0, 9.0, 9.0], [7.0, 1.0, 9.0, 3.0]]


def image() -> torch.Tensor:
    return torch.tensor([[IMAGE]])


def close(result: torch.Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(result.flatten(), torch.tensor(expected), atol=1e-4, rtol=1e-5)


def test_nearest_rounds_down_and_exact_to_centers() -> None:
    rows = F.interpolate(image(), size=(3, 6))[0, 0].tolist()
    assert rows == [[1, 1, 5, 2, 2, 0], [3, 3, 5, 4, 4, 1], [0, 0, 2, 9, 9, 9]]
    rows = F.interpolate(image(), size=(3, 6), mode="nearest-exact")[0, 0].tolist()
    assert rows == [[1, 5, 5, 2, 0, 0], [0, 2, 2, 9, 9, 9], [7, 1, 1, 9, 3, 3]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"mode": "bilinear"}, [2.5, 4.0, 0.916667, 3.166667, 5.25, 6.5]),
        ({"mode": "bicubic", "align_corners": True}, [1.0, 4.0625, 0.0, 7.0, 5.0, 3.0]),
        (
            {"mode": "bilinear", "antialias": True},
            [2.571429, 4.214286, 2.357143, 3.0, 5.142857, 6.185714],
        ),
    ],
)
def test_interpolated(options: dict[str, object], expected: list[float]) -> None:
    close(F.interpolate(image(), size=(2, 3), **options), expected)


def test_bytes_have_sixteen_bit_weights() -> None:
    given = (image() * 20).to(torch.uint8)
    linear = F.interpolate(given, size=(3, 5), mode="bilinear").flatten().tolist()
    assert linear == [27, 78, 73, 34, 3, 30, 58, 100, 121, 100, 117, 51, 102, 150, 80]
    cubic = F.interpolate(given, size=(3, 5), mode="bicubic").flatten().tolist()
    assert cubic == [22, 86, 83, 25, 0, 19, 51, 110, 135, 111, 125, 31, 102, 171, 74]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
def test_same_size_is_a_copy(mode: str) -> None:
    given = image()
    result = F.interpolate(given, size=(4, 4), mode=mode)
    assert result.tolist() == given.tolist()
    result.zero_()
    assert given[0, 0, 0, 0].item() == 1.0


@pytest.mark.parametrize(
    ("error", "text", "shape", "options"),
    [
        (ValueError, "either size or scale_factor", (1, 1, 4), {}),
        (ValueError, "only one of size or", (1, 1, 4), {"size": 2, "scale_factor": 2}),
        (
            ValueError,
            "align_corners option can only",
            (1, 1, 4),
            {"size": 2, "align_corners": True},
        ),
        (ValueError, r"spatial dimensions of \[4\] and output", (1, 1, 4), {"size": (2, 2)}),
        (TypeError, "expected size to be one of int", (1, 1, 4), {"size": (2.0,)}),
        (ValueError, "Anti-alias option is restricted", (1, 1, 4), {"size": 2, "antialias": True}),
        (NotImplementedError, "Got 3D input, but bil", (1, 1, 4), {"size": 2, "mode": "bilinear"}),
        (NotImplementedError, r"\(got 2D\)", (1, 1), {"size": 2}),
        (ValueError, "Lanczos mode requires anti", (1, 1, 4, 4), {"size": 2, "mode": "lanczos"}),
        (RuntimeError, "sizes should be greater than 0", (1, 1, 4), {"size": 0}),
    ],
)
def test_refusals(error: type, text: str, shape: tuple[int, ...], options: dict) -> None:
    with pytest.raises(error, match=text):
        F.interpolate(torch.ones(shape), **options)


def test_deprecated_names_warn() -> None:
    with pytest.warns(UserWarning, match=r"`nn.functional.upsample` is deprecated"):
        assert F.upsample(image(), scale_factor=2).shape == (1, 1, 8, 8)


SAMPLED = {
    ("bilinear", "zeros"): [0.25, 4.23, 0.0],
    ("bilinear", "border"): [1.0, 4.23, 3.0],
    ("bilinear", "reflection"): [1.0, 4.23, 4.8],
    ("nearest", "zeros"): [1.0, 4.0, 0.0],
    ("nearest", "border"): [1.0, 4.0, 3.0],
    ("nearest", "reflection"): [1.0, 4.0, 3.0],
    ("bicubic", "zeros"): [-0.04883, 4.30195, -0.16554],
    ("bicubic", "border"): [0.41992, 4.29009, 2.3385],
    ("bicubic", "reflection"): [-0.19531, 4.29009, 4.3781],
}


@pytest.mark.parametrize(("mode", "padding"), SAMPLED)
def test_sampled(mode: str, padding: str) -> None:
    grid = torch.tensor([[[[-1.0, -1.0], [0.3, -0.2], [1.4, 0.9]]]])
    close(F.grid_sample(image(), grid, mode, padding, False), SAMPLED[mode, padding])


def test_places_that_are_no_numbers() -> None:
    grid = torch.tensor([[[[float("nan"), 0.0]]]])
    given = torch.arange(6.0).reshape(1, 1, 2, 3)
    assert F.grid_sample(given, grid, "bilinear", "zeros", False).isnan().item()
    assert F.grid_sample(given, grid, "bilinear", "border", False).item() == 1.5
    assert F.grid_sample(given, grid, "nearest", "zeros", False).item() == 0.0


def test_grid_gradients_have_gradients() -> None:
    given = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    grid = (torch.rand(1, 2, 2, 2, dtype=torch.float64) - 0.5).requires_grad_()
    for mode in ("bilinear", "bicubic"):

        def sample(a, b, mode=mode):
            return F.grid_sample(a, b, mode, "zeros", False)

        assert torch.autograd.gradcheck(sample, (given, grid))
        assert torch.autograd.gradgradcheck(sample, (given, grid))


def test_affine_grid() -> None:
    theta = torch.tensor([[[1.0, 0.0, 0.5], [0.0, 2.0, 0.0]]])
    close(F.affine_grid(theta, [1, 1, 2, 2], False), [0.0, -1.0, 1.0, -1.0, 0.0, 1.0, 1.0, 1.0])
    same = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    grid = F.affine_grid(same, [1, 1, 4, 4], align_corners=False)
    close(F.grid_sample(image(), grid, align_corners=False), image().flatten().tolist())
    with pytest.raises(ValueError, match="shape Nx2x3"):
        F.affine_grid(torch.ones(1, 3, 3), [1, 1, 2, 2], False)


NO_NUMBERS = (np.nan, 0, np.inf, 0, -np.inf, 0.3)
FAR = (1e20, -1e20, -1, 1, 1, -1)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("edges", [NO_NUMBERS + FAR, FAR, ()])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 1, 1), (3, 2, 1, 7)])
def test_bilinear_samples_are_sums_over_taps(shape: Any, edges: Any, align: bool) -> None:
    """The commonest sampling has code of its own; far, infinite and undefined places included, or
    none but those between four pixels."""
    rng = np.random.default_rng(0)
    image = rng.standard_normal(shape).astype(np.float32)
    scale = 1.5 if edges else 0.1
    grid = (rng.standard_normal((shape[0], 6, 5, 2)) * scale).astype(np.float32)
    grid.reshape(-1)[: len(edges)] = edges
    wanted = np.zeros((*shape[:2], 30), np.float32)
    with np.errstate(invalid="ignore"):
        sampling = gridsample.Sampling(
            np, shape[2:], grid, gridsample.BILINEAR, gridsample.ZEROS, align
        )
        planes = image.reshape(*shape[:2], -1)
        for flat, inside, taps in sampling.combinations():
            values = np.where(inside[:, None], np.take_along_axis(planes, flat[:, None], 2), 0)
            wanted += values * sampling.weight(taps, None)[:, None]
    found = F.grid_sample(torch.from_numpy(image), torch.from_numpy(grid), align_corners=align)
    assert np.array_equal(found.numpy().reshape(wanted.shape), wanted, equal_nan=True)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_of_no_channels(mode: str) -> None:
    found = F.grid_sample(torch.ones(2, 0, 3, 3), torch.zeros(2, 4, 5, 2), mode, "zeros", False)
    assert found.shape == (2, 0, 4, 5)
