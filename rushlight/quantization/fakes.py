"""Modules that round numbers to those that integers could hold, as models do while they learn.

The range is watched as by observers; both can be switched off, by buffers that states keep.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core import schemes
from rushlight.core.construct import tensor
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.opset import functions
from rushlight.quantization.observers import (
    EPSILON,
    EVEN,
    PER_CHANNEL,
    PER_TENSOR,
    QINT8,
    QUINT4X2,
    QUINT8,
    RANGES,
    SYMMETRIC,
    FixedQParamsObserver,
    HistogramObserver,
    Made,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    with_args,
)
from rushlight.subclasses.quantizedmath import fused_moving_avg_obs_fake_quant

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize",
    "FusedMovingAvgObsFakeQuantize", "default_affine_fixed_qparams_fake_quant",
    "default_dynamic_fake_quant", "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit", "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant", "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant", "default_fused_wt_fake_quant",
    "default_histogram_fake_quant", "default_per_channel_weight_fake_quant",
    "default_symmetric_fixed_qparams_fake_quant", "default_weight_fake_quant",
    "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
    "fused_wt_fake_quant_range_neg_127_to_127",
]  # fmt: skip


class FakeQuantizeBase(Module):
    """What rounds numbers to those that integers could hold, and can be switched off."""

    fake_quant_enabled: Any
    observer_enabled: Any
    with_args = classmethod(with_args)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", tensor([1], dtype=dtypes.uint8))
        self.register_buffer("observer_enabled", tensor([1], dtype=dtypes.uint8))

    def forward(self, x: Any) -> Any:
        raise NotImplementedError

    def calculate_qparams(self, **kwargs: Any) -> Any:
        raise NotImplementedError

    def enable_fake_quant(self, enabled: bool = True) -> None:
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        self.enable_observer(False)


def check_bounds(dtype: Any, quant_min: int, quant_max: int) -> None:
    least, most = RANGES[dtype]
    if least > quant_min:
        raise AssertionError("quant_min out of bound")
    if quant_max > most:
        raise AssertionError("quant_max out of bound")


class FakeQuantize(FakeQuantizeBase):
    """Watches the range of numbers, and rounds them by it; gradients pass where nothing was cut."""

    scale: Any
    zero_point: Any

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: Any = None,
        quant_max: Any = None, is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            given = observer.parts()[1] if isinstance(observer, Made) else {}
            dtype = given.get("dtype", observer_kwargs.get("dtype", QUINT8))
            check_bounds(dtype, quant_min, quant_max)
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        self.activation_post_process = observer(is_dynamic=is_dynamic, **observer_kwargs)
        watching = self.activation_post_process
        self.quant_min, self.quant_max = watching.quant_min, watching.quant_max
        self.is_dynamic = watching.is_dynamic
        self.dtype, self.qscheme = watching.dtype, watching.qscheme
        if self.qscheme not in (*PER_TENSOR, *PER_CHANNEL):
            raise AssertionError(
                "Only per channel and per tensor quantization are supported in fake quantize got "
                f"qscheme: {self.qscheme}"
            )
        floats = self.qscheme is schemes.per_channel_affine_float_qparams
        self.register_buffer("scale", tensor([1.0]))
        self.register_buffer(
            "zero_point",
            tensor([0.0 if floats else 0], dtype=dtypes.float32 if floats else dtypes.int32),
        )
        self.ch_axis = getattr(watching, "ch_axis", -1)
        self.is_per_channel = self.qscheme in PER_CHANNEL

    def calculate_qparams(self, **kwargs: Any) -> Any:
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Any) -> Any:
        if int(self.observer_enabled[0]):
            self.activation_post_process(X.detach())
            for kept, found in zip(
                (self.scale, self.zero_point), self.calculate_qparams(), strict=True
            ):
                if kept is not found:
                    kept.resize_(found.shape).copy_(found)
        if not int(self.fake_quant_enabled[0]):
            return X
        limits = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        if self.is_per_channel:
            return functions.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, *limits
            )
        return functions.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, *limits)

    def extra_repr(self) -> str:
        watching = self.activation_post_process
        return (
            f"{self.switches()}, quant_min={watching.quant_min}, quant_max={watching.quant_max}, "
            f"dtype={self.dtype}, qscheme={self.qscheme}, ch_axis={self.ch_axis}, "
            f"scale={self.scale}, zero_point={self.zero_point}"
        )

    def switches(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        for name in ("scale", "zero_point"):
            value = state_dict.get(prefix + name)
            if value is not None:
                getattr(self, name).resize_(value.shape)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class OfOneRange(FakeQuantize):
    """Says its scale before what it is of."""

    def extra_repr(self) -> str:
        watching = self.activation_post_process
        return (
            f"{self.switches()}, scale={self.scale}, zero_point={self.zero_point}, "
            f"dtype={self.dtype}, quant_min={watching.quant_min}, "
            f"quant_max={watching.quant_max}, qscheme={self.qscheme}"
        )


class FixedQParamsFakeQuantize(OfOneRange):
    """Rounds by a scale that is known before."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        watching = self.activation_post_process
        if type(watching) is not FixedQParamsObserver:
            raise AssertionError(
                "FixedQParamsFakeQuantize's observer must be a FixedQParamsObserver"
            )
        if self.qscheme not in PER_TENSOR:
            raise AssertionError(
                "Only per tensor quantization is supported FixedQParamsFakeQuantize module, got "
                f"qscheme:{self.qscheme}"
            )
        self._observer_ctr = observer
        self.scale, self.zero_point = watching.scale, watching.zero_point

    def calculate_qparams(self, **kwargs: Any) -> Any:
        return self.scale, self.zero_point


