"""The refusals of `export`: see `reasons`. Tracing and programs have RL1500 to RL1529, dims and
relations of sizes RL1530 to RL1559, files RL1560 to RL1589."""

from __future__ import annotations

from rushlight.base.errors import Reason

__all__ = ["EXPORT_REASONS"]

EXPORT_REASONS: dict[str, Reason] = {}
