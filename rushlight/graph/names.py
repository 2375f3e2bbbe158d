"""Names: of values in a graph, and of the functions and types that a graph mentions.

`qualified_name` gives the dotted torch name of a function and `resolve` the function of such a
name; for everything of Rushlight's the two are inverses. A function has one place in torch's
namespace, however Rushlight files it.
"""

from __future__ import annotations

import builtins
import functools
import keyword
import re
from collections.abc import Callable, Hashable, Iterable
from importlib import import_module
from types import FunctionType, GenericAlias
from typing import Any

from rushlight.graph import host

__all__ = ["Namespace", "is_torch_name", "qualified_name", "resolve", "torch_names", "type_name"]

# Names that graph code may use without importing them, and the statement that would.
CODE_BUILTINS = {
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "NoneType = type(None)",
    "torch": "import torch",
    "device": "from torch import device",
    "fx_pytree": "import torch.fx._pytree as fx_pytree",
    "pytree": "import torch.utils._pytree as pytree",
}
TAKEN: dict[str, Any] = {**dict.fromkeys(keyword.kwlist, object()), **vars(builtins)}

VALID = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")
INVALID_CHARACTERS = re.compile("[^0-9a-zA-Z_]+")
HUMP = re.compile(r"(?<=[a-z])([A-Z])")

# torch: public functions of `torch` whose home is torch.functional.
FUNCTIONAL = frozenset(
    (
        "align_tensors", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag",
        "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul",
        "einsum", "lu", "meshgrid", "norm", "split", "stft", "tensordot", "unique",
        "unique_consecutive", "unravel_index",
    )
)  # fmt: skip
# Modules that hold such functions.
HOMES = {
    "torch._C._nn": "nn.functional",
    "torch._C._linalg": "linalg",
    "torch._C._fft": "fft",
    "torch._C._special": "special",
    "torch.functional": "",
}
HOME_PREFIXES = tuple(f"{home}." for home in HOMES)


def snake_case(name: str) -> str:
    return HUMP.sub(r"_\1", name).lower()


@functools.lru_cache(maxsize=1024)
def parts_of(candidate: str) -> tuple[str, str, str | None]:
    """A candidate made a legal identifier, and what of it stands before and in a final number."""
    match = VALID.match(candidate)
    if match is None:
        candidate = INVALID_CHARACTERS.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = VALID.match(candidate)
        assert match is not None
    base, digits = match.group(1, 2)
    return candidate, base, digits


class Namespace:
    """Gives out names. Each is used once, and an object keeps the name it got."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Hashable = None) -> str:
        """A name like `candidate` that is a legal identifier, hides no built-in and is not used."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate, base, digits = parts_of(candidate)
        if digits is None or candidate in self._used_names:
            number = self._base_count.get(base, 0)
            if candidate in CODE_BUILTINS or TAKEN.get(candidate, obj) is not obj:
                number += 1
                candidate = f"{base}_{number}"
        else:
            number = int(digits)
        while candidate in self._used_names:
            number += 1
            candidate = f"{base}_{number}"
        self._used_names.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def reserve(self, name: str, obj: Hashable) -> None:
        """Use `name` for `obj` even though it would hide a name of the code's builtins."""
        self._used_names.add(name)
        self._obj_to_name[obj] = name

    def associate_name_with_obj(self, name: str, obj: Hashable) -> None:
        """Bind a name given out without an object to the object it was for."""
        if self._obj_to_name.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")

    def _rename_object(self, obj: Hashable, name: str) -> None:
        if obj not in self._obj_to_name:
            raise AssertionError(f"Object {obj} is not in _obj_to_name")
        self._obj_to_name[obj] = name
        self._used_names.add(name)


# -- functions and types ------------------------------------------------------------------------


def is_torch_name(module: str | None) -> bool:
    """Whether a module name is one of torch's or of Rushlight's."""
    return module is not None and module.partition(".")[0] in ("torch", "rushlight")


def lookup(root: object, path: str) -> Any:
    """The object at a dotted path below `root`, or None."""
    for part in path.split(".") if path else ():
        try:
            root = getattr(root, part)
        except AttributeError:
            return None
    return root


def resolve(path: str) -> Any:
    """What the torch name `path` means in Rushlight, or None."""
    if path == "torch":
        return host.library
    if path in host.PRIVATE:
        return host.private_function(path)
    found = lookup(host.library, path.removeprefix("torch."))
    if found is not None:
        return found
    home, _, name = path.rpartition(".")
    while home:
        if home in HOMES:
            place = lookup(host.library, HOMES[home])
            found = None if place is None else lookup(place, name)
            # torch._C._special has `special_erf` where torch.special has `erf`
            short = name.removeprefix(HOMES[home] + "_")
            return lookup(place, short) if found is None and short != name else found
        home, _, last = home.rpartition(".")
        name = f"{last}.{name}"
    return None


