"""Pooling functions: thin fronts of the ops, with options as numbers or one number per dim."""

from __future__ import annotations

from typing import Any

from rushlight.nn.sizes import per_dim
from rushlight.opset import functions

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


DIMS = ("the last dim", "the last two dims", "the last three dims")


def named(function: Any, name: str, text: str) -> Any:
    """A function of a family that differs by its number of dims."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


# -- maxima ----------------------------------------------------------------------------------------


def max_pool(count: int) -> tuple[Any, Any]:
    """(maxima, maxima and where they lie) over windows of `count` dims."""
    name = f"max_pool{count}d"

    def both(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        run = getattr(functions, f"{name}_with_indices")
        stride = [] if stride is None else stride
        return run(input, kernel_size, stride, padding, dilation, ceil_mode)

    def maxima(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        run = getattr(functions, f"{name}_with_indices" if return_indices else name)
        stride = [] if stride is None else stride
        return run(input, kernel_size, stride, padding, dilation, ceil_mode)

    text = f"Maxima over windows of {DIMS[count - 1]}"
    return (
        named(maxima, name, f"{text}."),
        named(both, f"{name}_with_indices", f"{text}, and where they lie."),
    )


max_pool1d, max_pool1d_with_indices = max_pool(1)
max_pool2d, max_pool2d_with_indices = max_pool(2)
max_pool3d, max_pool3d_with_indices = max_pool(3)


# -- back from maxima ------------------------------------------------------------------------------


def unpooled_size(input: Any, kernel: Any, stride: Any, padding: Any, wanted: Any) -> list[Any]:
    """The spatial sizes before pooling: those asked for, if windows could have come from them."""
    count = len(kernel)
    entries = zip(input.shape[-count:], kernel, stride, padding, strict=True)
    default = [(size - 1) * s + k - 2 * p for size, k, s, p in entries]
    sizes = default
    if wanted is not None:
        sizes = list(wanted)
        if len(sizes) == count + 2:
            sizes = sizes[2:]
        if len(sizes) != count:
            raise ValueError(
                f"output_size should be a sequence containing {count} or {count + 2} elements, but "
                f"it has a length of '{len(sizes)}'"
            )
        for dim, size in enumerate(sizes):
            low, high = default[dim] - stride[dim], default[dim] + stride[dim]
            if not low < size < high:
                shown = wanted if len(wanted) == count else wanted[2:]
                raise ValueError(
                    f'invalid output_size "{shown}" (dim {dim} must be between {low} and {high})'
                )
    for dim, size in enumerate(sizes):
        if size < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{dim}]={size}"
            )
    return sizes


def max_unpool(count: int) -> Any:
    def unpool(
        input: Any,
        indices: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Any:
        kernel = per_dim(kernel_size, count)
        steps = kernel if stride is None else per_dim(stride, count)
        widths = per_dim(padding, count)
        if {len(kernel), len(steps), len(widths)} != {count}:
            raise RuntimeError(
                f"max_unpool{count}d: kernel_size, stride and padding need {count} numbers each, "
                f"got {kernel}, {steps} and {widths}"
            )
        sizes = unpooled_size(input, kernel, steps, widths, output_size)
        if count == 3:
            return functions.max_unpool3d(input, indices, sizes, steps, widths)
        if count == 2:
            return functions.max_unpool2d(input, indices, sizes)
        found = functions.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*sizes, 1])
        return found.squeeze(-1)

    text = "The input put back where its maxima were found, zero elsewhere."
    return named(unpool, f"max_unpool{count}d", text)


max_unpool1d, max_unpool2d, max_unpool3d = (max_unpool(count) for count in (1, 2, 3))


# -- fractional ------------------------------------------------------------------------------------


def fractional(
    input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any, count: int
) -> Any:
    name = f"fractional_max_pool{count}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        if count == 2 and isinstance(output_ratio, (tuple, list)) and len(output_ratio) > 2:
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints."
            )
        ratios = per_dim(output_ratio, count)
        output_size = [int(input.shape[axis - count] * ratios[axis]) for axis in range(count)]
    if samples is None:
        batch = 1 if input.dim() == count + 1 else input.shape[0]
        channels = input.shape[-count - 1]
        samples = functions.rand(batch, channels, count, dtype=input.dtype, device=input.device)
    run = functions.fractional_max_pool2d if count == 2 else functions.fractional_max_pool3d
    return run(input, per_dim(kernel_size, count), per_dim(output_size, count), samples)


def fractional_max_pool(count: int) -> tuple[Any, Any]:
    """(maxima, maxima and where they lie) over windows of `count` dims at random steps."""

    def both(
        input: Any,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:
        return fractional(input, kernel_size, output_size, output_ratio, _random_samples, count)

    def maxima(
        input: Any,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:
        found = both(input, kernel_size, output_size, output_ratio, False, _random_samples)
        return found if return_indices else found[0]

    name = f"fractional_max_pool{count}d"
    text = f"Maxima over windows of {DIMS[count - 1]} at random steps that give a wanted size"
    return (
        named(maxima, name, f"{text}."),
        named(both, f"{name}_with_indices", f"{text}, and where they lie."),
    )


fractional_max_pool2d, fractional_max_pool2d_with_indices = fractional_max_pool(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = fractional_max_pool(3)


# -- norms over windows ----------------------------------------------------------------------------


def lp_pool(
    input: Any, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: bool, count: int
) -> Any:
    largest = (max_pool1d, max_pool2d, max_pool3d)[count - 1]
    if isinstance(norm_type, (int, float)):
        if norm_type == float("inf"):
            return largest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        if norm_type == -float("inf"):
            return -largest(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    mean = getattr(functions, f"avg_pool{count}d")
    found = mean(input.pow(norm_type), kernel_size, [] if stride is None else stride, 0, ceil_mode)
    covered = 1
    for size in per_dim(kernel_size, count):
        covered *= size
    return (found.sign() * found.abs().relu()).mul(covered).pow(1.0 / norm_type)


def lp_pool_of(count: int) -> Any:
    def norms(
        input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Any:
        return lp_pool(input, norm_type, kernel_size, stride, ceil_mode, count)

    return named(norms, f"lp_pool{count}d", f"p-norms of windows of {DIMS[count - 1]}.")


lp_pool1d, lp_pool2d, lp_pool3d = (lp_pool_of(count) for count in (1, 2, 3))


# -- adaptive --------------------------------------------------------------------------------------


def wanted_size(output_size: Any, input: Any, count: int) -> Any:
    """The size asked for; None stands for the input's own."""
    if not isinstance(output_size, (tuple, list)):
        return (output_size,) * count
    shape = input.shape
    if len(shape) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    own = shape[len(shape) - len(output_size) :]
    return [a if b is None else b for a, b in zip(own, output_size, strict=True)]


def adaptive_max_pool(count: int) -> tuple[Any, Any]:
    """(maxima, maxima and where they lie) over as many windows of `count` dims as are wanted."""
    name = f"adaptive_max_pool{count}d"

    def both(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        if count > 1:
            output_size = wanted_size(output_size, input, count)
        return getattr(functions, name)(input, output_size)

    def maxima(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        found = both(input, output_size)
        return found if return_indices else found[0]

    text = f"Maxima over as many windows of {DIMS[count - 1]} as are asked for"
    return (
        named(maxima, name, f"{text}."),
        named(both, f"{name}_with_indices", f"{text}, and where they lie."),
    )


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = adaptive_max_pool(3)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Means over as many windows of the last two dims as are asked for.

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.ones(1, 3, 5, 4), (2, None)).shape
    torch.Size([1, 3, 2, 4])
    """
    return functions.adaptive_avg_pool2d(input, wanted_size(output_size, input, 2))


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Means over as many windows of the last three dims as are asked for."""
    return functions.adaptive_avg_pool3d(input, wanted_size(output_size, input, 3))
