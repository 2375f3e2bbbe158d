"""Methods of torch's tensors that are for devices and layouts which are not here: they refuse."""

from __future__ import annotations

from typing import Any

from rushlight.base.refusals import refused
from rushlight.core.dispatch import overridable
from rushlight.core.dtype import float32
from rushlight.opset.exposure import attribute, install_method

REFUSED = {
    "RL0011": "record_stream",
    "RL0014": "to_mkldnn",
}
for code, names in REFUSED.items():
    for name in names.split():
        attribute(name, refused(f"torch.Tensor.{name}", code))

TORCH_NAMES = ("dequantize",)


def to_float(self: Any) -> Any:
    """A tensor's numbers in float32; no tensor here is quantised."""
    return self.to(float32)


install_method(to_float, "dequantize")


def dequantize(input: Any) -> Any:
    """A tensor's numbers in float32, or those of each tensor of a sequence."""
    if isinstance(input, (list, tuple)):
        return [each.dequantize() for each in input]
    return input.dequantize()


dequantize = overridable(dequantize)
attribute("name", None)
