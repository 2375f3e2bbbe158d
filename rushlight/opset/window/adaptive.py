"""Adaptive pooling: windows that share an input out among a wanted number of places."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import widen
from rushlight.core import geometry
from rushlight.core.device import channels_last, channels_last_3d
from rushlight.core.op import OpOverload
from rushlight.core.tensor import sizes_of, strides_of
from rushlight.opset.kinds import WINDOW
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, linear_in
from rushlight.opset.window.pool import (
    backward_to_picked,
    check_floats,
    check_line,
    pick,
    scattered_to,
    single,
    suggested,
)
from rushlight.opset.window.windows import adaptive, box_maximum, box_spread, box_sum


def windows_of(shape: Any, places: Any) -> Any:
    sizes = shape[len(shape) - len(places) :]
    return [adaptive(size, count) for size, count in zip(sizes, places, strict=True)]


def box_sizes(windows: Any, dtype: Any) -> Any:
    """How many elements each box covers."""
    found: Any = np.ones((1,) * len(windows), np.int64)
    for axis in range(-len(windows), 0):
        shape = [1] * len(windows)
        shape[axis] = len(windows[axis])
        found = found * (windows[axis].ends - windows[axis].starts).reshape(shape)
    return found.astype(dtype)


def refuse_empty(name: str, shape: Any, first: int) -> None:
    for axis in range(first, len(shape)):
        if geometry.is_size(shape[axis], 0):
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {geometry.show(shape)} with dimension {axis} being empty"
            )


def refuse_empty_gradient(name: str, shape: Any) -> None:
    for axis in range(1, len(shape)):
        if geometry.is_size(shape[axis], 0):
            raise RuntimeError(
                f"{name}(): Expected grad_output to have non-zero size for non-batch dimensions, "
                f"but grad_output has sizes {geometry.show(shape)} with dimension {axis} being "
                "empty"
            )


# -- means -----------------------------------------------------------------------------------------


def check_places(count: int, output_size: Any) -> None:
    name = f"adaptive_avg_pool{count}d"
    if len(output_size) != count:
        raise RuntimeError(f"{name}: output_size must be {count}")
    if any([size < 0 for size in output_size]):
        shown = ", ".join([str(size) for size in output_size])
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{shown}}}"
        )


def define_mean(count: int) -> None:
    """_adaptive_avg_pool{count}d, its backward and adaptive_avg_pool{count}d."""
    name = f"adaptive_avg_pool{count}d"
    suffix = "" if count == 2 else "_cpu"

    backward: OpOverload
    forward = op(
        f"_{name}(Tensor self, SymInt[{count}] output_size) -> Tensor",
        kind=WINDOW.checked,
        spatial=count,
        strides=suggested if count == 2 else None,
        method=False,
        node=f"AdaptiveAvgPool{count}DBackward0",
        vjp=lambda grad, self: backward(grad, self),
        jvp=linear_in("self"),
    )

    @forward.requires
    def _(self: Any, output_size: Any) -> None:
        shape = sizes_of(self)
        check_places(count, output_size)
        if len(shape) not in (count + 1, count + 2):
            raise RuntimeError(
                f"{name}(): Expected {count + 1}D or {count + 2}D tensor, but got "
                f"{geometry.show(shape)}"
            )
        refuse_empty(name, shape, len(shape) - count)
        sizes = (*shape[:-count], *output_size) if count == 2 else (1,)
        check_floats(name + suffix, self._dtype, sizes)

    @forward.kernel
    def _(xp: Any, self: Any, output_size: Any) -> Any:
        plan = windows_of(self.shape, output_size)
        source = widen(self)
        total = box_sum(source, plan)
        return (total / box_sizes(plan, source.dtype)).astype(self.dtype)

    backward = op(
        f"_{name}_backward(Tensor grad_output, Tensor self) -> Tensor",
        kind=WINDOW.checked,
        spatial=count,
        strides=suggested if count == 2 else None,
        method=False,
        function=False,
        node=f"AdaptiveAvgPool{count}DBackwardBackward0",
        vjp={
            "grad_output": lambda grad, grad_output_shape: forward(
                grad, grad_output_shape[-count:]
            ),
            "self": lambda self: aten.zeros_like(self),
        },
        jvp=linear_in("grad_output"),
    )

    @backward.requires
    def _(grad_output: Any, self: Any) -> None:
        label = f"adaptive_avg_pool{count}d_backward_out_cpu_template"
        shape, given = sizes_of(self), sizes_of(grad_output)
        if len(shape) not in (count + 1, count + 2):
            raise RuntimeError(
                f"{name}_backward(): Expected {count + 1}D or {count + 2}D tensor, but got "
                f"{geometry.show(shape)}"
            )
        if len(shape) != len(given):
            raise RuntimeError(
                f"{label}: Expected dimensions {len(shape)} for `grad_output` but got dimensions "
                f"{len(given)}"
            )
        if any([a != b for a, b in zip(given[:-count], shape[:-count], strict=True)]):
            raise RuntimeError(
                f"{label}: expected `grad_output` to have the leading sizes of an input of size "
                f"{geometry.show(shape)}, but got {geometry.show(given)}"
            )
        refuse_empty_gradient(f"{name}_backward", given)
        if grad_output._dtype is not self._dtype:
            raise RuntimeError(
                f"{label}: Expected dtype {self._dtype.cpp_name} for `grad_output` but got dtype "
                f"{grad_output._dtype.cpp_name}"
            )
        check_floats(f"{name}_backward{suffix}", self._dtype)

    @backward.kernel
    def _(xp: Any, grad_output: Any, self: Any) -> Any:
        plan = windows_of(self.shape, grad_output.shape[-count:])
        source = widen(grad_output)
        shares = source / box_sizes(plan, source.dtype)
        return box_spread(shares, plan).astype(grad_output.dtype)

    sizes = (2, 4, 3) if count == 2 else (1, 2, 3, 4)
    last = (2, 2, 3, 2) if count == 2 else (1, 2, 3, 2, 2)
    order = (0, 3, 1, 2) if count == 2 else (0, 4, 1, 2, 3)

    def samples(make: Any) -> Any:
        yield make(1, *sizes), [2] * count
        yield make(sizes), [3, 2, 3][:count]
        yield make.strided(1, *sizes), [1] * count
        yield make(sizes), [5] * count
        yield make(last).permute(order), [2, 1, 1][:count]
        yield make(0, *sizes), [2] * count
        yield make(sizes), [0, 2, 2][:count]

    forward.samples = samples
    forward.errors = lambda make: [
        (RuntimeError, (make(3, 3), [2] * count)),
        (RuntimeError, (make(1, *sizes), [2])),
        (RuntimeError, (make(1, sizes[0], 0, *sizes[2:]), [2] * count)),
    ]
    backward.samples = lambda make: [
        (make(1, sizes[0], *[2] * count), make(1, *sizes)),
        (make(sizes[0], *[5] * count), make.strided(sizes)),
        (make(2, last[-1], *[2, 1, 1][:count]), make(2, *last[1:]).permute(order)),
    ]

    def body(self: Any, output_size: Any) -> Any:
        check_places(count, output_size)
        if not all([geometry.is_size(size, 1) for size in output_size]):
            return forward(self, output_size)
        result = self.mean(list(range(-1, -count - 1, -1)), True)
        shape = sizes_of(self)
        wanted = channels_last if count == 2 else channels_last_3d
        if geometry.suggest_memory_format(shape, strides_of(self)) is wanted:
            channels = shape[1]
            ones = (1,) * count
            steps = (channels, 1, *[channels] * count)
            result.as_strided_((shape[0], channels, *ones), steps)
        return result

    plain = composite(
        f"{name}(Tensor self, SymInt[{count}] output_size) -> Tensor",
        autocast="float32" if count == 3 else None,
        method=False,
        function=False,
        out=False,
    )(body)
    plain.samples = lambda make: [
        (make(1, *sizes), [2] * count),
        (make(sizes), [1] * count),
        (make(last).permute(order), [1] * count),
    ]
    plain.errors = lambda make: [(RuntimeError, (make(1, *sizes), [-1] * count))]


for dims in (2, 3):
    define_mean(dims)


@composite(
    "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
    functional=True,
    method=False,
    out=False,
)
def adaptive_avg_pool1d(self: Any, output_size: Any) -> Any:
    check_line("adaptive_avg_pool1d", self)
    places = single("adaptive_avg_pool1d", "output_size", output_size)
    return aten.adaptive_avg_pool2d(self.unsqueeze(-2), [1, places]).squeeze(-2)


adaptive_avg_pool1d.samples = lambda make: [
    (make(2, 2, 5), 2),
    (make(2, 4), [3]),
    (make.strided(1, 3, 4), 1),
]
adaptive_avg_pool1d.errors = lambda make: [
    (RuntimeError, (make(4), 2)),
    (RuntimeError, (make(2, 4), [2, 2])),
    (RuntimeError, (make(2, 4), -1)),
]

# -- maxima ----------------------------------------------------------------------------------------


def define_maximum(count: int) -> None:
    """adaptive_max_pool{count}d and its backward."""
    name = f"adaptive_max_pool{count}d"

    backward: OpOverload
    forward = op(
        f"{name}(Tensor self, int[{count}] output_size) -> (Tensor, Tensor)",
        autocast="float32" if count == 3 else None,
        kind=WINDOW.checked,
        spatial=count,
        strides=suggested if count == 2 else None,
        method=False,
        function=False,
        non_differentiable=(1,),
        vjp=lambda grad, self, result1: backward(grad, self, result1),
        jvp=lambda self_t, result1: (pick(self_t, result1, count), None),
    )

    @forward.requires
    def _(self: Any, output_size: Any) -> None:
        shape = sizes_of(self)
        if len(shape) not in (count + 1, count + 2):
            raise RuntimeError(
                f"{name}(): Expected {count + 1}D or {count + 2}D tensor, but got: "
                f"{geometry.show(shape)}"
            )
        refuse_empty(name, shape, len(shape) - count - 1 if len(shape) == count + 2 else 1)
        if len(output_size) != count:
            raise RuntimeError(f"{name}(): internal error: output_size.size() must be {count}")
        check_floats(name if count == 2 else f"{name}_cpu", self._dtype)
        sizes = (*shape[:-count], *output_size)
        for size in output_size:
            if size < 0:
                raise RuntimeError(
                    f"Trying to create tensor with negative dimension {size}: "
                    f"{geometry.show(sizes)}"
                )

    @forward.kernel
    def _(xp: Any, self: Any, output_size: Any) -> Any:
        return box_maximum(self, windows_of(self.shape, output_size))

    backward = backward_to_picked(
        f"{name}_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
        count,
        strides=suggested if count == 2 else None,
    )

    @backward.requires
    def _(grad_output: Any, self: Any, indices: Any) -> None:
        shape = sizes_of(self)
        if len(shape) not in (count + 1, count + 2):
            raise RuntimeError(
                f"{name}_backward(): Expected {count + 1}D or {count + 2}D tensor, but got: "
                f"{geometry.show(shape)}"
            )
        refuse_empty_gradient(f"{name}_backward", sizes_of(grad_output))
        if grad_output._dtype is not self._dtype:
            raise RuntimeError(
                f"expected dtype {self._dtype.cpp_name} for `grad_output` but got dtype "
                f"{grad_output._dtype.cpp_name}"
            )
        if not geometry.same_sizes(sizes_of(indices), sizes_of(grad_output)):
            raise RuntimeError(
                f"expected sizes {geometry.show(sizes_of(indices))} for `grad_output` but got "
                f"sizes {geometry.show(sizes_of(grad_output))}"
            )
        if not geometry.same_sizes(sizes_of(indices)[:-count], shape[:-count]):
            raise RuntimeError(
                f"{name}_backward(): expected indices for an input of size {geometry.show(shape)}, "
                f"but got indices of size {geometry.show(sizes_of(indices))}"
            )
        check_floats(f"{name}_backward", self._dtype)

    @backward.kernel
    def _(xp: Any, grad_output: Any, self: Any, indices: Any) -> Any:
        return scattered_to(self.shape, grad_output, indices, count)

    sizes = (2, 4, 3) if count == 2 else (1, 2, 3, 4)
    last = (2, 2, 3, 2) if count == 2 else (1, 2, 3, 2, 2)
    order = (0, 3, 1, 2) if count == 2 else (0, 4, 1, 2, 3)

    def samples(make: Any) -> Any:
        yield make.distinct(1, *sizes), [2] * count
        yield make.distinct(sizes), [3, 2, 3][:count]
        yield make.distinct(sizes), [5] * count
        yield make.strided(1, *sizes), [1] * count
        yield make.distinct(last).permute(order), [2, 1, 1][:count]
        yield make(0, *sizes), [2] * count
        yield make.special(sizes), [2] * count

    forward.samples = samples
    forward.errors = lambda make: [
        (RuntimeError, (make(3, 3), [2] * count)),
        (RuntimeError, (make(1, *sizes), [2])),
        (RuntimeError, (make(1, sizes[0], 0, *sizes[2:]), [2] * count)),
    ]
    backward.samples = lambda make: [
        (
            make(1, sizes[0], *[2] * count),
            make(1, *sizes),
            make.index(1, sizes[0], *[2] * count, below=6),
        ),
        (
            make(sizes[0], *[2] * count),
            make.strided(sizes),
            make.index(sizes[0], *[2] * count, below=6),
        ),
    ]


for dims in (2, 3):
    define_maximum(dims)


@composite(
    "adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)",
    method=False,
    out=False,
)
def adaptive_max_pool1d(self: Any, output_size: Any) -> Any:
    name = "adaptive_max_pool1d"
    check_line(name, self)
    places = single(name, "output_size", output_size)
    refuse_empty(name, sizes_of(self), 1)
    values, indices = aten.adaptive_max_pool2d(self.unsqueeze(-2), [1, places])
    return values.squeeze(-2), indices.squeeze(-2)


adaptive_max_pool1d.samples = lambda make: [
    (make.distinct(2, 2, 5), 2),
    (make.distinct(2, 4), [3]),
    (make.strided(1, 3, 4), 1),
]
adaptive_max_pool1d.errors = lambda make: [
    (RuntimeError, (make(4), 2)),
    (RuntimeError, (make(2, 4), [2, 2])),
    (RuntimeError, (make(2, 0), 2)),
]
