# mypy: ignore-errors
"""Modules of `nn` as they are compiled: methods over the attributes that the modules have."""

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.jit.scripting.library import functions as F

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


@forward_of("ConvTranspose1d")
def conv_transpose1d(self, input: Tensor) -> Tensor:
    return aten.conv_transpose1d(
        input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
        self.dilation,
    )  # fmt: skip


@forward_of("ConvTranspose2d")
def conv_transpose2d(self, input: Tensor) -> Tensor:
    return aten.conv_transpose2d(
        input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
        self.dilation,
    )  # fmt: skip


@forward_of("ConvTranspose3d")
def conv_transpose3d(self, input: Tensor) -> Tensor:
    return aten.conv_transpose3d(
        input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
        self.dilation,
    )  # fmt: skip


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


@forward_of("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
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


@forward_of("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
def instance_norm(self, input: Tensor) -> Tensor:
    return F.instance_norm(
        input,
        self.running_mean,
        self.running_var,
        self.weight,
        self.bias,
        self.training or not self.track_running_stats,
        self.momentum if self.momentum is not None else 0.0,
        self.eps,
    )


@forward_of("LayerNorm")
def layer_norm(self, input: Tensor) -> Tensor:
    return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


@forward_of("RMSNorm")
def rms_norm(self, x: Tensor) -> Tensor:
    return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


@forward_of("GroupNorm")
def group_norm(self, input: Tensor) -> Tensor:
    return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


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
    return F.adaptive_avg_pool2d(input, self.output_size)


@forward_of("AdaptiveAvgPool3d")
def adaptive_avg_pool3d(self, input: Tensor) -> Tensor:
    return F.adaptive_avg_pool3d(input, self.output_size)


@forward_of("AdaptiveMaxPool1d")
def adaptive_max_pool1d(self, input: Tensor):
    return torch.nn.functional.adaptive_max_pool1d(input, self.output_size, self.return_indices)


@forward_of("AdaptiveMaxPool2d")
def adaptive_max_pool2d(self, input: Tensor):
    return torch.nn.functional.adaptive_max_pool2d(input, self.output_size, self.return_indices)


@forward_of("PixelShuffle")
def pixel_shuffle(self, input: Tensor) -> Tensor:
    return torch.pixel_shuffle(input, self.upscale_factor)


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


@forward_of("CircularPad1d", "CircularPad2d", "CircularPad3d")
def circular_pad(self, input: Tensor) -> Tensor:
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


# -- embeddings, distances, losses -----------------------------------------------------------------


@forward_of("Embedding")
def embedding(self, input: Tensor) -> Tensor:
    return F.embedding(
        input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
        self.scale_grad_by_freq, self.sparse,
    )  # fmt: skip


@forward_of("CosineSimilarity")
def cosine_similarity(self, x1: Tensor, x2: Tensor) -> Tensor:
    return torch.cosine_similarity(x1, x2, self.dim, self.eps)


@forward_of("CrossEntropyLoss")
def cross_entropy(self, input: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(
        input, target, weight=self.weight, ignore_index=self.ignore_index,
        reduction=self.reduction, label_smoothing=self.label_smoothing,
    )  # fmt: skip


@forward_of("NLLLoss")
def nll_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(
        input, target, weight=self.weight, ignore_index=self.ignore_index,
        reduction=self.reduction,
    )  # fmt: skip


@forward_of("MSELoss")
def mse_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(input, target, reduction=self.reduction)


@forward_of("L1Loss")
def l1_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.l1_loss(input, target, reduction=self.reduction)


@forward_of("SmoothL1Loss")
def smooth_l1_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


@forward_of("HuberLoss")
def huber_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


@forward_of("BCELoss")
def bce_loss(self, input: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


@forward_of("BCEWithLogitsLoss")
def bce_with_logits(self, input: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(
        input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
    )


@forward_of("KLDivLoss")
def kl_div(self, input: Tensor, target: Tensor) -> Tensor:
    return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


# -- recurrent -------------------------------------------------------------------------------------


@forward_of("LSTM")
def lstm(
    self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    is_batched = input.dim() == 3
    batch_dim = 0 if self.batch_first else 1
    if not is_batched:
        input = input.unsqueeze(batch_dim)
    batch = input.size(0) if self.batch_first else input.size(1)
    directions = 2 if self.bidirectional else 1
    if hx is None:
        size = self.proj_size if self.proj_size > 0 else self.hidden_size
        h = torch.zeros(
            self.num_layers * directions, batch, size, dtype=input.dtype, device=input.device
        )
        c = torch.zeros(
            self.num_layers * directions, batch, self.hidden_size, dtype=input.dtype,
            device=input.device,
        )  # fmt: skip
        hx = (h, c)
    elif not is_batched:
        hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
    output, h_n, c_n = torch.lstm(
        input, [hx[0], hx[1]], self._flat_weights, self.bias, self.num_layers, self.dropout,
        self.training, self.bidirectional, self.batch_first,
    )  # fmt: skip
    if not is_batched:
        return output.squeeze(batch_dim), (h_n.squeeze(1), c_n.squeeze(1))
    return output, (h_n, c_n)


@forward_of("GRU", "RNN")
def rnn(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
    is_batched = input.dim() == 3
    batch_dim = 0 if self.batch_first else 1
    if not is_batched:
        input = input.unsqueeze(batch_dim)
    batch = input.size(0) if self.batch_first else input.size(1)
    directions = 2 if self.bidirectional else 1
    if hx is None:
        hx = torch.zeros(
            self.num_layers * directions, batch, self.hidden_size, dtype=input.dtype,
            device=input.device,
        )  # fmt: skip
    elif not is_batched:
        hx = hx.unsqueeze(1)
    if self.mode == "GRU":
        output, h_n = torch.gru(
            input, hx, self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
    elif self.mode == "RNN_TANH":
        output, h_n = torch.rnn_tanh(
            input, hx, self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
    else:
        output, h_n = torch.rnn_relu(
            input, hx, self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
    if not is_batched:
        return output.squeeze(batch_dim), h_n.squeeze(1)
    return output, h_n


@forward_of("LSTMCell")
def lstm_cell(
    self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    is_batched = input.dim() == 2
    if not is_batched:
        input = input.unsqueeze(0)
    if hx is None:
        zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        hx = (zeros, zeros)
    elif not is_batched:
        hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
    h, c = torch.lstm_cell(
        input, [hx[0], hx[1]], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
    )
    if not is_batched:
        return h.squeeze(0), c.squeeze(0)
    return h, c


@forward_of("GRUCell")
def gru_cell(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
    is_batched = input.dim() == 2
    if not is_batched:
        input = input.unsqueeze(0)
    if hx is None:
        hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
    elif not is_batched:
        hx = hx.unsqueeze(0)
    result = torch.gru_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return result if is_batched else result.squeeze(0)


# Values that methods above read and modules do not have: computed from them when compiled.
DERIVED: dict[str, Callable[[Any], Any]] = {
    "_padding_of_input": lambda module: tuple(module.explicit_padding()),
    "_pad_mode": lambda module: module.padding_mode,
}


def flat_weight_names(module: Any) -> list[str]:
    """The parameters of a recurrent module in the order in which its op takes them."""
    return [name for names in module._all_weights for name in names]
