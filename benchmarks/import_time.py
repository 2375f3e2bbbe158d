"""CPU time of `import rushlight` beside `import numpy` and torch, in fresh processes.

python benchmarks/import_time.py --json import.json
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
from typing import Any

from harness import arguments, finish

BAR = 1.5  # rushlight / numpy
# An installed package has its bytecode; a checkout gets it with the first import.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def cpu_seconds(module: str) -> float:
    """User and system time of a fresh interpreter that imports one module."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def main() -> None:
    options = arguments(__doc__ or "")
    modules = ["sys", "numpy", "rushlight"]
    if importlib.util.find_spec("torch") is not None and "torch".startswith(options.k):
        modules.append("torch")
    best = dict.fromkeys(modules, float("inf"))
    rounds = max(5, int(10 * options.seconds))
    for _ in range(rounds):
        for module in modules:
            best[module] = min(best[module], cpu_seconds(module))
    table: dict[str, Any] = {}
    print(f"{'import':12s} {'CPU ms':>8s} {'of numpy':>9s}")
    for module, seconds in best.items():
        ratio = seconds / best["numpy"]
        table[module] = {"seconds": {module: seconds, "numpy": best["numpy"]}, "ratio": ratio}
        mark = "" if module != "rushlight" else ("  ok" if ratio <= BAR else "  over") + f" {BAR}"
        print(f"{module:12s} {seconds * 1e3:8.1f} {ratio:9.2f}{mark}")
    finish(options, table)


if __name__ == "__main__":
    main()
