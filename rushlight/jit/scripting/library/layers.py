# mypy: ignore-errors
# ruff: noqa: B028
"""Modules of `nn` as they are compiled: methods over the attributes that the modules have."""

import warnings
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.jit.scripting.library import functions as F
from rushlight.jit.scripting.library import pooling as P

aten = torch.ops.aten
FORMS: dict[str, dict[str, Callable[..., Any]]] = {}


def forward_of(*names: str) -> Callable[[Any], Any]:
    """The function is `forward` of these classes."""
    return method_of("forward", *names)


def method_of(method: str, *names: str) -> Callable[[Any], Any]:
    def attach(function: Any) -> Any:
        function.__name__ = method
        for name in names:
            FORMS.setdefault(name, {})[method] = function
        return function

    return attach


# -- containers, linear ----------------------------------------------------------------------------


@forward_of("Sequential")
def sequential(self, input):
    for module in self:
        input = module(input)
    return input


@forward_of("Identity")
def identity(self, input: Tensor) -> Tensor:
    return input


@forward_of("Linear")
def linear(self, input: Tensor) -> Tensor:
    return aten.linear(input, self.weight, self.bias)


@forward_of("Bilinear")
def bilinear(self, input1: Tensor, input2: Tensor) -> Tensor:
    return torch.bilinear(input1, input2, self.weight, self.bias)


@forward_of("Flatten")
def flatten(self, input: Tensor) -> Tensor:
    return input.flatten(self.start_dim, self.end_dim)


@forward_of("Unflatten")
def unflatten(self, input: Tensor) -> Tensor:
    return input.unflatten(self.dim, self.unflattened_size)


# -- activations -----------------------------------------------------------------------------------


@forward_of("ReLU")
def relu(self, input: Tensor) -> Tensor:
    return F.relu(input, inplace=self.inplace)


@forward_of("ReLU6", "Hardtanh")
def hardtanh(self, input: Tensor) -> Tensor:
    return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


@forward_of("ELU")
def elu(self, input: Tensor) -> Tensor:
    return F.elu(input, self.alpha, self.inplace)


@forward_of("SELU")
def selu(self, input: Tensor) -> Tensor:
    return F.selu(input, self.inplace)


@forward_of("CELU")
def celu(self, input: Tensor) -> Tensor:
    return F.celu(input, self.alpha, self.inplace)


@forward_of("LeakyReLU")
def leaky_relu(self, input: Tensor) -> Tensor:
    return F.leaky_relu(input, self.negative_slope, self.inplace)


@forward_of("RReLU")
def rrelu(self, input: Tensor) -> Tensor:
    return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


@forward_of("SiLU")
def silu(self, input: Tensor) -> Tensor:
    return F.silu(input, inplace=self.inplace)


@forward_of("Mish")
def mish(self, input: Tensor) -> Tensor:
    return F.mish(input, inplace=self.inplace)


@forward_of("Hardswish")
def hardswish(self, input: Tensor) -> Tensor:
    return F.hardswish(input, self.inplace)


@forward_of("Hardsigmoid")
def hardsigmoid(self, input: Tensor) -> Tensor:
    return F.hardsigmoid(input, self.inplace)


@forward_of("Threshold")
def threshold(self, input: Tensor) -> Tensor:
    return F.threshold(input, self.threshold, self.value, self.inplace)


@forward_of("GLU")
def glu(self, input: Tensor) -> Tensor:
    return F.glu(input, self.dim)


@forward_of("GELU")
def gelu(self, input: Tensor) -> Tensor:
    return aten.gelu(input, approximate=self.approximate)


@forward_of("Sigmoid")
def sigmoid(self, input: Tensor) -> Tensor:
    return torch.sigmoid(input)


@forward_of("Tanh")
def tanh(self, input: Tensor) -> Tensor:
    return torch.tanh(input)


@forward_of("LogSigmoid")
def log_sigmoid(self, input: Tensor) -> Tensor:
    return aten.log_sigmoid(input)


@forward_of("Softplus")
def softplus(self, input: Tensor) -> Tensor:
    return aten.softplus(input, self.beta, self.threshold)


@forward_of("Softshrink")
def softshrink(self, input: Tensor) -> Tensor:
    return aten.softshrink(input, self.lambd)


