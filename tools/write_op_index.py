"""Write rushlight/opset/where.py: which module of the opset defines which name. `make index`.

Modules are imported one by one under a watch, so that what appears on the way belongs to the one
whose body is running. `--check` writes nothing and fails where the file is out of date.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PAGE = ROOT / "rushlight" / "opset" / "where.py"
PACKAGE = "rushlight.opset."
HEAD = '''"""Where names are defined: module of the opset -> names. Written by `make index`.

In-place forms and aliases are listed like ops. A name whose overloads lie in several modules (of
the foundation only) stands there with its overloads. `families` reads this.
"""

from __future__ import annotations
'''
SECTIONS = {
    "FOUNDATION_OPS": "Ops of the modules that are imported with the package.",
    "OPS": "Ops of all other modules.",
    "NAMESPACES": "Modules with ops of other namespaces than aten.",
    "ATTRIBUTES": "What those add to Tensor.",
    "FUNCTIONS": "Public functions that are written in Python (TORCH_NAMES of any module).",
}
MISSING = object()


class Watch:
    """Finds the opset's modules for the import system and notes what each of them defines."""

    def __init__(self) -> None:
        # Modules whose bodies are running, innermost last; the ends of all, in order.
        self.running: list[str] = []
        self.ended: list[str] = []
        # (table, name) -> module; what is known of records that were there before.
        self.owners: dict[tuple[str, str], str] = {}
        self.rules: dict[tuple[str, str], Any] = {}
        # What modules say about ops of others: "module: op.rule".
        self.strays: set[str] = set()

    # -- the import system's protocol ---------------------------------------------------------

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if not name.startswith(PACKAGE):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.submodule_search_locations is None:
            spec.loader = Loader(spec.loader, self)
        return spec

    def begin(self, module: str) -> None:
        self.note()
        self.running.append(module)

    def end(self) -> None:
        self.note()
        self.ended.append(self.running.pop())

    # -- what there is ------------------------------------------------------------------------

    def note(self) -> None:
        """Give what is new to the module whose body is running."""
        registry = sys.modules.get(PACKAGE + "registry")
        if not self.running or not hasattr(registry, "ALIASES"):
            return
        module = self.running[-1]
        for packet in list(registry.PACKETS["aten"].values()):
            for record in list(packet.table.values()):
                self.note_record(record, module)
        for namespace, packets in registry.PACKETS.items():
            if namespace != "aten":
                for name in packets:
                    self.owners.setdefault(("elsewhere", f"{namespace}::{name}"), module)
        for name in registry.ALIASES:
            self.owners.setdefault(("alias", name), module)
        for name in attributes():
            self.owners.setdefault(("attribute", name), module)

    def note_record(self, record: Any, module: str) -> None:
        name = f"{record.base_name}.{record._overloadname}"
        owner = self.owners.setdefault(("op", name), module)
        for rule, value in record.rules.items():
            before = self.rules.get((name, rule), MISSING)
            self.rules[name, rule] = value
            if owner != module and before is not value:
                self.strays.add(f"{module}: {name}, rule {rule}")


class Loader:
    """A module's loader, with a word to the watch before and after the body."""

    def __init__(self, loader: Any, watch: Watch) -> None:
        self.loader = loader
        self.watch = watch

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.watch.begin(module.__name__)
        try:
            self.loader.exec_module(module)
        finally:
            self.watch.end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


def attributes() -> list[str]:
    """The attributes that Tensor has, without promises that nobody has kept yet."""
    exposure = sys.modules.get(PACKAGE + "exposure")
    if not hasattr(exposure, "PromisedAttribute"):
        return []
    return [
        name
        for name, value in vars(exposure.Tensor).items()
        if not isinstance(value, exposure.PromisedAttribute) or value.value is not exposure.MISSING
    ]


