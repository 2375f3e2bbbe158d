"""Parts of such functions, for version 11 of the operators: refused when called."""

from __future__ import annotations

from rushlight.base.lazy import namespace

NAMES = "arange cat clamp flatten gather index select size squeeze stack topk unsqueeze"

__getattr__, __dir__ = namespace(__name__, refused={"RL1332": NAMES})
