"""Subscripts: `x[...]`, `x[...] = v`, iteration, containment.

A subscript is basic where it can be (select, slice, unsqueeze: views) and then at most one
aten::index of what is left, in which None stands for a whole dimension. Writing through a
subscript is `copy_` or `fill_` into that view, or one `index_put_`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rushlight.arrays.casting import fill_number
from rushlight.core import dtype as dtypes
from rushlight.core import geometry, ports
from rushlight.core.dispatch import (
    DISABLED,
    call,
    call_function_mode,
    translate_api,
    try_function_override,
)
from rushlight.core.dtype import dtype as DType
from rushlight.core.state import (
    LAYER_FUNCTION,
    LAYER_FUNCTION_MODES,
    LOCAL,
    PROCESS,
    active_tracer,
)
from rushlight.core.tensor import PLAIN, Tensor, wrap
from rushlight.opset.creation import copy as copies
from rushlight.opset.exposure import attribute
from rushlight.opset.indexing.index import MASKS, index_tensor
from rushlight.opset.indexing.writing import index_put_
from rushlight.opset.rules import aten
from rushlight.opset.view import split as splits
from rushlight.opset.view import view as views

ndarray = np.ndarray


def getitem(self: Any, index: Any) -> Any:
    """`self[index]`."""
    keeps_whole = False
    if type(self) not in PLAIN or PROCESS.special:
        handled, value = overridden(getitem, self, (self, index))
        if handled:
            return value
        keeps_whole = active_tracer() is not None
    cls = type(index)
    if cls is int:
        return select_at(self, 0, index, 0)
    if cls is slice:
        return slice_at(self, 0, index)
    if index is Ellipsis:
        return call(views.alias, (self,))
    if index is None:
        return call(views.unsqueeze, (self, 0))
    if isinstance(index, np.integer):
        return select_at(self, 0, int(index), 0)
    try:
        found, indices = apply_subscripts(self, as_tuple(index), keeps_whole)
    except Overridden as raised:
        return handled_by(raised.entry, getitem, (self, index))
    if indices:
        return call(index_tensor, (found, indices))
    return call(views.alias, (self,)) if found is self else found


def setitem(self: Any, index: Any, value: Any) -> None:
    """`self[index] = value`."""
    keeps_whole = False
    if type(self) not in PLAIN or PROCESS.special:
        handled, _ = overridden(setitem, self, (self, index, value))
        if handled:
            return
        keeps_whole = active_tracer() is not None
    if self._unusual is not None and self._unusual.parts is not None:
        raise TypeError("Cannot assign items to a sparse tensor")
    if type(value) not in PLAIN and overrides(type(value)):
        handled, _ = try_function_override(setitem, (self, index, value), {})
        if handled:
            return
    if not isinstance(value, Tensor):
        value = element(self, value)
    cls = type(index)
    if index is False:
        return
    if cls is int or isinstance(index, np.integer):
        copy_to(select_at(self, 0, int(index), 0), value)
        return
    if index is None or index is True:
        copy_to(call(views.unsqueeze, (self, 0)), value)
        return
    try:
        entries = (index,) if cls is slice else as_tuple(index)
        found, indices = apply_subscripts(
            self, entries, keeps_whole, bool(PROCESS.special) and has_one_unknown(entries)
        )
    except Overridden as raised:
        handled_by(raised.entry, setitem, (self, index, value))
        return
    if not indices:
        copy_to(found, value)
        return
    sizes = value.shape
    kept = without_leading_ones(sizes)
    if len(kept) != len(sizes):
        value = call(views.view_, (value, kept))
    call(index_put_, (found, indices, value, False))


# Entries that views understand.
BASIC = (int, slice, type(None), type(Ellipsis))


def has_one_unknown(entries: tuple[Any, ...]) -> bool:
    """Whether a tensor without values is the only entry that is no number, slice or None: what is
    written where it says is what an index writes, and nobody need ask for its element."""
    others = [entry for entry in entries if type(entry) not in BASIC]
    if len(others) != 1 or not isinstance(others[0], Tensor):
        return False
    return others[0]._array is None and others[0]._dtype not in MASKS


class Overridden(Exception):
    """An entry of the subscript is of a class that handles the call."""

    def __init__(self, entry: Any) -> None:
        self.entry = entry


def handled_by(entry: Any, api: Any, args: tuple[Any, ...]) -> Any:
    """The answer of an argument that overrides. `entry` may lie deeper than they are looked for."""
    handled, value = try_function_override(api, args, {})
    if handled:
        return value
    return type(entry).__torch_function__(translate_api(api), (type(entry),), args, {})


def overrides(cls: type) -> bool:
    """Whether instances of a class have a say in the calls they take part in."""
    override = getattr(cls, "__torch_function__", None)
    if override is None or override is DISABLED:
        return False
    return not (PROCESS.special and LOCAL.state.excluded & LAYER_FUNCTION)


def overridden(api: Any, self: Any, args: tuple[Any, ...]) -> tuple[bool, Any]:
    """Modes and `__torch_function__` of the tensor get to see the subscript first."""
    if PROCESS.special:
        state = LOCAL.state
        if state.function_modes and not state.excluded & LAYER_FUNCTION_MODES:
            return True, call_function_mode(state, api, args, {})
    if type(self) not in PLAIN:
        return try_function_override(api, args, {})
    return False, None


def select_at(self: Any, dim: int, index: Any, shown: int) -> Any:
    """One position of a dimension. torch: messages number it by its place in the subscript."""
    try:
        return views.select.direct(self, dim, index)
    except IndexError:
        sizes = self.shape
        if not sizes and shown == 0 and index == 0:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
            ) from None
        size = sizes[dim] if dim < len(sizes) else 0
        if -size <= index < size:
            raise
        raise IndexError(
            f"index {index} is out of bounds for dimension {shown} with size {size}"
        ) from None


def slice_at(self: Any, dim: int, given: slice) -> Any:
    return views.slice_.direct(self, dim, *slice_arguments(given))


def slice_arguments(given: slice) -> tuple[Any, Any, Any]:
    """Start, end and step of a Python slice as aten::slice takes them."""
    step = 1 if given.step is None else slice_number(given.step)
    if step <= 0:
        zero = "slice step cannot be zero"
        raise ValueError(zero if step == 0 else "step must be greater than zero")
    start = 0 if given.start is None else slice_number(given.start)
    end = geometry.END if given.stop is None else slice_number(given.stop)
    return start, end, step


def number_in(tensor: Tensor) -> Any:
    """The one element of a tensor; a trace goes on knowing whose it is."""
    if PROCESS.special and (tracer := active_tracer()) is not None:
        return tracer.number(tensor)
    return tensor.item()


def slice_number(value: Any) -> Any:
    if type(value) is int or is_symbolic(value):
        return value
    if isinstance(value, Tensor) and PROCESS.special and active_tracer() is not None:
        return number_in(value)
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(
            "slice indices must be integers or None or have an __index__ method"
        ) from None


def is_symbolic(value: Any) -> bool:
    return hasattr(value, "node") and not isinstance(value, Tensor)


def is_sequence(value: Any) -> bool:
    if isinstance(value, (list, tuple, str, ndarray)):
        return True
    return (
        hasattr(value, "__getitem__") and hasattr(value, "__len__") and not isinstance(value, dict)
    )


def as_tuple(index: Any) -> tuple[Any, ...]:
    """The subscript's entries. torch: a short list that holds sequences or slices is a tuple."""
    if type(index) is tuple:
        return index
    if isinstance(index, tuple):
        return tuple(index)
    if isinstance(index, (Tensor, ndarray, str)):
        return (index,)
    if type(index) is not list and overrides(type(index)):
        raise Overridden(index)
    if not is_sequence(index) or len(index) >= 32:
        return (index,)
    for item in index:
        if type(item) is not int and type(item) not in PLAIN and overrides(type(item)):
            raise Overridden(item)
        if (
            item is None
            or item is Ellipsis
            or isinstance(item, (Tensor, slice))
            or is_sequence(item)
        ):
            warnings.warn(
                "Using a non-tuple sequence for multidimensional indexing is deprecated and will "
                "be changed in pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 "
                "this will be interpreted as tensor index, x[torch.tensor(seq)], which will result "
                "either in an error or a different result",
                UserWarning,
                stacklevel=3,
            )
            return tuple(index)
    return (index,)


