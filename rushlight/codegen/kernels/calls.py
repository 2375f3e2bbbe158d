"""The native kernels that ops call."""

from __future__ import annotations

from rushlight.codegen.kernels.attending import attention, attention_backward
from rushlight.codegen.kernels.convolution import forward, input_gradient, weight_gradient
from rushlight.codegen.kernels.descent import descend
from rushlight.codegen.kernels.normalization import batch_norm, batch_norm_backward

__all__ = [
    "attention", "attention_backward", "batch_norm", "batch_norm_backward", "descend",
    "forward", "input_gradient", "weight_gradient",
]  # fmt: skip
