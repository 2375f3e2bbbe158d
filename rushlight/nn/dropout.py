"""Kinds of dropout: of elements, of whole channels, and to the lower limit of SELU."""

from __future__ import annotations

from typing import Any

from rushlight.nn import functional as F
from rushlight.nn.module import Module

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
]  # fmt: skip


class DropoutKind(Module):
    """What the kinds of dropout share: a function of (input, p, training, inplace)."""

    function: Any

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(DropoutKind):
    """Zeroes elements at random while training."""

    function = staticmethod(F.dropout)


class Dropout1d(DropoutKind):
    """Zeroes channels of (N, C, L) or (C, L) while training."""

    function = staticmethod(F.dropout1d)


class Dropout2d(DropoutKind):
    """Zeroes channels of (N, C, H, W) while training."""

    function = staticmethod(F.dropout2d)


class Dropout3d(DropoutKind):
    """Zeroes channels of (N, C, D, H, W) or (C, D, H, W) while training."""

    function = staticmethod(F.dropout3d)


class AlphaDropout(DropoutKind):
    """Dropout for SELU: keeps mean and variance."""

    function = staticmethod(F.alpha_dropout)

    def forward(self, input: Any) -> Any:
        # torch: a module never does this in place.
        return type(self).function(input, self.p, self.training)


class FeatureAlphaDropout(DropoutKind):
    """`AlphaDropout` of whole channels."""

    function = staticmethod(F.feature_alpha_dropout)

    def forward(self, input: Any) -> Any:
        return type(self).function(input, self.p, self.training)
