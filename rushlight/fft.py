"""torch.fft: discrete Fourier transforms. Each function is the op `fft_<name>`."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace
from rushlight.core.tensor import Tensor
from rushlight.opset import registry

NAMES = (
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
)  # fmt: skip
# torch: some functions are not among the names that the module lists.
__all__ = [
    "Tensor",
    *[name for name in NAMES if name not in ("hfft2", "hfftn", "ihfft2", "ihfftn")],
]


def _find(name: str) -> Any:
    # torch: the ops' own names are known too, as torch._C._fft has them.
    name = name.removeprefix("fft_")
    if name not in NAMES:
        return None
    if not name.endswith("freq"):
        return registry.public(f"fft_{name}")
    from rushlight.opset.fourier import fourier

    return getattr(fourier, name)


__getattr__, __dir__ = namespace(__name__, make=_find, names=NAMES)