class Index:
    """Section -> module -> names."""

    def __init__(self, foundation: set[str]) -> None:
        self.foundation = foundation
        self.sections: dict[str, dict[str, list[str]]] = {name: {} for name in SECTIONS}

    def put(self, section: str, module: str, name: str) -> None:
        self.sections[section].setdefault(module.removeprefix(PACKAGE), []).append(name)

    def put_op(self, module: str, name: str) -> None:
        self.put("FOUNDATION_OPS" if module in self.foundation else "OPS", module, name)

    def put_packet(self, packet: Any, homes: dict[str, str]) -> None:
        """`homes`: overload -> module."""
        name, modules = packet.base_name, set(homes.values())
        if len(modules) == 1:
            self.put_op(modules.pop(), name)
        elif modules <= self.foundation:
            for overload, module in homes.items():
                self.put_op(module, f"{name}.{overload}")
        else:
            raise SystemExit(f"the overloads of {name} lie in {sorted(modules)}; move them to one")


def collect() -> dict[str, dict[str, list[str]]]:
    watch = Watch()
    sys.meta_path.insert(0, watch)  # type: ignore[arg-type]
    importlib.import_module("rushlight")
    index = Index(set(watch.ended))
    first = set(attributes())
    for path in sorted(PAGE.parent.glob("*/*.py")):
        if path.stem != "__init__" and path.parent.name != "samples":
            importlib.import_module(f"{PACKAGE}{path.parent.name}.{path.stem}")
    registry = sys.modules[PACKAGE + "registry"]
    packets = registry.PACKETS["aten"]
    homes: dict[str, dict[str, str]] = {}
    namespaces: set[tuple[str, str]] = set()
    for (table, name), module in watch.owners.items():
        if table == "op":
            base, _, overload = name.partition(".")
            homes.setdefault(base, {})[overload] = module
        elif table == "elsewhere":
            namespaces.add((module, name.partition("::")[0]))
        elif table == "attribute" and name not in first:
            index.put("ATTRIBUTES", module, name)
    for module, namespace in sorted(namespaces):
        index.put("NAMESPACES", module, namespace)
    for name, overloads in homes.items():
        index.put_packet(packets[name], overloads)
        if name + "_" not in homes and writes_in_place(packets[name]):
            index.put_op(next(iter(overloads.values())), name + "_")
    for name, target in registry.ALIASES.items():
        module = watch.owners["alias", name]
        index.put_op(module, name)
        if name + "_" not in homes and target in packets and writes_in_place(packets[target]):
            index.put_op(module, name + "_")
    if watch.strays:
        lines = "\n  ".join(sorted(watch.strays))
        raise SystemExit(f"An op's rules are written where the op is. Not so:\n  {lines}")
    for module in watch.ended:
        for name in getattr(sys.modules[module], "TORCH_NAMES", ()):
            index.put("FUNCTIONS", module, name)
    return index.sections


def writes_in_place(packet: Any) -> bool:
    return any(record.options.get("inplace") for record in packet.candidates)


def print_sections(sections: dict[str, dict[str, list[str]]]) -> str:
    lines = [HEAD]
    for section, why in SECTIONS.items():
        lines.append(f"# {why}")
        lines.append(f"{section}: dict[str, str] = {{")
        for module, names in sorted(sections[section].items()):
            listed = " ".join(sorted(set(names)))
            if len(listed) + len(module) < 86:
                lines.append(f'    "{module}": "{listed}",')
                continue
            wrapped = textwrap.fill(listed, 92, break_long_words=False, break_on_hyphens=False)
            lines.append(f'    "{module}": """')
            lines.append(textwrap.indent(wrapped, " " * 8))
            lines.append('    """,')
        lines.append("}")
    return "\n".join(lines) + "\n"


def main() -> int:
    text = print_sections(collect())
    name = PAGE.relative_to(ROOT)
    if "--check" not in sys.argv:
        PAGE.write_text(text)
        print(f"{name}: written")
        return 0
    if PAGE.read_text() == text:
        return 0
    print(f"{name} is out of date: run `make index`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
