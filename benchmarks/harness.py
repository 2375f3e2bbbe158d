"""Interleaved timing: every system runs in short slices of one process, and the best slice counts.

Machines are shared; a ratio of two minima taken side by side is the only figure worth printing.
Importing this module before NumPy lets libraries compute on one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

Case = dict[str, Callable[[], Any]]
Clock = Callable[[], float]

WARM_UP = 20
# Seconds that a system runs before the next one's turn.
SLICE = 0.005


def measure(
    systems: Case, seconds: float, warm_up: int = WARM_UP, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Best seconds per call of each system."""
    counts: dict[str, int] = {}
    for name, function in systems.items():
        # Caches fill and code settles in the first calls; they are nobody's steady state.
        once = float("inf")
        for _ in range(warm_up):
            start = clock()
            function()
            once = min(once, clock() - start)
        counts[name] = max(1, int(SLICE / max(once, 1e-7)))
    best = dict.fromkeys(systems, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, function in systems.items():
            count = counts[name]
            start = clock()
            for _ in range(count):
                function()
            best[name] = min(best[name], (clock() - start) / count)
    return best


def report(
    cases: dict[str, Case],
    seconds: float,
    bars: dict[str, float],
    baseline: str = "torch",
    warm_up: int = WARM_UP,
    clock: Clock = time.perf_counter,
) -> dict[str, Any]:
    """Print a table of all cases and return it."""
    table: dict[str, Any] = {}
    print(f"{'case':28s} {'rushlight':>11s} {baseline:>11s} {'ratio':>7s}   bar")
    for name, systems in cases.items():
        best = measure(systems, seconds, warm_up, clock)
        ratio = best["rushlight"] / best[baseline] if baseline in best else None
        table[name] = {"seconds": best, "ratio": ratio}
        bar = bars.get(name)
        mark = (
            "" if bar is None or ratio is None else f"{bar:5.2f} {'ok' if ratio <= bar else 'over'}"
        )
        shown = "" if ratio is None else f"{ratio:7.2f}"
        other = f"{best[baseline] * 1e6:9.2f}us" if baseline in best else " " * 11
        for peer in [key for key in best if key not in ("rushlight", baseline)]:
            mark += f"  {peer} {best[peer] * 1e6:.2f}us"
        print(f"{name:28s} {best['rushlight'] * 1e6:9.2f}us {other} {shown}   {mark}", flush=True)
    return table


def arguments(description: str, seconds: float = 1.0, peers: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    if peers:
        parser.add_argument("--peers", action="store_true", help="also what torch compiles")
    parser.add_argument("--json", metavar="FILE", help="also write the table to FILE")
    parser.add_argument("--seconds", type=float, default=seconds, help="time for each case")
    parser.add_argument("-k", metavar="WORD", default="", help="only cases whose name has WORD")
    return parser.parse_args()


def finish(options: argparse.Namespace, table: dict[str, Any]) -> None:
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n")


def import_torch() -> Any:
    """The real torch, or an explanation of how to get it."""
    try:
        import torch
    except ImportError:
        sys.exit(
            "This benchmark compares with PyTorch, which is not installed here.\n"
            "Install it beside rushlight with: pip install torch==2.13.0"
        )
    torch.set_num_threads(1)
    return torch
