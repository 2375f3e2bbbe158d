"""Programs as packages: code made ahead of time, weights, and what checks the inputs.

`package(program, path)` writes one, `load_package(path)` runs it without compiler or symbols. A
package holds machine code and Python: loading one is running a program. Names are imported when
they are first used.
"""

from __future__ import annotations

from rushlight.base.lazy import namespace

HOMES = {
    "package": ".writing",
    "write_c_library": ".clibrary",
    **dict.fromkeys(("LoadedPackage", "load_package"), ".loading"),
}

__getattr__, __dir__ = namespace(__name__, HOMES)
