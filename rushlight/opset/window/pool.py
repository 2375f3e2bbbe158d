"""Pooling: maxima and means over windows that slide over the last dims.

Both work axis by axis (see `windows`). A maximum keeps where it was found, and that index is all
its gradient needs; a mean is a sum and a divisor that depends on the place only.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from rushlight.arrays.buffers import empty as fresh
from rushlight.arrays.precision import widen
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import channels_last_3d
from rushlight.core.dtype import FLOAT, unsupported
from rushlight.core.op import OpOverload
from rushlight.core.state import LOCAL
from rushlight.core.tensor import sizes_of, strides_of
from rushlight.opset.kinds import WINDOW
from rushlight.opset.large import LARGE, native_loop
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, linear_in
from rushlight.opset.window.windows import box_maximum, box_spread, box_sum, regular

__all__ = ["pick", "scattered_to"]

WORDS = {2: "two", 3: "three"}
LETTERS = {2: "HW", 3: "THW"}

# -- geometry --------------------------------------------------------------------------------------


def suggested(self: Any, sizes: Any) -> Any:
    """Strides of a result in the memory format that the input suggests."""
    found = geometry.suggest_memory_format(sizes_of(self), strides_of(self))
    return geometry.strides_for_memory_format(tuple(sizes), found)


def suggested_volume(self: Any, sizes: Any) -> Any:
    """The same for volumes, where one without batch has a format too."""
    shape, strides = sizes_of(self), strides_of(self)
    if len(shape) == 5:
        return suggested(self, sizes)
    if not geometry.is_contiguous(shape, strides) and geometry.is_channels_last_3d(
        (1, *shape), (0, *strides)
    ):
        return geometry.strides_for_memory_format((1, *sizes), channels_last_3d)[1:]
    return None


def filled(name: str, count: int, value: Any, which: str, text: str) -> list[int]:
    """One number per dim."""
    values = [value] if isinstance(value, int) else list(value)
    if len(values) not in (1, count):
        raise RuntimeError(
            f"{name}: {which} must {text} a single int, or a tuple of {WORDS[count]} ints"
        )
    return values * count if len(values) == 1 else values


def pooled_size(size: Any, kernel: int, stride: int, padding: int, dilation: int, up: bool) -> Any:
    if stride == 0:
        raise RuntimeError("stride should not be zero")
    if padding < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {padding}")
    reach = (kernel - 1) * dilation + 1
    if padding > (reach // 2 if reach >= 0 else -(-reach // 2)):
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got pad={padding}, "
            f"kernel_size={kernel} and dilation={dilation}"
        )
    left = size + 2 * padding - reach
    places = (left + (stride - 1 if up else 0)) // stride + 1
    # The last window starts inside the input or in the padding before it.
    if up and (places - 1) * stride >= size + padding:
        places = places - 1
    return places


def named(prefix: str, values: Any) -> str:
    letters = LETTERS[len(values)]
    return " ".join([f"{prefix}{a}: {v}" for a, v in zip(letters, values, strict=True)])


def half_kernel(kernel: Any, padding: Any) -> str:
    """Paddings and kernels in torch's order of words."""
    if len(kernel) == 2:
        (kh, kw), (ph, pw) = kernel, padding
        return f"padW = {pw}, padH = {ph}, kW = {kw}, kH = {kh}"
    (kt, kh, kw), (pt, ph, pw) = kernel, padding
    return f"kT: {kt} kW: {kw} kH: {kh} padT: {pt} padW: {pw} padH: {ph}"