class FusedMovingAvgObsFakeQuantize(OfOneRange):
    """Watches a moving range and rounds by it, in one op."""

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int = 0,
        quant_max: int = 255, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        moving = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
        if not isinstance(self.activation_post_process, moving):
            raise AssertionError(
                "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver"
            )
        self.register_buffer("fake_quant_enabled", tensor([1], dtype=dtypes.int64))
        self.register_buffer("observer_enabled", tensor([1], dtype=dtypes.int64))
        self.is_symmetric_quant = self.qscheme in SYMMETRIC

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, reduce_range={self.activation_post_process.reduce_range}"

    def forward(self, X: Any) -> Any:
        watching = self.activation_post_process
        return fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, watching.min_val,
            watching.max_val, self.scale, self.zero_point, watching.averaging_constant,
            watching.quant_min, watching.quant_max, self.ch_axis, self.is_per_channel,
            self.is_symmetric_quant,
        )  # fmt: skip


class _LearnableFakeQuantize(FakeQuantizeBase):
    """Rounds by a scale and a zero point that are parameters: watched first, then learnt."""

    static_enabled: Any
    learning_enabled: Any
    eps: Any

    def __init__(
        self, observer: Any, quant_min: int = 0, quant_max: int = 255, scale: float = 1.0,
        zero_point: float = 0.0, channel_len: int = -1, use_grad_scaling: bool = False,
        **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if quant_min >= quant_max:
            raise AssertionError("quant_min must be strictly less than quant_max.")
        if channel_len != -1 and not (isinstance(channel_len, int) and channel_len > 0):
            raise AssertionError("Channel size must be a positive integer.")
        self.quant_min, self.quant_max = quant_min, quant_max
        self.use_grad_scaling = use_grad_scaling
        count = max(channel_len, 1)
        self.scale = Parameter(tensor([float(scale)] * count))
        self.zero_point = Parameter(tensor([float(zero_point)] * count))
        self.activation_post_process = observer(
            quant_min=quant_min, quant_max=quant_max, **observer_kwargs
        )
        watching = self.activation_post_process
        check_bounds(watching.dtype, quant_min, quant_max)
        self.dtype, self.qscheme = watching.dtype, watching.qscheme
        self.ch_axis = getattr(watching, "ch_axis", -1)
        self.register_buffer("static_enabled", tensor([1], dtype=dtypes.uint8))
        self.register_buffer("learning_enabled", tensor([0], dtype=dtypes.uint8))
        self.bitwidth = (quant_max - quant_min + 1).bit_length() - 1
        self.register_buffer("eps", tensor([EPSILON]))

    def switch(self, learning: bool, rounding: bool, watching: bool) -> _LearnableFakeQuantize:
        self.toggle_qparam_learning(learning)
        self.toggle_fake_quant(rounding)
        return self.toggle_observer_update(watching)

    def enable_param_learning(self) -> _LearnableFakeQuantize:
        return self.switch(learning=True, rounding=True, watching=False)

    def enable_static_estimate(self) -> None:
        self.switch(learning=False, rounding=True, watching=True)

    def enable_static_observation(self) -> None:
        self.switch(learning=False, rounding=False, watching=True)

    def toggle_observer_update(self, enabled: bool = True) -> _LearnableFakeQuantize:
        self.static_enabled[0] = int(enabled)
        return self

    def enable_observer(self, enabled: bool = True) -> None:
        self.toggle_observer_update(enabled)

    def toggle_qparam_learning(self, enabled: bool = True) -> _LearnableFakeQuantize:
        self.learning_enabled[0] = int(enabled)
        self.scale.requires_grad_(enabled)
        self.zero_point.requires_grad_(enabled)
        return self

    def toggle_fake_quant(self, enabled: bool = True) -> _LearnableFakeQuantize:
        self.fake_quant_enabled[0] = int(enabled)
        return self

    def observe_quant_params(self) -> None:
        print(f"_LearnableFakeQuantize Scale: {self.scale.detach()}")
        print(f"_LearnableFakeQuantize Zero Point: {self.zero_point.detach()}")

    def calculate_qparams(self, **kwargs: Any) -> Any:
        self.scale.detach().clamp_(min=self.eps.item())
        rounded = self.zero_point.detach().round().clamp(self.quant_min, self.quant_max)
        return self.scale.detach(), rounded.to(dtypes.int64)

    def forward(self, X: Any) -> Any:
        if int(self.static_enabled[0]):
            self.activation_post_process(X.detach())
            scale, zero_point = self.activation_post_process.calculate_qparams()
            self.scale.detach().copy_(scale)
            self.zero_point.detach().copy_(zero_point)
        else:
            self.scale.detach().clamp_(min=self.eps.item())
        if not int(self.fake_quant_enabled[0]):
            return X
        if self.qscheme in SYMMETRIC:
            self.zero_point.detach().zero_()
        factor = 1.0 / (X.numel() * self.quant_max) ** 0.5 if self.use_grad_scaling else 1.0
        limits = self.quant_min, self.quant_max, factor
        if self.qscheme in PER_CHANNEL:
            return functions._fake_quantize_learnable_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, *limits
            )
        return functions._fake_quantize_learnable_per_tensor_affine(
            X, self.scale, self.zero_point, *limits
        )


