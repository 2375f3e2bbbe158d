# mypy: ignore-errors
"""Pooling functions of `nn.functional` as they are compiled.

Where a flag says whether places are wanted, too, there are two functions: `DISPATCHED` names them.
"""

from typing import Optional

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.jit.scripting.annotations import BroadcastingList

aten = torch.ops.aten
Ints1 = BroadcastingList(1)[int]
Ints2 = BroadcastingList(2)[int]
Ints3 = BroadcastingList(3)[int]
Floats2 = BroadcastingList(2)[float]
Floats3 = BroadcastingList(3)[float]

# -- maxima ----------------------------------------------------------------------------------------


def _max_pool1d(
    input: Tensor,
    kernel_size: Ints1,
    stride: Optional[Ints1] = None,
    padding: Ints1 = 0,
    dilation: Ints1 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(list[int], [])
    return torch.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def _max_pool2d(
    input: Tensor,
    kernel_size: Ints2,
    stride: Optional[Ints2] = None,
    padding: Ints2 = 0,
    dilation: Ints2 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(list[int], [])
    return torch.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def _max_pool3d(
    input: Tensor,
    kernel_size: Ints3,
    stride: Optional[Ints3] = None,
    padding: Ints3 = 0,
    dilation: Ints3 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(list[int], [])
    return torch.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Ints1,
    stride: Optional[Ints1] = None,
    padding: Ints1 = 0,
    dilation: Ints1 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    if stride is None:
        stride = torch.jit.annotate(list[int], [])
    return torch.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints2,
    stride: Optional[Ints2] = None,
    padding: Ints2 = 0,
    dilation: Ints2 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    if stride is None:
        stride = torch.jit.annotate(list[int], [])
    return aten.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints3,
    stride: Optional[Ints3] = None,
    padding: Ints3 = 0,
    dilation: Ints3 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    if stride is None:
        stride = torch.jit.annotate(list[int], [])
    return aten.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


# -- adaptive --------------------------------------------------------------------------------------


def _list_with_default(out_size: list[int], defaults: list[int]) -> list[int]:
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return out_size


def _adaptive_max_pool1d(input: Tensor, output_size: Ints1, return_indices: bool = False) -> Tensor:
    return torch.adaptive_max_pool1d(input, output_size)[0]


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Ints1, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    return torch.adaptive_max_pool1d(input, output_size)


def _adaptive_max_pool2d(input: Tensor, output_size: Ints2, return_indices: bool = False) -> Tensor:
    return aten.adaptive_max_pool2d(input, _list_with_default(output_size, input.size()))[0]


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Ints2, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    return aten.adaptive_max_pool2d(input, _list_with_default(output_size, input.size()))


def _adaptive_max_pool3d(input: Tensor, output_size: Ints3, return_indices: bool = False) -> Tensor:
    return aten.adaptive_max_pool3d(input, _list_with_default(output_size, input.size()))[0]


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Ints3, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    return aten.adaptive_max_pool3d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool2d(input: Tensor, output_size: Ints2) -> Tensor:
    return aten.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool3d(input: Tensor, output_size: Ints3) -> Tensor:
    return aten.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


# -- fractional ------------------------------------------------------------------------------------


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints2,
    output_size: Optional[Ints2] = None,
    output_ratio: Optional[Floats2] = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    if output_size is None:
        if output_ratio is None:
            raise ValueError(
                "fractional_max_pool2d requires specifying either an output_size or an output_ratio"
            )
        if len(output_ratio) > 2:
            raise ValueError(
                "fractional_max_pool2d requires output_ratio to either be a single Int or tuple of Ints."  # noqa: E501
            )
        output_size = [int(input.size(i - 2) * output_ratio[i]) for i in range(2)]
    if _random_samples is None:
        batch = 1 if input.dim() == 3 else input.size(0)
        _random_samples = torch.rand(
            batch, input.size(-3), 2, dtype=input.dtype, device=input.device
        )
    return aten.fractional_max_pool2d(input, kernel_size, output_size, _random_samples)


def _fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints2,
    output_size: Optional[Ints2] = None,
    output_ratio: Optional[Floats2] = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor:
    return fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, False, _random_samples
    )[0]


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints3,
    output_size: Optional[Ints3] = None,
    output_ratio: Optional[Floats3] = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    if output_size is None:
        if output_ratio is None:
            raise ValueError(
                "fractional_max_pool3d requires specifying either an output_size or an output_ratio"
            )
        output_size = [int(input.size(i - 3) * output_ratio[i]) for i in range(3)]
    if _random_samples is None:
        batch = 1 if input.dim() == 4 else input.size(0)
        _random_samples = torch.rand(
            batch, input.size(-4), 3, dtype=input.dtype, device=input.device
        )
    return aten.fractional_max_pool3d(input, kernel_size, output_size, _random_samples)


def _fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints3,
    output_size: Optional[Ints3] = None,
    output_ratio: Optional[Floats3] = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor:
    return fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, False, _random_samples
    )[0]


# -- back from maxima ------------------------------------------------------------------------------


def _unpool_output_size(
    input: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    output_size: list[int] | None,
) -> list[int]:
    count = len(kernel_size)
    input_size = input.size()[-count:]
    default = [
        (input_size[i] - 1) * stride[i] + kernel_size[i] - 2 * padding[i] for i in range(count)
    ]
    sizes = default
    if output_size is not None:
        sizes = output_size
        if len(sizes) == count + 2:
            sizes = sizes[2:]
        if len(sizes) != count:
            raise ValueError(
                f"output_size should be a sequence containing {count} or {count + 2} elements, but it has a length of '{len(sizes)}'"  # noqa: E501
            )
        for i in range(count):
            low, high = default[i] - stride[i], default[i] + stride[i]
            if not low < sizes[i] < high:
                raise ValueError(
                    f'invalid output_size "{sizes}" (dim {i} must be between {low} and {high})'
                )
    for i in range(count):
        if sizes[i] < 0:
            raise ValueError(
                f"max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{i}]={sizes[i]}"  # noqa: E501
            )
    return sizes


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints1,
    stride: Optional[Ints1] = None,
    padding: Ints1 = 0,
    output_size: list[int] | None = None,
) -> Tensor:
    if stride is None:
        stride = kernel_size
    sizes = _unpool_output_size(input, kernel_size, stride, padding, output_size)
    return aten.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [sizes[0], 1]).squeeze(-1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints2,
    stride: Optional[Ints2] = None,
    padding: Ints2 = 0,
    output_size: list[int] | None = None,
) -> Tensor:
    if stride is None:
        stride = kernel_size
    sizes = _unpool_output_size(input, kernel_size, stride, padding, output_size)
    return aten.max_unpool2d(input, indices, sizes)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints3,
    stride: Optional[Ints3] = None,
    padding: Ints3 = 0,
    output_size: list[int] | None = None,
) -> Tensor:
    if stride is None:
        stride = kernel_size
    sizes = _unpool_output_size(input, kernel_size, stride, padding, output_size)
    return aten.max_unpool3d(input, indices, sizes, stride, padding)


