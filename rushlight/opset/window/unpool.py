"""Fractional pooling, unpooling, and images as columns of patches and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import widen
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.determinism import refuse_nondeterministic
from rushlight.core.dtype import INTEGER, unsupported
from rushlight.core.op import OpOverload
from rushlight.core.tensor import sizes_of
from rushlight.opset.kinds import WINDOW, Spec
from rushlight.opset.registry import op
from rushlight.opset.rules import aten, late, linear_in
from rushlight.opset.window.pool import (
    WORDS,
    backward_to_picked,
    check_floats,
    pick,
    scattered_to,
    suggested,
)
from rushlight.opset.window.windows import regular

# -- fractional ------------------------------------------------------------------------------------

AXES = {2: ("height", "width"), 3: ("time", "height", "width")}


def fractional_starts(samples: Any, size: int, places: int, kernel: int) -> Any:
    """Where windows start along one axis, for the random number of every plane."""
    found = np.full((*samples.shape, places), size - kernel, np.int64)
    if places > 1:
        scalar = samples.dtype.type
        step = scalar(size - kernel) / scalar(places - 1)
        order = np.arange(places - 1).astype(samples.dtype)
        reached = ((samples[..., None] + order) * step).astype(np.int64)
        found[..., :-1] = reached - (samples[..., None] * step).astype(np.int64)
    return found


def check_fractional(
    name: str, count: int, self: Any, kernel_size: Any, output_size: Any, random_samples: Any
) -> None:
    label = name if count == 2 else f"{name}_out"
    tuple_of = "tuple of" if count == 2 else "tuple of three"
    for which, value in (("kernel_size", kernel_size), ("output_size", output_size)):
        if len(value) != count:
            raise RuntimeError(f"{name}: {which} must either be a single Int or {tuple_of} Ints")
    shape = sizes_of(self)
    if len(shape) not in (count + 1, count + 2):
        raise RuntimeError(
            f"{label}(): Expected {count + 1}D or {count + 2}D tensor, but got: "
            f"{geometry.show(shape)}"
        )
    for axis in range(len(shape) - count - 1, len(shape)):
        if geometry.is_size(shape[axis], 0):
            raise RuntimeError(
                f"{label}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"got{geometry.show(shape)} with dimension {axis} being empty."
            )
    for word, size, places, kernel in zip(
        AXES[count], shape[-count:], output_size, kernel_size, strict=True
    ):
        # torch: a volume must be larger than its windows reach.
        if geometry.decided(places + kernel - 1 > size - (count == 3)):
            raise RuntimeError(
                f"{label}(): pool {word} {kernel} too large relative to input {word} {size}"
            )
    if random_samples._dtype is not self._dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    given = sizes_of(random_samples)
    if len(given) != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {len(given)}")
    batch = shape[0] if len(shape) == count + 2 else 1
    if given[0] < batch:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if given[1] != shape[-count - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if given[2] != count:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {count}; got {given[2]}.")


def define_fractional(count: int) -> None:
    """fractional_max_pool{count}d and its backward."""
    name = f"fractional_max_pool{count}d"

    backward: OpOverload
    forward = op(
        f"{name}(Tensor self, int[{count}] kernel_size, int[{count}] output_size, "
        "Tensor random_samples) -> (Tensor, Tensor)",
        autocast="float32",
        kind=WINDOW.checked,
        fold=None,
        batch=late("window.batched:fractional_pool"),
        spatial=count,
        method=False,
        function=False,
        out_name="output",
        differentiable=["self"],
        non_differentiable=(1,),
        vjp=lambda grad, self, kernel_size, output_size, result1: backward(
            grad, self, kernel_size, output_size, result1
        ),
        jvp=lambda self_t, result1: (pick(self_t, result1, count), None),
    )

    @forward.requires
    def _(self: Any, kernel_size: Any, output_size: Any, random_samples: Any) -> None:
        check_fractional(name, count, self, kernel_size, output_size, random_samples)
        sizes = (*sizes_of(self)[:-count], *output_size)
        check_floats(f"{name}_out_frame", self._dtype, sizes)

    @forward.kernel
    def _(xp: Any, self: Any, kernel_size: Any, output_size: Any, random_samples: Any) -> Any:
        source = widen(self)
        sizes = self.shape[-count:]
        planes = source.reshape(-1, int(np.prod(sizes)))
        samples = random_samples[: self.shape[0] if self.ndim == count + 2 else 1]
        samples = samples.reshape(-1, count)
        # torch: the first random number is for the width of an image, but the time of a volume.
        order = (1, 0) if count == 2 else (0, 1, 2)
        places: Any = np.zeros((len(planes), *[1] * count), np.int64)
        step = 1
        steps = [1] * count
        for axis in range(count - 1, -1, -1):
            starts = fractional_starts(
                samples[:, order[axis]], sizes[axis], output_size[axis], kernel_size[axis]
            )
            shape = [len(planes), *[1] * count]
            shape[axis + 1] = output_size[axis]
            places = places + starts.reshape(shape) * step
            steps[axis] = step
            step *= sizes[axis]
        best = np.full(places.shape, -np.inf, source.dtype)
        found = places.copy()
        rows = np.arange(len(planes)).reshape(-1, *[1] * count)
        for tap in np.ndindex(*kernel_size):
            spots = places + sum(t * s for t, s in zip(tap, steps, strict=True))
            values = planes[rows, spots]
            larger = (values > best) | np.isnan(values)
            np.copyto(best, values, where=larger)
            np.copyto(found, spots, where=larger)
        shape = [*self.shape[:-count], *output_size]
        return best.reshape(shape).astype(self.dtype), found.reshape(shape)

    backward = backward_to_picked(
        f"{name}_backward(Tensor grad_output, Tensor self, int[{count}] kernel_size, "
        f"int[{count}] output_size, Tensor indices) -> Tensor",
        count,
        fold=count + 2,
    )

    @backward.requires
    def _(grad_output: Any, self: Any, kernel_size: Any, output_size: Any, indices: Any) -> None:
        shape = sizes_of(self)
        if len(output_size) != count or len(kernel_size) != count:
            raise RuntimeError(
                f"{name}_backward: kernel_size and output_size must be tuples of {WORDS[count]} "
                "Ints"
            )
        wanted = (*shape[:-count], *output_size)
        for given in (grad_output, indices):
            if not geometry.same_sizes(sizes_of(given), wanted):
                raise RuntimeError(
                    f"{name}_backward(): gradOutput and indices must have sizes "
                    f"{geometry.show(wanted)}, but got {geometry.show(sizes_of(given))}"
                )
        check_floats(f"{name}_backward_out_frame", grad_output._dtype)

    @backward.kernel
    def _(
        xp: Any, grad_output: Any, self: Any, kernel_size: Any, output_size: Any, indices: Any
    ) -> Any:
        return scattered_to(self.shape, grad_output, indices, count)

    sizes = (2, 4, 3) if count == 2 else (1, 3, 3, 4)
    places = [2] * count if count == 2 else [1, 1, 2]

    def numbers(make: Any, batch: int) -> Any:
        return make(batch, sizes[0], count, low=0, high=1)

    def samples(make: Any) -> Any:
        yield make.distinct(1, *sizes), [2] * count, places, numbers(make, 1)
        yield make.distinct(sizes), [1, 2, 2][:count], [2, 1, 2][:count], numbers(make, 2)
        yield make.strided(1, *sizes), [2] * count, [1] * count, numbers(make, 1)
        yield make(0, *sizes), [2] * count, places, numbers(make, 1)

    forward.samples = samples
    forward.errors = lambda make: [
        (RuntimeError, (make(1, *sizes), [2] * count, [4] * count, numbers(make, 1))),
        (RuntimeError, (make(2, *sizes), [2] * count, places, numbers(make, 1))),
        (RuntimeError, (make(1, *sizes), [2], places, numbers(make, 1))),
        (RuntimeError, (make(3), [2] * count, places, numbers(make, 1))),
    ]
    backward.samples = lambda make: [
        (
            make(1, sizes[0], *places),
            make(1, *sizes),
            [2] * count,
            places,
            make.index(1, sizes[0], *places, below=6),
        ),
    ]


for dims in (2, 3):
    define_fractional(dims)

# -- unpooling -------------------------------------------------------------------------------------


def check_unpool(count: int, self: Any, indices: Any, output_size: Any) -> None:
    words = "(height, width)" if count == 2 else "(depth, height, width)"
    if indices._dtype is not dtypes.int64:
        got = f" but got: {indices._dtype.scalar_type_name}" if count == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{got}")
    shape = sizes_of(self)

    def check_count() -> None:
        if len(output_size) != count:
            raise RuntimeError(
                f"There should be exactly {WORDS[count]} elements {words} in output_size, but got "
                f"{len(output_size)} elements."
            )

    if len(shape) not in (count + 1, count + 2):
        raise RuntimeError(
            f"Input to max_unpooling{count}d should be a {count + 1}d or {count + 2}d Tensor, but "
            f"got a tensor with {len(shape)} dimensions."
        )
    check_count()
    if not geometry.same_sizes(sizes_of(indices), shape):
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({geometry.show(shape)}) but got indices tensor with shape: "
            f"{geometry.show(sizes_of(indices))}"
        )
    for axis in range(1, len(shape)):
        if geometry.is_size(shape[axis], 0):
            raise RuntimeError(
                f"max_unpooling{count}d_forward_out_cpu(): Expected input to have non-zero size "
                f"for non-batch dimensions, but got {geometry.show(shape)} with dimension {axis} "
                "being empty."
            )


def unpooled(array: Any, indices: Any, output_size: Any) -> Any:
    """Zeros with values written at flat positions; the last value for a position stays."""
    count = len(output_size)
    size = int(np.prod(output_size, dtype=np.int64))
    rows = int(np.prod(array.shape[:-count], dtype=np.int64))
    flat = indices.reshape(rows, int(np.prod(indices.shape[-count:], dtype=np.int64)))
    if flat.size and (flat.min() < 0 or flat.max() >= size):
        bad = int(flat[(flat < 0) | (flat >= size)][-1])
        sizes = "x".join([str(n) for n in output_size])
        raise RuntimeError(
            f"Found an invalid max index: {bad} (output volumes are of size {sizes})"
        )
    result = np.zeros((rows, size), array.dtype)
    np.put_along_axis(result, flat, array.reshape(flat.shape), 1)
    return result.reshape(*array.shape[:-count], *output_size)


max_unpool2d = op(
    "max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
    may_raise=True,
    autocast="float32",
    kind=WINDOW.checked,
    spatial=2,
    strides=suggested,
    method=False,
    function=False,
    differentiable=["self"],
    vjp=lambda grad, indices: pick(grad, indices, 2),
    jvp=linear_in("self"),
)
max_unpool3d = op(
    "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, "
    "int[3] padding) -> Tensor",
    may_raise=True,
    autocast="float32",
    kind=WINDOW.checked,
    spatial=3,
    method=False,
    function=False,
    differentiable=["self"],
    vjp=lambda grad, indices: pick(grad, indices, 3),
    jvp=linear_in("self"),
)


@max_unpool2d.requires
def _(self: Any, indices: Any, output_size: Any) -> None:
    check_unpool(2, self, indices, output_size)
    check_floats("max_unpool2d", self._dtype, sizes_of(self))


@max_unpool2d.kernel
def _(xp: Any, self: Any, indices: Any, output_size: Any) -> Any:
    refuse_nondeterministic("max_unpooling2d_forward_out")
    return unpooled(self, indices, output_size)


@max_unpool3d.requires
def _(self: Any, indices: Any, output_size: Any, stride: Any, padding: Any) -> None:
    check_unpool(3, self, indices, output_size)
    for which, value in (("stride", stride), ("padding", padding)):
        if len(value) != 3:
            raise RuntimeError(
                f"There should be exactly three elements (depth, height, width) in {which}, but "
                f"got: {len(value)} elements."
            )
    if any(step <= 0 for step in stride):
        raise RuntimeError(
            f"strides should be greater than zero, but got stride: {geometry.show(stride)}"
        )
    check_floats("max_unpool3d", self._dtype)


@max_unpool3d.kernel
def _(xp: Any, self: Any, indices: Any, output_size: Any, stride: Any, padding: Any) -> Any:
    refuse_nondeterministic("max_unpooling3d_forward_out")
    return unpooled(self, indices, output_size)


def places_in(make: Any, *shape: int, size: int) -> Any:
    """Indices of which no two in a plane are the same."""
    count = int(np.prod(shape[1:]))
    first = make.index(shape[0], below=size - count + 1)
    spread = aten.arange(count).reshape(1, count) + first.reshape(shape[0], 1)
    return spread.reshape(shape)


max_unpool2d.samples = lambda make: [
    (make(1, 2, 2, 2), places_in(make, 2, 2, 2, size=12).unsqueeze(0), [3, 4]),
    (make.strided(2, 2, 2), places_in(make, 2, 2, 2, size=9), [3, 3]),
    (make(1, 2, 2, 2).permute(0, 3, 1, 2), places_in(make, 2, 2, 2, size=9).unsqueeze(0), [3, 3]),
    (make(0, 2, 2, 2), make.index(0, 2, 2, 2, below=3), [3, 3]),
]
max_unpool2d.errors = lambda make: [
    (RuntimeError, (make(1, 2, 2, 2), make(1, 2, 2, 2), [3, 4])),
    (RuntimeError, (make(1, 2, 2, 2), make.index(1, 2, 2, 3, below=3), [3, 4])),
    (RuntimeError, (make(1, 2, 2, 2), make.ints(1, 2, 2, 2, low=20, high=30), [3, 4])),
    (RuntimeError, (make(2, 2), make.index(2, 2, below=3), [3, 4])),
    (RuntimeError, (make(1, 2, 2, 2), make.index(1, 2, 2, 2, below=3), [3])),
]
max_unpool3d.samples = lambda make: [
    (
        make(1, 2, 1, 2, 2),
        places_in(make, 2, 1, 2, 2, size=24).unsqueeze(0),
        [2, 3, 4],
        [2, 2, 2],
        [0, 0, 0],
    ),
    (make.strided(1, 2, 2, 1), places_in(make, 1, 2, 2, 1, size=8), [2, 2, 2], [1] * 3, [0] * 3),
]
max_unpool3d.errors = lambda make: [
    (
        RuntimeError,
        (make(1, 1, 2, 2, 2), make.index(1, 1, 2, 2, 2, below=3), [3] * 3, [0] * 3, [0] * 3),
    ),
    (
        RuntimeError,
        (make(1, 1, 2, 2, 2), make.index(1, 1, 2, 2, 2, below=3), [3] * 2, [1] * 3, [0] * 3),
    ),
]

# -- patches as columns ----------------------------------------------------------------------------


def check_pairs(**options: Any) -> None:
    for name, value in options.items():
        if len(value) != 2:
            raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")


def check_patches(kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> None:
    def shown(name: str, values: Any) -> str:
        return f"{name}_height: {values[0]} {name}_width: {values[1]}"

    if any(k <= 0 for k in kernel_size):
        raise RuntimeError(
            f"kernel size should be greater than zero, but got {shown('kernel', kernel_size)}"
        )
    if any(d <= 0 for d in dilation):
        raise RuntimeError(
            f"dilation should be greater than zero, but got {shown('dilation', dilation)}"
        )
    if any(p < 0 for p in padding):
        raise RuntimeError(f"padding should be non-negative, but got {shown('pad', padding)}")
    if any(s <= 0 for s in stride):
        raise RuntimeError(f"stride should be greater than zero, but got {shown('stride', stride)}")


def block_counts(sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> list[Any]:
    entries = zip(sizes, kernel, dilation, padding, stride, strict=True)
    return [(n + 2 * p - (d * (k - 1) + 1)) // s + 1 for n, k, d, p, s in entries]


def pair(values: Any) -> str:
    return f"({values[0]}, {values[1]})"


def check_column_dtype(name: str, dtype: Any) -> None:
    if dtype.category == INTEGER:
        raise unsupported(name, dtype)


im2col = op(
    "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
    "-> Tensor",
    kind=WINDOW.checked,
    fold=4,
    method=False,
    function=False,
    vjp=lambda grad, self_shape, kernel_size, dilation, padding, stride: aten.col2im(
        grad, self_shape[-2:], kernel_size, dilation, padding, stride
    ),
    jvp=linear_in("self"),
)


@im2col.shape
def _(self: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    check_pairs(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    check_patches(kernel_size, dilation, padding, stride)
    shape = sizes_of(self)
    if len(shape) < 3:
        geometry.wrap_dim(2, len(shape))
    if len(shape) not in (3, 4) or any([geometry.is_size(size, 0) for size in shape[-3:]]):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {geometry.show(shape)}"
        )
    blocks = block_counts(shape[-2:], kernel_size, dilation, padding, stride)
    if any([geometry.decided(count < 1) for count in blocks]):
        raise RuntimeError(
            f"Given input with spatial size {pair(shape[-2:])}, kernel_size={pair(kernel_size)}, "
            f"dilation={pair(dilation)}, padding={pair(padding)}, calculated shape of the array of "
            f"sliding blocks as {pair(blocks)}, but its components must be at least one."
        )
    check_column_dtype("im2col_out_cpu", self._dtype)
    rows = shape[-3] * (kernel_size[0] * kernel_size[1])
    return Spec((*shape[:-3], rows, blocks[0] * blocks[1]), self._dtype)


def patch_windows(sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    blocks = block_counts(sizes, kernel, dilation, padding, stride)
    entries = zip(sizes, blocks, kernel, stride, padding, dilation, strict=True)
    return [regular(*entry) for entry in entries]


@im2col.kernel
def _(xp: Any, self: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    rows, columns = patch_windows(self.shape[-2:], kernel_size, dilation, padding, stride)
    lead = self.shape[:-2]
    result = xp.zeros((*lead, *kernel_size, len(rows), len(columns)), self.dtype)
    for down, outer, inner in rows.taps:
        for across, right, left in columns.taps:
            result[..., down, across, outer, right] = self[..., inner, left]
    count = self.shape[-3] * kernel_size[0] * kernel_size[1]
    return result.reshape(*lead[:-1], count, len(rows) * len(columns))


col2im = op(
    "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, "
    "int[2] padding, int[2] stride) -> Tensor",
    kind=WINDOW.checked,
    fold=3,
    method=False,
    function=False,
    vjp=lambda grad, kernel_size, dilation, padding, stride: aten.im2col(
        grad, kernel_size, dilation, padding, stride
    ),
    jvp=linear_in("self"),
)


@col2im.shape
def _(
    self: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Any:
    check_pairs(
        output_size=output_size,
        kernel_size=kernel_size,
        dilation=dilation,
        padding=padding,
        stride=stride,
    )
    check_patches(kernel_size, dilation, padding, stride)
    shape = sizes_of(self)
    if len(shape) not in (2, 3) or any([geometry.is_size(size, 0) for size in shape[-2:]]):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {geometry.show(shape)}"
        )
    per_block = kernel_size[0] * kernel_size[1]
    dim = len(shape) - 2
    if geometry.decided(shape[dim] % per_block != 0):
        raise RuntimeError(
            f"Expected size of input's dimension {dim} to be divisible by the product of "
            f"kernel_size, but got input.size({dim})={shape[dim]} and "
            f"kernel_size={pair(kernel_size)}."
        )
    blocks = block_counts(output_size, kernel_size, dilation, padding, stride)
    given = (
        f"Given output_size={pair(output_size)}, kernel_size={pair(kernel_size)}, "
        f"dilation={pair(dilation)}, padding={pair(padding)}, stride={pair(stride)}, "
    )
    if shape[dim + 1] != blocks[0] * blocks[1]:
        raise RuntimeError(
            f"{given}expected size of input's dimension {dim + 1} to match the calculated number "
            f"of sliding blocks {blocks[0]} * {blocks[1]} = {blocks[0] * blocks[1]}, but got "
            f"input.size({dim + 1})={shape[dim + 1]}."
        )
    if any([count < 1 for count in blocks]):
        raise RuntimeError(
            f"{given}calculated shape of the array of sliding blocks as {pair(blocks)}, which is "
            "too small (non-positive)"
        )
    if any([size < 1 for size in output_size]):
        raise RuntimeError(
            f"Expected output spatial size to be positive, but got {pair(output_size)}"
        )
    check_column_dtype("col2im_out_cpu", self._dtype)
    return Spec((*shape[:-2], shape[dim] // per_block, *output_size), self._dtype)


@col2im.kernel
def _(
    xp: Any, self: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Any:
    rows, columns = patch_windows(output_size, kernel_size, dilation, padding, stride)
    channels = self.shape[-2] // (kernel_size[0] * kernel_size[1])
    lead = (*self.shape[:-2], channels)
    source = widen(self).reshape(*lead, *kernel_size, len(rows), len(columns))
    result = xp.zeros((*lead, *output_size), source.dtype)
    for down, outer, inner in rows.taps:
        for across, right, left in columns.taps:
            result[..., inner, left] += source[..., down, across, outer, right]
    return result.astype(self.dtype)


im2col.samples = lambda make: [
    (make(1, 2, 3, 3), [2, 2], [1, 1], [0, 0], [1, 1]),
    (make(2, 3, 4), [2, 1], [1, 2], [1, 0], [2, 1]),
    (make.strided(1, 1, 4, 4), [2, 3], [2, 1], [1, 1], [1, 2]),
    (make(0, 2, 3, 3), [2, 2], [1, 1], [0, 0], [1, 1]),
]
im2col.errors = lambda make: [
    (RuntimeError, (make(1, 2, 3, 3), [2], [1, 1], [0, 0], [1, 1])),
    (RuntimeError, (make(1, 2, 3, 3), [0, 2], [1, 1], [0, 0], [1, 1])),
    (RuntimeError, (make(1, 2, 3, 3), [2, 2], [1, 1], [-1, 0], [1, 1])),
    (RuntimeError, (make(1, 2, 3, 3), [4, 2], [1, 1], [0, 0], [1, 1])),
]
col2im.samples = lambda make: [
    (make(1, 8, 2), [2, 3], [2, 2], [1, 1], [0, 0], [1, 1]),
    (make(2, 8), [3, 4], [2, 1], [1, 1], [1, 0], [2, 1]),
    (make.strided(2, 4, 4), [3, 3], [2, 2], [1, 1], [0, 0], [1, 1]),
    (make(0, 8, 2), [2, 3], [2, 2], [1, 1], [0, 0], [1, 1]),
]
col2im.errors = lambda make: [
    (RuntimeError, (make(1, 7, 2), [2, 3], [2, 2], [1, 1], [0, 0], [1, 1])),
    (RuntimeError, (make(1, 8, 3), [2, 3], [2, 2], [1, 1], [0, 0], [1, 1])),
    (RuntimeError, (make(4), [2, 3], [2, 2], [1, 1], [0, 0], [1, 1])),
]
