"""Resampling of images: nearest, linear, cubic, and the filters that do not alias.

Every method is a sum of taps along one dim after the other: output place o takes input place
index[o] with weight[o]. Gradients are the adjoint of the same taps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.arrays.precision import widen
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import FLOAT, unsupported
from rushlight.core.op import OpOverload
from rushlight.core.tensor import sizes_of
from rushlight.opset.kinds import WINDOW
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import late, linear_in
from rushlight.opset.window.pool import suggested
from rushlight.opset.window.windows import add_along, along

# -- taps of one axis ------------------------------------------------------------------------------


def scale_of(size: int, places: int, factor: Any, align: bool, scalar: Any) -> Any:
    """Input places per output place."""
    if align:
        return scalar(size - 1) / scalar(places - 1) if places > 1 else scalar(0)
    if factor is not None and factor > 0:
        return scalar(1.0 / factor)
    return scalar(size) / scalar(places)


def nearest_taps(size: int, places: int, factor: Any, shift: float) -> Any:
    # torch: single precision whatever the dtype.
    scale = scale_of(size, places, factor, False, np.float32)
    source = np.floor((np.arange(places, dtype=np.float32) + np.float32(shift)) * scale)
    return [(slice(None), np.minimum(source.astype(np.int64), size - 1), None)]


def source_places(size: int, places: int, factor: Any, align: bool, scalar: Any) -> Any:
    scale = scale_of(size, places, factor, align, scalar)
    order = np.arange(places).astype(scalar)
    return scale * order if align else scale * (order + scalar(0.5)) - scalar(0.5)


def linear_taps(size: int, places: int, factor: Any, align: bool, scalar: Any) -> Any:
    source = np.maximum(source_places(size, places, factor, align, scalar), scalar(0))
    first = np.minimum(source.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    part = np.clip(source - first.astype(scalar), scalar(0), scalar(1))
    return [(slice(None), first, scalar(1) - part), (slice(None), second, part)]


def cubic_weights(part: Any, slope: float) -> list[Any]:
    """Weights of the places at -1, 0, 1 and 2 from the one below."""
    scalar = part.dtype.type
    one, a = scalar(1), scalar(slope)

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(part + one), near(part), near(one - part), far(scalar(2) - part)]


def cubic_taps(size: int, places: int, factor: Any, align: bool, scalar: Any) -> Any:
    source = source_places(size, places, factor, align, scalar)
    first = np.floor(source)
    weights = cubic_weights(np.clip(source - first, scalar(0), scalar(1)), -0.75)
    first = first.astype(np.int64)
    return [
        (slice(None), np.clip(first + offset, 0, size - 1), weight)
        for offset, weight in zip(range(-1, 3), weights, strict=True)
    ]


def triangle(x: Any) -> Any:
    return np.maximum(1 - np.abs(x), 0)


def cubic(x: Any) -> Any:
    x = np.abs(x)
    inner = (1.5 * x - 2.5) * x * x + 1
    outer = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, inner, np.where(x < 2, outer, 0))


def lanczos(x: Any) -> Any:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


# The filter of a smooth method, and how many places it covers.
FILTERS = {"bilinear": (triangle, 2), "bicubic": (cubic, 4), "lanczos": (lanczos, 6)}


def filter_taps(method: str, size: int, places: int, factor: Any, align: bool, scalar: Any) -> Any:
    function, width = FILTERS[method]
    scale = scale_of(size, places, factor, align, scalar)
    support = scalar(width * 0.5) * scale if scale >= 1 else scalar(width * 0.5)
    shrink = scalar(1) / scale if scale >= 1 else scalar(1)
    center = scale * (np.arange(places).astype(scalar) + scalar(0.5))
    starts = np.maximum((center - support + scalar(0.5)).astype(np.int64), 0)
    counts = np.minimum((center + support + scalar(0.5)).astype(np.int64), size) - starts
    counts = np.clip(counts, 0, math.ceil(support) * 2 + 1)
    taps = np.arange(int(counts.max()))[:, None]
    weights = function((taps + starts - center + scalar(0.5)) * shrink).astype(scalar)
    weights = np.where(taps < counts, weights, scalar(0))
    total = weights.sum(0)
    weights = weights / np.where(total == 0, scalar(1), total)
    found = []
    for tap in range(len(taps)):
        chosen = np.flatnonzero(tap < counts)
        found.append((chosen, starts[chosen] + tap, weights[tap, chosen]))
    return found


def taps_of(method: str, size: int, places: int, factor: Any, align: bool, scalar: Any) -> Any:
    if method == "nearest":
        return nearest_taps(size, places, factor, 0.0)
    if method == "nearest_exact":
        return nearest_taps(size, places, factor, 0.5)
    if method == "linear":
        return linear_taps(size, places, factor, align, scalar)
    if method == "cubic":
        return cubic_taps(size, places, factor, align, scalar)
    return filter_taps(method, size, places, factor, align, scalar)


def weighted(values: Any, weight: Any, axis: int) -> Any:
    return values if weight is None else values * weight.reshape(-1, *[1] * (-axis - 1))


def apply_taps(array: Any, axis: int, places: int, taps: Any) -> Any:
    sizes = list(array.shape)
    sizes[axis] = places
    if len(taps) == 1 and isinstance(taps[0][0], slice):
        return weighted(np.take(array, taps[0][1], axis), taps[0][2], axis)
    result = np.zeros(sizes, array.dtype)
    for outer, inner, weight in taps:
        term = weighted(np.take(array, inner, axis), weight, axis)
        result[along(axis, array.ndim, outer)] += term
    return result


def apply_adjoint(array: Any, axis: int, size: int, taps: Any) -> Any:
    sizes = list(array.shape)
    sizes[axis] = size
    result = np.zeros(sizes, array.dtype)
    for outer, inner, weight in taps:
        part = weighted(array[along(axis, array.ndim, outer)], weight, axis)
        add_along(result, axis, inner, part)
    return result


def used_factor(method: str, count: int, size: int, places: int, factor: Any) -> Any:
    # torch: images of the same or twice the size are copied whatever the factor says.
    special = method == "nearest" and count == 2 and places in (size, 2 * size)
    return None if special else factor


def is_copy(method: str, size: int, places: int, factor: Any) -> bool:
    """Whether an axis stays as it is."""
    return size == places and (factor is None or method == "linear" or method in FILTERS)


# -- bytes -----------------------------------------------------------------------------------------


def byte_weights(size: int, places: int, taps: Any) -> tuple[Any, int]:
    """(a matrix of whole numbers, how many binary digits of them are a fraction)."""
    matrix = np.zeros((places, size))
    order = np.arange(places)
    for outer, inner, weight in taps:
        # Within one tap every output place occurs once.
        matrix[order[outer], inner] += weight
    largest = float(matrix.max())
    digits = 0
    while digits < 22 and int(0.5 + largest * (1 << (digits + 1))) < 1 << 15:
        digits += 1
    return np.trunc(matrix * (1 << digits) + np.copysign(0.5, matrix)), digits


def resampled_bytes(array: Any, method: str, output_size: Any, scales: Any, align: bool) -> Any:
    # torch: bytes are resampled with 16-bit weights and rounded after every dim. The sums of whole
    # numbers are exact in double precision.
    for axis in (-1, -2):
        size, places = array.shape[axis], output_size[axis]
        if size == places:
            continue
        taps = taps_of(method, size, places, scales[axis], align, np.float64)
        matrix, digits = byte_weights(size, places, taps)
        source = array.astype(np.float64)
        total = source @ matrix.T if axis == -1 else matrix @ source
        whole = np.floor((total + (1 << digits >> 1)) / (1 << digits))
        array = np.clip(whole, 0, 255).astype(np.uint8)
    return array


# -- checks ----------------------------------------------------------------------------------------


def full_sizes(input_size: Any, output_size: Any, count: int) -> tuple[Any, ...]:
    """Sizes of a resampled image; RuntimeError where they make no sense."""
    if len(output_size) != count:
        raise RuntimeError(
            f"It is expected output_size equals to {count}, but got size {len(output_size)}"
        )
    if len(input_size) != count + 2:
        raise RuntimeError(
            f"It is expected input_size equals to {count + 2}, but got size {len(input_size)}"
        )
    places = input_size[2:]
    if any([geometry.decided(size <= 0) for size in (*places, *output_size)]):
        letters = "DHW"[-count:]

        def shown(values: Any) -> str:
            return ", ".join([f"{a}: {v}" for a, v in zip(letters, values, strict=True)])

        joint = " and output" if count == 1 else " output"
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"({shown(places)}){joint} ({shown(output_size)})"
        )
    return (*input_size[:2], *output_size)


KERNEL_NAMES = {
    "nearest": "compute_indices_weights_nearest",
    "nearest_exact": "compute_indices_weights_nearest",
    "linear": "compute_indices_weights_linear",
    "cubic": "compute_indices_weights_cubic",
}


def check_dtype(method: str, count: int, dtype: Any) -> None:
    bytes_too = method != "linear" or count == 2
    smooth = method in FILTERS
    if (dtype is dtypes.uint8 and bytes_too) or (
        dtype.category == FLOAT and not (smooth and dtype.itemsize == 2)
    ):
        return
    raise unsupported(KERNEL_NAMES.get(method, "compute_index_ranges_weights"), dtype)


def working_scalar(array: Any) -> Any:
    return np.float64 if array.dtype == np.float64 else np.float32


# -- gradients by number of arguments --------------------------------------------------------------


def forward_vjp(count: int, aligned: bool, run: Any) -> Any:
    """The gradient of a resampling op; what it saves follows from the names of its arguments."""
    found: Any
    if count == 1 and aligned:
        found = lambda grad, output_size, self_shape, align_corners, scales: (  # noqa: E731
            run(grad, output_size, self_shape, align_corners, scales)
        )
    elif count == 1:
        found = lambda grad, output_size, self_shape, scales: (  # noqa: E731
            run(grad, output_size, self_shape, scales)
        )
    elif count == 2 and aligned:
        found = lambda grad, output_size, self_shape, align_corners, scales_h, scales_w: (  # noqa: E731
            run(grad, output_size, self_shape, align_corners, scales_h, scales_w)
        )
    elif count == 2:
        found = lambda grad, output_size, self_shape, scales_h, scales_w: (  # noqa: E731
            run(grad, output_size, self_shape, scales_h, scales_w)
        )
    elif aligned:
        found = (  # noqa: E731
            lambda grad, output_size, self_shape, align_corners, scales_d, scales_h, scales_w: run(
                grad, output_size, self_shape, align_corners, scales_d, scales_h, scales_w
            )
        )
    else:
        found = lambda grad, output_size, self_shape, scales_d, scales_h, scales_w: (  # noqa: E731
            run(grad, output_size, self_shape, scales_d, scales_h, scales_w)
        )
    return found


def backward_vjp(count: int, aligned: bool, run: Any) -> Any:
    found: Any
    if count == 1 and aligned:
        found = lambda grad, output_size, align_corners, scales: (  # noqa: E731
            run(grad, output_size, align_corners, scales)
        )
    elif count == 1:
        found = lambda grad, output_size, scales: run(grad, output_size, scales)  # noqa: E731
    elif count == 2 and aligned:
        found = lambda grad, output_size, align_corners, scales_h, scales_w: (  # noqa: E731
            run(grad, output_size, align_corners, scales_h, scales_w)
        )
    elif count == 2:
        found = lambda grad, output_size, scales_h, scales_w: (  # noqa: E731
            run(grad, output_size, scales_h, scales_w)
        )
    elif aligned:
        found = lambda grad, output_size, align_corners, scales_d, scales_h, scales_w: (  # noqa: E731
            run(grad, output_size, align_corners, scales_d, scales_h, scales_w)
        )
    else:
        found = lambda grad, output_size, scales_d, scales_h, scales_w: (  # noqa: E731
            run(grad, output_size, scales_d, scales_h, scales_w)
        )
    return found


# -- the ops ---------------------------------------------------------------------------------------

FACTORS = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


def define(name: str, count: int, method: str, aligned: bool) -> None:  # noqa: C901
    """`name`, its overload with a list of scale factors, and its backward."""
    corners = "bool align_corners, " if aligned else ""
    factors = ", ".join([f"float? {factor}=None" for factor in FACTORS[count]])

    def options(rest: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...]]:
        return (rest[0], rest[1:]) if aligned else (False, rest)

    backward: OpOverload
    forward = op(
        f"{name}(Tensor self, SymInt[{count}] output_size, {corners}{factors}) -> Tensor",
        kind=WINDOW.checked,
        spatial=count,
        strides=suggested,
        method=False,
        function=False,
        vjp=forward_vjp(count, aligned, lambda *args: backward(*args)),
        jvp=linear_in("self"),
    )
    backward = op(
        f"{name}_backward(Tensor grad_output, SymInt[{count}] output_size, "
        f"SymInt[{count + 2}] input_size, {corners}{factors}) -> Tensor",
        kind=WINDOW.checked,
        spatial=count,
        strides=suggested,
        method=False,
        function=False,
        out_name="grad_input",
        batch=late("window.batched:resample_backward"),
        vjp=backward_vjp(count, aligned, lambda *args: forward(*args)),
        jvp=linear_in("grad_output"),
    )

    @forward.requires
    def _(self: Any, output_size: Any) -> None:
        shape = sizes_of(self)
        full_sizes(shape, output_size, count)
        if geometry.is_size(shape[1], 0):
            raise RuntimeError(
                f"Non-empty {count + 2}D data tensor expected but got a tensor with sizes "
                f"{geometry.show(shape)}"
            )
        if not (method in FILTERS and geometry.known_equal(tuple(output_size), shape[2:])):
            check_dtype(method, count, self._dtype)

    @forward.kernel
    def _(xp: Any, self: Any, output_size: Any, *rest: Any) -> Any:
        align, scales = options(rest)
        if method in FILTERS and tuple(output_size) == self.shape[2:]:
            return self.copy()
        if self.dtype == np.uint8 and not method.startswith("nearest"):
            return resampled_bytes(self, method, output_size, scales, align)
        result = self if method.startswith("nearest") else widen(self)
        scalar = working_scalar(self)
        for axis in range(-1, -count - 1, -1):
            size, places = self.shape[axis], output_size[axis]
            factor = used_factor(method, count, size, places, scales[axis])
            if is_copy(method, size, places, factor):
                continue
            taps = taps_of(method, size, places, factor, align, scalar)
            result = apply_taps(result, axis, places, taps)
        return result.astype(self.dtype)

    @backward.requires
    def _(grad_output: Any, output_size: Any, input_size: Any) -> None:
        sizes = full_sizes(tuple(input_size), output_size, count)
        given = sizes_of(grad_output)
        if len(given) != len(sizes):
            raise RuntimeError(
                f"Expected grad_output to be a tensor of dimension {len(sizes)} but got: dimension "
                f"{len(given)}"
            )
        for axis, size in enumerate(sizes):
            if geometry.decided(given[axis] != size):
                raise RuntimeError(
                    "Expected grad_output to have the same shape as output; "
                    f"output.size({axis}) = {size} but got grad_output.size({axis}) = {given[axis]}"
                )
        dtype = grad_output._dtype
        smooth = method in FILTERS
        if dtype.category != FLOAT or (smooth and dtype.itemsize == 2):
            raise unsupported(f"{name.lstrip('_')}_backward{'_cpu' if smooth else ''}", dtype)

    @backward.kernel
    def _(xp: Any, grad_output: Any, output_size: Any, input_size: Any, *rest: Any) -> Any:
        align, scales = options(rest)
        result = widen(grad_output)
        scalar = working_scalar(grad_output)
        for axis in range(-count, 0):
            size, places = input_size[axis], output_size[axis]
            factor = used_factor(method, count, size, places, scales[axis])
            if is_copy(method, size, places, factor):
                continue
            taps = taps_of(method, size, places, factor, align, scalar)
            result = apply_adjoint(result, axis, size, taps)
        return result.astype(grad_output.dtype)

    def by_list(input: Any, output_size: Any, *rest: Any) -> Any:
        given = rest[-1]
        if (output_size is None) == (given is None):
            raise RuntimeError("Must specify exactly one of output_size and scale_factors")
        if given is None:
            return forward(input, output_size, *rest[:-1], *[None] * count)
        if len(given) != count:
            raise RuntimeError(
                f"scale_factors must have one entry for each of {count} spatial dimensions, but "
                f"got {len(given)}"
            )
        sizes = [scaled(size, by) for size, by in zip(input.shape[2:], given, strict=True)]
        return forward(input, sizes, *rest[:-1], *given)

    listed = composite(
        f"{name}.vec(Tensor input, SymInt[]? output_size, {corners}float[]? scale_factors) "
        "-> Tensor",
        method=False,
        function=False,
        out=False,
    )(by_list)

    small = {1: (1, 2, 4), 2: (1, 2, 3, 4), 3: (1, 1, 2, 3, 3)}[count]
    larger = {1: [7], 2: [5, 6], 3: [3, 5, 4]}[count]
    smaller = {1: [3], 2: [2, 3], 3: [1, 2, 2]}[count]
    aligns: list[Any] = [(False,), (True,)] if aligned else [()]
    last = {1: (1, 4, 2), 2: (1, 2, 3, 2), 3: (1, 2, 2, 3, 2)}[count]
    order = {1: (0, 2, 1), 2: (0, 3, 1, 2), 3: (0, 4, 1, 2, 3)}[count]

    def samples(make: Any) -> Any:
        for align in aligns:
            yield make(small), larger, *align
            yield make(small), smaller, *align
            yield make.strided(small), [2 * size for size in small[2:]], *align, *[2.0] * count
        yield make(last).permute(order), larger, *aligns[0]
        yield make(small), small[2:], *aligns[0]
        yield make(0, *small[1:]), larger, *aligns[0]
        yield make(small), [int(size * 1.7) for size in small[2:]], *aligns[0], *[1.7] * count

    forward.samples = samples
    forward.errors = lambda make: [
        (RuntimeError, (make(small), [*larger, 2], *aligns[0])),
        (RuntimeError, (make(small), [0] * count, *aligns[0])),
        (RuntimeError, (make(2, 2), larger, *aligns[0])),
        (RuntimeError, (make(1, 0, *small[2:]), larger, *aligns[0])),
    ]

    def backward_samples(make: Any) -> Any:
        for align in aligns:
            yield make(*small[:2], *larger), larger, small, *align
            yield make.strided(*small[:2], *smaller), smaller, small, *align

    backward.samples = backward_samples
    backward.errors = lambda make: [
        (RuntimeError, (make(*small[:2], *smaller), larger, small, *aligns[0])),
        (RuntimeError, (make(2, 2), larger, small, *aligns[0])),
    ]
    listed.samples = lambda make: [
        (make(small), larger, *aligns[0], None),
        (make(small), None, *aligns[0], [1.5] * count),
    ]
    listed.errors = lambda make: [
        (RuntimeError, (make(small), None, *aligns[0], None)),
        (RuntimeError, (make(small), larger, *aligns[0], [2.0] * count)),
    ]


def scaled(size: Any, factor: float) -> Any:
    """A size times a factor, rounded down."""
    if isinstance(size, int):
        return math.floor(size * factor)
    from rushlight.symbolic import sym_int

    return sym_int(size * factor)


for dims in (1, 2, 3):
    define(f"upsample_nearest{dims}d", dims, "nearest", False)
    define(f"_upsample_nearest_exact{dims}d", dims, "nearest_exact", False)
define("upsample_linear1d", 1, "linear", True)
define("upsample_bilinear2d", 2, "linear", True)
define("upsample_trilinear3d", 3, "linear", True)
define("upsample_bicubic2d", 2, "cubic", True)
for filtered in FILTERS:
    define(f"_upsample_{filtered}2d_aa", 2, filtered, True)
