"""What cannot be said in ONNX, or is not translated: one class of errors, with a code."""

from __future__ import annotations

from rushlight.base.errors import error

__all__ = ["OnnxExporterError", "refuse", "refuse_op"]


class OnnxExporterError(RuntimeError):
    """A program that cannot be exported to ONNX."""


def refuse_op(name: str) -> OnnxExporterError:
    """The error for an operator that has no translation."""
    return error("RL1570", OnnxExporterError, name=name)


def refuse(what: str) -> OnnxExporterError:
    """The error for a use of an operator that has no translation."""
    return error("RL1571", OnnxExporterError, what=what)
