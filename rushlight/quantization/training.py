"""Layers that learn to be quantised: their weights are rounded whenever they are used.

Those named after a batch norm fold it into the weights before these are rounded, and take it out
of the result again, so that its statistics are of what the layer gives.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight import nn
from rushlight.core import schemes
from rushlight.nn import functional, init
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights
from rushlight.nn.utils.parametrize import (
    is_parametrized,
    transfer_parametrizations_and_params,
)
from rushlight.opset import functions
from rushlight.quantization import intrinsic as nni
from rushlight.quantization.intrinsic import _FusedModule, type_of

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d",
    "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "Embedding",
    "EmbeddingBag", "Linear", "LinearBn1d", "LinearReLU", "freeze_bn_stats", "update_bn_stats",
]  # fmt: skip

CONV_ARGUMENTS = (
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
)  # fmt: skip


def required(qconfig: Any) -> Any:
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    return qconfig


def check_source(cls: Any, module: Any) -> Any:
    """The configuration of a float module that `cls` is to take the place of."""
    wanted, found = cls._FLOAT_MODULE, type_of(module)
    if found is not wanted:
        raise AssertionError(
            f"qat.{cls.__name__}.from_float only works for {wanted.__name__}, got {found.__name__}"
        )
    if not hasattr(module, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    if not module.qconfig:
        raise AssertionError("Input float module must have a valid qconfig")
    return module.qconfig


def hand_over(source: Any, target: Any, *names: str) -> None:
    """Parameters stay the objects that optimisers may know."""
    for name in names:
        if is_parametrized(source, name):
            transfer_parametrizations_and_params(source, target, name)
        else:
            setattr(target, name, getattr(source, name))


def detached(parameter: Any) -> Any:
    return None if parameter is None else Parameter(parameter.detach())


class RoundedWeight:
    """What holds a weight and rounds it."""

    weight: Any
    weight_fake_quant: Any

    def rounded(self) -> Any:
        return self.weight_fake_quant(self.weight)


# -- linear ----------------------------------------------------------------------------------------


class Linear(nn.Linear, RoundedWeight):
    """A linear layer with a rounded weight."""

    _FLOAT_MODULE: Any = nn.Linear

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = required(qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Any) -> Any:
        return functional.linear(input, self.rounded(), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        check_source(cls, mod)
        if isinstance(mod, _FusedModule):
            mod = mod[0]
        has_bias = mod.bias is not None
        made = cls(mod.in_features, mod.out_features, bias=has_bias, qconfig=mod.qconfig)
        hand_over(mod, made, "weight", "bias")
        return made

    def to_float(self) -> Any:
        made = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        made.weight, made.bias = detached(self.weight), detached(self.bias)
        return made.train(self.training)


class LinearReLU(Linear, _FusedModule):
    """A linear layer with a rounded weight, and ReLU."""

    _FLOAT_MODULE = nni.LinearReLU

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None
    ) -> None:
        super().__init__(in_features, out_features, bias, qconfig)

    def forward(self, input: Any) -> Any:
        return functional.relu(super().forward(input))

    def to_float(self) -> Any:
        return nni.LinearReLU(super().to_float(), nn.ReLU())


# -- convolutions ----------------------------------------------------------------------------------


class RoundedConv(RoundedWeight):
    """A convolution with a rounded weight; `float_conv` is that without."""

    float_conv: Any
    _FLOAT_MODULE: Any

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", qconfig: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(  # type: ignore[call-arg]
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.qconfig = required(qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Any) -> Any:
        conv: Any = self
        return conv._conv_forward(input, self.rounded(), conv.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        check_source(cls, mod)
        if isinstance(mod, _FusedModule):
            mod = mod[0]
        given = {name: getattr(mod, name) for name in CONV_ARGUMENTS}
        made: Any = cls(
            **given, bias=mod.bias is not None, padding_mode=mod.padding_mode, qconfig=mod.qconfig
        )
        hand_over(mod, made, "weight", "bias")
        return made

    def to_float(self) -> Any:
        """The convolution as it is without rounding, with ReLU where it has one."""
        conv: Any = self
        given = {name: getattr(self, name) for name in CONV_ARGUMENTS}
        made = self.float_conv(**given, bias=conv.bias is not None, padding_mode=conv.padding_mode)
        made.weight, made.bias = detached(conv.weight), detached(conv.bias)
        if isinstance(self, _FusedModule):
            return self._FLOAT_MODULE(made, nn.ReLU()).train(self.training)
        return made


class Conv1d(RoundedConv, nn.Conv1d):
    _FLOAT_MODULE: Any = nn.Conv1d
    float_conv = nn.Conv1d


class Conv2d(RoundedConv, nn.Conv2d):
    _FLOAT_MODULE: Any = nn.Conv2d
    float_conv = nn.Conv2d


class Conv3d(RoundedConv, nn.Conv3d):
    _FLOAT_MODULE: Any = nn.Conv3d
    float_conv = nn.Conv3d


class WithReLU:
    """Its base's result, where that is not negative."""

    def forward(self, input: Any) -> Any:
        return functional.relu(super().forward(input))  # type: ignore[misc]