def specified_dims(entries: tuple[Any, ...]) -> int:
    """How many dimensions the entries speak of."""
    count = 0
    for entry in entries:
        if isinstance(entry, Tensor):
            count += entry.dim() if entry._dtype in MASKS else 1
        elif (
            entry is not None and entry is not Ellipsis and entry is not True and entry is not False
        ):
            count += 1
    return count


def apply_subscripts(
    self: Any, entries: tuple[Any, ...], keeps_whole: bool, keeps_scalars: bool = False
) -> tuple[Any, list[Any]]:
    """(view by the basic entries, index tensors for its dimensions; None for a whole one). A trace
    keeps slices that take all of a dimension: it is not known what they take next time. With
    `keeps_scalars` a tensor without dims is an index like others."""
    ndim = self.dim()
    specified = specified_dims(entries)
    if specified > ndim:
        for entry in entries:
            if type(entry) not in PLAIN and overrides(type(entry)):
                raise Overridden(entry)
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    found = self
    indices: list[Any] = []
    covered = 0  # dimensions of `found` that `indices` speaks of
    dim = 0  # of `found`, where the next entry applies
    for shown, entry in enumerate(entries):
        cls = type(entry)
        if cls is int or (cls not in (bool, slice, type(None)) and is_integer(entry)):
            found = select_at(found, dim, entry if cls is int else plain_integer(entry), shown)
            continue
        if cls is slice:
            if keeps_whole or not is_whole(found, dim, entry):
                found = slice_at(found, dim, entry)
            dim += 1
            continue
        if entry is Ellipsis:
            dim += ndim - specified
            continue
        if entry is None:
            found = call(views.unsqueeze, (found, dim))
            dim += 1
            continue
        if cls not in PLAIN and overrides(cls):
            raise Overridden(entry)
        width = 1
        tensor: Any
        if cls is bool:
            found = call(views.unsqueeze, (found, dim))
            tensor = truth_index(entry)
        else:
            tensor = entry if isinstance(entry, Tensor) else index_from_sequence(entry)
            is_number = tensor.dim() == 0 and tensor._dtype.category <= dtypes.INTEGER
            if is_number and not keeps_scalars:
                if tensor._dtype not in MASKS:
                    found = select_at(found, dim, number_in(tensor), shown)
                    continue
                found = call(views.unsqueeze, (found, dim))
                tensor = truth_index(bool(tensor.item()))
            elif tensor._dtype in MASKS:
                width = tensor.dim()
        indices += [None] * (dim - covered)
        indices.append(tensor)
        dim += width
        covered = dim
    return found, indices


