"""Nested tensors in checkpoints: the values of all components, and beside them where each begins.

What a file says of places is checked before anything is read there.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Any

from rushlight.core import construct
from rushlight.core.dtype import int32, int64
from rushlight.core.geometry import contiguous_strides
from rushlight.core.tensor import Tensor
from rushlight.io.rebuild import CHECKED, MAKERS, NAMES, class_only, known, numbers
from rushlight.io.walker import Known, fail
from rushlight.opset import functions
from rushlight.subclasses.jagged import JaggedTensor, as_values, rebuilt
from rushlight.subclasses.nested import NestedTensor, as_nested

__all__ = ["parts_of"]

JAGGED = "torch.nested._internal.nested_tensor"


def counts(value: Any, what: str) -> list[Any]:
    if type(value) is not Tensor or value._dtype not in (int32, int64) or value.is_meta:
        raise fail(f"{what} of a nested tensor is no tensor of integers")
    found: list[Any] = value.tolist()
    return found


def rebuild_jagged(said: Any) -> Any:
    """One of the jagged layout, from the arguments of its constructor."""
    if type(said) is not dict or type(said.get("values")) is not Tensor:
        raise fail("a nested tensor has no values")
    values, place = said["values"], said.get("_ragged_idx", 1)
    if type(place) is not int or not 1 <= place <= values.dim():
        raise fail("a nested tensor has no ragged dim")
    offsets: Any = said.get("offsets")
    lengths = said.get("lengths")
    starts = counts(offsets, "the start of each component")
    ends = starts[1:]
    if lengths is not None:
        ends = [a + b for a, b in zip(starts, counts(lengths, "the length"), strict=False)]
    pairs = list(zip(starts, ends, strict=False))
    inside = all(0 <= start <= end <= values.shape[place - 1] for start, end in pairs)
    if not starts or len(pairs) != len(starts) - 1 or not inside:
        raise fail("components of a nested tensor lie outside of its values")
    cache = said.get("_metadata_cache")
    kept = cache if type(cache) is dict else {}
    longest = [
        part.shape[0] if type(part) is Tensor and part.dim() == 2 else None
        for part in (kept.get("min_seqlen"), kept.get("max_seqlen"))
    ]
    return rebuilt(values, offsets, lengths, place, tuple(longest), bool(said.get("requires_grad")))


def rebuild_packed(buffer: Any, sizes: Any, strides: Any, storage_offsets: Any) -> Any:
    """One whose components lie one after the other."""
    if type(buffer) is not Tensor or buffer.dim() != 1:
        raise fail("a nested tensor has no values")
    rows = [numbers(row, "a size") for row in counts(sizes, "the size")]
    order = [tuple(row) for row in counts(strides, "the stride")]
    begins = [0, *accumulate(prod(row) for row in rows)]
    if order != [tuple(contiguous_strides(row)) for row in rows]:
        raise fail("the components of a nested tensor are not contiguous")
    if counts(storage_offsets, "the start") != begins[:-1] or begins[-1] != buffer.shape[0]:
        raise fail("the components of a nested tensor do not follow one another")
    return as_nested(buffer, tuple(rows))


def parts_of(tensor: Any, named: Any) -> Any:
    """How a nested tensor is written: a function of torch's and its arguments."""
    if isinstance(tensor, NestedTensor):
        rows = tensor.nested_components
        begins = [0, *accumulate(prod(row) for row in rows)]
        order = [contiguous_strides(row) for row in rows]
        tables = [
            construct.tensor(table, dtype=int64) for table in (list(rows), order, begins[:-1])
        ]
        packed = tensor.as_subclass(Tensor).detach()
        return named("torch._utils", "_rebuild_nested_tensor"), (packed, *tables)
    least, most = tensor._seqlens
    said = {
        "values": as_values(tensor).detach(),
        "offsets": tensor._offsets,
        "lengths": tensor._lengths,
        "_ragged_idx": tensor._ragged_idx,
        "_metadata_cache": {
            name: functions.empty((length, 0))
            for name, length in (("min_seqlen", least), ("max_seqlen", most))
            if length is not None
        },
        "requires_grad": bool(tensor.requires_grad),
    }
    maker, cls = named(JAGGED, "_rebuild_njt"), named(JAGGED, "NestedTensor")
    return named("torch._tensor", "_rebuild_from_type_v2"), (maker, cls, (said,), {})


class DimRange:
    """What torch's compiler has noted of a size that varies. Nothing here asks for it."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        pass


def ignore(made: Any, state: Any) -> None:
    pass


NAMES["torch._dynamo.decorators", "_DimRange"] = Known(
    "torch._dynamo.decorators._DimRange", DimRange, target=DimRange, build=ignore
)
NAMES |= known("torch._utils", _rebuild_nested_tensor=rebuild_packed)
NAMES |= known(JAGGED, _rebuild_njt=rebuild_jagged)
NAMES[JAGGED, "NestedTensor"] = class_only("NestedTensor", JaggedTensor)
MAKERS.append(rebuild_jagged)
CHECKED.append(rebuild_jagged)
