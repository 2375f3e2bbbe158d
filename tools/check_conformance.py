"""Runs the conformance kit and fails when fewer tests pass than `.ci/conformance.toml` records.

Only tests that the reference implementation passes are run and counted.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def run_kit(kit: Path, parts: list[str], limit: float, jobs: int) -> dict[str, Any]:
    """The kit's results for these parts; a run longer than `limit` seconds is an error."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        report = Path(folder, "results.json")
        command = [sys.executable, str(kit / "run.py"), "--impl", "rushlight", "--path", str(ROOT)]
        command += ["--seed", ",".join(parts), "--only-baseline-passes", "--json", str(report)]
        command += ["--jobs", str(jobs), "--timeout", "60", "--build", str(Path(folder, "build"))]
        try:
            # The kit's own status says whether every part could be imported; the report tells more.
            subprocess.run(command, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            sys.exit(f"conformance: not finished after {limit:g} s")
        if not report.exists():
            sys.exit("conformance: the kit wrote no results")
        return dict(json.loads(report.read_text()))


def shortfalls(results: dict[str, Any], minimum: dict[str, int]) -> list[str]:
    """One line for each part that could not be run or passes fewer tests than it must."""
    passed: collections.Counter[str] = collections.Counter()
    for name, result in results["tests"].items():
        passed[name.partition("::")[0]] += result["status"] == "passed"
    lines = []
    for part, least in minimum.items():
        broken = results["seeds"].get(part, {}).get("error")
        if broken:
            lines.append(f"{part}: cannot be imported: {broken.strip().splitlines()[-1]}")
        elif passed[part] < least:
            lines.append(f"{part}: {passed[part]} pass, at least {least} must")
        else:
            print(f"conformance: {part}: {passed[part]} pass (at least {least})")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kit", type=Path, default=ROOT.parent / "shared" / "conformance")
    parser.add_argument("--figures", type=Path, default=ROOT / ".ci" / "conformance.toml")
    parser.add_argument("--limit", type=float, default=480, help="seconds for the whole run")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    minimum = tomllib.loads(args.figures.read_text())["minimum"]
    results = run_kit(args.kit, list(minimum), args.limit, args.jobs)
    lines = shortfalls(results, minimum)
    for line in lines:
        print(f"conformance: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
