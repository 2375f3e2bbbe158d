"""Found by Python processes that a script under `rushlight run` starts: torch is rushlight."""

from __future__ import annotations

from rushlight_shim import give_way

give_way("torch")
