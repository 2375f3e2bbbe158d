"""Record programs that PyTorch exports, and what they give, for tests/export.

Run with a Python that has PyTorch: `python tools/record_export.py`. With Rushlight's Python
`… write FOLDER` writes our programs of the same models; with PyTorch's `… check FOLDER` reads
them, and compares what they give.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "export"), str(ROOT)]
HOME = ROOT / "tests" / "reference" / "export"

os.environ["PROGRAMS_LIBRARY"] = "rushlight" if sys.argv[1:2] == ["write"] else "torch"

import exported_models as models  # noqa: E402

torch: Any = models.torch


def forget_places(module: Any) -> None:
    """Leave out where the code of nodes stands: that is different on every machine."""
    for each in module.modules():
        if isinstance(each, torch.fx.GraphModule):
            for node in each.graph.nodes:
                node.meta.pop("stack_trace", None)


def exported(case: Any) -> Any:
    return torch.export.export(
        case.module, case.args, case.kwargs, dynamic_shapes=case.dynamic_shapes()
    )


def record() -> None:
    """Writes programs as `export` gives them and, under `core_`, decomposed ones."""
    HOME.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for name, build in models.CASES.items():
        case = build()
        program = exported(case)
        programs = {name: program}
        if name in ("mlp", "counter", "branches", "attention", "sizes"):
            programs[f"core_{name}"] = program.run_decompositions()
        for label, each in programs.items():
            forget_places(each.graph_module)
            torch.export.save(each, str(HOME / f"{label}.pt2"))
            case = build()
            found[label] = models.results(each.module(), case)
    (HOME / "results.json").write_text(json.dumps(found) + "\n")
    print(f"programs: {len(found)}")
    record_decomposed()


def record_decomposed() -> None:
    """Writes the names of ops that `run_decompositions()` takes apart, and that are no core ops."""
    entries = torch.export.default_decompositions().keys()
    kept = [op for op in entries if op.namespace == "aten" and torch.Tag.core not in op.tags]
    names = sorted(str(op).removeprefix("aten.") for op in kept)
    text = textwrap.fill(" ".join(names), 100, break_long_words=False, break_on_hyphens=False)
    (HOME / "not_core.txt").write_text(text + "\n")


def check(folder: Path) -> None:
    """Reads programs that Rushlight wrote into a folder, and compares what they give."""
    expected = json.loads((HOME / "results.json").read_text())
    for path in sorted(folder.glob("*.pt2")):
        case = models.CASES[path.stem.removeprefix("core_")]()
        try:
            program = torch.export.load(str(path))
            given = models.results(program.module(), case)
            word = "equal" if models.close(given, expected[path.stem]) else "DIFFERENT"
        except Exception as failure:
            word = f"{type(failure).__name__}: {str(failure)[:300]}"
        print(f"{path.stem}: {word}")


def write(folder: Path) -> None:
    """Writes our programs of all models."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, build in models.CASES.items():
        torch.export.save(exported(build()), str(folder / f"{name}.pt2"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        check(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]))
    else:
        record()
