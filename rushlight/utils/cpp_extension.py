"""torch.utils.cpp_extension: what is there to compile C++ with. Extensions against PyTorch's
headers are refused, for there are none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rushlight.base.lazy import namespace

__all__ = [
    "check_compiler_is_gcc", "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version", "get_cxx_compiler", "get_default_build_root",
    "is_ninja_available", "remove_extension_h_precompiler_headers", "verify_ninja_availability",
]  # fmt: skip

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
# The oldest compilers that know C++17 as torch uses it.
LEAST_GCC = (5, 0, 0)

__getattr__, __dir__ = namespace(
    __name__,
    refused={
        "RL0015": "BuildExtension CUDAExtension CppExtension SyclExtension include_paths "
        "library_paths load load_inline"
    },
)


def get_cxx_compiler() -> str:
    """The compiler: what CXX says, or the system's."""
    return os.environ.get("CXX", "cl" if sys.platform == "win32" else "c++")


def get_default_build_root() -> str:
    """The folder that compiled extensions are kept in."""
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        home = str(Path.home() / "Library" / "Caches")
    else:
        home = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return os.path.realpath(os.path.join(home, "torch_extensions"))


def answer_of(*command: str) -> str:
    """What a command says, in English; nothing where it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout


def is_ninja_available() -> bool:
    return bool(answer_of("ninja", "--version"))


def verify_ninja_availability() -> None:
    """Raises where there is no ninja."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def check_compiler_is_gcc(compiler: str) -> bool:
    """Whether a compiler of Linux is GCC, under whatever name."""
    if not sys.platform.startswith("linux"):
        return False
    said = answer_of(compiler, "-v", "-E", "-x", "c++", os.devnull)
    try:
        full = subprocess.run(
            [compiler, "-v"], capture_output=True, text=True, check=True,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        said += full.stderr
    except (OSError, subprocess.CalledProcessError):
        return False
    configured = re.search(r"COLLECT_GCC *= *(.*)", said)
    if configured is None:
        return False
    path = Path(shutil.which(configured.group(1).strip()) or configured.group(1).strip())
    name = path.resolve().name
    return "gcc" in name or "g++" in name or "gnu-c++" in name


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether a compiler is one whose objects the platform's libraries can be linked with."""
    if sys.platform == "win32":
        return True
    found = shutil.which(compiler)
    if found is None:
        return False
    if sys.platform == "darwin":
        return "clang" in answer_of(compiler, "--version")
    names = ("g++", "gcc", "gnu-c++", "gnu-cc", "clang++", "clang")
    real = os.path.realpath(found)
    return any(name in real for name in names) or check_compiler_is_gcc(compiler)


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, str]:
    """Whether a compiler is new enough, and its version ("0.0.0" where it is not asked)."""
    if os.environ.get("TORCH_DONT_CHECK_COMPILER_ABI", "").upper() in ("1", "ON", "YES", "TRUE"):
        return True, "0.0.0"
    if not check_compiler_ok_for_platform(compiler) or sys.platform == "darwin":
        return sys.platform == "darwin", "0.0.0"
    said = answer_of(compiler, "-dumpfullversion", "-dumpversion").strip()
    parts = [int(part) for part in re.findall(r"\d+", said)[:3]]
    version = ".".join(str(part) for part in parts) or "0.0.0"
    return tuple(parts) >= LEAST_GCC, version


def remove_extension_h_precompiler_headers() -> None:
    """Removes headers that were compiled ahead; none are ever written here."""
    for path in Path(get_default_build_root()).glob("**/extension.h.gch"):
        if path.is_file():
            path.unlink()
