"""Modules that hold modules or parameters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def position(index: Any, length: int) -> str:
    index = index.__index__()
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return str(index % length if length else index)


class Sequential(Module):
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

    def __getitem__(self, index: Any) -> Any:
        entries = list(self._modules.items())
        if isinstance(index, slice):
            return type(self)(OrderedDict(entries[index]))
        return entries[int(position(index, len(entries)))][1]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[int(position(index, len(self)))], module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)
        doomed = names[index] if isinstance(index, slice) else [names[index]]
        kept = [module for name, module in self._modules.items() if name not in doomed]
        numbered = all(name.isdigit() for name in names)
        if numbered:
            self._modules = {str(i): module for i, module in enumerate(kept)}
        else:
            for name in doomed:
                del self._modules[name]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Sequential:
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        for module in sequential:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules = {str(i): entry for i, entry in enumerate(modules)}
        return self

    def pop(self, index: int) -> Module:
        found: Module = self[index]
        del self[index]
        return found

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(Module):
    """A list of modules."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[position(index, len(self))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, position(index, len(self)), module)

    def __delitem__(self, index: Any) -> None:
        modules = list(self._modules.values())
        del modules[index]
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        self.add_module(str(len(self)), module)
        return self

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
        self._modules = {str(i): entry for i, entry in enumerate(modules)}

    def pop(self, index: int) -> Module:
        found: Module = self[index]
        del self[index]
        return found


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
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module


class ParameterList(Module):
    """A list of parameters; tensors given to it become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        for value in values or ():
            self.append(value)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, position(index, len(self)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, position(index, len(self)), as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[index] for index in range(len(self))])

    def append(self, value: Any) -> ParameterList:
        self._size += 1
        setattr(self, str(self._size - 1), as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        for value in values:
            self.append(value)
        return self


class ParameterDict(Module):
    """Parameters by name; tensors given to it become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, str(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[str(key)] = None
        setattr(self, str(key), as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        return self._keys.keys()

    def values(self) -> Any:
        return [self[key] for key in self._keys]

    def items(self) -> Any:
        return [(key, self[key]) for key in self._keys]

    def update(self, parameters: Any) -> None:
        for key, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[key] = value


def as_parameter(value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value
