"""torch: words of its former exporter, which programs still pass or compare."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["OperatorExportTypes", "TrainingMode"]


class TrainingMode(IntEnum):
    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(IntEnum):
    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3
