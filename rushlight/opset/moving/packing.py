"""Sequences of different lengths packed into one tensor, and back.

Packed rows go by step before they go by sequence; the longest sequence comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.op import Tag
from rushlight.core.refusals import unknown_size
from rushlight.core.tensor import values_of, wrap
from rushlight.opset.kinds import GATHER, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten

UNSORTED = (
    "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
    "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
    "requirement if you do not need ONNX exportability."
)

pack = op(
    "_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
    kind=GATHER,
    batch="loop",
    method=False,
    tags=(Tag.dynamic_output_shape,),
    differentiable=["input"],
    non_differentiable=(1,),
    vjp=lambda grad, input_shape, result1, batch_first: aten._pack_padded_sequence_backward(
        grad, input_shape, result1, batch_first
    ),
)


def check_lengths(input: Any, lengths: Any, batch_first: bool) -> None:
    dtype = dtypes.from_numpy(lengths.dtype)
    if lengths.ndim != 1 or dtype is not dtypes.int64:
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{lengths.ndim}D cpu {dtype.scalar_type_name} tensor"
        )
    if input.size == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    steps, batch = input.shape[:2][::-1] if batch_first else input.shape[:2]
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={batch})"
        )
    if (lengths <= 0).any():
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if (np.diff(lengths) > 0).any():
        raise RuntimeError(UNSORTED)
    if lengths[0] > steps:
        raise RuntimeError(
            f"lengths must be at most the number of steps in input, {steps}, but got {lengths[0]}"
        )


@pack.shape
def _(input: Any, lengths: Any, batch_first: bool) -> Any:
    if lengths._array is None:
        rows = unknown_size(pack, "the number of rows")
        longest = unknown_size(pack, "the length of the longest sequence")
    else:
        known = values_of(lengths)
        rows, longest = int(known.sum()), int(known.max(initial=0))
    return Spec((rows, *input.shape[2:]), input._dtype), Spec((longest,), dtypes.int64)


@pack.kernel
def _(xp: Any, input: Any, lengths: Any, batch_first: bool) -> Any:
    if input.ndim < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, "
            f"{input.ndim - 1}], but got 1)"
        )
    check_lengths(input, lengths, batch_first)
    steps = xp.swapaxes(input, 0, 1) if batch_first else input
    there = xp.arange(lengths[0])[:, None] < lengths
    return steps[: lengths[0]][there], there.sum(axis=1)


@pack.samples
def _(make: Any) -> Any:
    lengths = make.ints(2, low=1, high=1)
    lengths[0] = 3
    yield make(3, 2), lengths, False
    yield make(2, 3, 2), lengths, True
    yield make.strided(4, 2, 2), lengths, False


pack.errors = lambda make: [
    (RuntimeError, (make(3, 2), make.ints(3, low=1, high=1), False)),
    (RuntimeError, (make(3, 2), make.ints(2, low=0, high=0), False)),
    (RuntimeError, (make(3, 2), make(2, dtype=dtypes.float32), False)),
]


@composite(
    "_pack_padded_sequence_backward(Tensor grad, SymInt[] input_size, Tensor batch_sizes, "
    "bool batch_first) -> Tensor",
    method=False,
    function=False,
    out=False,
)
def pack_backward(grad: Any, input_size: Any, batch_sizes: Any, batch_first: bool) -> Any:
    """Each row at the place of its sequence and step."""
    count, steps, *inner = input_size if batch_first else (*input_size[1::-1], *input_size[2:])
    rows = aten.arange(grad.shape[0], device=grad.device).unsqueeze(1)
    ends = batch_sizes.cumsum(0)
    step = (rows >= ends).sum(1)
    place = rows.squeeze(1) - (ends - batch_sizes).index_select(0, step)
    padded = aten.zeros((steps, count, *inner), dtype=grad._dtype, device=grad.device)
    padded = aten.index_put(padded, (step, place), grad)
    return padded.transpose(0, 1) if batch_first else padded


@pack_backward.samples
def _(make: Any) -> Any:
    sizes = make.ints(2, low=1, high=1)
    sizes[0] = 2
    yield make(3, 2), [3, 2, 2], sizes, False
    yield make(3), [2, 2], sizes, True


@composite(
    "_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, "
    "Scalar padding_value, int total_length) -> (Tensor, Tensor)",
    method=False,
    out=False,
    tags=(Tag.data_dependent_output,),
)
def unpack(
    data: Any, batch_sizes: Any, batch_first: bool, padding_value: Any, total_length: int
) -> Any:
    sizes = np.asarray(batch_sizes.tolist(), np.int64)
    longest, batch = len(sizes), int(sizes[0])
    if total_length > 0:
        if total_length < longest:
            raise RuntimeError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being "
                f"{longest}"
            )
        longest = total_length
    there = np.arange(batch) < sizes[:, None]
    places = [wrap(np.ascontiguousarray(found), dtypes.int64) for found in np.nonzero(there)]
    shape = (longest, batch, *data.shape[1:])
    empty = aten.full(shape, padding_value, dtype=data._dtype, device=data.device)
    padded = aten.index_put(empty, places, data)
    lengths = wrap(there.sum(axis=0), dtypes.int64)
    return padded.transpose(0, 1) if batch_first else padded, lengths


@unpack.samples
def _(make: Any) -> Any:
    sizes = make.ints(2, low=1, high=1)
    sizes[0] = 2
    yield make(3), sizes, False, 0.0, -1
    yield make(3, 2), sizes, True, 1.0, 3


unpack.errors = lambda make: [
    (RuntimeError, (make(3), make.ints(3, low=1, high=1), False, 0.0, 2)),
]


# -- padding ---------------------------------------------------------------------------------------


@composite(
    "pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., "
    'str padding_side="right") -> Tensor',
    method=False,
    function=False,
    out=False,
)
def pad_sequence(sequences: Any, batch_first: bool, padding_value: float, padding_side: str) -> Any:
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    first = sequences[0]
    longest = first.shape[0]
    for sequence in sequences:
        check_trailing(first, sequence)
        longest = geometry.larger(longest, sequence.shape[0])
    padded = []
    for sequence in sequences:
        missing = longest - sequence.shape[0]
        ends = [0, missing] if padding_side == "right" else [missing, 0]
        widths = [0] * (2 * (sequence.dim() - 1)) + ends
        padded.append(aten.constant_pad_nd(sequence, widths, padding_value))
    return aten.stack(padded, 0 if batch_first else 1)


def check_trailing(first: Any, sequence: Any) -> None:
    if first.dim() != sequence.dim():
        raise RuntimeError(
            f"pad_sequence: expected all sequences to have {first.dim()} dims as the first one, "
            f"but got one with {sequence.dim()}"
        )
    for dim in range(1, first.dim()):
        if first.shape[dim] != sequence.shape[dim]:
            raise RuntimeError(
                f"The size of tensor a ({first.shape[dim]}) must match the size of tensor b "
                f"({sequence.shape[dim]}) at non-singleton dimension {dim}"
            )


@pad_sequence.samples
def _(make: Any) -> Any:
    yield ([make(2), make(3)],)
    yield [make(2, 2), make(1, 2), make(0, 2)], True, 1.0
    yield [make(1, 2), make.strided(3, 2)], False, 0.0, "left"


pad_sequence.errors = lambda make: [
    (RuntimeError, ([make(2, 3), make(3, 2)],)),
    (RuntimeError, ([make(2)], False, 0.0, "up")),
]
