"""Write rushlight/compat/homes.py: under which module of torch's each class or function is known.

Takes tests/compat/torch_homes.json, written by record_homes.py. `--check` fails where the file is
out of date. A name stands in the table only if, where `torch` means rushlight, it leads to the
object itself: pickles say the name and look it up again.
"""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from pathlib import Path
from types import FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RECORD = ROOT / "tests" / "compat" / "torch_homes.json"
PAGE = ROOT / "rushlight" / "compat" / "homes.py"
HEAD = '''"""Where torch defines what is defined here: module -> torch's module -> names. Written by
tools/write_homes.py."""

from __future__ import annotations

# fmt: off
HOMES: dict[str, dict[str, str]] = {
'''


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
    lines = [HEAD]
    for own, homes in sorted(collect().items()):
        lines.append(f'    "{own}": {{\n')
        for home, names in sorted(homes.items()):
            rows = textwrap.wrap(" ".join(sorted(names)), 82)
            if len(rows) == 1 and len(home) + len(rows[0]) < 82:
                lines.append(f'        "{home}": "{rows[0]}",\n')
                continue
            texts = [f'"{row} "' for row in rows[:-1]] + [f'"{rows[-1]}"']
            lines.append(f'        "{home}": (\n')
            lines += [f"            {text}\n" for text in texts]
            lines.append("        ),\n")
        lines.append("    },\n")
    return "".join([*lines, "}\n"])


def main() -> int:
    written = page()
    if "--check" in sys.argv:
        return 0 if PAGE.read_text() == written else 1
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
