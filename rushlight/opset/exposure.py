"""Tensor's methods and attributes that op families define.

A method is an op's stub, made when it is first looked up. What modules outside the foundation
define is promised on Tensor from the start; the first look-up of a promise imports its module.
Invariant: a promise gives way to the attribute only after the module's import has ended.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.dispatch import overridable
from rushlight.core.stubs import make_stub
from rushlight.core.tensor import Tensor
from rushlight.opset import families

__all__ = [
    "LazyMethod", "PromisedAttribute", "attribute", "expose", "install_method", "method_alias",
    "promise_all",
]  # fmt: skip

MISSING = object()


class PromisedAttribute:
    """Stands on Tensor for an attribute that a module not yet imported defines.

    A descriptor rather than `Tensor.__getattr__`, which would slow down every attribute access.
    """

    __slots__ = ("name", "value")

    def __init__(self, name: str) -> None:
        self.name = name
        # What the module has defined; it is kept here until somebody asks.
        self.value: Any = MISSING

    def keep(self) -> None:
        """Put the attribute in the promise's place."""
        families.load_attribute(self.name)
        if self.value is MISSING:
            raise AttributeError(f"'Tensor' object has no attribute '{self.name}'")
        # Several threads may come here, all with the same value; a stub may be there already.
        if Tensor.__dict__[self.name] is self:
            setattr(Tensor, self.name, self.value)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        self.keep()
        return getattr(owner if instance is None else instance, self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        # A property may want to know.
        self.keep()
        setattr(instance, self.name, value)


class LazyMethod:
    """A Tensor method that does not exist until it is first looked up."""

    __slots__ = ("name", "packet_name")

    def __init__(self, name: str, packet_name: str | None = None) -> None:
        self.name = name
        self.packet_name = name if packet_name is None else packet_name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        from rushlight.opset.registry import packet

        stub = make_stub(packet(self.packet_name), self.name, method=True)
        setattr(Tensor, self.name, stub)
        return stub if instance is None else stub.__get__(instance, owner)


def promise_all() -> None:
    """Promise everything that modules outside the foundation add to Tensor."""
    for name in families.ATTRIBUTES:
        if name not in Tensor.__dict__:
            setattr(Tensor, name, PromisedAttribute(name))


def attribute(name: str, value: Any) -> None:
    """Define an attribute of Tensor: at once, or as what its promise stands for."""
    promise = Tensor.__dict__.get(name)
    if isinstance(promise, PromisedAttribute):
        promise.value = value
    else:
        setattr(Tensor, name, value)


def install_method(function: Any, name: str) -> Any:
    """Make a plain function the method `name`, overridable by subclasses and modes."""
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}"
    method = overridable(function)
    attribute(name, method)
    return method


def is_free(name: str) -> bool:
    """Whether Tensor has no such attribute yet, or only a promise of one."""
    found = Tensor.__dict__.get(name, MISSING)
    return found is MISSING or (isinstance(found, PromisedAttribute) and found.value is MISSING)


def expose(name: str, has_inplace: bool) -> None:
    """Make an op a method, and its in-place form too."""
    for method in (name, name + "_") if has_inplace else (name,):
        if is_free(method):
            attribute(method, LazyMethod(method))


def method_alias(name: str, target: str) -> None:
    """Another name (often a dunder) for a method."""
    attribute(name, LazyMethod(name, target))
