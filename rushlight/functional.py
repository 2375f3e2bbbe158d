"""torch.functional: public functions that are written in Python, under their module's name."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.base.lazy import namespace

NAMES = (
    "atleast_1d", "atleast_2d", "atleast_3d", "align_tensors", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "block_diag", "cdist", "chain_matmul", "einsum", "istft",
    "lu", "norm", "meshgrid", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique",
    "unique_consecutive", "unravel_index",
)  # fmt: skip


def _find(name: str) -> Any:
    return getattr(rushlight, name, None) if name in NAMES else None


def _present() -> list[str]:
    return [name for name in NAMES if hasattr(rushlight, name)]


__getattr__, __dir__ = namespace(__name__, make=_find, names=_present)
