"""torch.version: which version this is, and that it was built without accelerators."""

from __future__ import annotations

import rushlight

__all__ = ["cuda", "debug", "git_version", "hip", "rocm", "xpu"]

# The release of PyTorch whose behaviour is followed: results are compared with its recordings.
FOLLOWED = "2.13.0"
# Rushlight's own version, whatever programs that ask `torch` are told.
OWN: str = rushlight.__version__.rpartition("+rushlight")[2]

debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
rocm: str | None = None
git_version = "unknown"


def __getattr__(name: str) -> str:
    if name == "__version__":
        return str(rushlight.__version__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
