"""ONNX: `export` writes models for other runtimes.

Models are written by code of this package; `onnx` is needed to check them, and `onnxruntime` to run
them.
"""

from __future__ import annotations

from rushlight.base.lazy import namespace

HOMES = {
    **dict.fromkeys(("ONNXProgram", "export", "is_in_onnx_export"), ".exporting"),
    "OnnxExporterError": ".refusals",
    "register_custom_op_symbolic": ".symbolics",
    "unregister_custom_op_symbolic": ".symbolics",
}

__getattr__, __dir__ = namespace(__name__, HOMES, ("symbolic_helper", "symbolic_opset11"))
