"""Record what PyTorch gives for the programs of tests/quantization: run with a Python that has it.

    path/to/python tools/record_quantization.py [NAME ...]

Writes tests/quantization/recorded/programs.json, or of the named programs only what they give.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "tests" / "quantization"
RECORD = ROOT / "recorded" / "programs.json"


def main(names: list[str]) -> None:
    programs = {}
    for path in sorted(ROOT.glob("programs*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        programs.update(dict.fromkeys(module.PROGRAMS, module))
    states = ROOT / "recorded" / "states.pt"
    if not states.exists():
        sys.modules["programs_models"].write(states)  # type: ignore[attr-defined]
    found = json.loads(RECORD.read_text()) if names else {}
    for name in names or programs:
        found[name] = programs[name].run(name)
    lines = [f" {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found)]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} programs")


if __name__ == "__main__":
    main(sys.argv[1:])
