"""`debug_grad_log`: the norms of gradients, in the log, when they have been computed."""

from __future__ import annotations

import logging
from typing import Any

from rushlight.autograd.graph import register_multi_grad_hook

__all__ = ["debug_grad_log"]

log = logging.getLogger(__name__)


def debug_grad_log(*tensors: Any) -> None:
    """Log the norm of each tensor's gradient once all have theirs; nothing happens forwards."""
    watched = [each for each in tensors if each.requires_grad]
    if not watched:
        return

    def tell(grads: Any) -> None:
        norms = [
            f"t{i}_grad_norm=" + ("None" if grad is None else f"{grad.norm().item():.6g}")
            for i, grad in enumerate(grads)
        ]
        log.info("[rank 0][bwd] %s", " ".join(norms))

    register_multi_grad_hook(watched, tell)
