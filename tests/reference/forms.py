"""Samples as JSON plus bytes, and back: what the recorded files keep of the calls they answer.

A form is `[args, kwargs]`, kwargs as pairs in order. A strided tensor is the list
`[dtype, sizes, strides, offset, flags]`, cut short where the rest is default; its memory, all of
it, is the next of the chunks that go with the form. Numbers, strings and None stand for themselves,
every other value is an object with one key, which names its type. What none of these can hold is
kept as `{"repr": text}`: such a sample has a digest, and cannot be rebuilt.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import rushlight
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor, storage_of, strides_of, wrap
from rushlight.opset.results import make_view
from rushlight.opset.samples.maker import Sample

SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "Size": Size}
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class NotKept(ValueError):
    """A form holds the text of a value instead of the value."""


# -- to forms --------------------------------------------------------------------------------------


def form_of(case: Sample) -> tuple[list[Any], list[bytes]]:
    """(form, chunks) of a sample."""
    chunks: list[bytes] = []
    args = [leaf_form(value, chunks) for value in case.args]
    return [args, [[name, leaf_form(value, chunks)] for name, value in case.kwargs.items()]], chunks


def leaf_form(value: Any, chunks: list[bytes]) -> Any:
    # Exact types: what derives from one of these would not come back as itself.
    kind = type(value)
    if kind in (int, float, bool, str) or value is None:
        return value
    if kind is Tensor and not (value.is_conj() or value.is_neg()):
        return tensor_form(value, chunks)
    if kind in SEQUENCES.values():
        return {kind.__name__: [leaf_form(item, chunks) for item in value]}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind is slice:
        return {"slice": [leaf_form(x, chunks) for x in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"Ellipsis": None}
    if kind is rushlight.dtype:
        return {"dtype": value.name}
    if kind in (rushlight.layout, rushlight.memory_format, rushlight.device):
        return {kind.__name__: str(value).removeprefix("torch.")}
    return {"repr": f"{kind.__name__}: {ADDRESS.sub('', repr(value))}"}


def tensor_form(tensor: Tensor, chunks: list[bytes]) -> Any:
    sizes = [int(size) for size in tensor.shape]
    flags = ["requires_grad"] if tensor.requires_grad else []
    if tensor.layout.name != "strided":
        coalesced = tensor.is_coalesced() if tensor.layout.name == "sparse_coo" else None
        parts = [tensor_form(part.detach(), chunks) for part in sparse_parts(tensor)]
        return {"sparse": [tensor.layout.name, sizes, coalesced, parts, flags]}
    if tensor.device.type == "meta":
        flags.append("meta")
    else:
        chunks.append(storage_of(tensor).buffer.tobytes())
    strides, offset = list(strides_of(tensor)), tensor.storage_offset()
    if flags:
        return [tensor.dtype.name, sizes, strides, offset, flags]
    if offset or tuple(strides) != geometry.contiguous_strides(tuple(sizes)):
        return [tensor.dtype.name, sizes, strides, offset]
    return [tensor.dtype.name, sizes]


def sparse_parts(tensor: Any) -> list[Any]:
    """The plain tensors that a sparse tensor is made of, values last; of either framework."""
    name = str(tensor.layout).removeprefix("torch.")
    if name == "sparse_coo":
        return [tensor._indices(), tensor._values()]
    if name in ("sparse_csr", "sparse_bsr"):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def digest(case: Sample) -> str:
    """What a sample is, in 12 characters."""
    return digest_of(*form_of(case))


def digest_of(form: list[Any], chunks: Iterable[Any]) -> str:
    state = hashlib.blake2b(json.dumps(form).encode(), digest_size=6)
    for chunk in chunks:
        state.update(len(chunk).to_bytes(8, "little"))
        state.update(chunk)
    return state.hexdigest()


# -- from forms ------------------------------------------------------------------------------------


def is_kept(form: Any) -> bool:
    """Whether a form can be rebuilt."""
    if isinstance(form, dict):
        return "repr" not in form and all(is_kept(item) for item in form.values())
    return not isinstance(form, list) or all(is_kept(item) for item in form)


def rebuilt(form: list[Any], chunks: Iterable[Any]) -> Sample:
    """The sample of a form, with memory of its own."""
    rest = iter(chunks)
    args = tuple([leaf_of(item, rest) for item in form[0]])
    return Sample(args, {name: leaf_of(item, rest) for name, item in form[1]})


def leaf_of(form: Any, chunks: Iterator[Any]) -> Any:
    if isinstance(form, list):
        return tensor_of(form, chunks)
    if not isinstance(form, dict):
        return form
    [(name, inside)] = form.items()
    if name in SEQUENCES:
        return SEQUENCES[name]([leaf_of(item, chunks) for item in inside])
    if name == "sparse":
        return sparse_of(inside, chunks)
    if name == "complex":
        return complex(*inside)
    if name == "slice":
        return slice(*[leaf_of(item, chunks) for item in inside])
    if name == "Ellipsis":
        return Ellipsis
    if name == "dtype":
        return dtypes.by_name(inside)
    if name in ("layout", "memory_format"):
        return getattr(rushlight, inside)
    if name == "device":
        return rushlight.device(inside)
    raise NotKept(f"only the text of a value was recorded: {inside}")


def tensor_of(form: list[Any], chunks: Iterator[Any]) -> Tensor:
    kind, sizes = dtypes.by_name(form[0]), tuple(form[1])
    flags = form[4] if len(form) > 4 else ()
    if "meta" in flags:
        made = rushlight.empty_strided(sizes, form[2], dtype=kind, device="meta")
        return made.requires_grad_("requires_grad" in flags)
    memory = np.frombuffer(next(chunks), np.uint8).copy()
    if len(form) == 2 and memory.size == geometry.numel(sizes) * kind.itemsize:
        return wrap(memory.view(kind.np).reshape(sizes), kind)
    strides = tuple(form[2]) if len(form) > 2 else geometry.contiguous_strides(sizes)
    offset = form[3] if len(form) > 3 else 0
    made = make_view(wrap(memory, dtypes.uint8), sizes, strides, offset, kind)
    return made.requires_grad_() if "requires_grad" in flags else made


def sparse_of(inside: list[Any], chunks: Iterator[Any]) -> Tensor:
    layout, sizes, coalesced, parts, flags = inside
    made = [tensor_of(part, chunks) for part in parts]
    if layout == "sparse_coo":
        result = rushlight.sparse_coo_tensor(*made, sizes, is_coalesced=coalesced)
    else:
        kind = getattr(rushlight, layout)
        result = rushlight.sparse_compressed_tensor(*made, sizes, layout=kind)
    return result.requires_grad_() if flags else result
