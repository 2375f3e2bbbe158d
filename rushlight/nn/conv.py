"""Convolution layers."""

from __future__ import annotations

import math
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
    """What plain and transposed convolutions share."""

    count = 0
    transposed = False

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
        self.output_padding = (0,) * count
        self.groups = groups
        self.padding_mode = padding_mode
        outer, inner = out_channels, in_channels // groups
        if self.transposed:
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

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        """The convolution with another weight, as classes of users call it."""
        run = getattr(functions, f"conv{self.count}d")
        padding = self.padding
        if self.padding_mode != "zeros":
            input = functions.pad(input, self.explicit_padding(), self.padding_mode)
            padding = (0,) * self.count
        return run(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def explicit_padding(self) -> list[int]:
        """Widths on both sides, last dim first, as `pad` takes them."""
        found: list[int] = []
        for position in reversed(range(self.count)):
            if self.padding == "same":
                total = self.dilation[position] * (self.kernel_size[position] - 1)
                found += [total // 2, total - total // 2]
            else:
                width = 0 if self.padding == "valid" else self.padding[position]
                found += [width, width]
        return found


class Transposed(Convolution):
    """The adjoint of a convolution: spreads its input over a larger grid."""

    transposed = True

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
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.output_padding = per_dim(output_padding, self.count)

    def forward(self, input: Any, output_size: Any = None) -> Any:
        extra = self.output_padding if output_size is None else self.extra_for(input, output_size)
        run = getattr(functions, f"conv_transpose{self.count}d")
        return run(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def extra_for(self, input: Any, output_size: Any) -> list[int]:
        """The output padding that gives a wanted size."""
        count, given = self.count, list(output_size)
        outer = input.dim() - count
        if len(given) not in (count, count + outer):
            raise ValueError(
                f"ConvTranspose{count}D: for {input.dim()}D input, output_size must have {count} "
                f"or {count + outer} elements (got {len(given)})"
            )
        wanted = given[-count:]
        sizes = input.shape[outer:]
        least = [
            (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
            for size, stride, padding, dilation, kernel in zip(
                sizes, self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        most = [low + stride - 1 for low, stride in zip(least, self.stride, strict=True)]
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
