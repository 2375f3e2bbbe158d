"""What a quantised tensor says of itself: its integers, and by which scale they are read.

The tensors are `subclasses.quantized`'s, which know their `quantizer`; ordinary ones have none.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.opset.exposure import install_method

TORCH_NAMES = (
    "int_repr", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points",
    "q_scale", "q_zero_point",
)  # fmt: skip


def quantizer_of(name: str, value: Any, by_channel: bool | None = None) -> Any:
    quantizer = getattr(value, "quantizer", None)
    if quantizer is None:
        # torch: the words for an op that the CPU's ordinary tensors do not have.
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: the tensor is "
            "not quantised."
        )
    if by_channel is not None and by_channel != (quantizer.axis is not None):
        wanted = "kPerChannelAffine" if by_channel else "kPerTensorAffine"
        raise RuntimeError(f"Expected quantizer->qscheme() == {wanted} to be true, but got false.")
    return quantizer


def int_repr(input: Any) -> Any:
    """The integers that a quantised tensor holds, in memory of their own."""
    made = quantizer_of("int_repr", input)
    integers = input.as_subclass(Tensor)
    if made.dtype.name != "quint4x2":
        return integers.clone()
    # Two numbers a byte in one row, the first in the lower half; the last byte may hold one.
    flat = integers.reshape((-1,))
    low, high = flat[::2], flat[1::2]
    packed = low.clone()
    packed[: high.shape[0]] += high << 4
    return packed


def q_scale(input: Any) -> float:
    return float(quantizer_of("q_scale", input, by_channel=False).scale)


def q_zero_point(input: Any) -> int:
    return int(quantizer_of("q_zero_point", input, by_channel=False).zero_point)


def q_per_channel_scales(input: Any) -> Any:
    return quantizer_of("q_per_channel_scales", input, by_channel=True).scale.clone()


def q_per_channel_zero_points(input: Any) -> Any:
    return quantizer_of("q_per_channel_zero_points", input, by_channel=True).zero_point.clone()


def q_per_channel_axis(input: Any) -> Any:
    return quantizer_of("q_per_channel_axis", input, by_channel=True).axis


def qscheme(input: Any) -> Any:
    return quantizer_of("qscheme", input).scheme


for function in (
    int_repr,
    q_per_channel_axis,
    q_per_channel_scales,
    q_per_channel_zero_points,
    q_scale,
    q_zero_point,
    qscheme,
):
    install_method(function, function.__name__)
