"""Convolutions of quantised numbers: modules with packed int8 weights, plain and transposed."""

from __future__ import annotations

from typing import Any

from rushlight import nn
from rushlight.nn import functional
from rushlight.nn.module import Module
from rushlight.nn.sizes import per_dim
from rushlight.nn.utils.fusion import fuse_conv_bn_weights
from rushlight.opset import functions
from rushlight.quantization import intrinsic as nni
from rushlight.quantization import training
from rushlight.quantization.operators import conv as _conv  # noqa: F401
from rushlight.quantization.static import operator
from rushlight.quantization.weighted import (
    WeightedQuantizedModule,
    checked_int8,
    empty_weight,
    qparams_of,
    quantized_weight,
    take,
)

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvAdd2d", "ConvAddReLU2d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

# What the state of a pickled module holds, in torch's order; then weight, bias, scale and so on.
FACTS = (
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "transposed",
    "output_padding", "groups", "padding_mode",
)  # fmt: skip


class ConvNd(WeightedQuantizedModule):
    """A convolution with an int8 weight, over `dims` dimensions, computed by `op`."""

    dims = 0
    # With the number of dimensions in the place of the braces.
    op = "conv{}d"
    transposed = False
    _FLOAT_MODULE: Any = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self._init(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
            padding_mode,
        )  # fmt: skip

    def _init(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, output_padding: Any, groups: int, bias: bool, padding_mode: str,
    ) -> None:  # fmt: skip
        Module.__init__(self)
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in ("zeros", "reflect"):
            raise ValueError(
                f"'padding_mode' {padding_mode} is not supported by quantized convolution"
            )
        if self.dims == 3 and padding_mode == "reflect":
            raise AssertionError("Conv3d does not support reflection padding")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = per_dim(kernel_size, self.dims)
        self.stride = per_dim(stride, self.dims)
        self.padding = per_dim(padding, self.dims)
        self.dilation = per_dim(dilation, self.dims)
        self.output_padding = per_dim(output_padding, self.dims)
        self.groups, self.padding_mode = groups, padding_mode
        first, second = out_channels, in_channels // groups
        if self.transposed:
            first, second = in_channels, out_channels // groups
        self.set_weight_bias(
            empty_weight(first, second, *self.kernel_size),
            functions.zeros((out_channels,)) if bias else None,
        )
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def set_weight_bias(self, w: Any, b: Any) -> None:
        name = f"conv_transpose{self.dims}d" if self.transposed else f"conv{self.dims}d"
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self.dims
        where = [self.stride, padding, self.dilation, self.groups]
        if self.transposed:
            where.insert(2, self.output_padding)
        self._packed_params = operator(f"{name}_prepack")(w, b, *where)

    def _weight_bias(self) -> Any:
        return operator(f"conv{self.dims}d_unpack")(self._packed_params)

    def checked(self, input: Any) -> Any:
        if input.dim() != self.dims + 2:
            letters = {1: "L", 2: "H, W", 3: "D, H, W"}[self.dims]
            raise ValueError(f"Input shape must be `(N, C, {letters})`!")
        if self.padding_mode == "zeros":
            return input
        ends = [size for size in reversed(self.padding) for _ in range(2)]
        return functional.pad(input, ends, mode=self.padding_mode)

    def forward(self, input: Any) -> Any:
        given = self.checked(input)
        return operator(self.op.format(self.dims))(
            given, self._packed_params, self.scale, self.zero_point
        )

    def extra_repr(self) -> str:
        said = [
            f"{self.in_channels}, {self.out_channels}", f"kernel_size={self.kernel_size}",
            f"stride={self.stride}", f"scale={self.scale}", f"zero_point={self.zero_point}",
        ]  # fmt: skip
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (usual,) * len(value):
                said.append(f"{name}={value}")
        if self.groups != 1:
            said.append(f"groups={self.groups}")
        if self.bias() is None:
            said.append("bias=False")
        return ", ".join(said)

    # -- state ---------------------------------------------------------------------------------

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        self.set_weight_bias(*take(state_dict, prefix, "weight", "bias"))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def __getstate__(self) -> Any:
        facts = [getattr(self, name) for name in FACTS]
        return (*facts, *self._weight_bias(), self.scale, self.zero_point, self.training)

    def __setstate__(self, state: Any) -> None:
        Module.__init__(self)
        for name, value in zip(FACTS, state, strict=False):
            setattr(self, name, value)
        weight, bias, self.scale, self.zero_point, self.training = state[len(FACTS) :]
        self.set_weight_bias(weight, bias)

    def __deepcopy__(self, memo: Any) -> Any:
        made = type(self).__new__(type(self))
        made.__setstate__(self.__getstate__())
        return made

    def __copy__(self) -> Any:
        return self.__deepcopy__({})

    # -- from other modules --------------------------------------------------------------------

    @classmethod
    def arguments(cls, mod: Any) -> tuple[Any, ...]:
        return (
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding,
            mod.dilation, mod.groups, mod.bias is not None, mod.padding_mode,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        inner = mod
        if hasattr(mod, "weight_fake_quant"):
            if isinstance(mod, training.ConvWithNorm):
                mod.weight, mod.bias = fuse_conv_bn_weights(mod.weight, mod.bias, *mod.statistics())
            watching = mod.weight_fake_quant
        else:
            if type(mod) is not cls._FLOAT_MODULE:
                raise AssertionError(
                    f"nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__} "
                    f"but got: {type(mod).__name__}"
                )
            if not hasattr(mod, "qconfig"):
                raise AssertionError("Input float module must have qconfig defined.")
            inner = mod[0] if isinstance(mod, nni._FusedModule) else mod
            watching = inner.qconfig.weight()
        watching(inner.weight)
        made = cls(*cls.arguments(inner))
        made.set_weight_bias(quantized_weight(inner.weight, checked_int8(watching)), inner.bias)
        results = getattr(mod, "activation_post_process", None)
        if results is not None and not results.dtype.is_floating_point:
            made.scale, made.zero_point = qparams_of(mod)
        return made

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        made = cls(*cls.arguments(ref_qconv))
        made.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


class Conv1d(ConvNd):
    dims = 1
    _FLOAT_MODULE: Any = nn.Conv1d


class Conv2d(ConvNd):
    dims = 2
    _FLOAT_MODULE: Any = nn.Conv2d


class Conv3d(ConvNd):
    dims = 3
    _FLOAT_MODULE: Any = nn.Conv3d


class ConvReLU1d(Conv1d):
    op = "conv{}d_relu"
    _FLOAT_MODULE = nni.ConvReLU1d


class ConvReLU2d(Conv2d):
    op = "conv{}d_relu"
    _FLOAT_MODULE = nni.ConvReLU2d


class ConvReLU3d(Conv3d):
    op = "conv{}d_relu"
    _FLOAT_MODULE = nni.ConvReLU3d


class ConvAdd2d(Conv2d):
    """A convolution, and the sum with another operand."""

    op = "conv{}d_add"
    _FLOAT_MODULE = nni.ConvAdd2d

    def forward(self, input: Any, extra_input: Any) -> Any:  # type: ignore[override]
        given = self.checked(input)
        return operator(self.op.format(self.dims))(
            given, extra_input, self._packed_params, self.scale, self.zero_point
        )


class ConvAddReLU2d(ConvAdd2d):
    op = "conv{}d_add_relu"
    _FLOAT_MODULE = nni.ConvAddReLU2d


class ConvTransposeNd(ConvNd):
    transposed = True
    op = "conv_transpose{}d"

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._init(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding,
            groups, bias, padding_mode,
        )  # fmt: skip

    @classmethod
    def arguments(cls, mod: Any) -> tuple[Any, ...]:
        return (
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding,
            mod.output_padding, mod.groups, mod.bias is not None, mod.dilation, mod.padding_mode,
        )  # fmt: skip


class ConvTranspose1d(ConvTransposeNd):
    dims = 1
    _FLOAT_MODULE = nn.ConvTranspose1d


class ConvTranspose2d(ConvTransposeNd):
    dims = 2
    _FLOAT_MODULE = nn.ConvTranspose2d


class ConvTranspose3d(ConvTransposeNd):
    dims = 3
    _FLOAT_MODULE = nn.ConvTranspose3d
