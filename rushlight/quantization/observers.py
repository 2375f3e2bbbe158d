"""Modules that watch the range of numbers, and the scale and zero point that it asks for.

An observer hands on what it is given. `calculate_qparams` answers for all it has seen so far.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import schemes
from rushlight.core.construct import tensor
from rushlight.core.tensor import values_of, wrap
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = [
    "FixedQParamsObserver", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase",
    "PerChannelMinMaxObserver", "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver",
    "UniformQuantizationObserverBase", "default_affine_fixed_qparams_observer",
    "default_debug_observer", "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer", "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer", "default_float_qparams_observer_4bit",
    "default_histogram_observer", "default_observer", "default_per_channel_weight_observer",
    "default_placeholder_observer", "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer", "default_weight_observer",
    "get_observer_state_dict", "load_observer_state_dict",
    "per_channel_weight_observer_range_neg_127_to_127", "weight_observer_range_neg_127_to_127",
]  # fmt: skip

QINT8, QUINT8, QINT32 = (dtypes.BY_NAME[name] for name in ("qint8", "quint8", "qint32"))
QUINT4X2 = dtypes.BY_NAME["quint4x2"]
RANGES = {
    QINT8: (-128, 127), dtypes.int8: (-128, 127), QUINT8: (0, 255), dtypes.uint8: (0, 255),
    QINT32: (-(2**31), 2**31 - 1), dtypes.int32: (-(2**31), 2**31 - 1),
    dtypes.int16: (-(2**15), 2**15 - 1), dtypes.BY_NAME["uint16"]: (0, 2**16 - 1),
    QUINT4X2: (0, 15),
}  # fmt: skip
PER_TENSOR = (schemes.per_tensor_affine, schemes.per_tensor_symmetric)
PER_CHANNEL = (
    schemes.per_channel_affine, schemes.per_channel_symmetric,
    schemes.per_channel_affine_float_qparams,
)  # fmt: skip
SYMMETRIC = (schemes.per_tensor_symmetric, schemes.per_channel_symmetric)
EPSILON = float(dtypes.finfo(dtypes.float32).eps)


class Made:
    """A class with some of its arguments: calling it makes an object, and it takes more."""

    def __init__(self, make: Any, late: Any = None) -> None:
        self.p = make
        # Arguments that are made anew for each object.
        self.callable_args: dict[str, Any] = late or {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        late = {name: make() for name, make in self.callable_args.items() if name not in kwargs}
        return self.p(*args, **kwargs, **late)

    def with_args(self, **kwargs: Any) -> Made:
        return Made(partial(self, **kwargs))

    def with_callable_args(self, **kwargs: Any) -> Made:
        return Made(self.p, {**self.callable_args, **kwargs})

    def __repr__(self) -> str:
        return f"{self.p!r}{self.callable_args!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Made) and self.parts() == other.parts()

    def __hash__(self) -> int:
        return hash(self.parts()[0])

    def parts(self) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """The class, and the arguments that all layers of `with_args` gave."""
        made, given = self.p, {}
        while isinstance(made, (partial, Made)):
            if isinstance(made, partial):
                given = {**made.keywords, **given}
                made = made.func
            else:
                made = made.p
        return made, given, self.callable_args


def with_args(cls: Any, **kwargs: Any) -> Made:
    """The class with arguments, for those who make observers later."""
    return Made(partial(cls, **kwargs))


def with_callable_args(cls: Any, **kwargs: Any) -> Made:
    """The class with arguments that functions give, which are called for each object."""
    return Made(partial(cls), kwargs)


class ObserverBase(Module):
    """What watches tensors that pass through it unchanged."""

    with_args = classmethod(with_args)
    with_callable_args = classmethod(with_callable_args)

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    def forward(self, x: Any) -> Any:
        raise NotImplementedError

    def calculate_qparams(self, **kwargs: Any) -> Any:
        raise NotImplementedError


def refuse_dynamic(observer: Any, is_dynamic: bool) -> None:
    if is_dynamic:
        name = type(observer).__name__
        # torch: the class of the error.
        raise NotImplementedError(f"{name} doesn't support dynamic quantization")


class UniformQuantizationObserverBase(ObserverBase):
    """Scales and zero points for equal steps over a range."""

    _version = 3
    # The schemes that a class of observers knows.
    accepted: tuple[Any, ...] = (*PER_TENSOR, *PER_CHANNEL)
    eps: Any
    min_val: Any
    max_val: Any

    def __init__(
        self, dtype: Any = QUINT8, qscheme: Any = schemes.per_tensor_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
        factory_kwargs: Any = None, eps: float = EPSILON, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic, **kwargs)
        if qscheme not in self.accepted:
            listed = ", ".join(map(str, self.accepted))
            # torch: the class of the error.
            raise NotImplementedError(
                f"{type(self).__name__}'s qscheme only support {listed}. but got: {qscheme}"
            )
        if dtype not in RANGES:
            raise AssertionError(
                f"Default Observer only works for {tuple(RANGES)} data type, got {dtype}"
            )
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers. "
                "reduce_range will be deprecated in a future release of PyTorch.",
                stacklevel=2,
            )
            if qscheme in SYMMETRIC and dtype is QUINT8:
                # torch: the class of the error.
                raise NotImplementedError(
                    "Cannot reduce range for symmetric quantization for quint8"
                )
        self.qscheme = qscheme
        self.reduce_range = reduce_range
        self.register_buffer("eps", tensor([eps]))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        self.quant_min, self.quant_max = limits(dtype, quant_min, quant_max, reduce_range)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        # Older ones kept no epsilon.
        if local_metadata.get("version", None) in (None, 1):
            state_dict[prefix + "eps"] = tensor([EPSILON])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def reset_min_max_vals(self) -> None:
        raise NotImplementedError("Cannot reset min/max values in the given observer.")

    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Scale and zero point, of one element or one for each channel."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def _calculate_qparams(self, min_val: Any, max_val: Any) -> Any:
        if not was_run(min_val, max_val):
            return tensor([1.0]), tensor([0])
        steps = float(self.quant_max - self.quant_min)
        least, most = min_val.clamp(max=0), max_val.clamp(min=0)
        if self.qscheme in SYMMETRIC:
            scale = functions.maximum(functions.maximum(-least, most) / (steps / 2), self.eps)
            middle = 0
            if self.dtype in (QUINT8, dtypes.uint8):
                custom = self.has_customized_qrange
                middle = (self.quant_min + self.quant_max) // 2 if custom else 128
            elif self.dtype is dtypes.BY_NAME["uint16"]:
                middle = 2**15
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
        return f"min_val={self.min_val}, max_val={self.max_val}"


def limits(dtype: Any, least: int | None, most: int | None, reduce_range: bool) -> tuple[int, int]:
    """The integers that numbers become, of a dtype or as somebody asked for."""
    if least is not None and most is not None:
        if not least <= 0 <= most:
            raise AssertionError("Used-specified quantization range must include 0.")
        if least >= most:
            raise AssertionError(
                "qmin must be strictly less than qmax for user-specified quantization range."
            )
        return (least // 2, most // 2) if reduce_range else (least, most)
    least, most = RANGES[dtype]
    # One bit less: sums of products of bytes then fit 16 bits on older processors.
    if reduce_range and dtype in (QINT8, dtypes.int8, QUINT8, dtypes.uint8):
        return int(least / 2), most // 2
    return least, most


def was_run(min_val: Any, max_val: Any) -> bool:
    """Whether an observer has seen numbers; it warns where it has not."""
    if min_val.numel() == 0 or bool((min_val.isinf() & (min_val > max_val)).any()):
        warnings.warn(
            "must run observer before calling calculate_qparams. Returning default values.",
            stacklevel=3,
        )
        return False
    if bool((min_val > max_val).any()):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number seen."""

    accepted = PER_TENSOR

    def __init__(
        self, dtype: Any = QUINT8, qscheme: Any = schemes.per_tensor_affine,
        reduce_range: bool = False, quant_min: Any = None, quant_max: Any = None,
        factory_kwargs: Any = None, eps: float = EPSILON, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic,
            **kwargs,
        )  # fmt: skip
        self.register_buffer("min_val", tensor(float("inf")))
        self.register_buffer("max_val", tensor(float("-inf")))

    def forward(self, x_orig: Any) -> Any:
        if x_orig.numel():
            least, most = x_orig.detach().to(self.min_val.dtype).aminmax()
            self.keep(least, most)
        return x_orig

    def keep(self, least: Any, most: Any) -> None:
        self.min_val.copy_(functions.minimum(least, self.min_val))
        self.max_val.copy_(functions.maximum(most, self.max_val))

    def reset_min_max_vals(self) -> None:
        self.min_val.copy_(tensor(float("inf")))
        self.max_val.copy_(tensor(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """A range that moves towards that of each tensor."""

    def __init__(
        self, averaging_constant: float = 0.01, dtype: Any = QUINT8,
        qscheme: Any = schemes.per_tensor_affine, reduce_range: bool = False,
        quant_min: Any = None, quant_max: Any = None, eps: float = EPSILON,
        is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if is_dynamic and averaging_constant != 1:
            # torch: the class of the error.
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging "
                f"constant of {averaging_constant}"
            )
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, None, eps, is_dynamic, **kwargs
        )
        self.averaging_constant = averaging_constant

    def keep(self, least: Any, most: Any) -> None:
        first = bool(self.min_val.isposinf()) and bool(self.max_val.isneginf())
        for kept, seen in ((self.min_val, least), (self.max_val, most)):
            kept.copy_(seen if first else kept + self.averaging_constant * (seen - kept))


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number seen in each channel."""

    accepted = PER_CHANNEL

    def __init__(
        self, ch_axis: int = 0, dtype: Any = QUINT8, qscheme: Any = schemes.per_channel_affine,
        reduce_range: bool = False, quant_min: Any = None, quant_max: Any = None,
        factory_kwargs: Any = None, eps: float = EPSILON, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic,
            **kwargs,
        )  # fmt: skip
        refuse_dynamic(self, is_dynamic)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", functions.empty((0,)))
        self.register_buffer("max_val", functions.empty((0,)))

    def forward(self, x_orig: Any) -> Any:
        if not x_orig.numel():
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        rows = x.movedim(self.ch_axis, 0).reshape(x.shape[self.ch_axis], -1)
        least, most = rows.aminmax(dim=1)
        if self.min_val.numel():
            least, most = self.combined(least, most)
        self.min_val.resize_(least.shape).copy_(least)
        self.max_val.resize_(most.shape).copy_(most)
        return x_orig

    def combined(self, least: Any, most: Any) -> tuple[Any, Any]:
        return functions.minimum(least, self.min_val), functions.maximum(most, self.max_val)

    def reset_min_max_vals(self) -> None:
        self.min_val = functions.empty((0,))
        self.max_val = functions.empty((0,))

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        *rest: Any,
    ) -> None:  # fmt: skip
        version = local_metadata.get("version")
        former = "s" if version is not None and version < 3 else ""
        for name in ("min_val", "max_val"):
            key = prefix + name
            if former and key + former in state_dict:
                state_dict[key] = state_dict.pop(key + former)
            if key in state_dict:
                getattr(self, name).resize_(state_dict[key].shape)
            elif strict:
                missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, *rest
        )


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """A range of each channel that moves towards that of each tensor."""

    def __init__(self, averaging_constant: float = 0.01, ch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(ch_axis=ch_axis, **kwargs)
        self.averaging_constant = averaging_constant

    def combined(self, least: Any, most: Any) -> tuple[Any, Any]:
        share = self.averaging_constant
        kept = ((self.min_val, least), (self.max_val, most))
        moved = [before + share * (seen - before) for before, seen in kept]
        return moved[0], moved[1]


class HistogramObserver(UniformQuantizationObserverBase):
    """How often numbers occur, and of these the range that loses least when it is quantised.

    Numbers outside the range so far widen it: the counts before are spread over finer bins, and
    those are counted again.
    """

    accepted = PER_TENSOR
    histogram: Any

    def __init__(
        self, bins: int = 2048, dtype: Any = QUINT8, qscheme: Any = schemes.per_tensor_affine,
        reduce_range: bool = False, quant_min: Any = None, quant_max: Any = None,
        factory_kwargs: Any = None, eps: float = EPSILON, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        refuse_dynamic(self, is_dynamic)
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic,
            **kwargs,
        )  # fmt: skip
        self.bins = bins
        self.register_buffer("histogram", functions.zeros((bins,)))
        self.register_buffer("min_val", tensor(float("inf")))
        self.register_buffer("max_val", tensor(float("-inf")))
        least, most = RANGES[dtype]
        self.dst_nbins = most - least + 1
        self.upsample_rate = 16

    def reset_histogram(self, x: Any, min_val: Any, max_val: Any) -> None:
        self.take(functions.histc(x, self.bins, min_val.item(), max_val.item()), min_val, max_val)

    def take(self, histogram: Any, least: Any, most: Any) -> None:
        kept = (self.histogram, histogram), (self.min_val, least), (self.max_val, most)
        for buffer, value in kept:
            buffer.detach_().resize_(value.shape).copy_(value)

    def forward(self, x_orig: Any) -> Any:
        x = x_orig.detach()
        if x.numel() and bool(x.isinf().any()):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[~x.isinf()]
        if not x.numel():
            return x_orig
        least, most = x.aminmax()
        if bool(self.min_val.isposinf()) or bool(self.max_val.isneginf()):
            self.reset_histogram(x, least, most)
            return x_orig
        least, most = functions.minimum(self.min_val, least), functions.maximum(self.max_val, most)
        found = functions.histc(x, self.bins, least.item(), most.item()).to(self.histogram.dtype)
        self.take(self.before_in(least, most) + found, least, most)
        return x_orig

    def before_in(self, least: Any, most: Any) -> Any:
        """The counts so far, in bins over a wider range."""
        if bool(least == self.min_val) and bool(most == self.max_val):
            return self.histogram
        if bool(self.min_val == self.max_val):
            place = functions.histc(self.min_val, self.bins, least.item(), most.item())
            return place * self.histogram.sum()
        fine = self.bins * self.upsample_rate
        shares = self.histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        start, width = self.min_val.item(), (self.max_val - self.min_val) / fine
        middles = functions.linspace(start, self.max_val.item(), fine + 1)[:-1] + 0.5 * width
        edges = functions.linspace(least.item(), most.item(), self.bins + 1)
        into = (functions.bucketize(middles, edges, right=True) - 1).clamp(0, self.bins - 1)
        return functions.bincount(into, weights=shares, minlength=self.bins)

    def calculate_qparams(self, **kwargs: Any) -> Any:
        if not was_run(self.min_val, self.max_val):
            return tensor([1.0]), tensor([0])
        if self.bins != len(self.histogram):
            raise AssertionError(
                "The number of bins in histogram should be equal to the number of bins supplied "
                "while making this observer"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def _non_linear_param_search(self) -> tuple[Any, Any]:
        """Cuts off the rarer end while the error of quantising the rest grows less."""
        totals = values_of(self.histogram.cumsum(0))
        total = self.histogram.sum().item()
        first, last = 0, self.bins - 1
        low, high, step = 0.0, 1.0, 1e-5
        least_error = float("inf")
        while low < high:
            next_low, next_high = low + step, high - step
            left, right = first, last
            wanted = np.float32(next_low * total), np.float32(next_high * total)
            while left < last and totals[left] < wanted[0]:
                left += 1
            while right > first and totals[right] > wanted[1]:
                right -= 1
            new = first, last
            if left - first > last - right:
                new, low = (left, last), next_low
            else:
                new, high = (first, right), next_high
            if new == (first, last):
                continue
            error = self._compute_quantization_error(*new)
            if error > least_error:
                break
            least_error, (first, last) = error, new
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def _compute_quantization_error(self, next_start_bin: int, next_end_bin: int) -> float:
        """The squared error where numbers are equally frequent within their bins."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        wide = width * (next_end_bin - next_start_bin + 1) / self.dst_nbins
        if wide == 0.0:
            return 0.0
        single, half = np.float32, np.float32(wide / 2)
        begins = (np.arange(self.bins) - next_start_bin).astype(single) * single(width)
        ends = begins + single(width)
        into_begin, into_end = [
            np.clip(np.floor_divide(edge, single(wide)), 0, self.dst_nbins - 1)
            for edge in (begins, ends)
        ]
        density = values_of(self.histogram) / single(width)

        def error(start: Any, end: Any) -> Any:
            return density * ((end * end * end - start * start * start) / single(3))

        sums = error(begins - (into_begin + single(0.5)) * single(wide), half)
        sums = sums + (into_end - into_begin - single(1)) * error(-half, half)
        sums = sums + error(-half, ends - (into_end * single(wide) + half))
        return float(wrap(sums.astype(single), dtypes.float32).sum().item())

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        for name, nothing in (("min_val", float("inf")), ("max_val", float("-inf"))):
            value = state_dict.get(prefix + name)
            if value is not None and value.numel() == 0:
                state_dict[prefix + name] = tensor(nothing)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class FixedQParamsObserver(ObserverBase):
    """A scale and a zero point that are known before."""

    scale: Any
    zero_point: Any

    def __init__(
        self, scale: float, zero_point: int, dtype: Any = QUINT8,
        qscheme: Any = schemes.per_tensor_affine, quant_min: int = 0, quant_max: int = 255,
        is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        refuse_dynamic(self, is_dynamic)
        super().__init__(dtype, is_dynamic, **kwargs)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", tensor([scale], dtype=dtypes.float32))
        self.register_buffer("zero_point", tensor([zero_point], dtype=dtypes.int32))
        self.qscheme = qscheme

    def forward(self, X: Any) -> Any:
        return X

    def calculate_qparams(self, **kwargs: Any) -> Any:
        return self.scale, self.zero_point


class Watcher(ObserverBase):
    """Chooses no scale."""

    def forward(self, x: Any) -> Any:
        return x

    def calculate_qparams(self, **kwargs: Any) -> Any:
        name = type(self).__name__
        raise Exception(f"calculate_qparams should not be called for {name}")


class PlaceholderObserver(Watcher):
    """Watches nothing: it says of what dtype numbers will be."""

    def __init__(
        self, dtype: Any = dtypes.float32, custom_op_name: str = "", compute_dtype: Any = None,
        quant_min: Any = None, quant_max: Any = None, qscheme: Any = None, eps: Any = None,
        is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.qscheme = schemes.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = EPSILON if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            warnings.warn(
                "Please use `is_dynamic` instead of `compute_dtype`. `compute_dtype` will be "
                "deprecated in a future release of PyTorch.",
                stacklevel=2,
            )

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(Watcher):
    """Keeps what passes through it, for those who look for mistakes."""

    def __init__(self, dtype: Any = QUINT8) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Any] = []

    def forward(self, x: Any) -> Any:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Any]:
        return self.tensor_val


class NoopObserver(Watcher):
    """Says only of what dtype numbers will be."""

    def __init__(self, dtype: Any = dtypes.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype)
        self.custom_op = custom_op_name


class ReuseInputObserver(Watcher):
    """Stands where results are quantised as what they were computed from."""

    def __init__(self) -> None:
        super().__init__(QUINT8)


# -- those that configurations name ----------------------------------------------------------------

# Weights that stay clear of -128, for processors that multiply bytes of equal sign ranges.
EVEN = {"dtype": QINT8, "quant_min": -127, "quant_max": 127, "eps": 2**-12}

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(
    dtype=QINT8, qscheme=schemes.per_tensor_symmetric
)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    qscheme=schemes.per_tensor_symmetric, **EVEN
)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=QINT8, qscheme=schemes.per_channel_symmetric
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    qscheme=schemes.per_channel_symmetric, **EVEN
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=QUINT8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer, default_float_qparams_observer_4bit = [
    PerChannelMinMaxObserver.with_args(
        dtype=dtype, qscheme=schemes.per_channel_affine_float_qparams, ch_axis=0
    )
    for dtype in (QUINT8, QUINT4X2)
]
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=QUINT8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=QUINT8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver


# -- their state -----------------------------------------------------------------------------------


def get_observer_state_dict(mod: Any) -> Any:
    """The part of a model's state that is its observers'."""
    from collections import OrderedDict

    state = OrderedDict()
    for name, value in mod.state_dict().items():
        if "activation_post_process" in name:
            state[name] = value
    return state


def load_observer_state_dict(mod: Any, obs_dict: Any) -> None:
    """Gives a model's observers the state that `get_observer_state_dict` took."""
    missing, unexpected = mod.load_state_dict(obs_dict, strict=False)
    lost = [name for name in missing if "observer" in name or "activation_post_process" in name]
    if lost or unexpected:
        raise RuntimeError(
            f"Missing keys for observer {lost}, unexpected keys {unexpected} in the given state"
        )


def is_watching(value: Any) -> bool:
    """Whether it stands at a module's result: an observer, or what rounds as integers would."""
    from rushlight.quantization.fakes import FakeQuantizeBase

    return isinstance(value, (ObserverBase, FakeQuantizeBase))
