"""Padding, and the shuffles between channels and space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.arrays.casting import held_number
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.core.op import OpOverload
from rushlight.core.tensor import sizes_of, strides_of
from rushlight.opset.kinds import REARRANGEMENT, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late, linear_in

# -- constant ------------------------------------------------------------------------------------


def suggested(self: Any, sizes: Any) -> Any:
    """Strides of a result in the memory format that the input suggests."""
    found = geometry.suggest_memory_format(sizes_of(self), strides_of(self))
    return geometry.strides_for_memory_format(tuple(sizes), found)


constant_pad_nd = op(
    "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
    trailing=lambda self, pad, value: len(pad) // 2,
    kind=REARRANGEMENT,
    method=False,
    vjp=lambda grad, pad: aten.constant_pad_nd(grad, [-width for width in pad], 0),
    jvp=lambda self_t, pad: aten.constant_pad_nd(self_t, pad, 0),
)


@constant_pad_nd.shape
def _(self: Any, pad: Any, value: Any) -> Any:
    sizes = list(self.shape)
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * len(sizes):
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad "
            f"length is {len(pad)}while the input has {len(sizes)}dimensions."
        )
    for position in range(len(pad) // 2):
        axis = len(sizes) - 1 - position
        wanted = sizes[axis] + pad[2 * position] + pad[2 * position + 1]
        if geometry.decided(wanted < 0):
            raise RuntimeError(
                f"The input size {sizes[axis]}, plus negative padding {pad[2 * position]} and "
                f"{pad[2 * position + 1]} resulted in a negative output size, which is invalid. "
                f"Check dimension {axis} of your input."
            )
        sizes[axis] = wanted
    # Which way widths of symbols go is asked only where it tells strides apart.
    is_plain = geometry.is_contiguous(sizes_of(self), strides_of(self))
    if not is_plain and all([width <= 0 for width in pad]):
        return Spec(sizes, self._dtype, geometry.like_strides(tuple(sizes), strides_of(self)))
    return Spec(sizes, self._dtype, suggested(self, sizes))


@constant_pad_nd.kernel
def _(xp: Any, self: Any, pad: Any, value: Any) -> Any:
    sizes = list(self.shape)
    source: list[Any] = [slice(None)] * len(sizes)
    target: list[Any] = [slice(None)] * len(sizes)
    for position in range(len(pad) // 2):
        axis = len(sizes) - 1 - position
        before, after = pad[2 * position], pad[2 * position + 1]
        length = sizes[axis]
        sizes[axis] = length + before + after
        source[axis] = slice(max(-before, 0), max(length + min(after, 0), 0))
        target[axis] = slice(max(before, 0), max(sizes[axis] - max(after, 0), 0))
    dtype = dtypes.from_numpy(self.dtype)
    number = held_number(value, dtype)
    # Memory of zeros is had for less than memory filled with them; -0.0 is another number.
    is_zero = type(value) in (int, float) and not value and math.copysign(1.0, value) > 0
    result = xp.zeros(sizes, self.dtype) if is_zero else xp.full(sizes, number, self.dtype)
    result[tuple(target)] = self[tuple(source)]
    return result


constant_pad_nd.samples = lambda make: [
    (make(2, 3), (1, 2)),
    (make(2, 3), (1, 2, 0, 1), 2),
    (make.strided(2, 3), (-1, 1)),
    (make(3), (-1, -1), 1),
    (make(), ()),
]
constant_pad_nd.errors = lambda make: [
    (RuntimeError, (make(3), (1,))),
    (RuntimeError, (make(3), (1, 1, 1, 1))),
    (RuntimeError, (make(3), (-4, 0))),
]


# -- reflected and repeated edges ----------------------------------------------------------------


def edge_places(size: int, before: int, after: int, mode: str) -> Any:
    """For each position of a padded axis, the input position it copies."""
    places = np.arange(-before, size + after)
    if mode == "replicate":
        return np.clip(places, 0, size - 1)
    places = np.abs(places)
    return np.where(places >= size, 2 * (size - 1) - places, places)


def padded_sizes(self: Any, padding: Any, count: int, mode: str) -> tuple[Any, ...]:
    sizes = list(self.shape)
    if len(sizes) not in (count + 1, count + 2) or any(
        geometry.is_size(size, 0) for size in sizes[len(sizes) - count - 1 :]
    ):
        raise RuntimeError(
            f"Expected {count + 1}D or {count + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {geometry.show(sizes)}"
        )
    for position in range(count):
        axis = len(sizes) - 1 - position
        before, after = padding[2 * position], padding[2 * position + 1]
        if mode == "reflect" and any(
            geometry.decided(width >= sizes[axis]) for width in (before, after)
        ):
            raise RuntimeError(
                f"Argument #{4 + 2 * position}: Padding size should be less than the corresponding "
                f"input dimension, but got: padding ({before}, {after}) at dimension {axis} of "
                f"input {geometry.show(self.shape)}"
            )
        wanted = sizes[axis] + before + after
        sizes[axis] = wanted
    if any([geometry.decided(wanted < 1) for wanted in sizes[-count:]]):
        given, named = self.shape[-count:], "DHW"[-count:]
        before = " ".join([f"{name}: {size}" for name, size in zip(named, given, strict=True)])
        after = " ".join(
            [f"{name}: {size}" for name, size in zip(named, sizes[-count:], strict=True)]
        )
        raise RuntimeError(f"input ({before}) is too small. Calculated output {after}")
    return tuple(sizes)


def register_edges(name: str, count: int, mode: str) -> None:
    forward: OpOverload
    backward = op(
        f"{name}_backward(Tensor grad_output, Tensor self, SymInt[{2 * count}] padding) -> Tensor",
        kind=REARRANGEMENT,
        method=False,
        function=False,
        batch=late("window.batched:padded"),
        vjp={
            "grad_output": lambda grad, padding: forward(grad, padding),
            "self": lambda grad, self_meta: grad.new_zeros(self_meta.shape),
        },
        jvp=linear_in("grad_output"),
    )
    forward = op(
        f"{name}(Tensor self, SymInt[{2 * count}] padding) -> Tensor",
        # torch: reflection in three dims is left as it is.
        autocast=None if name == "reflection_pad3d" else "float32",
        kind=REARRANGEMENT,
        method=False,
        function=False,
        batch=late("window.batched:padded"),
        vjp=lambda grad, self, padding: backward(grad, self, padding),
        jvp=linear_in("self"),
    )

    sizes = {1: (1, 2, 4), 2: (1, 2, 3, 3), 3: (1, 1, 2, 3, 2)}[count]
    widths = {1: (1, 2), 2: (1, 0, 2, 1), 3: (1, 0, 0, 1, 1, 1)}[count]
    forward.samples = lambda make: [
        (make(sizes), widths),
        (make(sizes[1:]), widths),
        (make.strided(sizes), (0, 1) * count),
        (make(sizes), (1, -1) * count),
    ]
    padded = {1: (1, 2, 7), 2: (1, 2, 6, 4), 3: (1, 1, 4, 4, 3)}[count]
    backward.samples = lambda make: [(make(padded), make(sizes), widths)]

    @forward.shape
    def _(self: Any, padding: Any) -> Any:
        if self._dtype is dtypes.bool_:
            raise unsupported(name, self._dtype)
        sizes = padded_sizes(self, padding, count, mode)
        return Spec(sizes, self._dtype, suggested(self, sizes))

    @forward.kernel
    def _(xp: Any, self: Any, padding: Any) -> Any:
        result = self
        for position in range(count):
            axis = self.ndim - 1 - position
            places = edge_places(
                self.shape[axis], padding[2 * position], padding[2 * position + 1], mode
            )
            result = xp.take(result, places, axis)
        return result

    @backward.shape
    def _(grad_output: Any, self: Any, padding: Any) -> Any:
        if not (grad_output.is_floating_point() or grad_output.is_complex()):
            raise unsupported(f"{name}_backward", grad_output._dtype)
        wanted = padded_sizes(self, padding, count, mode)
        if not geometry.same_sizes(sizes_of(grad_output), wanted):
            raise RuntimeError(
                f"grad_output has sizes {geometry.show(grad_output.shape)}, expected "
                f"{geometry.show(wanted)}"
            )
        sizes = sizes_of(self)
        return Spec(sizes, grad_output._dtype, suggested(self, sizes))

    @backward.kernel
    def _(xp: Any, grad_output: Any, self: Any, padding: Any) -> Any:
        places = []
        for position in range(count - 1, -1, -1):
            axis = self.ndim - 1 - position
            before, after = padding[2 * position], padding[2 * position + 1]
            places.append(edge_places(self.shape[axis], before, after, mode))
        result = xp.zeros(self.shape, grad_output.dtype)
        xp.add.at(result, (..., *xp.ix_(*places)), grad_output)
        return result


for rank in (1, 2, 3):
    register_edges(f"reflection_pad{rank}d", rank, "reflect")
    register_edges(f"replication_pad{rank}d", rank, "replicate")


@composite("_pad_circular(Tensor self, SymInt[] pad) -> Tensor", method=False, function=False)
def pad_circular(self: Any, pad: Any) -> Any:
    sizes = self.shape
    count = len(sizes) - 2
    if len(pad) // 2 > count:
        raise RuntimeError(f"Invalid padding size, expected {2 * count} but got {len(pad)}")
    result = self
    for position in range(len(pad) // 2):
        axis = len(sizes) - 1 - position
        before, after = pad[2 * position], pad[2 * position + 1]
        size = sizes[axis]
        if geometry.decided(before > size) or geometry.decided(after > size):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if size + before + after < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
        middle = result.narrow(axis, max(-before, 0), size + min(before, 0) + min(after, 0))
        parts = [middle]
        if before > 0:
            parts.insert(0, middle.narrow(axis, middle.shape[axis] - before, before))
        if after > 0:
            parts.append(middle.narrow(axis, 0, after))
        result = aten.cat(parts, axis) if len(parts) > 1 else middle.clone()
    return result


@composite(
    'pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor',
    errors=lambda make: [
        (RuntimeError, (make(2, 3), (1,))),
        (RuntimeError, (make(2, 3), (1, 1, 1, 1, 1, 1))),
        (RuntimeError, (make(2, 3), (4, 4), "reflect")),
        (NotImplementedError, (make(2, 3), (1, 1), "mirror")),
    ],
    method=False,
    function=None,
)
def pad(self: Any, pad: Any, mode: str, value: Any) -> Any:
    ndim = self.dim()
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {ndim}"
        )
    if mode == "constant":
        return aten.constant_pad_nd(self, pad, 0.0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    rank = len(pad) // 2
    if rank in (1, 2, 3) and ndim in (rank + 1, rank + 2):
        if mode == "reflect":
            return getattr(aten, f"reflection_pad{rank}d")(self, pad)
        if mode == "replicate":
            return getattr(aten, f"replication_pad{rank}d")(self, pad)
        if mode == "circular":
            if ndim == rank + 2:
                return pad_circular(self, pad)
            return pad_circular(self.unsqueeze(0), pad).squeeze(0)
        # torch: the words.
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    # torch: the words.
    raise NotImplementedError(f"Padding size {len(pad)} is not supported for {ndim}D input tensor.")


pad_circular.samples = lambda make: [(make(1, 2, 4), (1, 2)), (make(1, 1, 3, 3), (1, -1, 2, 1))]
pad.samples = lambda make: [
    (make(2, 3), (1, 1), "constant", 2.0),
    (make(1, 2, 4), (1, 2), "reflect"),
    (make(2, 4), (1, 2), "replicate"),
    (make(2, 4), (1, 2), "circular"),
    (make(1, 1, 3, 3), (1, 0, 0, 2), "circular"),
]


# -- shuffles ------------------------------------------------------------------------------------


pixel_shuffle = op(
    "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    functional=True,
    trailing=3,
    kind=REARRANGEMENT,
    method=False,
    vjp=lambda grad, upscale_factor: aten.pixel_unshuffle(grad, upscale_factor),
    jvp=linear_in("self"),
)


@pixel_shuffle.shape
def _(self: Any, upscale_factor: int) -> Any:
    sizes = sizes_of(self)
    if len(sizes) < 3:
        raise RuntimeError(
            "pixel_shuffle expects input to have at least 3 dimensions, but got input with "
            f"{len(sizes)} dimension(s)"
        )
    if upscale_factor <= 0:
        raise RuntimeError(
            f"pixel_shuffle expects a positive upscale_factor, but got {upscale_factor}"
        )
    *lead, channels, height, width = sizes
    if geometry.decided(channels % upscale_factor**2 != 0):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by "
            f"{upscale_factor**2}"
        )
    wanted = (
        *lead,
        channels // upscale_factor**2,
        height * upscale_factor,
        width * upscale_factor,
    )
    return Spec(wanted, self._dtype, suggested(self, wanted) if len(wanted) == 4 else None)


@pixel_shuffle.kernel
def _(xp: Any, self: Any, upscale_factor: int) -> Any:
    *lead, channels, height, width = self.shape
    factor = upscale_factor
    count = len(lead)
    parts = self.reshape(*lead, channels // factor**2, factor, factor, height, width)
    axes = [*range(count), count, count + 3, count + 1, count + 4, count + 2]
    moved = parts.transpose(axes).copy()
    return moved.reshape(*lead, channels // factor**2, height * factor, width * factor)


pixel_unshuffle = op(
    "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
    functional=True,
    trailing=3,
    kind=REARRANGEMENT,
    method=False,
    vjp=lambda grad, downscale_factor: aten.pixel_shuffle(grad, downscale_factor),
    jvp=linear_in("self"),
)


@pixel_unshuffle.shape
def _(self: Any, downscale_factor: int) -> Any:
    sizes = sizes_of(self)
    if len(sizes) < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{len(sizes)} dimension(s)"
        )
    if downscale_factor <= 0:
        raise RuntimeError(
            f"pixel_unshuffle expects a positive downscale_factor, but got {downscale_factor}"
        )
    if any(geometry.is_size(size, 0) for size in sizes):
        # torch: a tensor without elements comes back as it is.
        return Spec(sizes, self._dtype, geometry.like_strides(sizes, strides_of(self)))
    *lead, channels, height, width = sizes
    for name, position, size in (("height", -2, height), ("width", -1, width)):
        if geometry.decided(size % downscale_factor != 0):
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({position})={size} is not divisible by {downscale_factor}"
            )
    wanted = (
        *lead,
        channels * downscale_factor**2,
        height // downscale_factor,
        width // downscale_factor,
    )
    return Spec(wanted, self._dtype, suggested(self, wanted) if len(wanted) == 4 else None)


@pixel_unshuffle.kernel
def _(xp: Any, self: Any, downscale_factor: int) -> Any:
    if not self.size:
        return self.copy()
    *lead, channels, height, width = self.shape
    factor = downscale_factor
    count = len(lead)
    parts = self.reshape(*lead, channels, height // factor, factor, width // factor, factor)
    axes = [*range(count), count, count + 2, count + 4, count + 1, count + 3]
    moved = parts.transpose(axes).copy()
    return moved.reshape(*lead, channels * factor**2, height // factor, width // factor)


pixel_shuffle.samples = lambda make: [
    (make(4, 2, 2), 2),
    (make(1, 8, 1, 2), 2),
    (make.strided(1, 4, 2, 2), 2),
]
pixel_shuffle.errors = lambda make: [
    (RuntimeError, (make(4), 2)),
    (RuntimeError, (make(3, 2, 2), 2)),
]
pixel_unshuffle.samples = lambda make: [
    (make(1, 4, 4), 2),
    (make(1, 2, 2, 4), 2),
    (make.strided(1, 1, 4, 4), 2),
]
pixel_unshuffle.errors = lambda make: [(RuntimeError, (make(3, 3, 3), 2))]


channel_shuffle = op(
    "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    batch=late("moving.batched:channel_shuffle"),
    functional=True,
    kind=REARRANGEMENT,
    method=False,
    vjp=lambda grad, groups: aten.channel_shuffle(grad, grad.shape[1] // groups),
    jvp=linear_in("self"),
)


@channel_shuffle.shape
def _(self: Any, groups: Any) -> Any:
    sizes = sizes_of(self)
    if len(sizes) <= 2:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{geometry.show(sizes)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if geometry.decided(sizes[1] % groups != 0):
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {sizes[1]} channels and {groups} "
            "groups."
        )
    return Spec(sizes, self._dtype, suggested(self, sizes) if len(sizes) == 4 else None)


@channel_shuffle.kernel
def _(xp: Any, self: Any, groups: Any) -> Any:
    sizes = self.shape
    rest = geometry.numel(sizes[2:])
    parts = self.reshape(sizes[0], groups, sizes[1] // groups, rest)
    return parts.transpose(0, 2, 1, 3).reshape(sizes)


channel_shuffle.samples = lambda make: [
    (make(1, 4, 2, 2), 2),
    (make.strided(1, 6, 2, 2), 3),
    (make(2, 4, 2), 2),
]
channel_shuffle.errors = lambda make: [(RuntimeError, (make(1, 3, 2, 2), 2))]


@composite(
    "native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    functional=True,
    method=False,
    out=False,
    samples=lambda make: [(make(1, 4, 2), 2), (make.strided(2, 6, 1, 1), 3)],
)
def native_channel_shuffle(self: Any, groups: Any) -> Any:
    return aten.channel_shuffle(self, groups)
