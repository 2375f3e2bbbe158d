"""torch.backends: which accelerated libraries there are (none), and their switches.

A switch can be read and set, so that scripts which set it keep running; it changes nothing.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType
from typing import Any

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized"]


# Each backend can be imported by its path, as scripts do with torch.backends.cudnn.
__path__: list[str] = []


class Backend(ModuleType):
    """One library: absent unless said otherwise, with settable switches."""

    def __init__(self, name: str, available: bool = False, **switches: Any) -> None:
        super().__init__(f"{__name__}.{name}")
        self.name = name
        self.available = available
        vars(self).update(switches)
        sys.modules[self.__name__] = self

    def is_available(self) -> bool:
        return self.available

    def is_built(self) -> bool:
        return self.available

    def version(self) -> None:
        return None

    @contextmanager
    def flags(self, **switches: Any) -> Any:
        """Set switches for a block."""
        before = {name: getattr(self, name) for name in switches}
        vars(self).update(switches)
        try:
            yield self
        finally:
            vars(self).update(before)

    def __repr__(self) -> str:
        return f"<backend {self.name}: {'available' if self.available else 'not available'}>"


cpu = Backend("cpu", available=True)
cpu.get_cpu_capability = lambda: "DEFAULT"  # type: ignore[attr-defined]
cuda = Backend(
    "cuda",
    matmul=Backend(
        "cuda.matmul",
        allow_tf32=False,
        allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
    ),
)
cudnn = Backend(
    "cudnn", enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True
)
cudnn.is_acceptable = lambda tensor: False  # type: ignore[attr-defined]
mkl = Backend("mkl")
mkldnn = Backend("mkldnn", enabled=True, deterministic=False, allow_tf32=True)
mps = Backend("mps")
mps.is_macos13_or_newer = lambda minor=0: False  # type: ignore[attr-defined]
openmp = Backend("openmp")
opt_einsum = Backend("opt_einsum", enabled=False, strategy=None)
quantized = Backend("quantized", engine="none", supported_engines=["none"])
xnnpack = Backend("xnnpack", enabled=False)
