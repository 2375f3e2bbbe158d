"""Wrapper subclasses at the borders of a graph, which holds plain tensors only.

A `Layout` says how a value is made of plain tensors: as it is, or as a subclass of inner layouts
with their names, context and outer geometry. Layouts are recorded when a function is traced and
put values together again at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.base.errors import error
from rushlight.core.modes import is_traceable_wrapper_subclass, transform_subclass
from rushlight.core.tensor import Tensor, sizes_of, strides_of
from rushlight.symbolic.numbers import NUMBERS

__all__ = ["Layout", "flatten", "has_subclass", "layout_of", "layouts_of", "map_parts", "wrap_all"]


def has_subclass(values: Sequence[Any]) -> bool:
    return any([is_traceable_wrapper_subclass(value) for value in values])


def map_parts(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value with its plain tensors changed; requirements of gradients come along."""
    if not is_traceable_wrapper_subclass(value):
        return change(value)
    made = transform_subclass(value, lambda _, inner: map_parts(inner, change))
    if made is not value and value.requires_grad and not made.requires_grad:
        made._requires_grad = True
    return made


def flatten(value: Any) -> Iterator[Any]:
    """The plain tensors of a value, or the value itself."""
    if is_traceable_wrapper_subclass(value):
        names, _ = value.__tensor_flatten__()
        for name in names:
            yield from flatten(getattr(value, name))
    else:
        yield value


def as_tangent(grad: Any) -> Any:
    """A gradient as backward graphs take it: contiguous, with no numbers that are conjugated or
    negated lazily, which a graph that was traced with others would take for plain ones."""
    dense = grad.contiguous()
    if dense._unusual is None or not any([is_lazy(part) for part in flatten(dense)]):
        return dense
    return map_parts(dense, lambda part: part.resolve_conj().resolve_neg())


def is_lazy(part: Any) -> bool:
    return isinstance(part, Tensor) and (part.is_conj() or part.is_neg())


@dataclass(frozen=True)
class Layout:
    """How one value is put together; `cls` is None for what is taken as it is."""

    cls: type | None = None
    names: tuple[str, ...] = ()
    parts: tuple[Layout, ...] = ()
    context: Any = None
    size: tuple[Any, ...] = ()
    stride: tuple[Any, ...] = ()
    requires_grad: bool = False

    @property
    def count(self) -> int:
        """How many plain values it takes."""
        return 1 if self.cls is None else sum([part.count for part in self.parts])

    @property
    def classes(self) -> Any:
        """The classes of the value and of its parts, to be compared."""
        return None if self.cls is None else (self.cls, tuple([p.classes for p in self.parts]))

    def wrap(self, flat: Iterator[Any]) -> Any:
        if self.cls is None:
            return next(flat)
        inner = {n: part.wrap(flat) for n, part in zip(self.names, self.parts, strict=True)}
        cls: Any = self.cls
        size, stride = self.geometry(inner)
        return cls.__tensor_unflatten__(inner, self.context, size, stride)

    def geometry(self, inner: dict[str, Any]) -> tuple[Any, Any]:
        """The outer sizes and strides; symbolic ones are those of a part at run time."""
        if not any([isinstance(n, NUMBERS) for n in (*self.size, *self.stride)]):
            return self.size, self.stride
        for name, part in zip(self.names, self.parts, strict=True):
            if (part.size, part.stride) == (self.size, self.stride):
                return tuple(inner[name].shape), tuple(inner[name].stride())
        raise error("RL0625", name=str(self.cls))


def layout_of(value: Any) -> Layout:
    if not is_traceable_wrapper_subclass(value):
        if isinstance(value, Tensor):
            return Layout(size=tuple(sizes_of(value)), stride=tuple(strides_of(value)))
        return Layout()
    names, context = value.__tensor_flatten__()
    return Layout(
        type(value),
        tuple(names),
        tuple([layout_of(getattr(value, name)) for name in names]),
        context,
        tuple(value.shape),
        tuple(value.stride()),
        value.requires_grad,
    )


def layouts_of(values: Sequence[Any]) -> list[Layout] | None:
    """How the values are put together; None where all are plain."""
    return [layout_of(value) for value in values] if has_subclass(values) else None


def wrap_all(layouts: list[Layout] | None, flat: Sequence[Any]) -> list[Any]:
    if layouts is None:
        return list(flat)
    remaining = iter(flat)
    return [layout.wrap(remaining) for layout in layouts]
