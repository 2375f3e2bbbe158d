"""`python -m torch.utils.collect_env`: what a report of a problem should tell."""

from __future__ import annotations

import os
import platform
import sys
from typing import NamedTuple

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]

PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "sympy", "networkx", "onnx", "onnxruntime", "mpi4py")


class SystemEnv(NamedTuple):
    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    os: str
    libc_version: str
    pip_packages: list[str]
    cpu_info: str
    cpu_count: int | None


def installed() -> list[str]:
    from importlib import metadata

    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def get_env_info() -> SystemEnv:
    """The facts, each by its name."""
    import rushlight

    return SystemEnv(
        torch_version=str(rushlight.__version__),
        is_debug_build=str(rushlight.version.debug),
        cuda_compiled_version="None",
        python_version=f"{sys.version} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=platform.platform(),
        is_cuda_available=str(rushlight.cuda.is_available()),
        os=f"{platform.system()} {platform.release()} ({platform.machine()})",
        libc_version="-".join(platform.libc_ver()),
        pip_packages=installed(),
        cpu_info=cpu_model(),
        cpu_count=os.cpu_count(),
    )


def pretty_str(info: SystemEnv) -> str:
    packages = "\n".join([f"[pip3] {line}" for line in info.pip_packages]) or "None"
    return (
        f"PyTorch version: {info.torch_version}\n"
        f"Is debug build: {info.is_debug_build}\n"
        f"CUDA used to build PyTorch: {info.cuda_compiled_version}\n\n"
        f"OS: {info.os}\nLibc version: {info.libc_version}\n\n"
        f"Python version: {info.python_version}\nPython platform: {info.python_platform}\n"
        f"Is CUDA available: {info.is_cuda_available}\n\n"
        f"CPU: {info.cpu_info} ({info.cpu_count})\n\n"
        f"Versions of relevant libraries:\n{packages}"
    )


def get_pretty_env_info() -> str:
    """The facts as text."""
    return pretty_str(get_env_info())


def main() -> None:
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
