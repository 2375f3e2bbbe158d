"""What `torch.py` and `functorch.py` beside this file do: give way to rushlight."""

from __future__ import annotations

import os
import sys

try:
    import rushlight.compat
except ModuleNotFoundError as e:
    if e.name != "rushlight":
        raise
    # a source tree that is not installed: the package lies three folders up
    folder = os.path.abspath(__file__)
    for _ in range(4):
        folder = os.path.dirname(folder)
    sys.path.append(folder)
    import rushlight.compat


def give_way(name: str) -> None:
    """Import the alias `name`; the import system hands out what then stands in sys.modules."""
    del sys.modules[name]
    rushlight.compat.install()
    __import__(name)