def is_integer(entry: Any) -> bool:
    if isinstance(entry, (Tensor, ndarray, bool)):
        return False
    return isinstance(entry, (int, np.integer)) or is_symbolic(entry)


def plain_integer(entry: Any) -> Any:
    return entry if is_symbolic(entry) else int(entry)


def is_whole(self: Any, dim: int, given: slice) -> bool:
    """Whether a slice takes all of a dimension; inside a tuple it is then left out."""
    if given.step is not None and not (type(given.step) is int and given.step == 1):
        return False
    if given.start is not None and not (type(given.start) is int and given.start == 0):
        return False
    if given.stop is None:
        return True
    sizes = self.shape
    return type(given.stop) is int and dim < len(sizes) and given.stop >= sizes[dim]


def truth_index(value: bool) -> Tensor:
    """True as an index takes the one element of a new dimension, False none."""
    return wrap(np.zeros(1 if value else 0, np.int64), dtypes.int64)


def index_from_sequence(entry: Any) -> Tensor:
    """A list, tuple, range or array as an index tensor: truth values stay, numbers become int64."""
    if isinstance(entry, str):
        raise TypeError("new(): invalid data type 'str'")
    if not is_sequence(entry):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            f"valid indices (got {type_name(entry)})"
        )
    if not isinstance(entry, ndarray):
        entry = np.asarray(plain_numbers(entry))
        if entry.size == 0:
            entry = entry.astype(np.int64)
        if entry.dtype == object:
            raise TypeError("an index sequence may hold integers and truth values only")
    if entry.dtype == np.bool_:
        return constant(np.asarray(entry, order="C"), dtypes.bool_)
    if entry.dtype == np.uint8:
        return constant(np.asarray(entry, order="C"), dtypes.uint8)
    if entry.dtype.kind not in "biuf":
        raise TypeError(f"new(): invalid data type '{entry.dtype}'")
    return constant(entry.astype(np.int64, order="C"), dtypes.int64)


