"""Layers that take quantised numbers and give quantised ones, by scales that were chosen before."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import nn
from rushlight.core import dtype as dtypes
from rushlight.core.construct import tensor
from rushlight.nn import functional
from rushlight.nn.module import Module
from rushlight.nn.transformer import NonDynamicallyQuantizableLinear
from rushlight.nn.utils.fusion import fuse_linear_bn_weights
from rushlight.opset import functions, registry
from rushlight.quantization import intrinsic as nni
from rushlight.quantization import training
from rushlight.quantization.intrinsic import type_of
from rushlight.quantization.observers import QINT8, QUINT8
from rushlight.quantization.operators import linear as _linear  # noqa: F401
from rushlight.quantization.weighted import (
    WeightedQuantizedModule,
    checked_int8,
    empty_weight,
    qparams_of,
    quantized_weight,
    take,
    with_packed_text,
)
from rushlight.subclasses.quantized import quantize_per_tensor

__all__ = [
    "ELU",
    "BNReLU2d",
    "BNReLU3d",
    "BatchNorm2d",
    "BatchNorm3d",
    "DeQuantize",
    "Dropout",
    "GroupNorm",
    "Hardswish",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LinearLeakyReLU",
    "LinearPackedParams",
    "LinearReLU",
    "LinearTanh",
    "PReLU",
    "Quantize",
    "ReLU6",
    "Sigmoid",
    "Softmax",
]  # fmt: skip


def operator(name: str) -> Any:
    """An operator of the namespace `quantized`."""
    return registry.packet(name, "quantized")


class Quantize(Module):
    """Quantises numbers by a scale that was chosen before."""

    scale: Any
    zero_point: Any

    def __init__(self, scale: Any, zero_point: Any, dtype: Any, factory_kwargs: Any = None) -> None:
        super().__init__()
        self.register_buffer("scale", tensor([float(scale)]))
        self.register_buffer("zero_point", tensor([int(zero_point)], dtype=dtypes.int64))
        self.dtype = dtype

    def forward(self, X: Any) -> Any:
        return quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Quantize:
        return Quantize(*qparams_of(mod), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Gives the floats that quantised numbers stand for."""

    def forward(self, Xq: Any) -> Any:
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        return DeQuantize()


# -- linear ----------------------------------------------------------------------------------------


