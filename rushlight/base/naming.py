"""How messages name the types of values, and which module functions say they come from."""

from __future__ import annotations

from typing import Any

__all__ = ["as_torch", "is_own", "module_name", "typename"]

# While `torch` means rushlight: own module -> qualified name -> torch's module. Empty otherwise.
as_torch: dict[str, dict[str, str]] = {}
FAMILIES = ("fft", "linalg", "special")


def module_name(module: str, qualname: str) -> str:
    """What a function of `module` says of its origin."""
    if not as_torch:
        return module
    if module == "rushlight":
        # torch: operators of a namespace are defined in a private module.
        family = qualname.partition("_")[0]
        return f"torch._C._{family}" if family in FAMILIES and family != qualname else "torch"
    return as_torch.get(module, {}).get(qualname, module)


def is_own(module: str, package: str = "") -> bool:
    """Whether a module's name is one of ours, in `package` if given, under either root."""
    for root in ("rushlight", "torch"):
        place = f"{root}.{package}" if package else root
        if module == place or module.startswith(f"{place}."):
            return True
    return False


def typename(obj: Any) -> str:
    """The name of a type, or of a value's type, with its module.

    A type may name its values itself, as tensors do by their dtype: `_type_name`.
    """
    own = getattr(type(obj), "_type_name", None)
    if own is not None:
        return str(own(obj))
    named = isinstance(obj, type) or (callable(obj) and hasattr(obj, "__qualname__"))
    found = obj if named else type(obj)
    name: str = getattr(found, "__qualname__", found.__name__)
    module = getattr(found, "__module__", "") or ""
    return name if module in ("", "builtins", "__builtin__") else f"{module}.{name}"
