"""Run the programs of tests/libraries on Rushlight, in an environment that has the libraries.

    python tools/libraries.py                 install, run all, write docs/libraries.md
    python tools/libraries.py einops timm     only these
    python tools/libraries.py --record PYTHON write what a Python with PyTorch prints

The environment is build/libraries. PyTorch is never installed into it: while pip resolves what the
libraries need, an empty distribution stands for it, which is removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "tests" / "libraries"
PLACE = ROOT / "build" / "libraries"
PAGE = ROOT / "docs" / "libraries.md"
LIMIT = 300
PYTHON = PLACE / "bin" / "python"
TORCH = "2.13.0"
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)")
HEAD = """# Libraries

Programs of `tests/libraries` that use a library, unmodified, under `rushlight run`, and whether
what they print is what PyTorch prints (numbers to a thousandth). `make libraries` makes the
environment, runs them and writes this page.

| library | version | programs | results | equal | seconds |
| --- | --- | --- | --- | --- | --- |
"""


def requirements() -> list[str]:
    lines = (HERE / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def install() -> None:
    """Make the environment, once for a list of requirements."""
    stamp = PLACE / ".installed"
    wanted = "\n".join(requirements())
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing {len(requirements())} libraries into {PLACE} ...", flush=True)
    if not PYTHON.exists():
        venv.create(PLACE, with_pip=True)
    pip = [str(PYTHON), "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", str(stand_in())], check=True)
    try:
        subprocess.run([*pip, "install", "--prefer-binary", *requirements()], check=True)
    finally:
        subprocess.run([*pip, "uninstall", "-y", "torch"], check=True)
    subprocess.run([*pip, "install", "-e", f"{ROOT}[compile]"], check=True)
    stamp.write_text(wanted)


def stand_in() -> Path:
    """A distribution of PyTorch's name and version with nothing in it."""
    name = f"torch-{TORCH}"
    path = PLACE / f"{name}-py3-none-any.whl"
    info = f"{name}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


def results(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("> ")]


def agree(found: str, wanted: str) -> bool:
    """Whether two lines differ in numbers only, by a thousandth (or a little of the largest)."""
    if NUMBER.sub("#", found) != NUMBER.sub("#", wanted):
        return False
    pairs = [(float(a), float(b)) for a, b in zip(NUMBER.findall(found), NUMBER.findall(wanted))]
    largest = max((abs(b) for _, b in pairs if abs(b) < float("inf")), default=0.0)
    return all(
        a == b or (a != a and b != b) or abs(a - b) <= 1e-3 * abs(b) + 1e-4 * largest
        for a, b in pairs
    )


def run(command: list[str], program: Path) -> tuple[int, str, str, float]:
    environment = {**os.environ, "PYTHONPATH": str(HERE), "HF_HUB_OFFLINE": "1"}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, str(program)], capture_output=True, text=True, timeout=LIMIT,
            env=environment, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, "", f"more than {LIMIT} seconds", float(LIMIT)
    return done.returncode, done.stdout, done.stderr, time.perf_counter() - began


def compare(program: Path) -> dict[str, object]:
    """One program's outcome: results, those that are equal, and the last line of an error."""
    code, out, err, seconds = run([str(PYTHON), "-m", "rushlight", "run"], program)
    wanted = results(program.with_suffix(".expected").read_text())
    found = results(out)
    equal = sum(agree(a, b) for a, b in zip(found, wanted))
    problem = ""
    if code:
        problem = next((line for line in reversed(err.splitlines()) if line.strip()), "?")
    return {
        "library": program.parent.name, "program": program.stem, "results": len(wanted),
        "equal": equal, "seconds": round(seconds, 1), "problem": problem,
    }  # fmt: skip


def versions() -> dict[str, str]:
    listed = subprocess.run(
        [str(PYTHON), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {entry["name"].lower().replace("-", "_"): entry["version"]
             for entry in json.loads(listed.stdout)}  # fmt: skip
    return {**found, **{name: found.get(real, "") for name, real in NAMES.items()}}


# Folders whose distribution has another name.
NAMES = {
    "backpack": "backpack_for_pytorch", "esm": "fair_esm", "ignite": "pytorch_ignite",
    "laplace": "laplace_torch", "open_clip": "open_clip_torch", "pyro": "pyro_ppl",
    "rtdl": "rtdl_revisiting_models",
}  # fmt: skip


def write_page(outcomes: list[dict[str, object]]) -> None:
    known = versions()
    lines = []
    for library in sorted({str(each["library"]) for each in outcomes}):
        own = [each for each in outcomes if each["library"] == library]
        total, equal = (sum(int(str(each[key])) for each in own) for key in ("results", "equal"))
        seconds = sum(float(str(each["seconds"])) for each in own)
        lines.append(
            f"| {library} | {known.get(library, '')} | {len(own)} | {total} | {equal} "
            f"| {seconds:.0f} |"
        )
    failing = [each for each in outcomes if each["equal"] != each["results"] or each["problem"]]
    if failing:
        lines += ["", "Not there yet:", ""]
        lines += [
            f"- `{each['library']}/{each['program']}`: {each['equal']} of {each['results']} equal"
            for each in failing
        ]
    PAGE.write_text(HEAD + "\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", help="folders of tests/libraries; all if none")
    parser.add_argument(
        "--record", metavar="PYTHON", help="a Python with PyTorch and the libraries"
    )
    parser.add_argument("-j", "--jobs", type=int, default=2, help="programs at a time (2)")
    options = parser.parse_args()
    programs = sorted(
        path
        for path in HERE.glob("*/*.py")
        if not options.libraries or path.parent.name in options.libraries
    )
    if options.record:
        for program in programs:
            code, out, err, _ = run([options.record], program)
            if code:
                sys.exit(f"{program}: {err}")
            program.with_suffix(".expected").write_text("\n".join(results(out)) + "\n")
            print(f"{program.parent.name}/{program.stem}", flush=True)
        return 0
    install()
    outcomes = []
    pool = ThreadPoolExecutor(options.jobs)
    for number, outcome in enumerate(pool.map(compare, programs), 1):
        outcomes.append(outcome)
        print(
            f"[{number}/{len(programs)}] {outcome['library']}/{outcome['program']}: "
            f"{outcome['equal']} of {outcome['results']} equal, {outcome['seconds']} s "
            f"{outcome['problem']}",
            flush=True,
        )
    if not options.libraries:
        write_page(outcomes)
    bad = [each for each in outcomes if each["problem"] or each["equal"] != each["results"]]
    print(f"{len(outcomes) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