class ConvReLU1d(WithReLU, Conv1d, _FusedModule):
    _FLOAT_MODULE = nni.ConvReLU1d


class ConvReLU2d(WithReLU, Conv2d, _FusedModule):
    _FLOAT_MODULE = nni.ConvReLU2d


class ConvReLU3d(WithReLU, Conv3d, _FusedModule):
    _FLOAT_MODULE = nni.ConvReLU3d


# -- with batch norm -------------------------------------------------------------------------------


class FoldedNorm(RoundedWeight):
    """A layer and the batch norm after it. While `freeze_bn` the statistics stay as they are."""

    bn: Any
    bias: Any
    training: bool
    freeze_bn: bool

    def start(self, bn: Any, qconfig: Any, bias: bool, count: int, freeze_bn: bool) -> None:
        self.qconfig = required(qconfig)
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = bn
        self.weight_fake_quant = qconfig.weight()
        layer: Any = self
        layer.register_parameter("bias", Parameter(functions.empty((count,))) if bias else None)
        self.reset_bn_parameters()
        if self.freeze_bn:
            self.freeze_bn_stats()
        else:
            self.update_bn_stats()

    def reset_running_stats(self) -> None:
        self.bn.reset_running_stats()

    def reset_bn_parameters(self) -> None:
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)

    def update_bn_stats(self) -> Any:
        self.freeze_bn, self.bn.training = False, True
        return self

    def freeze_bn_stats(self) -> Any:
        self.freeze_bn, self.bn.training = True, False
        return self

    def train(self, mode: bool = True) -> Any:
        """Frozen statistics stay frozen."""
        self.training = mode
        if not self.freeze_bn:
            layer: Any = self
            for module in layer.children():
                module.train(mode)
        return self

    def normed(self, product: Any) -> Any:
        """What `bn` makes of a layer's result; `product` computes that from a weight, unshifted."""
        factor = self.bn.weight / functions.sqrt(self.bn.running_var + self.bn.eps)
        by_row = [-1] + [1] * (self.weight.dim() - 1)
        by_column = [1, -1] + [1] * (self.weight.dim() - 2)
        folded = self.weight_fake_quant(self.weight * factor.reshape(by_row))
        original = product(folded) / factor.reshape(by_column)
        if self.bias is not None:
            original = original + self.bias.reshape(by_column)
        return self.bn(original)

    def zeros(self, count: int, dtype: Any) -> Any:
        like = self.weight if self.bias is None else self.bias
        return functions.zeros((count,), dtype=dtype, device=like.device)

    def take_norm(self, bn: Any) -> None:
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(self.bn, name, getattr(bn, name))

    def statistics(self) -> tuple[Any, ...]:
        bn = self.bn
        return bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias


NORM_NAMES = {"gamma": "weight", "beta": "bias"} | {
    name: name for name in ("running_mean", "running_var", "num_batches_tracked")
}


