"""The heavy kernels that a package brings: convolution, batch norm, attention, and their threads.

They are the kernels of eager calls (`codegen.kernels`), compiled ahead for each target. The pool of
threads is one for all targets and belongs to the system that the package was made on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.codegen.kernels.emit import Target as Lanes
from rushlight.deploy.container import PackageFiles, refuse
from rushlight.deploy.memory import placed
from rushlight.deploy.targets import Target

__all__ = ["HeavyKernels", "kernels_of"]

# The modules of kernels, by their names there.
POOL, HEAVY = "pool", "heavy"
LOCK = threading.Lock()
# One machine for packages that bring the same code.
MACHINES: dict[tuple[str, ...], HeavyKernels] = {}


class Functions(dict[str, int]):
    """Addresses, and the memory that they lie in."""

    code: Any


class HeavyKernels:
    """What kernels are linked from within a package's calls."""

    def __init__(self, files: PackageFiles, images: dict[str, Any], target: Target) -> None:
        self.target = Lanes(",".join([f"+{name}" for name in target.features]))
        self.linked: dict[str, Functions] = {}
        for name, facts in images.items():
            found = self.linked[name] = Functions()
            found.code = placed(files.content(facts["file"]), facts)
            for entry, offset in facts["entries"].items():
                if not 0 <= offset < found.code.size:
                    raise refuse("an entry point of its code lies outside")
                found[entry] = found.code.address + offset

    def functions(
        self, name: str, make: Callable[[Lanes], list[str]], names: Sequence[str]
    ) -> Mapping[str, int]:
        return self.linked[name]


def kernels_of(files: PackageFiles, described: dict[str, Any], target: Target) -> Any:
    """The heavy kernels for a target; None where the package has none for this system."""
    images = described.get("kernels")
    if images is None or files.manifest["system"] != sys.platform:
        return None
    chosen = {POOL: files.manifest["pool"], HEAVY: images}
    key = (*[files.listed[facts["file"]]["check"] for facts in chosen.values()], target.name)
    with LOCK:
        if key not in MACHINES:
            MACHINES[key] = HeavyKernels(files, chosen, target)
        return MACHINES[key]
