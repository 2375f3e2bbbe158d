"""The parameters and buffers of a module as leading arguments of what was compiled for it.

Where they are is found once. A call reads them from there, so that it has the tensors of now:
replaced parameters, rebound buffers, what `load_state_dict(assign=True)` put in. Cheap comparisons
tell when the module itself is another than before; then they are looked for again.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from rushlight.base.errors import error
from rushlight.nn.module import Module

__all__ = ["ModuleState"]

Place = tuple[dict[str, Any], str]
TABLES = ("_parameters", "_buffers", "_modules")


class ModuleState:
    """Where a module's parameters and then its buffers are."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names: list[str] = []
        self.places: list[Place] = []
        self.find()

    def find(self) -> None:
        module = self.module
        members = [*module.named_parameters(), *module.named_buffers()]
        owners = dict(module.named_modules(remove_duplicate=False))
        names = [name for name, _ in members]
        if self.places and names != self.names:
            gone = sorted(set(self.names) ^ set(names)) or names
            raise error("RL0640", names=", ".join(gone[:5]))
        self.names = names
        self.places = [place_of(owners, name) for name in names]
        # What says that the module is made as before: its tables, their lengths, its children,
        # the names without a tensor, and those that mean one tensor.
        modules = [owner.__dict__ for owner in module.modules()]
        self.fields = [(own, name) for own in modules for name in TABLES]
        self.tables = [own[name] for own, name in self.fields]
        self.lengths = [len(table) for table in self.tables]
        self.parents = [own["_modules"] for own in modules if own["_modules"]]
        self.children = [child for table in self.parents for child in table.values()]
        self.absent = [
            (own[table], name)
            for own in modules
            for table in TABLES[:2]
            for name, value in own[table].items()
            if value is None
        ]
        firsts: dict[int, Place] = {}
        for (_, value), place in zip(members, self.places):
            firsts.setdefault(id(value), place)
        self.twins = [
            ((own[table], name), first)
            for own in modules
            for table in TABLES[:2]
            for name, value in own[table].items()
            if (first := firsts.get(id(value))) is not None
            and not (first[0] is own[table] and first[1] == name)
        ]

    def values(self) -> list[Any]:
        """The tensors of now."""
        if not self.is_as_found():
            self.find()
        return [table[name] for table, name in self.places]

    def is_as_found(self) -> bool:
        try:
            return (
                all(map(is_, [own[name] for own, name in self.fields], self.tables))
                and list(map(len, self.tables)) == self.lengths
                and all(map(is_, [c for t in self.parents for c in t.values()], self.children))
                and not any([table[name] is None for table, name in self.places])
                and not any([table[name] is not None for table, name in self.absent])
                and not any([a[m] is not b[n] for (a, m), (b, n) in self.twins])
            )
        except KeyError:
            return False


def place_of(owners: dict[str, Module], name: str) -> Place:
    """The table that has the tensor of this dotted name, and its name there."""
    path, _, own = name.rpartition(".")
    owner = owners[path]
    return (owner._parameters if own in owner._parameters else owner._buffers), own