class ConvWithNorm(FoldedNorm):
    """A convolution with the batch norm after it, of the class `norm`."""

    _version = 2
    norm: Any
    float_conv: Any
    _FLOAT_MODULE: Any
    _FUSED_FLOAT_MODULE: Any = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None,
        padding_mode: str = "zeros", eps: float = 1e-05, momentum: float = 0.1,
        freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(  # type: ignore[call-arg]
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False,
            padding_mode,
        )  # fmt: skip
        self._enable_slow_path_for_better_numerical_stability = False
        bn = self.norm(out_channels, eps, momentum, True, True)
        self.start(bn, qconfig, bool(bias), out_channels, freeze_bn)

    def reset_bn_parameters(self) -> None:
        super().reset_bn_parameters()
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in)
            init.uniform_(self.bias, -bound, bound)

    def _forward(self, input: Any) -> Any:
        conv: Any = self
        nothing = self.zeros(conv.out_channels, input.dtype)
        if self._enable_slow_path_for_better_numerical_stability:
            return self.by_statistics(input, nothing)
        return self.normed(lambda weight: conv._conv_forward(input, weight, nothing))

    def forward(self, input: Any) -> Any:
        return self._forward(input)

    def by_statistics(self, input: Any, nothing: Any) -> Any:
        """The same with a second convolution, which divides by no factor that may be small."""
        conv: Any = self
        bn = self.bn
        by_row = [-1] + [1] * (self.weight.dim() - 1)
        by_column = [1, -1] + [1] * (self.weight.dim() - 2)
        plain = None
        if bn.training:
            plain = conv._conv_forward(input, self.weight, nothing)
            shifted = plain if self.bias is None else plain + self.bias.reshape(by_column)
            bn(shifted.detach())
        running = functions.sqrt(bn.running_var + bn.eps)
        folded = self.weight_fake_quant(self.weight * (bn.weight / running).reshape(by_row))
        made = conv._conv_forward(input, folded, nothing)
        if plain is not None:
            dims = [0, *range(2, self.weight.dim())]
            mean = plain.mean(dims)
            spread = functions.square(plain - mean.reshape(by_column)).mean(dims)
            deviation = functions.sqrt(spread + bn.eps)
            made = made * (running / deviation).reshape(by_column)
        else:
            mean = bn.running_mean if self.bias is None else bn.running_mean - self.bias
            deviation = running
        made = made + (bn.bias - bn.weight * mean / deviation).reshape(by_column)
        if self.bias is not None:
            # It takes part in the graph, as torch's does, and changes nothing.
            made = made + (self.bias - self.bias).reshape(by_column)
        return made

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        if local_metadata.get("version", None) in (None, 1):
            for former, name in NORM_NAMES.items():
                if prefix + former in state_dict:
                    state_dict[f"{prefix}bn.{name}"] = state_dict.pop(prefix + former)
        super()._load_from_state_dict(  # type: ignore[misc]
            state_dict, prefix, local_metadata, *rest
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        qconfig = check_source(cls, mod)
        conv, bn = mod[0], mod[1]
        given = {name: getattr(conv, name) for name in CONV_ARGUMENTS}
        made = cls(
            **given, bias=conv.bias is not None, padding_mode=conv.padding_mode, eps=bn.eps,
            momentum=bn.momentum, qconfig=qconfig,
        )  # fmt: skip
        made.weight, made.bias = conv.weight, conv.bias
        made.take_norm(bn)
        return made

    def to_float(self) -> Any:
        """A convolution with the batch norm in its weights, with ReLU where there is one."""
        conv: Any = self
        given = {name: getattr(self, name) for name in CONV_ARGUMENTS}
        made = self.float_conv(**given, bias=self.bias is not None, padding_mode=conv.padding_mode)
        made.weight, made.bias = fuse_conv_bn_weights(
            detached(self.weight), detached(self.bias), *self.statistics()
        )
        if self._FUSED_FLOAT_MODULE is not None:
            made = self._FUSED_FLOAT_MODULE(made, nn.ReLU())
        return made.train(self.training)


class ConvBn1d(ConvWithNorm, nn.Conv1d, _FusedModule):
    _FLOAT_MODULE: Any = nni.ConvBn1d
    norm, float_conv = nn.BatchNorm1d, nn.Conv1d


class ConvBn2d(ConvWithNorm, nn.Conv2d, _FusedModule):
    _FLOAT_MODULE: Any = nni.ConvBn2d
    norm, float_conv = nn.BatchNorm2d, nn.Conv2d


class ConvBn3d(ConvWithNorm, nn.Conv3d, _FusedModule):
    _FLOAT_MODULE: Any = nni.ConvBn3d
    norm, float_conv = nn.BatchNorm3d, nn.Conv3d


class ConvBnReLU1d(WithReLU, ConvBn1d):
    _FLOAT_MODULE, _FUSED_FLOAT_MODULE = nni.ConvBnReLU1d, nni.ConvReLU1d


class ConvBnReLU2d(WithReLU, ConvBn2d):
    _FLOAT_MODULE, _FUSED_FLOAT_MODULE = nni.ConvBnReLU2d, nni.ConvReLU2d


class ConvBnReLU3d(WithReLU, ConvBn3d):
    _FLOAT_MODULE, _FUSED_FLOAT_MODULE = nni.ConvBnReLU3d, nni.ConvReLU3d


class LinearBn1d(FoldedNorm, nn.Linear, _FusedModule):
    """A linear layer with the batch norm after it."""

    _FLOAT_MODULE = nni.LinearBn1d

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-05,
        momentum: float = 0.1, freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias)
        bn = nn.BatchNorm1d(out_features, eps, momentum, True, True)
        self.start(bn, qconfig, bias, out_features, freeze_bn)

    def forward(self, input: Any) -> Any:
        nothing = self.zeros(self.out_features, self.weight.dtype)
        return self.normed(lambda weight: functional.linear(input, weight, nothing))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        qconfig = check_source(cls, mod)
        linear, bn = mod[0], mod[1]
        made = cls(
            linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum,
            False, qconfig,
        )  # fmt: skip
        made.weight, made.bias = linear.weight, linear.bias
        made.take_norm(bn)
        return made

    def to_float(self) -> Any:
        made = nn.Linear(self.in_features, self.out_features)
        made.weight, made.bias = fuse_linear_bn_weights(self.weight, self.bias, *self.statistics())
        return made