def plain_numbers(entry: Any) -> Any:
    """Nested sequences with tensors replaced by numbers, of equal lengths at each depth."""
    if isinstance(entry, Tensor):
        if entry.dim() and entry.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return entry.item()
    if type(entry) not in (int, list, tuple):
        if overrides(type(entry)):
            raise Overridden(entry)
        if is_symbolic(entry):
            return int(entry)
    if not is_sequence(entry) or isinstance(entry, (str, ndarray)):
        return entry
    items = [plain_numbers(item) for item in entry]
    lengths = [len(item) if isinstance(item, list) else -1 for item in items]
    for length in lengths:
        if length != lengths[0]:
            raise ValueError(f"expected sequence of length {lengths[0]} at dim 1 (got {length})")
    return items


def type_name(value: Any) -> str:
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


def element(self: Any, value: Any) -> Tensor:
    """A Python number as a 0-dim tensor of the dtype it is assigned to."""
    if not isinstance(value, (bool, int, float, complex)):
        if isinstance(value, np.integer):
            return element(self, int(value))
        if not is_symbolic(value):
            prefix = "torch.cuda." if self.is_cuda else "torch."
            raise TypeError(
                f"can't assign a {type_name(value)} to a {prefix}{self._dtype.legacy_tensor_name}"
            )
        return aten.scalar_tensor(value, dtype=self._dtype)  # type: ignore[no-any-return]
    dtype = self._dtype
    return constant(np.array(fill_number(value, dtype), dtype.np), dtype, assigned=True)


def constant(array: Any, dtype: DType, assigned: bool = False) -> Tensor:
    """What an index or an assignment brings along, shown to whoever records. A trace takes what is
    assigned for a constant of its own."""
    made: Tensor = wrap(array, dtype)
    if PROCESS.special and LOCAL.state.layers and not LOCAL.state.inference:
        if assigned and active_tracer() is not None:
            return made
        made = ports.lift_fresh(made)
    return made


def without_leading_ones(sizes: Any) -> tuple[Any, ...]:
    first = 0
    for size in sizes:
        if not geometry.decided(size == 1):
            break
        first += 1
    return tuple(sizes[first:])


def copy_to(target: Any, value: Any) -> None:
    """Assign with torch's broadcasting: a value's leading dimensions of size 1 do not count."""
    sizes = value.shape
    if geometry.same_sizes(tuple(sizes), tuple(target.shape)):
        call(copies.copy_, (target, value, False))
        return
    if not sizes and value.device.type == "cpu":
        call(copies.fill_tensor_, (target, value))
        return
    kept = without_leading_ones(sizes)
    is_traced = PROCESS.special and active_tracer() is not None
    if len(kept) != len(sizes) or is_traced:
        value = call(views.view_, (value, kept))
    if not geometry.same_sizes(kept, tuple(target.shape)) or is_traced:
        value = call(views.expand, (value, tuple(target.shape), not is_traced))
    call(copies.copy_, (target, value, False))


def delitem(self: Any, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


def iterate(self: Any) -> Any:
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    if type(self) not in PLAIN or PROCESS.special:
        # torch: overrides see `unbind` instead.
        return iter(self.unbind(0))
    return iter(call(splits.unbind, (self, 0)))


def contains(self: Any, element: Any, /) -> bool:
    if type(self) not in PLAIN or PROCESS.special:
        handled, value = overridden(contains, self, (self, element))
        if handled:
            return bool(value)
    if isinstance(element, (Tensor, int, float, complex, bool)) or is_symbolic(element):
        return bool((element == self).any().item())
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


def backwards(self: Any) -> Any:
    """`reversed(self)`: torch flips the first dimension."""
    if type(self) not in PLAIN or PROCESS.special:
        handled, value = overridden(backwards, self, (self,))
        if handled:
            return value
    return self if self.dim() == 0 else self.flip(0)


for dunder, method in (
    ("__getitem__", getitem),
    ("__setitem__", setitem),
    ("__delitem__", delitem),
    ("__iter__", iterate),
    ("__contains__", contains),
    ("__reversed__", backwards),
):
    method.__name__ = dunder
    method.__qualname__ = f"Tensor.{dunder}"
    attribute(dunder, method)
