"""Tensors of a module by dotted names, read and written without registration.

torch: the private module `torch.nn.utils._named_member_accessor`.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]

MISSING = object()


def check_name(name: str) -> None:
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')


def home_of(module: Module, name: str) -> dict[str, Any]:
    """The table that holds a name: parameters, buffers or plain attributes."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    check_name(name)
    for table in (module._parameters, module._buffers):
        if name in table:
            return table
    return module.__dict__


def set_tensor(module: Module, name: str, tensor: Any) -> None:
    """Put a tensor, or None, where the module has the name."""
    table = home_of(module, name)
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    table[name] = tensor


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put a tensor, or None, where the module has the name; answers what was there. `tensor` may
    be what an earlier call answered for a name that the module did not have."""
    table = home_of(module, name)
    before = table.get(name, MISSING)
    if before is MISSING and table is module.__dict__:
        before = getattr(module, name, MISSING)
    if before is MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    if before is not MISSING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is MISSING:
        table.pop(name, None)
    elif tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    else:
        table[name] = tensor
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module in place of the child of that name; answers the child."""
    if not isinstance(module, Module) or not isinstance(submodule, Module):
        raise TypeError(f"{submodule} and {module} must be instances of torch.nn.Module")
    check_name(name)
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """Reads and writes tensors of a module and of the modules below it by dotted names."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Module:
        """The module at a dotted name."""
        return self.module.get_submodule(name)

    def place(self, name: str) -> tuple[Module, str]:
        path, _, leaf = name.rpartition(".")
        try:
            return self.get_submodule(path), leaf
        except AttributeError:
            raise AttributeError(
                f"{type(self.module).__name__} has no attribute `{name}`"
            ) from None

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put a module at a dotted name; answers the one that was there."""
        module, leaf = self.place(path)
        return swap_submodule(module, leaf, value)

    def get_tensor(self, name: str) -> Any:
        """The tensor at a dotted name; None where a parameter or buffer is not set."""
        module, leaf = self.place(name)
        try:
            found = getattr(module, leaf)
        except AttributeError:
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`") from None
        if found is not None and not isinstance(found, Tensor):
            raise TypeError(f"{found} is not an instance of torch.Tensor")
        return found

    def set_tensor(self, name: str, value: Any) -> None:
        """Put a tensor at a dotted name."""
        module, leaf = self.place(name)
        set_tensor(module, leaf, value)

    def del_tensor(self, name: str) -> None:
        """Take away what is at a dotted name."""
        found = self.get_tensor(name)
        module, leaf = self.place(name)
        if found is not None:
            delattr(module, leaf)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Put a tensor at a dotted name; answers the one that was there."""
        module, leaf = self.place(name)
        return swap_tensor(module, leaf, value, allow_missing)

    def get_tensors(self, names: Any) -> list[Any]:
        """The tensors at these names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Any, values: Any) -> None:
        """Put tensors at these names."""
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Put each tensor at its name."""
        self.set_tensors(named_tensors, named_tensors.values())

    def del_tensors(self, names: Any) -> None:
        """Take away what is at these names."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Any, values: Any, allow_missing: bool = False) -> list[Any]:
        """Put tensors at these names; answers those that were there."""
        pairs = zip(names, values, strict=True)
        return [self.swap_tensor(name, value, allow_missing) for name, value in pairs]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Any], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Put each tensor at its name; answers those that were there, and names without any."""
        before: dict[str, Any] = {}
        absent = []
        try:
            for name, tensor in named_tensors.items():
                found = self.swap_tensor(name, tensor, allow_missing=True)
                before[name] = found
                if found is MISSING:
                    absent.append(name)
        except Exception:
            self.swap_tensors_dict(before, allow_missing=True)
            raise
        if absent and not allow_missing:
            self.swap_tensors_dict(before, allow_missing=True)
            raise RuntimeError(f"Missing key(s): {', '.join(map(repr, absent))}.")
        return before, absent

    def check_keys(self, keys: Any) -> tuple[list[str], list[str]]:
        """(names of the module that are not among `keys`, and the other way round)."""
        wanted = set(keys)
        tables = (self.named_parameters(), self.named_buffers())
        known = {name for table in tables for name, _ in table}
        return sorted(known - wanted), sorted(wanted - known)

    def named_parameters(self, remove_duplicate: bool = True) -> Any:
        """As the module's."""
        return self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Any:
        """As the module's."""
        return self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Any:
        """Parameters and then buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Any:
        """As the module's."""
        return self.module.named_modules(remove_duplicate=remove_duplicate)