# -- switches for whole models: `model.apply(disable_observer)` ------------------------------------


def disable_fake_quant(mod: Any) -> None:
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Any) -> None:
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod: Any) -> None:
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod: Any) -> None:
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()


# -- those that configurations name ----------------------------------------------------------------

BYTES: dict[str, Any] = {"quant_min": 0, "quant_max": 255, "dtype": QUINT8}
WEIGHTS: dict[str, Any] = {"quant_min": -128, "quant_max": 127, "dtype": QINT8}
BY_TENSOR: dict[str, Any] = {
    "observer": MovingAverageMinMaxObserver, "qscheme": schemes.per_tensor_symmetric,
}  # fmt: skip
BY_CHANNEL: dict[str, Any] = {
    "observer": MovingAveragePerChannelMinMaxObserver, "qscheme": schemes.per_channel_symmetric,
}  # fmt: skip
OF_ROWS: dict[str, Any] = {
    "observer": MovingAveragePerChannelMinMaxObserver, "ch_axis": 0, "averaging_constant": 1,
    "qscheme": schemes.per_channel_affine_float_qparams,
}  # fmt: skip
AFFINE: dict[str, Any] = {"qscheme": schemes.per_tensor_affine, "reduce_range": True}
FUSED = FusedMovingAvgObsFakeQuantize.with_args

default_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, **BYTES, **AFFINE)
default_weight_fake_quant = FakeQuantize.with_args(**BY_TENSOR, **WEIGHTS, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, is_dynamic=True, averaging_constant=1, **BYTES
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    **BY_CHANNEL, **WEIGHTS, reduce_range=False, ch_axis=0
)
default_embedding_fake_quant = FakeQuantize.with_args(**OF_ROWS, **BYTES)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(**OF_ROWS, dtype=QUINT4X2)
default_histogram_fake_quant = FakeQuantize.with_args(observer=HistogramObserver, **BYTES, **AFFINE)
default_fused_act_fake_quant = FUSED(observer=MovingAverageMinMaxObserver, **BYTES)
default_fused_wt_fake_quant = FUSED(**BY_TENSOR, **WEIGHTS)
default_fused_per_channel_wt_fake_quant = FUSED(**BY_CHANNEL, **WEIGHTS)
fused_wt_fake_quant_range_neg_127_to_127 = FUSED(**BY_TENSOR, **EVEN)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FUSED(**BY_CHANNEL, **EVEN)