def update_bn_stats(mod: Any) -> None:
    """For `model.apply`: batch norms in convolutions follow what they see."""
    if isinstance(mod, ConvWithNorm):
        mod.update_bn_stats()


def freeze_bn_stats(mod: Any) -> None:
    """For `model.apply`: batch norms in convolutions stay as they are."""
    if isinstance(mod, ConvWithNorm):
        mod.freeze_bn_stats()


# -- embeddings ------------------------------------------------------------------------------------


def check_rows(qconfig: Any, what: str) -> None:
    scheme = qconfig.weight().qscheme
    if scheme is not schemes.per_channel_affine_float_qparams:
        raise AssertionError(
            f"{what} weights requires a qscheme of torch.per_channel_affine_float_qparams Got "
            f"{scheme}"
        )


class Embedding(nn.Embedding, RoundedWeight):
    """An embedding with rounded rows."""

    _FLOAT_MODULE = nn.Embedding

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: Any = None,
        max_norm: Any = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Any = None, device: Any = None, dtype: Any = None,
        qconfig: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, device=device, dtype=dtype,
        )  # fmt: skip
        check_rows(required(qconfig), "Embedding")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    def options(self) -> tuple[Any, ...]:
        return (
            self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def forward(self, input: Any) -> Any:
        return functional.embedding(input, self.rounded(), *self.options())

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        qconfig = check_source(cls, mod)
        options = cls.options(mod)
        return cls(mod.num_embeddings, mod.embedding_dim, *options, mod.weight, qconfig=qconfig)

    def to_float(self) -> Any:
        made = nn.Embedding(self.num_embeddings, self.embedding_dim, *self.options())
        made.weight = detached(self.weight)
        return made.train(self.training)


class EmbeddingBag(nn.EmbeddingBag, RoundedWeight):
    """Sums of rounded rows."""

    _FLOAT_MODULE = nn.EmbeddingBag

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: Any = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Any = None, include_last_offset: bool = False,
        padding_idx: Any = None, qconfig: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            _weight, include_last_offset, padding_idx, device=device, dtype=dtype,
        )  # fmt: skip
        check_rows(required(qconfig), "Embedding Bag")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    def options(self) -> dict[str, Any]:
        names = "max_norm norm_type scale_grad_by_freq mode sparse include_last_offset padding_idx"
        return {name: getattr(self, name) for name in names.split()}

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return functional.embedding_bag(
            input, self.rounded(), offsets, per_sample_weights=per_sample_weights, **self.options()
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        qconfig = check_source(cls, mod)
        options = cls.options(mod)
        return cls(
            mod.num_embeddings, mod.embedding_dim, _weight=mod.weight, qconfig=qconfig, **options
        )

    def to_float(self) -> Any:
        made = nn.EmbeddingBag(self.num_embeddings, self.embedding_dim, **self.options())
        made.weight = detached(self.weight)
        return made.train(self.training)
