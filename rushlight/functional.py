"""torch.functional: public functions that are written in Python, under their module's name."""

from __future__ import annotations

from typing import Any

NAMES = (
    "atleast_1d", "atleast_2d", "atleast_3d", "align_tensors", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "block_diag", "cdist", "chain_matmul", "einsum", "istft",
    "lu", "norm", "meshgrid", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique",
    "unique_consecutive", "unravel_index",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    import rushlight

    found = getattr(rushlight, name, None) if name in NAMES else None
    if found is None:
        raise AttributeError(f"module 'rushlight.functional' has no attribute '{name}'")
    return found


def __dir__() -> list[str]:
    import rushlight

    return sorted({*globals(), *[name for name in NAMES if hasattr(rushlight, name)]})