@forward_of("Hardshrink")
def hardshrink(self, input: Tensor) -> Tensor:
    return aten.hardshrink(input, self.lambd)


@forward_of("Softsign")
def softsign(self, input: Tensor) -> Tensor:
    return F.softsign(input)


@forward_of("Tanhshrink")
def tanhshrink(self, input: Tensor) -> Tensor:
    return F.tanhshrink(input)


@forward_of("PReLU")
def prelu(self, input: Tensor) -> Tensor:
    return torch.prelu(input, self.weight)


@forward_of("Softmax")
def softmax(self, input: Tensor) -> Tensor:
    return F.softmax(input, self.dim, _stacklevel=5)


@forward_of("Softmin")
def softmin(self, input: Tensor) -> Tensor:
    return F.softmin(input, self.dim, _stacklevel=5)


@forward_of("Softmax2d")
def softmax2d(self, input: Tensor) -> Tensor:
    if input.dim() not in (3, 4):
        raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
    return input.softmax(-3)


@forward_of("LogSoftmax")
def log_softmax(self, input: Tensor) -> Tensor:
    return F.log_softmax(input, self.dim, _stacklevel=5)


# -- dropout ---------------------------------------------------------------------------------------


@forward_of("Dropout")
def dropout(self, input: Tensor) -> Tensor:
    return F.dropout(input, self.p, self.training, self.inplace)


@forward_of("Dropout1d")
def dropout1d(self, input: Tensor) -> Tensor:
    return F.dropout1d(input, self.p, self.training, self.inplace)


@forward_of("Dropout2d")
def dropout2d(self, input: Tensor) -> Tensor:
    return F.dropout2d(input, self.p, self.training, self.inplace)


@forward_of("Dropout3d")
def dropout3d(self, input: Tensor) -> Tensor:
    return F.dropout3d(input, self.p, self.training, self.inplace)


@forward_of("AlphaDropout")
def alpha_dropout(self, input: Tensor) -> Tensor:
    return F.alpha_dropout(input, self.p, self.training)


@forward_of("FeatureAlphaDropout")
def feature_alpha_dropout(self, input: Tensor) -> Tensor:
    return F.feature_alpha_dropout(input, self.p, self.training)


# -- convolutions ----------------------------------------------------------------------------------


@forward_of("Conv1d")
def conv1d(self, input: Tensor) -> Tensor:
    if self.padding_mode != "zeros":
        input = aten.pad(input, self._padding_of_input, self._pad_mode)
        return aten.conv1d(
            input, self.weight, self.bias, self.stride, [0], self.dilation, self.groups
        )
    return aten.conv1d(
        input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )


@forward_of("Conv2d")
def conv2d(self, input: Tensor) -> Tensor:
    return self._conv_forward(input, self.weight, self.bias)


@method_of("_conv_forward", "Conv2d")
def conv2d_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None):
    if self.padding_mode != "zeros":
        return aten.conv2d(
            aten.pad(input, self._padding_of_input, self._pad_mode),
            weight,
            bias,
            self.stride,
            [0, 0],
            self.dilation,
            self.groups,
        )
    return aten.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


@forward_of("Conv3d")
def conv3d(self, input: Tensor) -> Tensor:
    if self.padding_mode != "zeros":
        input = aten.pad(input, self._padding_of_input, self._pad_mode)
        return aten.conv3d(
            input, self.weight, self.bias, self.stride, [0, 0, 0], self.dilation, self.groups
        )
    return aten.conv3d(
        input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )


def output_padding(
    input: Tensor,
    output_size: list[int],
    stride: list[int],
    padding: list[int],
    kernel_size: list[int],
    dilation: list[int],
) -> list[int]:
    """The output padding that gives a wanted size."""
    count = len(stride)
    outer = input.dim() - count
    if len(output_size) != count and len(output_size) != count + outer:
        raise ValueError(
            f"ConvTranspose{count}D: for {input.dim()}D input, output_size must have {count} or {count + outer} elements (got {len(output_size)})"  # noqa: E501
        )
    wanted = output_size[-count:]
    sizes = input.size()[outer:]
    least: list[int] = []
    most: list[int] = []
    for i in range(count):
        low = (sizes[i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel_size[i] - 1) + 1
        least.append(low)
        most.append(low + stride[i] - 1)
    for i in range(count):
        if wanted[i] < least[i] or wanted[i] > most[i]:
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to {most} (for an input of {sizes})"  # noqa: E501
            )
    return [wanted[i] - least[i] for i in range(count)]


