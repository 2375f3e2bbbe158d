"""Where models change from floats to quantised numbers and back."""

from __future__ import annotations

from typing import Any

from rushlight.nn.module import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """Where numbers become quantised, once the model is converted."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        return x


class DeQuantStub(Module):
    """Where numbers become floats again, once the model is converted."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        return x


class QuantWrapper(Module):
    """A model between where numbers become quantised and where they become floats again."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        config = getattr(module, "qconfig", None)
        self.quant, self.dequant = QuantStub(config), DeQuantStub(config)
        self.module = module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        return self.dequant(self.module(self.quant(X)))
