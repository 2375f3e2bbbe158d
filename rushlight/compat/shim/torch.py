"""Found by Python processes that a script under `rushlight run` starts: torch is rushlight."""

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

# The import system hands out what stands in sys.modules under this name afterwards.
del sys.modules["torch"]
rushlight.compat.install()
__import__("torch")
