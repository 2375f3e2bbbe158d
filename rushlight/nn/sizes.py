"""Sizes given as one number for all dims, or one for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "factory_kwargs", "ntuple", "pair", "per_dim", "quadruple", "reverse_repeat_tuple", "single",
    "triple",
]  # fmt: skip


def per_dim(value: Any, count: int) -> tuple[Any, ...]:
    """One entry for each of `count` dims; entries that are given as such are kept."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


def ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes tuples of `n` from a single value; others it keeps."""

    def parse(x: Any) -> tuple[Any, ...]:
        return per_dim(x, n)

    parse.__name__ = name
    return parse


single = ntuple(1, "_single")
pair = ntuple(2, "_pair")
triple = ntuple(3, "_triple")
quadruple = ntuple(4, "_quadruple")


def reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Each value `n` times, last first: sizes by dim as `pad` takes them."""
    return tuple([value for value in reversed(t) for _ in range(n)])


FACTORY_OPTIONS = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The options of functions that make tensors, out of a constructor's; others are refused.

    `factory_kwargs={...}` among them gives such options by another way.
    """
    if kwargs is None:
        return {}
    known = {*FACTORY_OPTIONS, "factory_kwargs"}
    if not kwargs.keys() <= known:
        raise TypeError(f"unexpected kwargs {kwargs.keys() - known}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in FACTORY_OPTIONS:
        if name in kwargs:
            if name in found:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            found[name] = kwargs[name]
    return found
