"""Samples into batches: `collate` stacks what can be stacked and keeps the containers.

`default_collate_fn_map` says how each type of leaf is put together; programs may extend it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from rushlight.core.construct import as_tensor, tensor
from rushlight.core.device import strided
from rushlight.core.dtype import float64
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = [
    "collate", "collate_float_fn", "collate_int_fn", "collate_numpy_array_fn",
    "collate_numpy_scalar_fn", "collate_str_fn", "collate_tensor_fn", "default_collate",
    "default_collate_err_msg_format", "default_collate_fn_map", "default_convert", "pin_memory",
]  # fmt: skip

FnMap = dict[Any, Callable[..., Any]]

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


# Text, raw bytes and objects, in NumPy's letters.
np_str_obj_array_pattern = re.compile(r"[SaUO]")


def is_unstackable(dtype: np.dtype[Any]) -> bool:
    """Whether a NumPy array of it (text, objects) has no tensor."""
    return dtype.kind in "SUO" and dtype.names is None


def remade_mapping(like: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the type of `like`, attributes included, with other values."""
    try:
        if isinstance(like, MutableMapping):
            clone: Any = copy.copy(like)
            clone.update(items)
            return clone
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:  # a type that cannot be copied or built from items
        return items


def remade_sequence(like: Sequence[Any], items: Iterable[Any]) -> Any:
    """A sequence of the type of `like` with other items; tuples become lists."""
    items = list(items)
    if isinstance(like, tuple):  # torch: samples that are tuples give a list
        return items
    try:
        if isinstance(like, MutableSequence):
            clone: Any = copy.copy(like)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:  # such as range
        return items


def mapped(data: Any, change: Callable[[Any], Any]) -> Any:
    """`change` of each member of a container, in a container alike; None where it is a leaf."""
    if isinstance(data, Mapping):
        return remade_mapping(data, {key: change(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[change(item) for item in data])
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return remade_sequence(data, [change(item) for item in data])
    return None


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers as tensors, inside containers too; everything else stays.

    >>> import numpy as np
    >>> default_convert([np.array([0, 1]), "a", 2])
    [tensor([0, 1]), 'a', 2]
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)) and not isinstance(data, np.character):
        if isinstance(data, np.ndarray) and is_unstackable(data.dtype):
            return data
        return as_tensor(data)
    inner = mapped(data, default_convert)
    return data if inner is None else inner


def collate(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    """Put samples together: leaves by the functions of `collate_fn_map`, containers by member.

    A function is chosen by the first sample's type, else by the first key it is an instance of.

    >>> collate([{"n": 1}, {"n": 2}], collate_fn_map={int: lambda batch, **_: sum(batch)})
    {'n': 3}
    """
    first = batch[0]
    cls = type(first)
    if collate_fn_map is not None:
        if cls in collate_fn_map:
            return collate_fn_map[cls](batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(first, known):
                return function(batch, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return remade_mapping(
            first,
            {
                key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
                for key in first
            },
        )
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return cls(*[collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)])
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
        return remade_sequence(first, columns)
    raise TypeError(default_collate_err_msg_format.format(cls))


def collate_tensor_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    first = batch[0]
    for is_so, name in ((first.is_nested, "nested"), (first.layout is not strided, "sparse")):
        if is_so:
            raise RuntimeError(
                f"Batches of {name} tensors are not currently supported by the default "
                "collate_fn; please provide a custom collate_fn to handle them appropriately."
            )
    return functions.stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    if is_unstackable(batch[0].dtype):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    return as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    return batch


# Order matters: subclasses go to the first key they are an instance of.
default_collate_fn_map: FnMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Samples as one batch: tensors, arrays and numbers gain an outer dimension.

    Text stays a list; dicts, named tuples and lists are kept, tuples become lists.

    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    >>> default_collate([{"x": 0.5}, {"x": 1.5}])
    {'x': tensor([0.5000, 1.5000], dtype=torch.float64)}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def pin_memory(data: Any, device: Any = None) -> Any:
    """`data`: no memory here is pinned."""
    return data