class Pooling:
    """The options of a pooling op, one number per dim, and the sizes they lead to."""

    __slots__ = ("count", "dilation", "kept", "kernel", "padding", "passed", "stride", "up")

    def __init__(
        self, name: str, count: int, kernel: Any, stride: Any, padding: Any, dilation: Any, up: bool
    ) -> None:
        text = "either be" if count == 2 or name.startswith("max") else "be"
        self.count = count
        self.up = up
        # The windows over the sizes that were met last.
        self.kept: Any = None
        # The sizes that `check` let pass last, and those of the result.
        self.passed: Any = None
        self.kernel = filled(name, count, kernel, "kernel_size", text)
        given = isinstance(stride, int) or len(stride)
        some = f"{text} omitted,"
        self.stride = filled(name, count, stride, "stride", some) if given else list(self.kernel)
        self.padding = filled(name, count, padding, "padding", text)
        text = "be either" if count == 2 or name.startswith("max") else "be"
        self.dilation = filled(name, count, dilation, "dilation", text)

    def sizes(self, shape: Any) -> list[Any]:
        given = shape[-self.count :], self.kernel, self.stride, self.padding, self.dilation
        return [pooled_size(*entry, self.up) for entry in zip(*given, strict=True)]

    def windows(self, shape: Any) -> Any:
        """The windows over every axis of an input of this shape."""
        kept = self.kept
        if kept is None or not geometry.same_sizes(kept[0], shape[-self.count :]):
            given = (
                shape[-self.count :], self.sizes(shape), self.kernel, self.stride, self.padding,
                self.dilation,
            )  # fmt: skip
            made = tuple([regular(*entry) for entry in zip(*given, strict=True)])
            # One store for all threads.
            kept = self.kept = (shape[-self.count :], made)
        return kept[1]

    def check(self, name: str, self_: Any, places: list[Any]) -> None:
        """Refuse options and sizes that leave nothing to pool."""
        shape, count = sizes_of(self_), self.count
        if any(k <= 0 for k in self.kernel):
            raise RuntimeError(
                f"kernel size should be greater than zero, but got {named('k', self.kernel)}"
            )
        if any(s <= 0 for s in self.stride):
            raise RuntimeError(
                f"stride should be greater than zero, but got {named('d', self.stride)}"
            )
        if any(d <= 0 for d in self.dilation):
            raise RuntimeError(
                f"dilation should be greater than zero, but got {named('dilation', self.dilation)}"
            )
        empty = any([geometry.is_size(size, 0) for size in shape[-count - 1 :]])
        if count == 2 and (empty or len(shape) not in (3, 4)):
            raise RuntimeError(
                "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, "
                f"but got:{geometry.show(shape)}"
            )
        if count == 3 and empty:
            raise RuntimeError(
                f"{name}(): Expected input's non-batch dimensions to have positive length, but "
                f"input has a shape of {geometry.show(shape)} and non-batch dimension 0 has length "
                "zero!"
            )
        if any(k // 2 < p for k, p in zip(self.kernel, self.padding, strict=True)):
            raise RuntimeError(
                "pad should be smaller than or equal to half of kernel size, but got "
                + half_kernel(self.kernel, self.padding)
            )
        if name == "avg_pool3d":
            pairs = zip(shape[-3:], self.kernel, strict=True)
            if any([geometry.decided(size < k) for size, k in pairs]):
                raise RuntimeError(
                    f"input image ({named('', shape[-3:])}) smaller than kernel size "
                    f"({named('k', self.kernel)})"
                )
        if any([geometry.decided(size < 1) for size in places]):
            given = "x".join([str(size) for size in shape[-count - 1 :]])
            wanted = "x".join([str(size) for size in (shape[-count - 1], *places)])
            raise RuntimeError(
                f"Given input size: ({given}). Calculated output size: ({wanted}). Output size is "
                "too small"
            )


def pooling_of(name: str, count: int, *options: Any) -> Pooling:
    """The `Pooling` of a call's options, which may be lists."""
    return same_pooling(name, count, *[tuple(o) if type(o) is list else o for o in options])


@lru_cache(maxsize=256)
def same_pooling(name: str, count: int, *options: Any) -> Pooling:
    return Pooling(name, count, *options)


def check_rank(self: Any, count: int) -> None:
    if self.dim() not in (count + 1, count + 2):
        raise RuntimeError(
            f"non-empty {count + 1}D or {count + 2}D (batch mode) tensor expected for input"
        )


def check_gradient(tensor: Any, wanted: Any) -> None:
    """Refuse a gradient that does not have the result's sizes."""
    found = sizes_of(tensor)
    for axis, size in enumerate(wanted):
        if len(found) != len(wanted) or not geometry.plausible(found[axis] == size):
            got = f"tensor.size[{axis}] = {found[axis]}" if axis < len(found) else "fewer"
            raise RuntimeError(
                f"Expected a tensor of dimension {len(wanted)} and tensor.size[{axis}] == {size} "
                f"but got: dimension {len(found)} and {got}"
            )


def check_floats(name: str, dtype: Any, sizes: Any = (1,)) -> None:
    """Refuse other dtypes; where there is nothing to compute nobody looks at them."""
    if dtype.category != FLOAT and not any([geometry.is_size(size, 0) for size in sizes]):
        raise unsupported(name, dtype)


# -- between values and their places ---------------------------------------------------------------


def pick(values: Any, indices: Any, count: int) -> Any:
    """The values at flat positions in the last `count` dims."""
    found = values.flatten(-count).gather(-1, indices.flatten(-count))
    return found.view(indices.shape)


def backward_to_picked(schema: str, count: int, **options: Any) -> Any:
    """The backward op of a maximum over windows: linear in the gradient, which goes to the places
    that `indices` names."""
    return op(
        schema,
        kind=WINDOW.checked,
        spatial=count,
        method=False,
        function=False,
        out_name="grad_input",
        vjp={
            "grad_output": lambda grad, indices: pick(grad, indices, count),
            "self": lambda self: aten.zeros_like(self),
        },
        jvp=linear_in("grad_output"),
        **options,
    )


def scattered_to(shape: Any, values: Any, indices: Any, count: int) -> Any:
    """An array of zeros with values added at flat positions in its last `count` axes."""
    size = int(np.prod(shape[-count:], dtype=np.int64))
    planes = int(np.prod(shape[:-count], dtype=np.int64))
    flat = indices.reshape(planes, int(np.prod(indices.shape[-count:], dtype=np.int64)))
    if flat.size and (flat.min() < 0 or flat.max() >= size):
        bad = int(flat[(flat < 0) | (flat >= size)][-1])
        sizes = "x".join([str(n) for n in shape[-count:]])
        raise RuntimeError(
            f"Found an invalid max index: {bad} (output volumes are of size {sizes})"
        )
    run = native_loop("scatter_add along", values.dtype) if values.size >= LARGE else None
    if run is not None and values.flags.c_contiguous and flat.flags.c_contiguous:
        found = np.zeros(shape, values.dtype)
        run(found, flat.astype(np.int64, copy=False), values, planes, size, flat.shape[1])
        return found
    flat = (flat + np.arange(planes)[:, None] * size).reshape(-1)
    total = np.bincount(flat, widen(values).reshape(-1), planes * size)
    return total.reshape(shape).astype(values.dtype)


def planes_pooled(array: Any, pooling: Pooling) -> Any:
    """Maxima of planes and their places, by native code; None where there is none."""
    if array.size < LARGE or not array.flags.c_contiguous:
        return None
    right = pooling.stride[1]
    run = native_loop(f"max_pool {right}", array.dtype) if right < array.shape[-1] else None
    if run is None:
        return None
    passed = pooling.passed
    sizes = passed[1] if passed and passed[0] == array.shape else pooling.sizes(array.shape)
    shape, count = (*array.shape[:-2], *sizes), prod(array.shape[:-2]) * prod(sizes)
    values = fresh(shape, array.dtype, count * array.itemsize)
    places = fresh(shape, np.int64, count * 8)
    numbers = (*pooling.kernel, pooling.stride[0], *pooling.padding, *pooling.dilation)
    run(array, values, places, prod(array.shape[:-2]), *array.shape[-2:], *sizes, *numbers)
    return values, places


# -- maxima ----------------------------------------------------------------------------------------


def define_maximum(count: int) -> None:
    """max_pool{count}d_with_indices, its backward and max_pool{count}d."""
    name = f"max_pool{count}d"
    options = (
        f"int[{count}] kernel_size, int[{count}] stride=[], int[{count}] padding=0, "
        f"int[{count}] dilation=1, bool ceil_mode=False"
    )
    strides = suggested if count == 2 else suggested_volume
    checked = name if count == 2 else f"{name}_with_indices_out_cpu_template"

    def find(kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
        return pooling_of(name, count, kernel_size, stride, padding, dilation, ceil_mode)

    def places(
        self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Any:
        pooling = find(kernel_size, stride, padding, dilation, ceil_mode)
        shape, passed = None if self._array is None else self._array.shape, pooling.passed
        if passed is not None and shape is not None and geometry.same_sizes(passed[0], shape):
            return [*passed[1]]
        check_rank(self, count)
        found = pooling.sizes(sizes_of(self))
        pooling.check(checked, self, found)
        if shape is not None:
            # One store for all threads.
            pooling.passed = shape, found
        return found

    backward: OpOverload
    forward = op(
        f"{name}_with_indices(Tensor self, {options}) -> (Tensor, Tensor)",
        kind=WINDOW.checked,
        spatial=count,
        places=places,
        strides=strides,
        method=False,
        function=False,
        non_differentiable=(1,),
        vjp=lambda grad, self, kernel_size, stride, padding, dilation, ceil_mode, result1: backward(
            grad, self, kernel_size, stride, padding, dilation, ceil_mode, result1
        ),
        jvp=lambda self_t, result1: (pick(self_t, result1, count), None),
    )

    @forward.kernel
    def _(
        xp: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        ceil_mode: bool,
    ) -> Any:  # fmt: skip
        if self.dtype.kind in "bc":
            raise unsupported(name, dtypes.from_numpy(self.dtype))
        pooling = find(kernel_size, stride, padding, dilation, ceil_mode)
        found = planes_pooled(self, pooling) if count == 2 else None
        return box_maximum(self, pooling.windows(self.shape)) if found is None else found

    sizes = (2, 4, 4) if count == 2 else (1, 2, 3, 4)
    last = (2, 3, 4, 1) if count == 2 else (1, 2, 3, 2, 2)
    order = (0, 3, 1, 2) if count == 2 else (0, 4, 1, 2, 3)

    def samples(make: Any) -> Any:
        yield make.distinct(1, *sizes), 2
        yield make.distinct(sizes), [2] * count, [1] * count
        yield make.distinct(1, *sizes), [3, 2, 3][:count], 2, [1, 1, 1][:count]
        yield make.distinct(1, *sizes), 2, 1, 1, 2
        yield make.distinct(sizes), 2, [3] * count, 0, 1, True
        yield make.strided(1, *sizes), 2, [1] * count
        yield make.distinct(last).permute(order), [1, 2, 1][:count], 1
        yield make(0, *sizes), 2
        yield make.special(sizes), 2, 1, 1

    forward.samples = samples
    forward.errors = lambda make: [
        (RuntimeError, (make(4, 4), 2)),
        (RuntimeError, (make(1, *sizes), 9)),
        (RuntimeError, (make(1, *sizes), 2, 1, 2)),
        (RuntimeError, (make(1, *sizes), 2, 1, -1)),
        (RuntimeError, (make(1, *sizes), 2, [0] * count)),
        (RuntimeError, (make(1, *sizes), 2, 1, 0, 0)),
        (RuntimeError, (make(1, *sizes), [2] * 4)),
        (RuntimeError, (make(1, 0, *sizes[1:]), 2)),
    ]

    plain = options.replace("=[]", "").replace("=0", "").replace("=1", "").replace("=False", "")
    backward = backward_to_picked(
        f"{name}_with_indices_backward(Tensor grad_output, Tensor self, {plain}, Tensor indices) "
        "-> Tensor",
        count,
        strides=strides,
    )

    @backward.requires
    def _(
        grad_output: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        ceil_mode: bool, indices: Any,
    ) -> None:  # fmt: skip
        if grad_output._dtype is not self._dtype:
            raise RuntimeError(
                f"expected dtype {self._dtype.cpp_name} for `gradOutput` but got dtype "
                f"{grad_output._dtype.cpp_name}"
            )
        found = places(self, kernel_size, stride, padding, dilation, ceil_mode)
        wanted = (*sizes_of(self)[:-count], *found)
        check_gradient(grad_output, wanted)
        check_gradient(indices, wanted)
        if indices._dtype is not dtypes.int64:
            raise RuntimeError(
                f"expected scalar type Long but found {indices._dtype.scalar_type_name}"
            )
        check_floats(f"{name}_backward", self._dtype)

    @backward.kernel
    def _(
        xp: Any, grad_output: Any, self: Any, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, ceil_mode: bool, indices: Any,
    ) -> Any:  # fmt: skip
        return scattered_to(self.shape, grad_output, indices, count)

    def backward_samples(make: Any) -> Any:
        given = [2] * count, [1] * count, [0] * count, [1] * count, False
        shape = [n - 1 for n in sizes[1:]]
        places = make.index(1, sizes[0], *shape, below=4)
        yield make(1, sizes[0], *shape), make(1, *sizes), *given, places
        yield make.strided(sizes[0], *shape), make.strided(sizes), *given, places.select(0, 0)

    backward.samples = backward_samples

    if count == 1:
        return

    def body(
        self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Any:
        return forward(self, kernel_size, stride, padding, dilation, ceil_mode)[0]

    values = composite(
        f"{name}(Tensor self, {options}) -> Tensor",
        autocast="float32" if count == 3 else None,
        method=False,
        out=False,
    )(body)
    values.samples = lambda make: [
        (make.distinct(1, *sizes), 2),
        (make.distinct(sizes), [2] * count, 1, 1, 1, True),
    ]
    values.errors = lambda make: [(RuntimeError, (make(1, *sizes), 2, 1, 2))]


for dims in (2, 3):
    define_maximum(dims)


def single(name: str, which: str, value: Any) -> int:
    """The one number of an option of an op over one dim."""
    values = [value] if isinstance(value, int) else list(value)
    if len(values) != 1:
        raise RuntimeError(
            f"{name}() argument '{which}' should contain one int (got {len(values)})"
        )
    return int(values[0])


def check_line(name: str, self: Any) -> None:
    if self.dim() not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {self.dim()}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
        )


ONE_DIM = (
    "Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, "
    "bool ceil_mode=False"
)


@composite(f"max_pool1d_with_indices({ONE_DIM}) -> (Tensor, Tensor)", method=False, out=False)
def max_pool1d_with_indices(
    self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    name = "max_pool1d"
    check_line(name, self)
    kernel = single(name, "kernel_size", kernel_size)
    given = isinstance(stride, int) or len(stride)
    step = single(name, "stride", stride) if given else kernel
    values, places = aten.max_pool2d_with_indices(
        self.unsqueeze(-2), [1, kernel], [1, step], [0, single(name, "padding", padding)],
        [1, single(name, "dilation", dilation)], ceil_mode,
    )  # fmt: skip
    return values.squeeze(-2), places.squeeze(-2)


def sized(value: Any, which: str, may_lack: bool = False) -> Any:
    values = [value] if isinstance(value, int) else list(value)
    if len(values) > 1 or not (values or may_lack):
        kinds = "an int, list of ints or tuple of ints"
        if may_lack:
            kinds = "None, an int, list of ints, or tuple of ints"
        raise RuntimeError(
            f"max_pool1d() {which} must be {kinds} of size 1 but got size {len(values)}"
        )
    return values[0] if values else None


@composite(f"max_pool1d({ONE_DIM}) -> Tensor", method=False, out=False)
def max_pool1d(
    self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    shape = sizes_of(self)
    if len(shape) not in (2, 3) or any([geometry.is_size(size, 0) for size in shape[-2:]]):
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{geometry.show(shape)}"
        )
    kernel = sized(kernel_size, "kernel_size")
    step = sized(stride, "stride", True)
    step = kernel if step is None else step
    width, gap = sized(padding, "padding"), sized(dilation, "dilation")
    for which, value in (("kernel_size", kernel), ("stride", step)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {which} must be greater than zero, but got {value}")
    if width < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {width}")
    if width > kernel // 2:
        raise RuntimeError(
            "max_pool1d() padding should be at most half of kernel size, but got "
            f"padding={width} and kernel_size={kernel}"
        )
    if gap <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {gap}")
    places = pooled_size(shape[-1], kernel, step, width, gap, ceil_mode)
    if geometry.decided(places <= 0):
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {places}")
    if self.requires_grad and LOCAL.state.grad:
        return max_pool1d_with_indices(self, kernel, step, width, gap, ceil_mode)[0]
    check_floats("max_pool1d_impl", self._dtype)
    return max_pool1d_with_indices(self, kernel, step, width, gap, ceil_mode)[0].contiguous()


def line_samples(make: Any) -> Any:
    yield make.distinct(2, 2, 5), 2
    yield make.distinct(2, 5), [3], [1], [1]
    yield make.distinct(1, 2, 6), 2, 3, 0, 2, True
    yield make.strided(2, 2, 4), 2, [1]
    yield make(0, 2, 4), 2


max_pool1d.samples = line_samples
max_pool1d_with_indices.samples = line_samples
max_pool1d.errors = lambda make: [
    (RuntimeError, (make(4), 2)),
    (RuntimeError, (make(2, 4), 5)),
    (RuntimeError, (make(2, 4), 2, 1, 2)),
    (RuntimeError, (make(2, 4), [2, 2])),
    (RuntimeError, (make(2, 4), 2, -1)),
]
max_pool1d_with_indices.errors = lambda make: [
    (RuntimeError, (make(4), 2)),
    (RuntimeError, (make(2, 4), [2, 2])),
]

# -- means -----------------------------------------------------------------------------------------


def divisors(pooling: Pooling, shape: Any, include_pad: bool, override: Any, dtype: Any) -> Any:
    """What the sum over each window is divided by."""
    if override is not None:
        return np.array(override, dtype)
    return window_sizes(
        tuple(pooling.sizes(shape)), tuple(shape[-pooling.count :]), tuple(pooling.kernel),
        tuple(pooling.stride), tuple(pooling.padding), include_pad, dtype,
    )  # fmt: skip


@lru_cache(maxsize=64)
def window_sizes(
    places: Any, shape: Any, kernel: Any, stride: Any, padding: Any, include_pad: bool, dtype: Any
) -> Any:
    """How many elements, or places of padding, each window has."""
    count = len(shape)
    found: Any = np.ones((1,) * count, np.int64)
    for axis in range(-count, 0):
        size, width = shape[axis], padding[axis]
        starts = np.arange(places[axis]) * stride[axis] - width
        ends = np.minimum(starts + kernel[axis], size + width)
        if not include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, size)
        lengths = [1] * count
        lengths[axis] = len(starts)
        found = found * (ends - starts).reshape(lengths)
    found = found.astype(dtype)
    # One number for all divides sooner.
    return found.reshape(-1)[0] if found.size and (found == found.flat[0]).all() else found


def divided(total: Any, divisor: Any) -> Any:
    if total.dtype.kind != "i":
        return total / divisor
    # torch: integers are divided as C divides them, towards zero.
    return np.sign(total) * np.sign(divisor) * (np.abs(total) // np.abs(divisor))


def check_mean(self: Any, count: int, pooling: Pooling, override: Any) -> list[Any]:
    name = f"avg_pool{count}d"
    if override is not None and override == 0:
        raise RuntimeError("divisor must be not zero")
    if count == 3:
        check_rank(self, count)
    elif self.dim() < 3:
        geometry.wrap_dim(-3, self.dim())
    places = pooling.sizes(sizes_of(self))
    pooling.check(name, self, places)
    return places


def check_mean_dtype(name: str, count: int, dtype: Any) -> None:
    if dtype is not dtypes.int64:
        check_floats(name, dtype)
    if count == 3 and dtype.itemsize == 2:
        raise unsupported(name, dtype)


def define_mean(count: int) -> None:
    """avg_pool{count}d and its backward."""
    name = f"avg_pool{count}d"
    options = (
        f"int[{count}] kernel_size, int[{count}] stride=[], int[{count}] padding=0, "
        "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None"
    )
    frame = "" if count == 2 else "_out_frame"

    strides = suggested if count == 2 else None

    def places(
        self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
        divisor_override: Any,
    ) -> Any:  # fmt: skip
        pooling = pooling_of(name, count, kernel_size, stride, padding, 1, ceil_mode)
        found = check_mean(self, count, pooling, divisor_override)
        check_mean_dtype(name + frame, count, self._dtype)
        return found

    backward: OpOverload
    forward = op(
        f"{name}(Tensor self, {options}) -> Tensor",
        functional=True,
        autocast="float32" if count == 3 else None,
        kind=WINDOW.checked,
        spatial=count,
        places=places,
        strides=strides,
        method=False,
        function=False,
        vjp=lambda grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override: backward(
            grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        ),
        jvp=linear_in("self"),
    )  # fmt: skip

    @forward.kernel
    def _(
        xp: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
        count_include_pad: bool, divisor_override: Any,
    ) -> Any:  # fmt: skip
        pooling = pooling_of(name, count, kernel_size, stride, padding, 1, ceil_mode)
        source = widen(self)
        total = box_sum(source, pooling.windows(self.shape))
        by = divisors(pooling, self.shape, count_include_pad, divisor_override, source.dtype)
        return divided(total, by).astype(self.dtype)

    plain = options
    for default in ("=[]", "=0", "=False", "=True", "=None"):
        plain = plain.replace(default, "")
    backward = op(
        f"{name}_backward(Tensor grad_output, Tensor self, {plain}) -> Tensor",
        kind=WINDOW.checked,
        spatial=count,
        strides=strides,
        method=False,
        function=False,
        out_name="grad_input",
        vjp={
            "grad_output": lambda grad, kernel_size, stride, padding, ceil_mode, count_include_pad,
            divisor_override: forward(
                grad, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
            ),
            "self": lambda self: aten.zeros_like(self),
        },
        jvp=linear_in("grad_output"),
    )  # fmt: skip

    @backward.requires
    def _(
        grad_output: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
        divisor_override: Any,
    ) -> None:  # fmt: skip
        pooling = pooling_of(name, count, kernel_size, stride, padding, 1, ceil_mode)
        found = check_mean(self, count, pooling, divisor_override)
        check_gradient(grad_output, (*sizes_of(self)[:-count], *found))
        check_mean_dtype(f"{name}_backward{frame}", count, self._dtype)

    @backward.kernel
    def _(
        xp: Any, grad_output: Any, self: Any, kernel_size: Any, stride: Any, padding: Any,
        ceil_mode: bool, count_include_pad: bool, divisor_override: Any,
    ) -> Any:  # fmt: skip
        pooling = pooling_of(name, count, kernel_size, stride, padding, 1, ceil_mode)
        source = widen(grad_output)
        by = divisors(pooling, self.shape, count_include_pad, divisor_override, source.dtype)
        result = box_spread(divided(source, by), pooling.windows(self.shape))
        return result.astype(grad_output.dtype)

    sizes = (2, 4, 3) if count == 2 else (1, 2, 3, 4)

    def samples(make: Any) -> Any:
        yield make(1, *sizes), 2
        yield make(sizes), [2] * count, [1] * count, [1] * count
        yield make(1, *sizes), [2, 3, 2][-count:], 2, 1, False, False
        yield make(sizes), 2, [2] * count, 1, True, True
        yield make(sizes), 2, [2] * count, 1, True, False, 3
        yield make.strided(1, *sizes), 2, 1
        last = (2, 2, 3, 2) if count == 2 else (1, 2, 3, 2, 2)
        order = (0, 3, 1, 2) if count == 2 else (0, 4, 1, 2, 3)
        yield make(last).permute(order), [1, 2, 1][:count], 1
        yield make(0, *sizes), 2

    forward.samples = samples
    forward.errors = lambda make: [
        (IndexError if count == 2 else RuntimeError, (make(4, 4), 2)),
        (RuntimeError, (make(1, *sizes), 9)),
        (RuntimeError, (make(1, *sizes), 2, 1, 2)),
        (RuntimeError, (make(1, *sizes), 2, [0] * count)),
        (RuntimeError, (make(1, *sizes), 2, 1, 0, False, True, 0)),
        (RuntimeError, (make(1, *sizes), [2] * 4)),
    ]

    def backward_samples(make: Any) -> Any:
        step, width = [2] * count, [1] * count
        shape = [(n + 2 - 2) // 2 + 1 for n in sizes[1:]]
        whole = make(1, *sizes)
        yield make(1, sizes[0], *shape), whole, step, step, width, False, True, None
        yield make(1, sizes[0], *shape), whole, step, step, width, False, False, None
        yield make(sizes[0], *shape), make.strided(sizes), step, step, width, False, True, 3

    backward.samples = backward_samples


for dims in (2, 3):
    define_mean(dims)


@composite(
    "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, "
    "bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
    functional=True,
    method=False,
    out=False,
)
def avg_pool1d(
    self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool
) -> Any:
    name = "avg_pool1d"
    check_line(name, self)
    kernel = single(name, "kernel_size", kernel_size)
    given = isinstance(stride, int) or len(stride)
    step = single(name, "stride", stride) if given else kernel
    width = single(name, "padding", padding)
    return aten.avg_pool2d(
        self.unsqueeze(-2), [1, kernel], [1, step], [0, width], ceil_mode, count_include_pad
    ).squeeze(-2)


avg_pool1d.samples = lambda make: [
    (make(2, 2, 5), 2),
    (make(2, 5), [3], [1], [1], False, False),
    (make.strided(1, 2, 6), 2, 3, 0, True),
]
avg_pool1d.errors = lambda make: [
    (RuntimeError, (make(4), 2)),
    (RuntimeError, (make(2, 4), [2, 2])),
    (RuntimeError, (make(2, 4), 5)),
]