# -- norms over windows ----------------------------------------------------------------------------


def _root_of_means(means: Tensor, norm_type: int | float, kernel_size: list[int]) -> Tensor:
    covered = 1
    for size in kernel_size:
        covered *= size
    sums = (means.sign() * means.abs().relu()).mul(covered)
    if isinstance(norm_type, int):
        return sums.pow(1.0 / norm_type)
    return sums.pow(1.0 / norm_type)


def _powers(input: Tensor, norm_type: int | float) -> Tensor:
    if isinstance(norm_type, int):
        return input.pow(norm_type)
    return input.pow(norm_type)


def _is_equal(norm_type: int | float, limit: float) -> bool:
    if isinstance(norm_type, int):
        return False
    return norm_type == limit


def lp_pool1d(
    input: Tensor,
    norm_type: int | float,
    kernel_size: Ints1,
    stride: Optional[Ints1] = None,
    ceil_mode: bool = False,
) -> Tensor:
    if _is_equal(norm_type, float("inf")):
        return _max_pool1d(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if _is_equal(norm_type, -float("inf")):
        return -_max_pool1d(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if stride is None:
        stride = torch.jit.annotate(list[int], [])
    means = torch.avg_pool1d(_powers(input, norm_type), kernel_size, stride, 0, ceil_mode)
    return _root_of_means(means, norm_type, kernel_size)


def lp_pool2d(
    input: Tensor,
    norm_type: int | float,
    kernel_size: Ints2,
    stride: Optional[Ints2] = None,
    ceil_mode: bool = False,
) -> Tensor:
    if _is_equal(norm_type, float("inf")):
        return _max_pool2d(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if _is_equal(norm_type, -float("inf")):
        return -_max_pool2d(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if stride is None:
        stride = torch.jit.annotate(list[int], [])
    means = aten.avg_pool2d(_powers(input, norm_type), kernel_size, stride, 0, ceil_mode)
    return _root_of_means(means, norm_type, kernel_size)


def lp_pool3d(
    input: Tensor,
    norm_type: int | float,
    kernel_size: Ints3,
    stride: Optional[Ints3] = None,
    ceil_mode: bool = False,
) -> Tensor:
    if _is_equal(norm_type, float("inf")):
        return _max_pool3d(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if _is_equal(norm_type, -float("inf")):
        return -_max_pool3d(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if stride is None:
        stride = torch.jit.annotate(list[int], [])
    means = aten.avg_pool3d(_powers(input, norm_type), kernel_size, stride, 0, ceil_mode)
    return _root_of_means(means, norm_type, kernel_size)


__all__ = [
    name
    for name, value in list(globals().items())
    if getattr(value, "__module__", "") == __name__ and callable(value)
]
for _name in __all__:
    globals()[_name]._jit_override_qualname = f"__torch__.torch.nn.functional.{_name}"

# Functions of which a flag, known when they are compiled, says which of two is meant:
# name -> (the flag, its place, if true, if false).
DISPATCHED = {
    name: ("return_indices", place, globals()[f"{name}_with_indices"], globals()[f"_{name}"])
    for place, names in (
        (6, ("max_pool1d", "max_pool2d", "max_pool3d")),
        (4, ("fractional_max_pool2d", "fractional_max_pool3d")),
        (2, ("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")),
    )
    for name in names
}
