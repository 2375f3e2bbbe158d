"""torch.random: the default generator."""

from __future__ import annotations

from rushlight.core.rng import Generator
from rushlight.opset.creation.random import (
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)


def thread_safe_generator() -> Generator | None:
    """The generator of this thread where it is a worker of a loader; else None."""
    from rushlight.data.worker import get_worker_info

    info = get_worker_info()
    return None if info is None or info.rng is None else info.rng.torch_generator


__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]