def names_function(path: str, function: Any) -> bool:
    """Whether code that says `path` calls `function`."""
    found = resolve(path)
    if found is function:
        return True
    # An operator may have several stubs; they differ only in how they take their arguments.
    both = (getattr(found, "__module__", None), getattr(function, "__module__", None))
    return host.OPERATORS.issuperset(both) and found.__name__ == function.__name__


class TorchNames:
    """Stands for `torch` in generated code that mentions private torch names."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __getattr__(self, name: str) -> Any:
        path = f"{self.path}.{name}"
        if any(known.startswith(f"{path}.") for known in (*host.PRIVATE, *HOME_PREFIXES)):
            found: Any = TorchNames(path)
        else:
            found = resolve(path)
            if found is None:
                raise AttributeError(f"module {self.path!r} has no attribute {name!r}")
        self.__dict__[name] = found
        return found


TORCH_NAMES = TorchNames("torch")


def torch_names(paths: Iterable[str]) -> Any:
    """What `torch` must be in code that uses `paths`: Rushlight, where that has them all."""
    root = host.library
    if all(
        path not in host.PRIVATE and lookup(root, path.removeprefix("torch.")) is not None
        for path in paths
    ):
        return root
    return TORCH_NAMES


def public_home(module: str, name: str, obj: object) -> str | None:
    """The outermost package inside rushlight that has `obj` under `name`, in torch's words."""
    parts = module.split(".")
    for length in range(2, len(parts) + 1):
        try:
            found = lookup(import_module(".".join(parts[:length])), name)
        except ModuleNotFoundError:
            return None
        if found is obj:
            return ".".join(["torch", *parts[1:length]])
    return None


def rushlight_name(module: str, name: str, obj: object) -> str | None:
    """torch's name of a function or type that Rushlight defines."""
    qualified = getattr(obj, "__qualname__", name)
    if not isinstance(qualified, str):
        qualified = name
    private = host.PRIVATE_PATHS.get(f"{module}:{name}")
    if private is not None:
        return private
    root = host.library
    if lookup(root, name) is obj:
        return f"torch.functional.{name}" if name in FUNCTIONAL else f"torch.{name}"
    if lookup(root.Tensor, name) is obj or qualified == f"Tensor.{name}":
        return f"torch.Tensor.{name}"
    if module in host.OPERATORS:
        for home in HOMES:
            if resolve(f"{home}.{name}") is obj:
                return f"{home}.{name}"
        return f"torch.{name}"
    if module.startswith("torch."):
        return f"{module}.{name}"
    home_of = public_home(module, qualified, obj)
    return None if home_of is None else f"{home_of}.{qualified}"


def lambda_name(function: Any) -> str:
    """The name a lambda is assigned to where it is written."""
    import inspect

    try:
        return inspect.getsource(function).split("=")[0].strip()
    except Exception as error:
        raise RuntimeError("Unable to represent lambda") from error


def qualified_name(function: object) -> str:
    """The dotted name of a function or class: torch's for Rushlight's own."""
    name = getattr(function, "__name__", None)
    if name is None:
        raise RuntimeError(f"cannot find module for {function}")
    if getattr(builtins, name, None) is function:
        return str(name)
    module = getattr(function, "__module__", None)
    if module is None:
        raise RuntimeError(f"cannot find module for {function}")
    if module.startswith("torch._ops"):
        return f"{module.replace('torch._ops', 'torch.ops', 1)}.{name}"
    if is_torch_name(module):
        found = rushlight_name(module, name, function)
        if found is not None:
            return found
    if name == "<lambda>":
        name = lambda_name(function)
    return f"{module}.{name}"


def plain_name(function: Callable[..., Any]) -> str:
    """The last part of a function's torch name."""
    name: str = function.__name__
    private = host.PRIVATE_PATHS.get(f"{getattr(function, '__module__', '')}:{name}")
    return name if private is None else private.rpartition(".")[2]


def type_name(obj: object) -> str:
    """A type as annotations show it; other objects by their repr."""
    if isinstance(obj, type) and not isinstance(obj, GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        if is_torch_name(obj.__module__):
            found = rushlight_name(obj.__module__, obj.__name__, obj)
            if found is not None:
                return found
        return f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, FunctionType):
        return obj.__name__
    return repr(obj)
