"""Ops that move elements without changing them: views, joins, parts, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core.dtype import float64 as DOUBLE
from rushlight.onnx.building import FLOAT, INT64, Builder, Value, translates
from rushlight.onnx.refusals import refuse

LARGEST = (1 << 63) - 1


@translates("view.default", "reshape.default", "_unsafe_view.default", "view_copy.default")
def view(b: Builder, x: Value, sizes: Sequence[Any]) -> Value:
    return b.reshape(x, settled(b, sizes))


def settled(b: Builder, sizes: Sequence[Any]) -> list[Any]:
    """Sizes as numbers where the result tells them."""
    known = tuple(b.result.shape)
    return [
        known[place] if isinstance(known[place], int) else size for place, size in enumerate(sizes)
    ]


@translates("flatten.using_ints")
def flatten(b: Builder, x: Value, start: int, end: int) -> Value:
    if x.rank == 0:
        return b.reshape(x, [1])
    start, end = start % x.rank, end % x.rank
    sizes = [b.size(x, dim) for dim in range(start)]
    sizes += [-1, *[b.size(x, dim) for dim in range(end + 1, x.rank)]]
    return b.reshape(x, sizes)


@translates("unflatten.int")
def unflatten(b: Builder, x: Value, dim: int, sizes: Sequence[Any]) -> Value:
    dim %= x.rank
    before = [b.size(x, each) for each in range(dim)]
    return b.reshape(x, [*before, *sizes, *[b.size(x, each) for each in range(dim + 1, x.rank)]])


@translates("permute.default")
def permute(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    return b.op("Transpose", x, perm=[dim % x.rank for dim in dims]) if x.rank else identity(b, x)


def identity(b: Builder, x: Value) -> Value:
    return b.op("Identity", x)


@translates("transpose.int")
def transpose(b: Builder, x: Value, first: int, second: int) -> Value:
    order = list(range(x.rank))
    if order:
        first, second = first % x.rank, second % x.rank
        order[first], order[second] = order[second], order[first]
    return b.op("Transpose", x, perm=order) if order else identity(b, x)


@translates("t.default", "mT.default", "numpy_T.default")
def transposed(b: Builder, x: Value) -> Value:
    return transpose(b, x, -2, -1) if x.rank >= 2 else identity(b, x)


@translates("unsqueeze.default")
def unsqueeze(b: Builder, x: Value, dim: int) -> Value:
    return b.unsqueeze(x, dim)


@translates("squeeze.default")
def squeeze(b: Builder, x: Value) -> Value:
    return squeeze_dims(b, x, list(range(x.rank)))


@translates("squeeze.dim")
def squeeze_dim(b: Builder, x: Value, dim: int) -> Value:
    return squeeze_dims(b, x, [dim])


@translates("squeeze.dims")
def squeeze_dims(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    # torch: dims that are not of size one stay.
    taken = [dim % x.rank for dim in dims if x.rank and x.shape[dim] == 1]
    return b.squeeze(x, *taken) if taken else identity(b, x)


@translates("expand.default", "expand_copy.default")
def expand(b: Builder, x: Value, sizes: Sequence[Any], implicit: bool = False) -> Value:
    sizes = [1 if isinstance(size, int) and size == -1 else size for size in sizes]
    return b.op("Expand", x, b.ints(sizes)) if sizes else identity(b, x)


@translates("expand_as.default")
def expand_as(b: Builder, x: Value, other: Value) -> Value:
    return b.op("Expand", x, b.op("Shape", other, dtype=INT64))


@translates("repeat.default")
def repeat(b: Builder, x: Value, counts: Sequence[Any]) -> Value:
    more = len(counts) - x.rank
    if more:
        x = b.unsqueeze(x, *range(more))
    return b.op("Tile", x, b.ints(counts)) if counts else identity(b, x)


@translates("cat.default", "concat.default")
def cat(b: Builder, tensors: Sequence[Value], dim: int) -> Value:
    dtype = b.result.dtype
    # torch: an empty list of elements joins with anything.
    parts = [part for part in tensors if not is_nothing(part.shape)] or list(tensors)
    return b.op("Concat", *[b.cast(part, dtype) for part in parts], axis=dim)


def is_nothing(shape: Sequence[Any]) -> bool:
    return len(shape) == 1 and type(shape[0]) is int and shape[0] == 0


@translates("stack.default")
def stack(b: Builder, tensors: Sequence[Value], dim: int) -> Value:
    dtype = b.result.dtype
    return b.op("Concat", *[b.unsqueeze(b.cast(part, dtype), dim) for part in tensors], axis=dim)


def parts_of(b: Builder, x: Value, sizes: Sequence[Any], dim: int) -> list[Value]:
    if not sizes:
        return []
    return b.many("Split", [x, b.ints(sizes)], [x.dtype] * len(sizes), axis=dim)


@translates("split_with_sizes.default", "split.sizes")
def split_with_sizes(b: Builder, x: Value, sizes: Sequence[Any], dim: int = 0) -> list[Value]:
    return parts_of(b, x, sizes, dim)


@translates("split.Tensor", "chunk.default", "tensor_split.sections", "unsafe_chunk.default")
def split(b: Builder, x: Value, size: Any, dim: int = 0) -> list[Value]:
    sizes = [part.shape[dim] for part in b.result]
    if not all(isinstance(each, int) for each in sizes):
        if len(sizes) == 1:
            return [identity(b, x)]
        raise refuse("a split of a dim whose size is not known")
    return parts_of(b, x, sizes, dim)


@translates("unbind.int")
def unbind(b: Builder, x: Value, dim: int) -> list[Value]:
    return [b.squeeze(part, dim) for part in parts_of(b, x, [1] * len(b.result), dim)]


@translates("slice.Tensor", "slice_copy.Tensor")
def sliced(
    b: Builder, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    start = 0 if start is None else start
    end = LARGEST if end is None else end
    is_plain = not isinstance(start, Value) and not isinstance(end, Value)
    if is_plain and (start, end, step) == (0, LARGEST, 1):
        return identity(b, x)
    return b.slice(x, dim, start, end, step)


@translates("narrow.default")
def narrow(b: Builder, x: Value, dim: int, start: Any, length: Any) -> Value:
    if isinstance(start, int) and isinstance(length, int):
        end: Any = start + length
    else:
        end = b.op("Add", b.number(start, INT64), b.number(length, INT64))
    return b.slice(x, dim, start, end)


@translates("select.int", "select_copy.int")
def select(b: Builder, x: Value, dim: int, index: Any) -> Value:
    return b.op("Gather", x, b.number(index, INT64), axis=dim)


@translates("flip.default")
def flip(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    if not dims:
        return identity(b, x)
    count = len(dims)
    return b.op(
        "Slice",
        x,
        b.ints([-1] * count),
        b.ints([-LARGEST] * count),
        b.ints(dims),
        b.ints([-1] * count),
    )


@translates("roll.default")
def roll(b: Builder, x: Value, shifts: Sequence[Any], dims: Sequence[int]) -> Value:
    if not dims:
        raise refuse("roll without dims")
    for shift, dim in zip(shifts, dims):
        tail = b.slice(x, dim, -shift, LARGEST) if shift else x
        if shift:
            like = x.like
            x = b.op("Concat", tail, b.slice(x, dim, 0, -shift), axis=dim)
            x.like = like
    return identity(b, x)


@translates("constant_pad_nd.default")
def constant_pad(b: Builder, x: Value, pads: Sequence[Any], value: Any = 0) -> Value:
    return padded(b, x, pads, "constant", b.number(value, x.dtype))


@translates("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(b: Builder, x: Value, pads: Sequence[Any]) -> Value:
    return padded(b, x, pads, "reflect", None)


@translates("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(b: Builder, x: Value, pads: Sequence[Any]) -> Value:
    return padded(b, x, pads, "edge", None)


@translates("pad.default")
def pad(b: Builder, x: Value, pads: Sequence[Any], mode: str, value: Any) -> Value:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        raise refuse(f"padding of mode {mode!r}")
    filler = b.number(0 if value is None else value, x.dtype) if mode == "constant" else None
    return padded(b, x, pads, modes[mode], filler)


def padded(b: Builder, x: Value, pads: Sequence[Any], mode: str, value: Value | None) -> Value:
    """torch lists pads from the last dim on, as pairs; ONNX all beginnings, then all ends."""
    starts: list[Any] = [0] * x.rank
    ends: list[Any] = [0] * x.rank
    for place in range(len(pads) // 2):
        starts[-1 - place], ends[-1 - place] = pads[2 * place], pads[2 * place + 1]
    return b.op("Pad", x, b.ints([*starts, *ends]), value, mode=mode)


@translates("diagonal.default", "diagonal_copy.default")
def diagonal(b: Builder, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    first, second = first % x.rank, second % x.rank
    rows, columns = x.shape[first], x.shape[second]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise refuse("a diagonal of sizes that are not known")
    order = [dim for dim in range(x.rank) if dim not in (first, second)]
    outer = [b.size(x, dim) for dim in order]
    flat = b.reshape(b.transpose(x, [*order, first, second]), [*outer, rows * columns])
    places = [row * columns + row + offset for row in range(rows) if 0 <= row + offset < columns]
    return b.op("Gather", flat, b.ints(places), axis=len(order))


@translates("tril.default")
def tril(b: Builder, x: Value, diagonal: int) -> Value:
    return b.op("Trilu", x, b.number(diagonal, INT64), upper=0)


@translates("triu.default")
def triu(b: Builder, x: Value, diagonal: int) -> Value:
    return b.op("Trilu", x, b.number(diagonal, INT64), upper=1)


@translates("pixel_shuffle.default")
def pixel_shuffle(b: Builder, x: Value, factor: int) -> Value:
    if x.rank < 3:
        raise refuse("pixel_shuffle of less than three dims")
    # Dims before the channels are one, as ONNX has it.
    outer = [b.size(x, dim) for dim in range(x.rank - 3)]
    pictures = b.reshape(x, [-1, *[b.size(x, dim) for dim in range(-3, 0)]])
    found = b.op("DepthToSpace", b.cast(pictures, FLOAT if x.dtype is not DOUBLE else DOUBLE),
                 blocksize=factor, mode="CRD")  # fmt: skip
    sizes = [size if isinstance(size, int) else None for size in b.result.shape[-3:]]
    if None in sizes:
        raise refuse("pixel_shuffle of a picture whose sizes are not known")
    return b.reshape(found, [*outer, *sizes])