class LinearPackedParams(Module):
    """The packed weight and bias of a linear layer, of int8 or of half precision."""

    _version = 3

    def __init__(self, dtype: Any = QINT8) -> None:
        super().__init__()
        self.dtype = dtype
        halves = dtype is dtypes.float16
        self.set_weight_bias(functions.zeros((1, 1)) if halves else empty_weight(1, 1), None)

    def form(self) -> str:
        if self.dtype not in (QINT8, dtypes.float16):
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")
        return "" if self.dtype is QINT8 else "_fp16"

    def set_weight_bias(self, weight: Any, bias: Any) -> None:
        self._packed_params = operator("linear_prepack" + self.form())(weight, bias)

    def _weight_bias(self) -> Any:
        return operator("linear_unpack" + self.form())(self._packed_params)

    def forward(self, x: Any) -> Any:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *rest: Any
    ) -> None:
        version = local_metadata.get("version", None) or 1
        self.dtype = state_dict.pop(prefix + "dtype") if version > 1 else QINT8
        if version < 3:
            found = take(state_dict, prefix, "weight", "bias")
        else:
            (found,) = take(state_dict, prefix, "_packed_params")
        self.set_weight_bias(*found)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """A linear layer of quantised numbers, with an int8 weight and a float bias."""

    _version = 3
    _FLOAT_MODULE: Any = (nn.Linear, NonDynamicallyQuantizableLinear)
    name = "QuantizedLinear"
    op = "linear"

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = QINT8
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        if dtype is QINT8:
            weight = empty_weight(out_features, in_features)
        elif dtype is dtypes.float16:
            weight = functions.zeros((out_features, in_features))
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self.set_weight_bias(weight, functions.zeros((out_features,)) if bias_ else None)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self) -> str:
        return self.name

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return with_packed_text(self, LinearPackedParams)

    def forward(self, x: Any) -> Any:
        packed = self._packed_params._packed_params
        return operator(self.op)(x, packed, self.scale, self.zero_point)

    def _weight_bias(self) -> Any:
        return self._packed_params._weight_bias()

    def set_weight_bias(self, w: Any, b: Any) -> None:
        self._packed_params.set_weight_bias(w, b)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        if local_metadata.get("version", None) in (None, 1):
            for name in ("weight", "bias"):
                state_dict[f"{prefix}_packed_params.{name}"] = state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    @classmethod
    def taken_from(cls, mod: Any) -> tuple[Any, Any]:
        """The linear layer in a float or rounded module, and what watches its weight."""
        if hasattr(mod, "weight_fake_quant"):
            if type_of(mod) is training.LinearBn1d:
                mod.weight, mod.bias = fuse_linear_bn_weights(
                    mod.weight, mod.bias, *mod.statistics()
                )
            return mod, mod.weight_fake_quant
        wanted = cls._FLOAT_MODULE
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        if type_of(mod) not in wanted:
            names = ", ".join(each.__name__ for each in wanted)
            raise AssertionError(
                f"nnq.{cls.__name__}.from_float only works for {names}, but got: {type(mod)}"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        inner = mod[0] if isinstance(mod, nni._FusedModule) else mod
        return inner, getattr(inner, "weight_fake_quant", None) or mod.qconfig.weight()

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        inner, watching = cls.taken_from(mod)
        if not use_precomputed_fake_quant:
            watching(inner.weight)
        weight = quantized_weight(inner.weight, checked_int8(watching))
        made = cls(inner.in_features, inner.out_features, **cls.options_of(mod))
        made.set_weight_bias(weight, inner.bias)
        made.scale, made.zero_point = qparams_of(mod)
        return made

    @classmethod
    def options_of(cls, mod: Any) -> dict[str, Any]:
        return {}

    @classmethod
    def from_reference(cls, ref_qlinear: Any, output_scale: Any, output_zero_point: Any) -> Any:
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


class LinearReLU(Linear):
    """A linear layer of quantised numbers, and ReLU."""

    _FLOAT_MODULE = nni.LinearReLU
    name, op = "QuantizedLinearReLU", "linear_relu"


class LinearTanh(Linear):
    """A linear layer of quantised numbers, and tanh; other engines than x86's have it."""

    _FLOAT_MODULE = nni.LinearTanh
    name, op = "QuantizedLinearTanh", "linear_tanh"


class LinearLeakyReLU(Linear):
    """A linear layer of quantised numbers, and a leaky ReLU; other engines than x86's have it."""

    _FLOAT_MODULE = nni.LinearLeakyReLU
    name, op = "QuantizedLinearLeakyReLU", "linear_leaky_relu"

    def __init__(
        self, in_features: int, out_features: int, negative_slope: float, bias: bool = True,
        dtype: Any = QINT8,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    @classmethod
    def options_of(cls, mod: Any) -> dict[str, Any]:
        return {"negative_slope": mod[1].negative_slope}

    def forward(self, x: Any) -> Any:
        packed = self._packed_params._packed_params
        return operator(self.op)(x, packed, self.scale, self.zero_point, self.negative_slope)


# -- activations -----------------------------------------------------------------------------------


class ReLU6(nn.ReLU):
    """What of quantised numbers lies between zero and six."""

    def forward(self, input: Any) -> Any:
        return operator("relu6")(input, self.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        return ReLU6(mod.inplace)


class Scaled:
    """A module whose results have a scale of their own, kept as buffers."""

    scale: Any
    zero_point: Any

    def keep_scale(self, scale: float, zero_point: int) -> None:
        module: Any = self
        module.register_buffer("scale", tensor(scale))
        module.register_buffer("zero_point", tensor(zero_point))

    def output(self) -> tuple[float, int]:
        return float(self.scale), int(self.zero_point)


class Hardswish(Scaled, nn.Hardswish):
    def __init__(self, scale: float, zero_point: int, device: Any = None, dtype: Any = None):
        super().__init__()
        self.keep_scale(scale, zero_point)

    def forward(self, input: Any) -> Any:
        return operator("hardswish")(input, *self.output())

    def _get_name(self) -> str:
        return "QuantizedHardswish"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Hardswish:
        return Hardswish(*qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        return cls(float(scale), int(zero_point))


class ELU(nn.ELU):
    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input: Any) -> Any:
        return operator("elu")(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self) -> str:
        return "QuantizedELU"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> ELU:
        return ELU(*qparams_of(mod), mod.alpha)

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(Scaled, nn.LeakyReLU):
    def __init__(
        self, scale: float, zero_point: int, negative_slope: float = 0.01, inplace: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(negative_slope, inplace)  # type: ignore[call-arg]
        self.keep_scale(scale, zero_point)

    def forward(self, input: Any) -> Any:
        return operator("leaky_relu")(input, self.negative_slope, self.inplace, *self.output())

    def _get_name(self) -> str:
        return "QuantizedLeakyReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        return cls(*qparams_of(mod), mod.negative_slope, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input: Any) -> Any:
        return operator("sigmoid")(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        return cls(*qparams_of(mod))


class Softmax(nn.Softmax):
    def __init__(self, dim: Any = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__(dim)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input: Any) -> Any:
        dim = self.dim
        if dim is None:
            dim = functional._get_softmax_dim("softmax", input.dim(), 3)
        return operator("softmax")(input, dim, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Softmax:
        return Softmax(mod.dim, *qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        return cls(mod.dim, float(scale), int(zero_point))


class PReLU(Module):
    """Negative numbers times learnt slopes, which are quantised themselves."""

    weight: Any

    def __init__(
        self, output_scale: float, output_zero_point: int, num_parameters: int = 1
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.scale, self.zero_point = output_scale, output_zero_point
        self.set_weight(quantize_per_tensor(functions.randn((num_parameters,)), 1.0, 0, QUINT8))

    def set_weight(self, w: Any) -> None:
        self.weight = w

    def forward(self, input: Any) -> Any:
        return operator("prelu")(input, self.weight, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        return cls.from_reference(mod, *qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        made = cls(float(scale), int(zero_point), mod.num_parameters)
        observer = mod.qconfig.weight()
        weight = mod.weight.detach().float()
        observer(weight)
        if observer.dtype is not QUINT8:
            warnings.warn(
                f"PReLU's weight observer should have dtype quint8 but got {observer.dtype}",
                stacklevel=2,
            )
        chosen, start = observer.calculate_qparams()
        made.set_weight(quantize_per_tensor(weight, float(chosen), int(start), QUINT8))
        return made


class Dropout(nn.Dropout):
    """Drops nothing: models that are quantised do not learn."""

    def forward(self, input: Any) -> Any:
        return input

    def _get_name(self) -> str:
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        return cls(mod.p, mod.inplace)


# -- norms -----------------------------------------------------------------------------------------


class BatchNorm(Scaled, Module):
    """A batch norm in evaluation; `op` is of quantised tensors with `dims` dimensions."""

    dims = 0
    op = ""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, True, True, device, dtype)  # type: ignore[call-arg]
        self.keep_scale(1.0, 0)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def forward(self, input: Any) -> Any:
        norm: Any = self
        if input.dim() != self.dims:
            layout = "(N, C, H, W)" if self.dims == 4 else "(N, C, D, H, W)"
            raise ValueError(f"Input shape must be `{layout}`!")
        return operator(self.op)(
            input, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps,
            *self.output(),
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        inner = mod[0] if isinstance(mod, nni._FusedModule) else mod
        made = cls.from_reference(inner, *qparams_of(mod))
        # torch: kept as the observer gives them, of one element.
        made.scale, made.zero_point = mod.activation_post_process.calculate_qparams()
        return made

    @classmethod
    def from_reference(cls, bn: Any, output_scale: Any, output_zero_point: Any) -> Any:
        made: Any = cls(bn.num_features, bn.eps)
        made.weight, made.bias = bn.weight, bn.bias
        made.running_mean, made.running_var = bn.running_mean, bn.running_var
        made.scale = tensor(float(output_scale))
        made.zero_point = tensor(int(output_zero_point))
        return made


class BatchNorm2d(BatchNorm, nn.BatchNorm2d):
    dims, op = 4, "batch_norm2d"


class BatchNorm3d(BatchNorm, nn.BatchNorm3d):
    dims, op = 5, "batch_norm3d"


class BNReLU2d(BatchNorm2d):
    op = "batch_norm2d_relu"


class BNReLU3d(BatchNorm3d):
    op = "batch_norm3d_relu"


class LayerNorm(Scaled, nn.LayerNorm):
    def __init__(
        self, normalized_shape: Any, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)  # type: ignore[call-arg]
        self.weight, self.bias = weight, bias
        self.keep_scale(scale, zero_point)

    def forward(self, input: Any) -> Any:
        return operator("layer_norm")(
            input, self.normalized_shape, self.weight, self.bias, self.eps, *self.output()
        )

    def _get_name(self) -> str:
        return "QuantizedLayerNorm"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        return cls.from_reference(mod, *qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        return cls(
            mod.normalized_shape, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps,
            mod.elementwise_affine,
        )  # fmt: skip


class GroupNorm(Scaled, nn.GroupNorm):
    def __init__(
        self, num_groups: int, num_channels: int, weight: Any, bias: Any, scale: float,
        zero_point: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_groups, num_channels, eps, affine)  # type: ignore[call-arg]
        self.weight, self.bias = weight, bias
        self.keep_scale(scale, zero_point)

    def forward(self, input: Any) -> Any:
        return operator("group_norm")(
            input, self.num_groups, self.weight, self.bias, self.eps, *self.output()
        )

    def _get_name(self) -> str:
        return "QuantizedGroupNorm"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        return cls(
            mod.num_groups, mod.num_channels, mod.weight, mod.bias, *qparams_of(mod), mod.eps,
            mod.affine,
        )  # fmt: skip


class InstanceNorm(Scaled, Module):
    def __init__(
        self, num_features: int, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats)  # type: ignore[call-arg]
        self.weight, self.bias = weight, bias
        self.keep_scale(scale, zero_point)

    def forward(self, input: Any) -> Any:
        norm: Any = self
        return operator("instance_norm")(input, norm.weight, norm.bias, norm.eps, *self.output())

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        return cls.from_reference(mod, *qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Any:
        return cls(
            mod.num_features, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps,
            mod.affine,
        )  # fmt: skip


class InstanceNorm1d(InstanceNorm, nn.InstanceNorm1d):
    pass


class InstanceNorm2d(InstanceNorm, nn.InstanceNorm2d):
    pass


class InstanceNorm3d(InstanceNorm, nn.InstanceNorm3d):
    pass
