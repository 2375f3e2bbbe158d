"""Functions on images: resampling, sampling at the places of a grid, patches as columns."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.nn.functional.pool import adaptive_avg_pool2d, adaptive_avg_pool3d
from rushlight.nn.sizes import per_dim
from rushlight.opset import functions
from rushlight.opset.registry import find

__all__ = [
    "affine_grid", "fold", "grid_sample", "interpolate", "unfold", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip

# -- resampling ------------------------------------------------------------------------------------

# (spatial dims, mode) -> op, with align_corners from the second table on.
PLAIN = {
    (1, "nearest"): "upsample_nearest1d",
    (2, "nearest"): "upsample_nearest2d",
    (3, "nearest"): "upsample_nearest3d",
    (1, "nearest-exact"): "_upsample_nearest_exact1d",
    (2, "nearest-exact"): "_upsample_nearest_exact2d",
    (3, "nearest-exact"): "_upsample_nearest_exact3d",
}
ALIGNED = {
    (1, "linear"): "upsample_linear1d",
    (2, "bilinear"): "upsample_bilinear2d",
    (3, "trilinear"): "upsample_trilinear3d",
    (2, "bicubic"): "upsample_bicubic2d",
}
SMOOTH = {
    "bilinear": "_upsample_bilinear2d_aa",
    "bicubic": "_upsample_bicubic2d_aa",
    "lanczos": "_upsample_lanczos2d_aa",
}
RANKS = {"linear": 3, "bilinear": 4, "trilinear": 5}


def is_whole(value: Any) -> bool:
    """Whether a size is an integer of any sort: int, symbolic, NumPy's, a tensor's."""
    if hasattr(value, "is_floating_point") and hasattr(value, "dim"):
        return not value.is_floating_point()
    return hasattr(value, "__index__")


def target_sizes(input: Any, size: Any, count: int) -> Any:
    if not isinstance(size, (tuple, list)):
        return [size] * count
    if len(size) != count:
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(input.shape[2:])} and output size of {size}. Please "
            "provide input tensor in (N, C, d1, d2, ...,dK) format and output size in "
            "(o1, o2, ...,oK) format."
        )
    if not all([is_whole(entry) for entry in size]):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
            f"Tuple[int, int, int], but got size with types {[type(entry) for entry in size]}"
        )
    return list(size)


def target_factors(input: Any, scale_factor: Any, count: int) -> Any:
    if not isinstance(scale_factor, (tuple, list)):
        return [scale_factor] * count
    if len(scale_factor) != count:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {list(input.shape[2:])} and scale_factor of shape "
            f"{scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            "scale_factor in (s1, s2, ...,sK) format."
        )
    return list(scale_factor)


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """The image at another size, given as such or as a factor.

    >>> import rushlight as torch
    >>> torch.nn.functional.interpolate(torch.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | "
                "bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    count = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    sizes = None if size is None else target_sizes(input, size, count)
    factors = None if scale_factor is None else target_factors(input, scale_factor, count)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if factors is not None and (recompute_scale_factor or mode == "area"):
        from rushlight.opset.window.resample import scaled

        pairs = zip(input.shape[2:], factors, strict=True)
        sizes, factors = [scaled(length, by) for length, by in pairs], None
    if factors is not None:
        factors = [float(factor) for factor in factors]
    if antialias and not (mode in SMOOTH and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    return resample(input, mode, count, sizes, factors, align_corners, antialias)


def resample(
    input: Any, mode: str, count: int, sizes: Any, factors: Any, align_corners: Any, antialias: bool
) -> Any:
    """Call the op of a mode; NotImplementedError where a number of dims has none."""
    if mode == "area" and count in (1, 2, 3):
        if count == 1:
            return functions.adaptive_avg_pool1d(input, sizes)
        return (adaptive_avg_pool2d if count == 2 else adaptive_avg_pool3d)(input, sizes)
    if (count, mode) in PLAIN:
        return getattr(functions, PLAIN[count, mode])(input, sizes, factors)
    if mode == "lanczos" and count == 2:
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    if antialias:
        return getattr(functions, SMOOTH[mode])(input, sizes, align_corners, factors)
    if (count, mode) in ALIGNED:
        return find(ALIGNED[count, mode], "vec")(input, sizes, align_corners, factors)
    if mode in RANKS and count in (1, 2, 3):
        # torch: the words.
        raise NotImplementedError(
            f"Got {input.dim()}D input, but {mode} mode needs {RANKS[mode]}D input"
        )
    # torch: the words.
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the "
        "modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact "
        f"(got {mode})"
    )


def warn_deprecated(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=3,
    )


def upsample(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """The older name of `interpolate`."""
    warn_deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` with the nearest pixel's value."""
    warn_deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` linearly between pixels, corners aligned."""
    warn_deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# -- grids -----------------------------------------------------------------------------------------

SAMPLE_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
SAMPLE_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def default_corners() -> bool:
    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
        "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
        "documentation of grid_sample for details.",
        UserWarning,
        stacklevel=3,
    )
    return False


def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """The image's values at the places that a grid names, from -1 to 1 along each axis."""
    if mode not in SAMPLE_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in SAMPLE_PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        align_corners = default_corners()
    return functions.grid_sampler(
        input, grid, SAMPLE_MODES[mode], SAMPLE_PADDINGS[padding_mode], align_corners
    )


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The grid of an affine map: where each pixel of an output image comes from."""
    if align_corners is None:
        align_corners = default_corners()
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        # torch: the words.
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    count = len(size) - 2
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (count, count + 1):
        raise ValueError(
            f"Expected a batch of {count}D affine matrices of shape Nx{count}x{count + 1} for size "
            f"{size}. Got {theta.shape}."
        )
    # One by one: sizes may be symbols, of which none has to be the least.
    if any([length <= 0 for length in size]):
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if align_corners and any([length == 1 for length in size[2:]]):
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the "
            "documentation of affine_grid for details.",
            UserWarning,
            stacklevel=2,
        )
    return functions.affine_grid_generator(theta, list(size), align_corners)


# -- patches ---------------------------------------------------------------------------------------


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """Patches of an image as columns."""
    return functions.im2col(
        input, per_dim(kernel_size, 2), per_dim(dilation, 2), per_dim(padding, 2),
        per_dim(stride, 2),
    )  # fmt: skip


def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """Columns added up where their patches lie in an image."""
    return functions.col2im(
        input, per_dim(output_size, 2), per_dim(kernel_size, 2), per_dim(dilation, 2),
        per_dim(padding, 2), per_dim(stride, 2),
    )  # fmt: skip
