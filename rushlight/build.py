"""What this build is and has: facts under torch's top-level names."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy

import rushlight
from rushlight.core.device import device as device_type
from rushlight.core.process import get_num_interop_threads, get_num_threads

__all__ = [
    "compiled_with_cxx11_abi", "get_device_module", "get_file_path", "has_lapack", "has_mkl",
    "has_openmp", "has_spectral", "is_vulkan_available",
]  # fmt: skip


def compiled_with_cxx11_abi() -> bool:
    """torch: which C++ ABI extensions must be compiled for; there are none here."""
    return True


def is_vulkan_available() -> bool:
    return False


has_lapack = has_spectral = True
has_mkl = has_openmp = False


def get_file_path(*path_components: str) -> str:
    """A path next to this package."""
    return os.path.join(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *path_components
    )


def get_device_module(device: Any = None) -> Any:
    """The module of a device type: `torch.cpu` where none is named."""
    if device is not None and not isinstance(device, (str, device_type)):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    name = "cpu" if device is None else device_type(device).type
    try:
        return getattr(rushlight, name)
    except AttributeError:
        raise RuntimeError(
            f"Device '{name}' does not have a corresponding module registered as 'torch.{name}'."
        ) from None


class Config:
    """torch.__config__: what this was built with."""

    @staticmethod
    def show() -> str:
        return (
            f"Rushlight {rushlight.__version__} built with:\n"
            f"  - Python {platform.python_version()} ({platform.python_implementation()})\n"
            f"  - NumPy {numpy.__version__}\n"
            f"  - {platform.system()} {platform.machine()}\n"
            "  - CUDA: not available\n"
        )

    @staticmethod
    def parallel_info() -> str:
        return (
            f"Threads for kernels: {get_num_threads()}\n"
            f"Threads between ops: {get_num_interop_threads()}\n"
        )


__config__ = Config
