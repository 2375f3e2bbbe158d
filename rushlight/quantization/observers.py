"""Modules that watch the range of numbers, and the scale and zero point that it asks for."""

from __future__ import annotations

from functools import partial
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core import schemes
from rushlight.core.construct import tensor
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "ObserverBase", "PerChannelMinMaxObserver",
    "PlaceholderObserver", "UniformQuantizationObserverBase", "with_args",
]  # fmt: skip

QINT8, QUINT8, QINT32 = (dtypes.BY_NAME[name] for name in ("qint8", "quint8", "qint32"))
RANGES = {
    QINT8: (-128, 127), dtypes.int8: (-128, 127), QUINT8: (0, 255), dtypes.uint8: (0, 255),
    QINT32: (-(2**31), 2**31 - 1), dtypes.int32: (-(2**31), 2**31 - 1),
}  # fmt: skip
SYMMETRIC = (schemes.per_tensor_symmetric, schemes.per_channel_symmetric)
EPSILON = float(dtypes.finfo(dtypes.float32).eps)


class Made:
    """A class with some of its arguments: calling it makes an object, and it takes more."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.make(*args, **kwargs)

    def with_args(self, **kwargs: Any) -> Made:
        return Made(partial(self.make, **kwargs))

    def __repr__(self) -> str:
        return repr(self.make) + "{}"


def with_args(cls: Any, **kwargs: Any) -> Made:
    return Made(partial(cls, **kwargs))


class ObserverBase(Module):
    """What watches tensors that pass through it unchanged."""

    with_args = classmethod(with_args)
    with_callable_args = with_args

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    def forward(self, x: Any) -> Any:
        raise NotImplementedError

    def calculate_qparams(self, **kwargs: Any) -> Any:
        raise NotImplementedError


class UniformQuantizationObserverBase(ObserverBase):
    """Scales and zero points for equal steps over a range."""

    eps: Any
    min_val: Any
    max_val: Any

    def __init__(
        self, dtype: Any = QUINT8, qscheme: Any = schemes.per_tensor_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
        factory_kwargs: Any = None, eps: float = EPSILON, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic, **kwargs)
        self.qscheme = qscheme
        self.reduce_range = reduce_range
        self.register_buffer("eps", tensor([eps]))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            self.quant_min, self.quant_max = quant_min, quant_max
            if quant_min > quant_max:  # type: ignore[operator]
                raise AssertionError("qmin must be less than qmax.")
        else:
            least, most = RANGES[dtype]
            # One bit less: sums of products of bytes then fit 16 bits on older processors.
            halves = reduce_range and dtype not in (QINT32, dtypes.int32)
            self.quant_min = least // 2 if halves else least
            self.quant_max = most // 2 if halves else most
        self.register_buffer("min_val", tensor(float("inf")))
        self.register_buffer("max_val", tensor(float("-inf")))

    def reset_min_max_vals(self) -> None:
        self.min_val.copy_(tensor(float("inf")))
        self.max_val.copy_(tensor(float("-inf")))

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Scale and zero point, of one element or one for each channel."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def _calculate_qparams(self, min_val: Any, max_val: Any) -> Any:
        if min_val.numel() == 0 or bool((min_val > max_val).any()):
            import warnings

            warnings.warn(
                "must run observer before calling calculate_qparams. Returning default values.",
                stacklevel=3,
            )
            return tensor([1.0]), tensor([0])
        steps = float(self.quant_max - self.quant_min)
        least, most = min_val.clamp(max=0), max_val.clamp(min=0)
        if self.qscheme in SYMMETRIC:
            scale = functions.maximum(functions.maximum(-least, most) / (steps / 2), self.eps)
            middle = 0
            if self.dtype in (QUINT8, dtypes.uint8):
                custom = self.has_customized_qrange
                middle = (self.quant_min + self.quant_max) // 2 if custom else 128
            zero_point = functions.full_like(scale, middle, dtype=dtypes.int64)
        elif self.qscheme is schemes.per_channel_affine_float_qparams:
            scale = (max_val - min_val) / steps
            scale = functions.where(scale > self.eps, scale, functions.ones_like(scale))
            zero_point = -1 * min_val / scale
        else:
            scale = functions.maximum((most - least) / steps, self.eps)
            zero_point = self.quant_min - (least / scale).round().to(dtypes.int32)
            zero_point = zero_point.clamp(self.quant_min, self.quant_max)
        return scale.reshape((-1,)), zero_point.reshape((-1,))

    def extra_repr(self) -> str:
        return f"min_val={shown(self.min_val)}, max_val={shown(self.max_val)}"


def shown(value: Any) -> Any:
    return value.item() if value.dim() == 0 else value


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number seen."""

    def forward(self, x_orig: Any) -> Any:
        if x_orig.numel():
            x = x_orig.detach().to(self.min_val.dtype)
            self.min_val.copy_(functions.minimum(x.min(), self.min_val))
            self.max_val.copy_(functions.maximum(x.max(), self.max_val))
        return x_orig


