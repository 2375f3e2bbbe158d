"""Convolution layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.sizes import per_dim
from rushlight.opset import functions
from rushlight.opset.creation import create

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

PAD_MODES = ("circular", "reflect", "replicate", "zeros")


class Convolution(Module):
    """What plain and transposed convolutions share. Classes of users build on it too, with torch's
    order of arguments."""

    count = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in PAD_MODES:
            raise ValueError(
                f"padding_mode must be one of {{{', '.join(map(repr, PAD_MODES))}}}, but got "
                f"padding_mode='{padding_mode}'"
            )
        if not self.count:
            self.count = len(kernel_size)
        count = self.count
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_dim(kernel_size, count)
        self.stride = per_dim(stride, count)
        self.padding = padding if isinstance(padding, str) else per_dim(padding, count)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string '{padding}', should be one of {{'same', 'valid'}}"
                )
            if padding == "same" and any(step != 1 for step in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        self.dilation = per_dim(dilation, count)
        self.transposed = transposed
        self.output_padding = per_dim(output_padding, count)
        self.groups = groups
        self.padding_mode = padding_mode
        outer, inner = out_channels, in_channels // groups
        if transposed:
            outer, inner = in_channels, out_channels // groups
        place = {"device": device, "dtype": dtype}
        self.weight = Parameter(create.empty((outer, inner, *self.kernel_size), **place))
        shift = Parameter(create.empty((out_channels,), **place)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    @property
    def _reversed_padding_repeated_twice(self) -> Sequence[int]:
        """Widths on both sides, last dim first, as `pad` takes them."""
        if not isinstance(self.padding, str):
            return tuple([width for width in reversed(self.padding) for _ in range(2)])
        found = [0] * (2 * self.count)
        if self.padding == "same":
            spans = zip(self.dilation, self.kernel_size, strict=True)
            for position, (step, size) in enumerate(spans):
                total, last = step * (size - 1), 2 * (self.count - 1 - position)
                found[last : last + 2] = total // 2, total - total // 2
        return found

    def extra_repr(self) -> str:
        shown = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        shown += f", stride={self.stride}"
        if self.padding != (0,) * self.count:
            shown += f", padding={self.padding}"
        if self.dilation != (1,) * self.count:
            shown += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self.count:
            shown += f", output_padding={self.output_padding}"
        if self.groups != 1:
            shown += f", groups={self.groups}"
        if self.bias is None:
            shown += ", bias=False"
        if self.padding_mode != "zeros":
            shown += f", padding_mode={self.padding_mode}"
        return shown


class Plain(Convolution):
    """A convolution that slides a kernel over its input."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups,
            bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        """The convolution with another weight, as classes of users call it."""
        run = getattr(functions, f"conv{self.count}d")
        padding = self.padding
        if self.padding_mode != "zeros":
            input = functions.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = (0,) * self.count
        return run(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Transposed(Convolution):
    """The adjoint of a convolution: spreads its input over a larger grid."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        if isinstance(padding, str):
            raise ValueError(
                f"{type(self).__name__} takes padding as numbers, but got padding='{padding}'"
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, True, output_padding,
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Any, output_size: Any = None) -> Any:
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self.count,
            self.dilation,
        )  # fmt: skip
        run = getattr(functions, f"conv_transpose{self.count}d")
        return run(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _output_padding(
        self,
        input: Any,
        output_size: Any,
        stride: Any,
        padding: Any,
        kernel_size: Any,
        num_spatial_dims: int,
        dilation: Any = None,
    ) -> Sequence[int]:
        """The output padding that gives a wanted size."""
        if output_size is None:
            return per_dim(self.output_padding, num_spatial_dims)
        count, given = num_spatial_dims, list(output_size)
        outer = input.dim() - count
        if len(given) not in (count, count + outer):
            raise ValueError(
                f"ConvTranspose{count}D: for {input.dim()}D input, output_size must have {count} "
                f"or {count + outer} elements (got {len(given)})"
            )
        wanted = given[-count:]
        sizes = input.shape[outer:]
        least = [
            (size - 1) * step - 2 * width + apart * (kernel - 1) + 1
            for size, step, width, apart, kernel in zip(
                sizes, stride, padding, dilation or (1,) * count, kernel_size, strict=True
            )
        ]
        most = [low + step - 1 for low, step in zip(least, stride, strict=True)]
        found = [size - low for size, low in zip(wanted, least, strict=True)]
        if any(
            not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)
        ):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to "
                f"{most} (for an input of {sizes})"
            )
        return found


class Conv1d(Plain):
    """Convolution over one dim."""

    count = 1


class Conv2d(Plain):
    """Convolution over two dims.

    >>> import rushlight as torch
    >>> torch.nn.Conv2d(3, 8, 3, padding=1)(torch.ones(2, 3, 5, 5)).shape
    torch.Size([2, 8, 5, 5])
    """

    count = 2


class Conv3d(Plain):
    """Convolution over three dims."""

    count = 3


class ConvTranspose1d(Transposed):
    """Transposed convolution over one dim."""

    count = 1


class ConvTranspose2d(Transposed):
    """Transposed convolution over two dims."""

    count = 2


class ConvTranspose3d(Transposed):
    """Transposed convolution over three dims."""

    count = 3
