"""torch.fft: discrete Fourier transforms. Each function is the op `fft_<name>`."""

from __future__ import annotations

from typing import Any

from rushlight.opset import registry

NAMES = (
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module 'rushlight.fft' has no attribute '{name}'")
    if name.endswith("freq"):
        from rushlight.opset.fourier import fourier

        found = getattr(fourier, name)
    else:
        found = registry.public(f"fft_{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