class MovingAverageMinMaxObserver(MinMaxObserver):
    """A range that moves towards that of each tensor."""

    def __init__(
        self, averaging_constant: float = 0.01, dtype: Any = QUINT8, **kwargs: Any
    ) -> None:
        self.averaging_constant = averaging_constant
        super().__init__(dtype=dtype, **kwargs)
        self.averaging_constant = averaging_constant

    def forward(self, x_orig: Any) -> Any:
        if not x_orig.numel():
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        for kept, seen in ((self.min_val, x.min()), (self.max_val, x.max())):
            first = bool(kept.isinf())
            kept.copy_(seen if first else kept + self.averaging_constant * (seen - kept))
        return x_orig


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number seen in each channel."""

    def __init__(
        self, ch_axis: int = 0, dtype: Any = QUINT8, qscheme: Any = schemes.per_channel_affine,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype=dtype, qscheme=qscheme, **kwargs)
        self.ch_axis = ch_axis
        self.reset_min_max_vals()

    def forward(self, x_orig: Any) -> Any:
        if not x_orig.numel():
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        rows = x.movedim(self.ch_axis, 0).reshape(x.shape[self.ch_axis], -1)
        self.keep(rows.amin(1), rows.amax(1))
        return x_orig

    def keep(self, least: Any, most: Any) -> None:
        if self.min_val.numel():
            least = functions.minimum(least, self.min_val)
            most = functions.maximum(most, self.max_val)
        self.min_val, self.max_val = least, most

    def reset_min_max_vals(self) -> None:
        self.min_val = functions.empty((0,))
        self.max_val = functions.empty((0,))


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """A range of each channel that moves towards that of each tensor."""

    def __init__(self, averaging_constant: float = 0.01, ch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(ch_axis=ch_axis, **kwargs)
        self.averaging_constant = averaging_constant

    def keep(self, least: Any, most: Any) -> None:
        if self.min_val.numel():
            share = self.averaging_constant
            least = self.min_val + share * (least - self.min_val)
            most = self.max_val + share * (most - self.max_val)
        self.min_val, self.max_val = least, most


class PlaceholderObserver(ObserverBase):
    """Watches nothing: it says of what dtype numbers will be."""

    def __init__(
        self, dtype: Any = dtypes.float32, custom_op_name: str = "", compute_dtype: Any = None,
        quant_min: Any = None, quant_max: Any = None, qscheme: Any = None, eps: Any = None,
        is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic or compute_dtype is not None)
        self.qscheme = schemes.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = EPSILON if eps is None else eps
        self.custom_op = custom_op_name

    def forward(self, x: Any) -> Any:
        return x

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self, **kwargs: Any) -> Any:
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")


class FakeQuantizeBase(Module):
    """What rounds numbers to those that integers could hold, and can be switched off."""

    fake_quant_enabled: Any
    observer_enabled: Any
    with_args = classmethod(with_args)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", tensor([1], dtype=dtypes.uint8))
        self.register_buffer("observer_enabled", tensor([1], dtype=dtypes.uint8))

    def enable_fake_quant(self, enabled: bool = True) -> None:
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        self.enable_observer(False)


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
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        self.activation_post_process = observer(**observer_kwargs)
        watching = self.activation_post_process
        self.quant_min, self.quant_max = watching.quant_min, watching.quant_max
        self.is_dynamic = is_dynamic
        floats = watching.qscheme is schemes.per_channel_affine_float_qparams
        self.register_buffer("scale", tensor([1.0]))
        self.register_buffer(
            "zero_point",
            tensor([0.0 if floats else 0], dtype=dtypes.float32 if floats else dtypes.int32),
        )
        self.dtype, self.qscheme = watching.dtype, watching.qscheme
        self.ch_axis = getattr(watching, "ch_axis", -1)
        self.is_per_channel = str(self.qscheme).startswith("torch.per_channel")

    def calculate_qparams(self) -> Any:
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Any) -> Any:
        if int(self.observer_enabled[0]):
            self.activation_post_process(X.detach())
            scale, zero_point = self.calculate_qparams()
            if self.scale.shape != scale.shape:
                self.scale.resize_(scale.shape)
                self.zero_point.resize_(zero_point.shape)
            self.scale.copy_(scale)
            self.zero_point.copy_(zero_point)
        if not int(self.fake_quant_enabled[0]):
            return X
        limits = self.quant_min, self.quant_max
        if self.is_per_channel:
            return functions.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, *limits
            )
        return functions.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, *limits)

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )
