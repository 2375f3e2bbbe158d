"""Pooling layers."""

from __future__ import annotations

from typing import Any

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.sizes import per_dim

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class Pool(Module):
    """A pooling over the last `count` dims; `shown` names what its repr tells."""

    count = 0
    shown = ""

    def extra_repr(self) -> str:
        return ", ".join([f"{name}={getattr(self, name)}" for name in self.shown.split()])


class MaxPool(Pool):
    """Maxima over sliding windows."""

    shown = "kernel_size stride padding dilation ceil_mode"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Any:
        run = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[self.count - 1]
        return run(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool1d(MaxPool):
    """Maxima over windows of the last dim."""

    count = 1


class MaxPool2d(MaxPool):
    """Maxima over windows of the last two dims.

    >>> import rushlight as torch
    >>> torch.nn.MaxPool2d(3, stride=2, padding=1)(torch.ones(1, 8, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    count = 2


class MaxPool3d(MaxPool):
    """Maxima over windows of the last three dims."""

    count = 3


class MaxUnpool(Pool):
    """Maxima put back where they were found."""

    shown = "kernel_size stride padding"

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = per_dim(kernel_size, self.count)
        self.stride = per_dim(kernel_size if stride is None else stride, self.count)
        self.padding = per_dim(padding, self.count)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        run = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self.count - 1]
        return run(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(MaxUnpool):
    """The partial inverse of `MaxPool1d`."""

    count = 1


class MaxUnpool2d(MaxUnpool):
    """The partial inverse of `MaxPool2d`."""

    count = 2


class MaxUnpool3d(MaxUnpool):
    """The partial inverse of `MaxPool3d`."""

    count = 3


class AnyAvgPool(Pool):
    """Means over windows."""

    shown = "kernel_size stride padding"


class AvgPool1d(AnyAvgPool):
    """Means over windows of the last dim."""

    count = 1

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = per_dim(kernel_size, self.count)
        self.stride = per_dim(kernel_size if stride is None else stride, self.count)
        self.padding = per_dim(padding, self.count)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class AvgPool(AnyAvgPool):
    """Means over windows of more than one dim."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Any) -> Any:
        run = F.avg_pool2d if self.count == 2 else F.avg_pool3d
        return run(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(AvgPool):
    """Means over windows of the last two dims."""

    count = 2


class AvgPool3d(AvgPool):
    """Means over windows of the last three dims."""

    count = 3


class FractionalMaxPool(Pool):
    """Maxima over windows at random steps."""

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        count = self.count
        if count == 3 and any(size <= 0 for size in per_dim(kernel_size, count)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.kernel_size = per_dim(kernel_size, count)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_dim(output_size, count)
        self.output_ratio = None if output_ratio is None else per_dim(output_ratio, count)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"FractionalMaxPool{count}d requires specifying either an output size, or a "
                "pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Any) -> Any:
        run = F.fractional_max_pool2d if self.count == 2 else F.fractional_max_pool3d
        return run(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(FractionalMaxPool):
    """Maxima over windows of two dims at random steps that give a wanted size."""

    count = 2


class FractionalMaxPool3d(FractionalMaxPool):
    """Maxima over windows of three dims at random steps that give a wanted size."""

    count = 3


class LPPool(Pool):
    """p-norms of sliding windows."""

    shown = "norm_type kernel_size stride ceil_mode"

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Any:
        run = (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)[self.count - 1]
        return run(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(LPPool):
    """p-norms of windows of the last dim."""

    count = 1


class LPPool2d(LPPool):
    """p-norms of windows of the last two dims."""

    count = 2


class LPPool3d(LPPool):
    """p-norms of windows of the last three dims."""

    count = 3


class AdaptiveMaxPool(Pool):
    """Maxima over as many windows as are asked for."""

    shown = "output_size"

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Any) -> Any:
        every = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
        return every[self.count - 1](input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """Maxima over as many windows of the last dim as are asked for."""

    count = 1


class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """Maxima over as many windows of the last two dims as are asked for."""

    count = 2


class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """Maxima over as many windows of the last three dims as are asked for."""

    count = 3


class AdaptiveAvgPool(Pool):
    """Means over as many windows as are asked for."""

    shown = "output_size"

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        every = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
        return every[self.count - 1](input, self.output_size)


class AdaptiveAvgPool1d(AdaptiveAvgPool):
    """Means over as many windows of the last dim as are asked for."""

    count = 1


class AdaptiveAvgPool2d(AdaptiveAvgPool):
    """Means over as many windows of the last two dims as are asked for."""

    count = 2


class AdaptiveAvgPool3d(AdaptiveAvgPool):
    """Means over as many windows of the last three dims as are asked for."""

    count = 3
