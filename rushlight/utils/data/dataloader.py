"""torch.utils.data.dataloader: the loader."""

from __future__ import annotations

from rushlight.data.loader import DataLoader, default_collate, default_convert, get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
