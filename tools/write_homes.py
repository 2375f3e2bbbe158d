"""Write rushlight/compat/homes.json: under which module of torch's each class or function is known.

Takes tests/compat/torch_homes.json, written by record_homes.py. `--check` fails where the file is
out of date. A name stands in the table only if, where `torch` means rushlight, it leads to the
object itself: pickles say the name and look it up again.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RECORD = ROOT / "tests" / "compat" / "torch_homes.json"
PAGE = ROOT / "rushlight" / "compat" / "homes.json"


def at(module: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def collect() -> dict[str, dict[str, set[str]]]:
    import rushlight.compat

    rushlight.compat.install()
    # Names are compared as they are without the table.
    rushlight.compat.identity.restore()
    found: dict[str, dict[str, set[str]]] = {}
    done: set[int] = set()
    for path, names in json.loads(RECORD.read_text()).items():
        for name, (module, _) in names.items():
            value = at(path, name)
            own = getattr(value, "__module__", None)
            if not isinstance(value, (type, FunctionType)) or id(value) in done:
                continue
            if not isinstance(own, str) or not own.startswith("rushlight."):
                continue
            for home in (module, path):
                if at(home, value.__qualname__) is value:
                    done.add(id(value))
                    found.setdefault(own, {}).setdefault(home, set()).add(value.__qualname__)
                    break
    return found


def page() -> str:
    table = {
        own: {home: " ".join(sorted(names)) for home, names in sorted(homes.items())}
        for own, homes in sorted(collect().items())
    }
    return json.dumps(table, indent=1) + "\n"


def main() -> int:
    written = page()
    if "--check" in sys.argv:
        return 0 if PAGE.read_text() == written else 1
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
