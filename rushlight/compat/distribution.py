"""What `importlib.metadata` is told of the distribution `torch`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from os import PathLike
from typing import Any

from rushlight.version import FOLLOWED, OWN

__all__ = ["FILES", "VERSION", "TorchDistribution", "distributions"]

# The release that is followed; the local part says by whom.
VERSION = f"{FOLLOWED}+rushlight{OWN}"
FILES = {
    "METADATA": "Metadata-Version: 2.1\n"
    "Name: torch\n"
    f"Version: {VERSION}\n"
    "Summary: the names of PyTorch, answered by rushlight\n",
    "top_level.txt": "functorch\ntorch\n",
    "INSTALLER": "rushlight\n",
}


class TorchDistribution(metadata.Distribution):
    """The distribution `torch` in a process where `torch` means rushlight."""

    def read_text(self, filename: str) -> str | None:
        return FILES.get(filename)

    def locate_file(self, path: str | PathLike[str]) -> Any:
        import os
        from pathlib import Path

        import rushlight

        return Path(os.path.dirname(next(iter(rushlight.__path__)))) / path


def distributions(name: str | None) -> Iterable[metadata.Distribution]:
    """Those of this name; all where there is no name."""
    return [TorchDistribution()] if name is None or name.lower() == "torch" else []
