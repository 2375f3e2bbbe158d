"""Kinds of dropout besides the plain one: of whole channels, and to the lower limit of SELU."""

from __future__ import annotations

from typing import Any

from rushlight.nn import functional as F
from rushlight.nn.layers import DropoutKind

__all__ = ["AlphaDropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


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
