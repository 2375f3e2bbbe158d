"""torch.ao.quantization.quantize_fx: models that are quantised through their graphs."""

from __future__ import annotations

from rushlight.quantization.graphs.lowering import convert_fx, convert_to_reference_fx
from rushlight.quantization.graphs.preparing import (
    QuantizationTracer,
    fuse_fx,
    prepare_fx,
    prepare_qat_fx,
)

__all__ = [
    "QuantizationTracer",
    "convert_fx",
    "convert_to_reference_fx",
    "fuse_fx",
    "prepare_fx",
    "prepare_qat_fx",
]
