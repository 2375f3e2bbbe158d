"""What quantised layers with weights share: packed weights, their state, their text."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core.construct import tensor
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.quantization.observers import PER_TENSOR, QINT8
from rushlight.subclasses.quantized import (
    _empty_affine_quantized,
    quantize_per_channel,
    quantize_per_tensor,
)

__all__ = ["WeightedQuantizedModule", "empty_weight", "qparams_of", "quantized_weight", "take"]


class WeightedQuantizedModule(Module):
    """A layer whose weight is packed: `set_weight_bias` packs, `_weight_bias` unpacks."""

    scale: float
    zero_point: int

    def set_weight_bias(self, w: Any, b: Any) -> None:
        raise NotImplementedError

    def _weight_bias(self) -> tuple[Any, Any]:
        raise NotImplementedError

    def weight(self) -> Any:
        return self._weight_bias()[0]

    def bias(self) -> Any:
        return self._weight_bias()[1]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = tensor(self.scale)
        destination[prefix + "zero_point"] = tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *rest: Any
    ) -> None:
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest)


def take(state_dict: Any, prefix: str, *names: str) -> list[Any]:
    """Entries of a state, which are then out of it."""
    return [state_dict.pop(prefix + name) for name in names]


def quantized_weight(weight: Any, observer: Any) -> Any:
    """A weight as integers, by the scale that an observer has chosen."""
    scale, zero_point = observer.calculate_qparams()
    given = weight.detach().to(dtypes.float32)
    if observer.qscheme in PER_TENSOR:
        return quantize_per_tensor(given, float(scale), int(zero_point), observer.dtype)
    if not zero_point.dtype.is_floating_point:
        zero_point = zero_point.to(dtypes.int64)
    return quantize_per_channel(
        given, scale.to(dtypes.float64), zero_point, observer.ch_axis, observer.dtype
    )


def checked_int8(observer: Any) -> Any:
    if observer.dtype is not QINT8:
        raise AssertionError(f"Weight observer must have a dtype of qint8, got {observer.dtype}")
    return observer


def qparams_of(module: Any) -> tuple[float, int]:
    """The scale and the zero point that a watched module's results have."""
    scale, zero_point = module.activation_post_process.calculate_qparams()
    return float(scale), int(zero_point)


def empty_weight(*sizes: int) -> Any:
    made = _empty_affine_quantized(sizes, scale=1.0, zero_point=0, dtype=QINT8)
    functions.zero_(made.as_subclass(functions.empty(()).__class__))
    return made


def with_packed_text(module: Any, hidden: type) -> str:
    """The text of a module, without a line for the part that packs its weight."""
    said = [module.extra_repr()] if module.extra_repr() else []
    parts = [
        f"({name}): " + repr(child).replace("\n", "\n  ")
        for name, child in module.named_children()
        if not isinstance(child, hidden)
    ]
    name = module._get_name()
    if said and not parts:
        return f"{name}({said[0]})"
    lines = "\n  ".join(said + parts)
    return f"{name}(\n  {lines}\n)" if lines else f"{name}()"
