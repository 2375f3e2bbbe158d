"""Record the texts that PyTorch prints for the programs of tests/jit.

Run with a Python that has PyTorch: `python tools/record_jit.py`. One file a family of programs; a
program that PyTorch refuses has no text there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "jit"), str(ROOT)]
HOME = ROOT / "tests" / "reference" / "jit"

os.environ["PROGRAMS_LIBRARY"] = "torch"

import programs_refused  # noqa: E402
import programs_script_more as programs_script  # noqa: E402
import programs_trace  # noqa: E402
import refusals  # noqa: E402
import script_texts  # noqa: E402
import texts  # noqa: E402
import torch  # noqa: E402


def record(name: str, programs: dict[str, Any], text: Callable[..., str]) -> None:
    """Writes the texts of a family, values numbered and values by name."""
    found: dict[str, Any] = {}
    for each, build in programs.items():
        try:
            found[each] = [text(torch, build), text(torch, build, keep_names=True)]
        except Exception as failure:
            print(f"{name} {each}: {type(failure).__name__}: {str(failure)[:150]}", file=sys.stderr)
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / f"{name}.json").write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    print(f"{name}: {len(found)} of {len(programs)}")


def record_archives() -> None:
    """Writes archives of models, and what they give for their example inputs."""
    import archived

    home = HOME / "archives"
    home.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for name, how in archived.ARCHIVES:
        made, inputs = archived.compiled(name, how)
        path = str(home / f"{name}_{how}.pt")
        torch.jit.save(made, path)
        results[f"{name}_{how}"] = archived.plain(torch.jit.load(path)(*inputs))
    (home / "results.json").write_text(json.dumps(results) + "\n")
    print(f"archives: {len(results)}")


def check_archives(folder: Path) -> None:
    """Reads archives that Rushlight wrote into a folder, and compares what they give."""
    import archived

    expected = json.loads((HOME / "archives" / "results.json").read_text())
    for name, how in archived.ARCHIVES:
        inputs = archived.MODELS[name]()[1]
        found = archived.plain(torch.jit.load(str(folder / f"{name}_{how}.pt"))(*inputs))
        word = "equal" if archived.close(found, expected[f"{name}_{how}"]) else "DIFFERENT"
        print(f"{name}_{how}: {word}")


def record_refusals() -> None:
    """Writes what is said about programs that cannot be compiled."""
    found = {
        name: refusals.refusal_text(torch, function)
        for name, function in programs_refused.PROGRAMS.items()
    }
    (HOME / "script_refused.json").write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    print(f"script_refused: {len(found)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        check_archives(Path(sys.argv[2]))
        sys.exit()
    record_archives()
    record("trace_functions", programs_trace.FUNCTIONS, texts.function_text)
    record("trace_modules", programs_trace.MODULES, texts.module_text)
    record("script_functions", programs_script.FUNCTIONS, script_texts.function_text)
    record("script_modules", programs_script.MODULES, script_texts.module_text)
    record_refusals()
