"""`rushlight env`: a Python environment in which `torch` means rushlight, without any command.

A `.pth` file brings `shim/` onto the path of every process of that Python, and metadata of a
distribution `torch` tells installers that the name is taken. Both can be removed again, also by
`pip uninstall torch`. An environment that has PyTorch is left alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rushlight.base.errors import error
from rushlight.compat.distribution import FILES, VERSION

__all__ = ["PTH", "install", "is_there", "remove"]

PTH = "rushlight_torch.pth"
DIST_INFO = f"torch-{VERSION}.dist-info"
_SHIM = Path(__file__).resolve().parent / "shim"

# What is asked of the other Python: plain data, and nothing of rushlight is imported.
_QUESTIONS = """
import importlib.metadata, importlib.util, json, sys, sysconfig
spec = importlib.util.find_spec("torch")
try:
    installer = importlib.metadata.distribution("torch").read_text("INSTALLER") or "unknown"
except importlib.metadata.PackageNotFoundError:
    installer = None
print(json.dumps({
    "site": sysconfig.get_path("purelib"), "torch": spec and spec.origin, "installer": installer,
    "lacks": [n for n in ("numpy", "ml_dtypes") if importlib.util.find_spec(n) is None],
    "version": list(sys.version_info[:2]),
}))
"""


def examine(python: str) -> dict[str, Any]:
    """Where a Python keeps packages, and which `torch` it has."""
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        # An empty folder to start in: `torch.py` of the user's must not be taken for PyTorch.
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [python, "-c", _QUESTIONS],
                capture_output=True, text=True, cwd=empty, env=settings, timeout=60, check=True,
            )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as cause:
        found = getattr(cause, "stderr", None) or cause
        raise error("RL1313", python=python, cause=str(found).strip()) from cause
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def files(site: Path) -> dict[Path, str]:
    """What is written where; RECORD lists all of it for installers."""
    found = {site / PTH: f"{_SHIM}\n"}
    found.update({site / DIST_INFO / name: text for name, text in FILES.items()})
    record = site / DIST_INFO / "RECORD"
    names = [path.relative_to(site).as_posix() for path in (*found, record)]
    return {**found, record: "".join([f"{name},,\n" for name in names])}


def is_ours(facts: dict[str, Any]) -> bool:
    origin = facts["torch"]
    return origin is None or Path(origin).resolve().parent == _SHIM


def install(python: str = sys.executable) -> Path:
    """Make `torch` mean rushlight for that Python; the folder that was written to."""
    facts = examine(python)
    if not is_ours(facts) or facts["installer"] not in (None, FILES["INSTALLER"]):
        raise error("RL1314", python=python, torch=facts["torch"] or "its metadata")
    if facts["lacks"]:
        raise error("RL1315", python=python, lacks=" and ".join(facts["lacks"]))
    site = Path(facts["site"])
    erase(site)
    for path, text in files(site).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return site


def is_there(python: str = sys.executable) -> bool:
    """Whether `install` was called for that Python."""
    return (Path(examine(python)["site"]) / PTH).exists()


def erase(site: Path) -> bool:
    was_there = (site / PTH).exists()
    (site / PTH).unlink(missing_ok=True)
    for folder in site.glob("torch-*+rushlight*.dist-info"):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    return was_there


def remove(python: str = sys.executable) -> bool:
    """Undo `install`; whether there was anything to undo."""
    return erase(Path(examine(python)["site"]))
