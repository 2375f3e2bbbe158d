"""Modules that hold modules or parameters."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from operator import index as as_index
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def position(index: Any, length: int) -> int:
    """An index as a number from zero."""
    place = as_index(index)
    if not -length <= place < length:
        raise IndexError(f"index {place} is out of range")
    return place % length


def pairs_of(values: Any, method: str) -> Iterator[tuple[Any, Any]]:
    """The (key, value) pairs that an `update` was given."""
    if hasattr(values, "items"):
        yield from values.items()
        return
    if not isinstance(values, Iterable):
        raise TypeError(
            f"{method} should be called with an iterable of key/value pairs, but got "
            f"{type(values).__name__}"
        )
    owner = method.partition(".")[0]
    for number, pair in enumerate(values):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{owner} update sequence element #{number} should be Iterable; is"
                f"{type(pair).__name__}"
            )
        entry = list(pair)
        if len(entry) != 2:
            raise ValueError(
                f"{owner} update sequence element #{number} has length {len(entry)}; 2 is required"
            )
        yield entry[0], entry[1]


class Numbered(Module):
    """What `Sequential` and `ModuleList` share: modules in order, named by their places."""

    def renumber(self, modules: Iterable[Any]) -> None:
        self._modules = {str(place): module for place, module in enumerate(modules)}

    def name_at(self, index: Any) -> str:
        return list(self._modules)[position(index, len(self))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self.name_at(index), module)

    def __delitem__(self, index: Any) -> None:
        modules = list(self._modules.values())
        del modules[index if isinstance(index, slice) else position(index, len(modules))]
        self.renumber(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Any:
        self.add_module(str(len(self)), module)
        return self

    def pop(self, index: Any) -> Module:
        found: Module = self._modules[self.name_at(index)]
        del self[index]
        return found


class Container(Module):
    """torch: modules by keyword; a Module with attributes does the same."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Numbered):
    """Modules called one after another.

    >>> import rushlight as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> net(torch.ones(1, 2)).shape
    torch.Size([1, 3])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for index, module in enumerate(args):
                self.add_module(str(index), module)

    def _get_item_by_idx(self, iterator: Iterable[Any], idx: Any) -> Any:
        """The entry at an index of an iterator over what it holds; classes of users ask for it."""
        return list(iterator)[position(idx, len(self))]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self.name_at(index)]

    def __add__(self, other: Sequential) -> Sequential:
        self.check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        self.check_sequential(other)
        return self.extend(list(other))

    def check_sequential(self, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * self.factor(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        return self.extend(list(self) * (self.factor(other) - 1))

    def factor(self, other: Any) -> int:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return other

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        for module in sequential:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self._modules.values())
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self.renumber(modules)
        return self

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(Numbered):
    """A list of modules."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _get_abs_string_index(self, idx: Any) -> str:
        """The name of the module at an index, as classes of users ask for it."""
        return str(position(idx, len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self.name_at(index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        modules = list(self._modules.values())
        modules.insert(index, module)
        self.renumber(modules)

    def __repr__(self) -> str:
        """Like other modules, with equal neighbours on one line."""
        runs: list[list[Any]] = []
        for place, shown in enumerate(map(repr, self)):
            if runs and runs[-1][2] == shown:
                runs[-1][1] = place
            else:
                runs.append([place, place, shown])
        lines = [
            (f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x ")
            + shown.replace("\n", "\n  ")
            for first, last, shown in runs
        ]
        name = self._get_name()
        return f"{name}(\n  " + "\n  ".join(lines) + "\n)" if lines else f"{name}()"


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        return self._modules.keys()

    def values(self) -> Any:
        return self._modules.values()

    def items(self) -> Any:
        return self._modules.items()

    def clear(self) -> None:
        self._modules.clear()

    def pop(self, key: str) -> Any:
        return self._modules.pop(key)

    def update(self, modules: Any) -> None:
        for key, module in pairs_of(modules, "ModuleDict.update"):
            self[key] = module


class ParameterList(Module):
    """A list of parameters; tensors given to it become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, str(position(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(position(index, len(self))), as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[index] for index in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        self._size += 1
        setattr(self, str(self._size - 1), as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        # A tensor is iterable, but hardly meant as a list of its rows.
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in values:
            self.append(value)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")

    def extra_repr(self) -> str:
        return described(enumerate(self), lambda value: str(value.dtype))


class ParameterDict(Module):
    """Parameters by name; tensors given to it become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, checked_key(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[checked_key(key)] = None
        setattr(self, key, as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        found = self.copy()
        found.update(other)
        return found

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def keys(self) -> Any:
        return self._keys.keys()

    def values(self) -> Any:
        return [self[key] for key in self._keys]

    def items(self) -> Any:
        return [(key, self[key]) for key in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        key, _ = self._keys.popitem()
        found = self[key]
        delattr(self, key)
        return key, found

    def clear(self) -> None:
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters: Any) -> None:
        found = pairs_of(parameters, "ParametersDict.update")
        plain = isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict)
        # torch: a plain dict goes in by the order of its keys.
        for key, value in sorted(found, key=lambda pair: pair[0]) if plain else found:
            self[key] = value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def extra_repr(self) -> str:
        return described(self.items(), lambda value: value.type())


def checked_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(
            "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
            f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
        )
    return key


def as_parameter(value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def described(entries: Iterable[tuple[Any, Any]], kind: Any) -> str:
    """One line for each entry of a list or dict of parameters."""
    lines = []
    for key, value in entries:
        if isinstance(value, Tensor):
            name = "Parameter" if isinstance(value, Parameter) else "Tensor"
            size = "x".join(str(length) for length in value.shape)
            lines.append(f"  ({key}): {name} containing: [{kind(value)} of size {size}]")
        else:
            lines.append(f"  ({key}): Object of type: {type(value).__name__}")
    return "\n".join(lines)
