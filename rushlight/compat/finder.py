"""The meta-path finder behind `compat.install()`.

A torch path resolves, in this order, to: the rushlight module the alias table names; the rushlight
module of the same path; a module built from the table; a module that its parent has as attribute.
Invariant: one module object per rushlight module, whichever name imported it, with its own
`__name__` and `__spec__`; nothing is ever loaded from another distribution's torch.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

from rushlight.base.errors import MissingFeature, error
from rushlight.base.lazy import lazy_import, tell_missing
from rushlight.base.naming import as_torch
from rushlight.base.refusals import refused

Entry = str | Mapping[str, str]
Table = Mapping[str, Entry]

# The target of a name that torch has and rushlight has not.
ABSENT = "absent"
# What precedes the code in the target of a name that refuses when it is used.
REFUSES = "refuses "
_BUILT = "<alias table>"
_STANDARD_FINDERS: tuple[Any, ...] = (BuiltinImporter, FrozenImporter, PathFinder)


def is_or_contains(outer: str, inner: str) -> bool:
    """Whether dotted path `inner` is `outer` or lies below it."""
    return inner == outer or inner.startswith(outer + ".")


def prefixes(path: str) -> Iterable[str]:
    """`a.b.c` gives `a.b.c`, `a.b`, `a`."""
    while path:
        yield path
        path = path.rpartition(".")[0]


class AliasModule(ModuleType):
    """A module that exists only under a torch name; its attributes are found on first access."""

    def __init__(self, name: str, finder: AliasFinder) -> None:
        super().__init__(name, f"Names that scripts expect in {name}, taken from rushlight.")
        self.__dict__["_finder"] = finder
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        finder: AliasFinder = self.__dict__["_finder"]
        if name == "__all__":
            return [n for n in finder.names_in(self.__name__) if not n.startswith("_")]
        is_private = name.startswith("__") and name.endswith("__")
        if is_private and not finder.is_fixed(self.__name__, name):
            raise _no_attribute(self, name)
        try:
            value = finder.attribute(self, self.__name__, name)
        except AttributeError:
            tell_missing(self.__name__, name)
            raise
        if finder.is_fixed(self.__name__, name):
            self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system enters submodules; one that is hidden stays so.
        hidden = self.__dict__["_finder"].hidden if "_finder" in self.__dict__ else ()
        if not (isinstance(value, ModuleType) and f"{self.__name__}.{name}" in hidden):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        finder: AliasFinder = self.__dict__["_finder"]
        return sorted({*super().__dir__(), *finder.names_in(self.__name__)})


class AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Resolves the `roots` (alias root -> module of `package`) with the help of `table`.

    The table's form is described in `aliases.py`. A path in `hidden` can be imported, but its name
    in the package above stays what that package says it is.
    """

    def __init__(
        self,
        package: str,
        roots: Mapping[str, str],
        table: Table,
        hidden: Iterable[str] = (),
        contents: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> None:
        self.package = package
        self.roots = dict(roots)
        self.table = table
        self.hidden = frozenset(hidden)
        # What a built module holds from the first, for those who look at its dictionary.
        self.contents = contents
        # every path that can be built, and the names that lie directly below each
        self.children: dict[str, set[str]] = {}
        for path in table:
            for inner in prefixes(path):
                outer, _, leaf = inner.rpartition(".")
                if outer:
                    self.children.setdefault(outer, set()).add(leaf)
        self.known = {*table, *self.children}
        # real module -> alias path: those that must answer for names they do not hold themselves
        self.extended = {self.real_name(p): p for p in self.known if not self._is_leaf_alias(p)}
        self._hooked: dict[str, tuple[ModuleType, Callable[[str], Any] | None]] = {}

    def _is_leaf_alias(self, path: str) -> bool:
        return isinstance(self.table.get(path), str) and path not in self.children

    # ---------------------------------------------------------------- names

    def absolute(self, target: str) -> str:
        """The full name of a module written as in the table (a leading dot means the package)."""
        if not target.startswith("."):
            return target
        return (self.package + target).rstrip(".")

    def real_name(self, fullname: str) -> str:
        """Where the module of an alias path should lie, whether or not it exists."""
        for path in prefixes(fullname):
            entry = self.table.get(path)
            if isinstance(entry, str):
                return self.absolute(entry) + fullname[len(path) :]
        root = fullname.partition(".")[0]
        return self.roots[root] + fullname[len(root) :]

    def names_in(self, path: str) -> list[str]:
        """The names the table gives to a path."""
        names = set(self.children.get(path, ()))
        entry = self.table.get(path)
        if entry is not None and not isinstance(entry, str):
            names.update(n for n, target in entry.items() if n != "*" and target != ABSENT)
            if "*" in entry:
                base = self._import_target(entry["*"])
                listed = () if base is None else getattr(base, "__all__", dir(base))
                names.update(name for name in listed if not name.startswith("__"))
        return sorted(names)

    def is_fixed(self, path: str, name: str) -> bool:
        """Whether the table names this attribute itself, so that its value may be kept."""
        entry = self.table.get(path)
        return not isinstance(entry, str) and entry is not None and name in entry

    # ---------------------------------------------------------------- attributes

    def _import_target(self, target: str) -> ModuleType | None:
        """The module, or None where it does not exist; its own import errors pass through."""
        name = self.absolute(target)
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as e:
            if e.name and is_or_contains(e.name, name):
                return None
            raise

    def attribute(self, owner: ModuleType, path: str, name: str) -> Any:
        """What the table says `path.name` is. AttributeError names what is missing."""
        entry = self.table.get(path)
        if entry is not None and not isinstance(entry, str):
            if name in entry and name != "*":
                if entry[name] == ABSENT:
                    raise MissingName(owner, name, path)
                return self._resolve(owner, path, name, entry[name])
            if "*" in entry and name not in self.children.get(path, ()):
                base = self._import_target(entry["*"])
                if base is None:
                    raise _no_attribute(owner, name, f"{path}.{name}", self.absolute(entry["*"]))
                try:
                    return getattr(base, name)
                except AttributeError:
                    raise _no_attribute(owner, name, f"{path}.{name}") from None
        if name in self.children.get(path, ()):
            full = f"{path}.{name}"
            try:
                return importlib.import_module(full)
            except ModuleNotFoundError as e:
                if e.name is None or not is_or_contains(e.name, full):
                    raise
                raise _no_attribute(owner, name, full, self.real_name(full)) from None
        raise _no_attribute(owner, name, f"{path}.{name}")

    def _resolve(self, owner: ModuleType, path: str, name: str, target: str) -> Any:
        if target.startswith(REFUSES):
            return refused(f"{path}.{name}", target.removeprefix(REFUSES))
        where, colon, attrs = target.partition(":")
        value: Any = self._import_target(where)
        shown = self.absolute(where) + (f".{attrs}" if colon else "")
        if value is None:
            raise _no_attribute(owner, name, f"{path}.{name}", shown)
        try:
            for attr in attrs.split(".") if colon else ():
                value = getattr(value, attr)
        except AttributeError:
            raise _no_attribute(owner, name, f"{path}.{name}", shown) from None
        return value

    # ---------------------------------------------------------------- finder

    def find_distributions(self, context: Any) -> Iterable[Any]:
        """What `importlib.metadata` asks: the names stand for a distribution of their own."""
        if "torch" not in self.roots:
            return ()
        from rushlight.compat.distribution import distributions

        return distributions(context.name)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.roots:
            is_renamed = fullname in as_torch and "torch" in self.roots
            if is_renamed or (fullname in self.extended and fullname not in self._hooked):
                return self._spec_to_extend(fullname, path)
            return None
        spec = self._real_spec(fullname)
        if spec is None and fullname in self.known and not self._is_leaf_alias(fullname):
            spec = ModuleSpec(fullname, self, origin=_BUILT, is_package=True)
        if spec is None:
            spec = self._offered_spec(fullname)
        if spec is None:
            tell_missing(*fullname.rpartition(".")[::2])
            self._shut_out_others(fullname, path)
        return spec

    def _real_spec(self, fullname: str) -> ModuleSpec | None:
        real = self.real_name(fullname)
        module = sys.modules.get(real)
        if module is not None:
            return self._alias_spec(fullname, real, getattr(module, "__path__", None))
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError as e:
            if e.name and is_or_contains(e.name, real):
                return None
            raise
        if found is None:
            return None
        return self._alias_spec(fullname, real, found.submodule_search_locations)

    def _alias_spec(self, fullname: str, real: str, path: Iterable[str] | None) -> ModuleSpec:
        spec = ModuleSpec(fullname, self, origin=real, is_package=path is not None)
        if path is not None:
            spec.submodule_search_locations = list(path)
        return spec

    def _offered_spec(self, fullname: str) -> ModuleSpec | None:
        """`import torch.ops` where `ops` is a module object, but no file."""
        parent, _, leaf = fullname.rpartition(".")
        if not parent or fullname in self.known:  # asking the parent would come back here
            return None
        offered = getattr(sys.modules.get(parent), leaf, None)
        if not isinstance(offered, ModuleType):
            return None
        return ModuleSpec(fullname, self, origin=fullname, loader_state=offered)

    def _shut_out_others(self, fullname: str, path: Sequence[str] | None) -> None:
        """A finder of an editable install may claim torch's submodules by name; refuse for it."""
        for other in sys.meta_path:
            if other is self or other in _STANDARD_FINDERS or not hasattr(other, "find_spec"):
                continue
            if other.find_spec(fullname, path) is not None:
                raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    # ---------------------------------------------------------------- loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.origin == _BUILT:
            return AliasModule(spec.name, self)
        module = spec.loader_state
        if module is None:
            module = importlib.import_module(str(spec.origin))
        # the import system stamps the alias's spec on the module: keep its own for exec_module
        spec.loader_state = (module.__dict__.get("__spec__"),)
        assert isinstance(module, ModuleType)
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if isinstance(module, AliasModule) and self.contents is not None:
            module.__dict__.update(self.contents(module.__name__))
        if spec is not None and isinstance(spec.loader_state, tuple):
            (module.__spec__,) = spec.loader_state
            self._keep_hidden(module, spec.name)

    def _keep_hidden(self, package: ModuleType, alias: str) -> None:
        """Enter submodules that a name of their package hides: importing one would bring it out."""
        for name, value in package.__dict__.items():
            inner = sys.modules.get(f"{package.__name__}.{name}")
            if inner is not None and inner is not value:
                sys.modules.setdefault(f"{alias}.{name}", inner)
        for path in self.hidden:
            if path.rpartition(".")[0] == alias and path not in sys.modules:
                built = path in self.known and not self._is_leaf_alias(path)
                sys.modules[path] = (
                    AliasModule(path, self) if built else lazy_import(self.real_name(path))
                )

    def _real_loader(self, fullname: str) -> Any:
        found = importlib.util.find_spec(self.real_name(fullname))
        loader = None if found is None else found.loader
        if isinstance(loader, _ExtendingLoader):
            loader = loader.loader
        if loader is None or not hasattr(loader, "get_code"):
            raise ImportError(f"{fullname} cannot be run as a script", name=fullname)
        return loader

    def get_code(self, fullname: str) -> CodeType | None:
        """For `python -m torch.x`."""
        code: CodeType | None = self._real_loader(fullname).get_code(self.real_name(fullname))
        return code

    def get_filename(self, fullname: str) -> str:
        return str(self._real_loader(fullname).get_filename(self.real_name(fullname)))

    # ---------------------------------------------------------------- names added to real modules

    def _spec_to_extend(self, real: str, path: Sequence[str] | None) -> ModuleSpec | None:
        for other in sys.meta_path:
            if isinstance(other, AliasFinder) or not hasattr(other, "find_spec"):
                continue
            spec = other.find_spec(real, path)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _ExtendingLoader(spec.loader, self)
                return spec
        return None

    def extend(self, module: ModuleType) -> None:
        """Let a real module answer for the private names the table adds to it."""
        real = module.__name__
        if real not in self.extended or real in self._hooked or self not in sys.meta_path:
            return
        path = self.extended[real]
        if path in self.children and "__path__" not in module.__dict__:
            # Modules below it exist under torch's names, so that it must be taken for a package.
            module.__path__ = []
        own: Callable[[str], Any] | None = module.__dict__.get("__getattr__")

        def getattr_with_aliases(name: str) -> Any:
            if own is None:
                error = _no_attribute(module, name)
            else:
                try:
                    return own(name)
                except AttributeError as e:
                    error = e
            if (name.startswith("__") and name.endswith("__")) or name not in self._added(path):
                tell_missing(module.__name__, name)
                raise error
            return self.attribute(module, path, name)

        getattr_with_aliases.__name__ = "__getattr__"
        module.__dict__["__getattr__"] = getattr_with_aliases
        self._hooked[real] = (module, own)

    def _added(self, path: str) -> set[str]:
        entry = self.table.get(path)
        own = set() if entry is None or isinstance(entry, str) else set(entry)
        return own | self.children.get(path, set())

    # ---------------------------------------------------------------- on and off

    def install(self) -> None:
        for root, real in self.roots.items():
            loaded = sys.modules.get(root)
            if loaded is not None and loaded is not sys.modules.get(real):
                raise error(
                    "RL1302", root=root, file=getattr(loaded, "__file__", "?"), package=self.package
                )
        sys.meta_path.insert(0, self)
        for real in self.extended:
            module = sys.modules.get(real)
            if module is not None:
                self.extend(module)

    def uninstall(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for module, own in self._hooked.values():
            if own is None:
                module.__dict__.pop("__getattr__", None)
            else:
                module.__dict__["__getattr__"] = own
        self._hooked.clear()
        for name in [n for n in sys.modules if n.partition(".")[0] in self.roots]:
            child = sys.modules.pop(name)
            parent, _, leaf = name.rpartition(".")
            if not parent or (real_parent := sys.modules.get(self.real_name(parent))) is None:
                continue
            # importing an alias bound it in its parent, here a real module that may not own it
            added = isinstance(child, AliasModule) or leaf in self._added(parent)
            owned = sys.modules.get(f"{real_parent.__name__}.{leaf}") is child
            if added and not owned and real_parent.__dict__.get(leaf) is child:
                delattr(real_parent, leaf)


class _ExtendingLoader(importlib.abc.Loader):
    """Runs a module's own loader, then lets the finder add the alias names."""

    def __init__(self, loader: Any, finder: AliasFinder) -> None:
        self.loader = loader
        self.finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        loaded = sys.modules.get(module.__name__, module)
        self.finder.extend(loaded)
        if as_torch:
            from rushlight.compat import identity

            identity.apply(loaded)


class MissingName(MissingFeature, AttributeError):
    """A name of torch's that is not there: an AttributeError too, so that `hasattr` answers and
    `from ... import` fails as an import does."""

    def __init__(self, owner: ModuleType, name: str, path: str) -> None:
        super().__init__(f"{path}.{name}", code="RL1301")
        self.name = name
        self.obj = owner


def _no_attribute(owner: ModuleType, name: str, path: str = "", target: str = "") -> AttributeError:
    shown = owner.__name__ if not path else path.rpartition(".")[0]
    text = f"module {shown!r} has no attribute {name!r}"
    if target:
        text += f": it stands for {target}, which does not exist"
    return AttributeError(text, name=name, obj=owner)
