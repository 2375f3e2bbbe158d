"""How messages name the types of values."""

from __future__ import annotations

from typing import Any

__all__ = ["typename"]


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