@method_of("_output_padding", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
def extra_padding(self, input: Tensor, output_size: list[int] | None) -> list[int]:
    if output_size is None:
        return self.output_padding
    return output_padding(
        input, output_size, self.stride, self.padding, self.kernel_size, self.dilation
    )


@forward_of("ConvTranspose1d")
def conv_transpose1d(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
    extra = self._output_padding(input, output_size)
    return aten.conv_transpose1d(
        input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
    )


@forward_of("ConvTranspose2d")
def conv_transpose2d(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
    extra = self._output_padding(input, output_size)
    return aten.conv_transpose2d(
        input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
    )


@forward_of("ConvTranspose3d")
def conv_transpose3d(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
    extra = self._output_padding(input, output_size)
    return aten.conv_transpose3d(
        input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
    )


# -- norms -----------------------------------------------------------------------------------------


@method_of("_check_input_dim", "BatchNorm1d")
def check_batch1d(self, input):
    if input.dim() != 2 and input.dim() != 3:
        raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


@method_of("_check_input_dim", "BatchNorm2d")
def check_batch2d(self, input):
    if input.dim() != 4:
        raise ValueError(f"expected 4D input (got {input.dim()}D input)")


@method_of("_check_input_dim", "BatchNorm3d")
def check_batch3d(self, input):
    if input.dim() != 5:
        raise ValueError(f"expected 5D input (got {input.dim()}D input)")


@method_of("_check_input_dim", "SyncBatchNorm")
def check_batch(self, input):
    if input.dim() < 2:
        raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
    if input.size(1) == 0:
        raise ValueError("SyncBatchNorm number of input channels should be non-zero")


@forward_of("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")
def batch_norm(self, input: Tensor) -> Tensor:
    self._check_input_dim(input)
    if self.momentum is None:
        exponential_average_factor = 0.0
    else:
        exponential_average_factor = self.momentum
    if self.training and self.track_running_stats:
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                exponential_average_factor = 1.0 / float(self.num_batches_tracked)
            else:
                exponential_average_factor = self.momentum
    if self.training:
        bn_training = True
    else:
        bn_training = (self.running_mean is None) and (self.running_var is None)
    return F.batch_norm(
        input,
        self.running_mean if not self.training or self.track_running_stats else None,
        self.running_var if not self.training or self.track_running_stats else None,
        self.weight,
        self.bias,
        bn_training,
        exponential_average_factor,
        self.eps,
    )


@method_of("_check_input_dim", "InstanceNorm1d")
def check_instance1d(self, input) -> int:
    if input.dim() != 2 and input.dim() != 3:
        raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")
    return 3


@method_of("_check_input_dim", "InstanceNorm2d")
def check_instance2d(self, input) -> int:
    if input.dim() != 3 and input.dim() != 4:
        raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")
    return 4


@method_of("_check_input_dim", "InstanceNorm3d")
def check_instance3d(self, input) -> int:
    if input.dim() != 4 and input.dim() != 5:
        raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")
    return 5


@forward_of("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
def instance_norm(self, input: Tensor) -> Tensor:
    dims = self._check_input_dim(input)
    batched = input.dim() == dims
    source = input if batched else input.unsqueeze(0)
    if source.size(1) != self.num_features:
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={int(batched)} to match num_features ({self.num_features}), but got: {source.size(1)}."  # noqa: E501
            )
        warnings.warn(
            f"input's size at dim={int(batched)} does not match num_features. You can silence this warning by not passing in num_features, which is not used because affine=False"  # noqa: E501
        )
    result = F.instance_norm(
        source,
        self.running_mean,
        self.running_var,
        self.weight,
        self.bias,
        self.training or not self.track_running_stats,
        self.momentum if self.momentum is not None else 0.0,
        self.eps,
    )
    return result if batched else result.squeeze(0)


@forward_of("LayerNorm")
def layer_norm(self, input: Tensor) -> Tensor:
    return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


@forward_of("RMSNorm")
def rms_norm(self, x: Tensor) -> Tensor:
    return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


@forward_of("GroupNorm")
def group_norm(self, input: Tensor) -> Tensor:
    return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


@forward_of("CrossMapLRN2d")
def cross_map_norm(self, input: Tensor) -> Tensor:
    if input.dim() != 4:
        raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
    reach = (self.size - 1) // 2
    squares = input * input
    sums = aten.pad(squares, [0, 0, 0, 0, reach, reach]).unfold(1, 2 * reach + 1, 1).sum(-1)
    # The first channel never leaves the window.
    count = input.size(1) - reach - 1
    if count > 0:
        first = squares[:, :1].expand(-1, count, -1, -1)
        sums = sums + aten.pad(first, [0, 0, 0, 0, reach + 1, 0])
    return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta


@forward_of("LocalResponseNorm")
def local_response_norm(self, input: Tensor) -> Tensor:
    return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


# -- pooling and images ----------------------------------------------------------------------------


@forward_of("MaxPool1d")
def max_pool1d(self, input: Tensor):
    return torch.nn.functional.max_pool1d(
        input, self.kernel_size, self.stride, self.padding, self.dilation,
        ceil_mode=self.ceil_mode, return_indices=self.return_indices,
    )  # fmt: skip


@forward_of("MaxPool2d")
def max_pool2d(self, input: Tensor):
    return torch.nn.functional.max_pool2d(
        input, self.kernel_size, self.stride, self.padding, self.dilation,
        ceil_mode=self.ceil_mode, return_indices=self.return_indices,
    )  # fmt: skip


@forward_of("MaxPool3d")
def max_pool3d(self, input: Tensor):
    return torch.nn.functional.max_pool3d(
        input, self.kernel_size, self.stride, self.padding, self.dilation,
        ceil_mode=self.ceil_mode, return_indices=self.return_indices,
    )  # fmt: skip


@forward_of("AvgPool1d")
def avg_pool1d(self, input: Tensor) -> Tensor:
    return aten.avg_pool1d(
        input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
    )


@forward_of("AvgPool2d")
def avg_pool2d(self, input: Tensor) -> Tensor:
    return aten.avg_pool2d(
        input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
        self.count_include_pad, self.divisor_override,
    )  # fmt: skip


@forward_of("AvgPool3d")
def avg_pool3d(self, input: Tensor) -> Tensor:
    return aten.avg_pool3d(
        input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
        self.count_include_pad, self.divisor_override,
    )  # fmt: skip


@forward_of("AdaptiveAvgPool1d")
def adaptive_avg_pool1d(self, input: Tensor) -> Tensor:
    return torch.adaptive_avg_pool1d(input, self.output_size)


@forward_of("AdaptiveAvgPool2d")
def adaptive_avg_pool2d(self, input: Tensor) -> Tensor:
    return P.adaptive_avg_pool2d(input, self.output_size)


@forward_of("AdaptiveAvgPool3d")
def adaptive_avg_pool3d(self, input: Tensor) -> Tensor:
    return P.adaptive_avg_pool3d(input, self.output_size)


@forward_of("AdaptiveMaxPool1d")
def adaptive_max_pool1d(self, input: Tensor):
    return torch.nn.functional.adaptive_max_pool1d(input, self.output_size, self.return_indices)


@forward_of("AdaptiveMaxPool3d")
def adaptive_max_pool3d(self, input: Tensor):
    return torch.nn.functional.adaptive_max_pool3d(input, self.output_size, self.return_indices)


@forward_of("AdaptiveMaxPool2d")
def adaptive_max_pool2d(self, input: Tensor):
    return torch.nn.functional.adaptive_max_pool2d(input, self.output_size, self.return_indices)


@forward_of("FractionalMaxPool2d")
def fractional_max_pool2d(self, input: Tensor):
    return torch.nn.functional.fractional_max_pool2d(
        input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
        self._random_samples,
    )  # fmt: skip


@forward_of("FractionalMaxPool3d")
def fractional_max_pool3d(self, input: Tensor):
    return torch.nn.functional.fractional_max_pool3d(
        input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
        self._random_samples,
    )  # fmt: skip


@forward_of("LPPool1d")
def lp_pool1d(self, input: Tensor) -> Tensor:
    return P.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@forward_of("MaxUnpool1d")
def max_unpool1d(
    self, input: Tensor, indices: Tensor, output_size: list[int] | None = None
) -> Tensor:
    return P.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


@forward_of("LPPool2d")
def lp_pool2d(self, input: Tensor) -> Tensor:
    return P.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@forward_of("MaxUnpool2d")
def max_unpool2d(
    self, input: Tensor, indices: Tensor, output_size: list[int] | None = None
) -> Tensor:
    return P.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


@forward_of("LPPool3d")
def lp_pool3d(self, input: Tensor) -> Tensor:
    return P.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


@forward_of("MaxUnpool3d")
def max_unpool3d(
    self, input: Tensor, indices: Tensor, output_size: list[int] | None = None
) -> Tensor:
    return P.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


@forward_of("PixelShuffle")
def pixel_shuffle(self, input: Tensor) -> Tensor:
    return torch.pixel_shuffle(input, self.upscale_factor)


@forward_of("ChannelShuffle")
def channel_shuffle(self, input: Tensor) -> Tensor:
    return torch.channel_shuffle(input, self.groups)


@forward_of("PixelUnshuffle")
def pixel_unshuffle(self, input: Tensor) -> Tensor:
    return torch.pixel_unshuffle(input, self.downscale_factor)


@forward_of(
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d"
)
def constant_pad(self, input: Tensor) -> Tensor:
    return aten.pad(input, self.padding, "constant", self.value)


@forward_of("ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d")
def reflection_pad(self, input: Tensor) -> Tensor:
    return aten.pad(input, self.padding, "reflect")


@forward_of("ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d")
def replication_pad(self, input: Tensor) -> Tensor:
    return aten.pad(input, self.padding, "replicate")


@forward_of("CircularPad1d")
def circular_pad1d(self, input: Tensor) -> Tensor:
    if input.dim() != 2 and input.dim() != 3:
        raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")
    return aten.pad(input, self.padding, "circular")


@forward_of("CircularPad2d")
def circular_pad2d(self, input: Tensor) -> Tensor:
    if input.dim() != 3 and input.dim() != 4:
        raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")
    return aten.pad(input, self.padding, "circular")


@forward_of("CircularPad3d")
def circular_pad3d(self, input: Tensor) -> Tensor:
    if input.dim() != 4 and input.dim() != 5:
        raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")
    return aten.pad(input, self.padding, "circular")


@forward_of("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d")
def upsample(self, input: Tensor) -> Tensor:
    return torch.nn.functional.interpolate(
        input, self.size, self.scale_factor, self.mode, self.align_corners,
        recompute_scale_factor=self.recompute_scale_factor,
    )  # fmt: skip


@forward_of("Unfold")
def unfold(self, input: Tensor) -> Tensor:
    return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


@forward_of("Fold")
def fold(self, input: Tensor) -> Tensor:
    return F.fold(
        input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
    )


# -- embeddings ------------------------------------------------------------------------------------


@forward_of("Embedding")
def embedding(self, input: Tensor) -> Tensor:
    return F.embedding(
        input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
        self.scale_grad_by_freq, self.sparse,
    )  # fmt: skip


@forward_of("EmbeddingBag")
def embedding_bag(
    self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
) -> Tensor:
    return F.embedding_bag(
        input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
        self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
    )  # fmt: skip


# Values that methods above read and modules do not have: computed from them when compiled.
DERIVED: dict[str, Callable[[Any], Any]] = {
    "_padding_of_input": lambda module: tuple(module._reversed_padding_repeated_twice),
    "_pad_mode": lambda module: module.padding_mode,
    "_class_name": lambda module: type(module).__name__,
}


# Lists of parameters that methods above read: paths from the module.
PARAMETER_LISTS: dict[str, Callable[[Any], list[str]]] = {
    # In the order in which the op of a recurrent module takes them.
    "_flat_weights": lambda module: [name for names in module._all_weights for name in names],
    "_parameters_of_first_layer": lambda module: [
        f"layers.0.{name}" for name, _ in module.layers[0].named_parameters()
    ],
}
