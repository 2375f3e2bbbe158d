"""Normalisation: batch, layer, group and instance norm.

All of them are x̂ = (x - mean) · rstd, y = x̂ · w + b, and differ in which dims the statistics and
the parameters are taken over. `Layout` says that for a 4-dim picture of the input, so that forward,
backward and double backward are written once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import widen
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import channels_last, channels_last_3d, contiguous_format
from rushlight.core.levels import Level
from rushlight.core.op import Tag
from rushlight.core.state import LOCAL
from rushlight.core.tensor import strides_of
from rushlight.opset.heavy import heavy_kernels
from rushlight.opset.kinds import OPAQUE, Spec
from rushlight.opset.moving.pad import suggested
from rushlight.opset.network.normkernels import (
    Layout,
    backward_kernel,
    channel_layout,
    group_layout,
    lower_gradients,
    lower_normalised,
    normalised,
    product,
    row_layout,
    scaled,
    statistics,
)
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "native_batch_norm"]


# -- the gradient's gradient -----------------------------------------------------------------------


def double_backward(
    layout: Layout,
    grads: Any,
    grad_out: Any,
    input: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    stats: bool,
) -> tuple[Any, Any, Any]:
    """Gradients of (grad_out, input, weight) through the backward formula.

    With h = w·g and the projection P(v) = v - mean(v) - x̂·mean(v·x̂), the backward is
    dx = rstd·P(h), dw = Σ g·x̂, db = Σ g. P is its own adjoint, and a change of x moves x̂ by
    rstd·P and rstd by -rstd²·x̂/m.
    """
    shape = layout.shape
    dims = list(layout.stats)
    g = grad_out.reshape(shape)
    normal = (input.reshape(shape) - mean) * rstd
    w = None if weight is None else layout.broadcast(weight)
    over_input, over_weight, over_bias = grads

    def average(value: Any) -> Any:
        return value.mean(dims, True)

    def project(value: Any) -> Any:
        if not stats:
            return value
        return value - average(value) - normal * average(value * normal)

    for_grad: Any = None
    for_input: Any = None
    for_weight: Any = None
    if over_input is not None:
        v = over_input.reshape(shape)
        h = g if w is None else g * w
        pulled = project(v) * rstd
        for_grad = pulled if w is None else pulled * w
        if w is not None:
            for_weight = (g * pulled).sum(list(layout.sums))
        if stats:
            moved = v * average(h * normal) + h * average(v * normal)
            for_input = -rstd * rstd * (project(moved) + normal * average(v * project(h)))
    if over_weight is not None:
        scale = layout.broadcast(over_weight)
        for_grad = plus(for_grad, normal * scale)
        for_input = plus(for_input, project(g * scale) * rstd)
    if over_bias is not None:
        for_grad = plus(for_grad, layout.broadcast(over_bias).expand(shape))
    return (
        None if for_grad is None else for_grad.reshape(grad_out.shape),
        None if for_input is None else for_input.reshape(input.shape),
        None if for_weight is None or weight is None else for_weight.reshape(weight.shape),
    )


def plus(left: Any, right: Any) -> Any:
    return right if left is None else left + right


def fresh_statistics(
    layout: Layout, input: Any, eps: float | None = None, saved_rstd: Any = None
) -> tuple[Any, Any]:
    """Mean and rstd as functions of the input, for derivatives of any order.

    Without `eps` it is that of the forward call, from the rstd that this saved.
    """
    picture = input.reshape(layout.shape)
    mean = picture.mean(list(layout.stats), True)
    spread = picture - mean
    variance = (spread * spread).mean(list(layout.stats), True)
    added: Any = eps
    if eps is None:
        added = layout.statistic(saved_rstd).pow(-2).detach() - variance.detach()
    return mean, (variance + added).rsqrt()


# -- batch norm ------------------------------------------------------------------------------------

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


def check_float(input: Any, name: str) -> None:
    if input._dtype not in FLOATS:
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{input._dtype.scalar_type_name}'"
        )


def statistics_dtype(input: Any, *others: Any) -> Any:
    """Half precision inputs with float32 parameters keep float32 statistics."""
    for other in others:
        if other is not None and other._dtype is not input._dtype:
            return dtypes.float32
    return input._dtype


NO_SHARED_STATISTICS = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be "
    "updated in place, were not batched. If you are using a module and do not need eval mode, "
    "please set `track_running_stats` to be False.If you are using a prebuilt module and do not "
    "need eval mode, please see the functorch website for resources on how to patch your module to "
    "work with vmap"
)


native_batch_norm = op(
    "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    kind=OPAQUE,
    batch=late("network.batched:batch_norm_writing"),
    method=False,
    out=False,
    differentiable=["input", "weight", "bias"],
    non_differentiable=(1, 2),
    layout="shape",
)


@native_batch_norm.shape
def _(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    check_float(input, "batch_norm")
    channels = input.shape[1]
    dtype = statistics_dtype(input, weight, bias, running_mean, running_var)
    saved = (channels,) if training else (0,)
    return (
        Spec(input.shape, input._dtype, strides_of_batch(input)),
        Spec(saved, dtype),
        Spec(saved, dtype),
    )


def strides_of_batch(input: Any) -> Any:
    """torch: of an input that is contiguous in both formats strides of size one say nothing."""
    sizes, strides = tuple(input.shape), strides_of(input)
    if geometry.is_contiguous(sizes, strides):
        return geometry.strides_for_memory_format(sizes, contiguous_format)
    if geometry.is_channels_last(sizes, strides):
        return geometry.strides_for_memory_format(sizes, channels_last)
    if geometry.is_channels_last_3d(sizes, strides):
        return geometry.strides_for_memory_format(sizes, channels_last_3d)
    return suggested(input, sizes)


@native_batch_norm.kernel
def _(
    xp: Any, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    if input.dtype.kind in "iubc":
        name = dtypes.from_numpy(input.dtype).scalar_type_name
        raise NotImplementedError(f"\"batch_norm\" not implemented for '{name}'")
    kernels = batch_kernels(input, weight, bias, running_mean, running_var)
    if kernels is not None:
        return natively(
            kernels, input, weight, bias, running_mean, running_var, training, momentum, eps
        )
    layout = channel_layout(input.shape)
    picture = widen(input).reshape(layout.shape)
    dtype = input.dtype
    for other in (weight, bias, running_mean, running_var):
        if other is not None and other.dtype != input.dtype:
            dtype = np.dtype(np.float32)
    if training:
        if input.size == 0:
            raise RuntimeError(
                "input tensor must have at least one element, but got input_sizes = "
                f"{list(input.shape)}"
            )
        result, mean, variance, rstd = normalised(picture, layout, weight, bias, eps)
        count = picture.shape[0] * picture.shape[2]
        if running_mean is not None:
            update(running_mean, mean, momentum)
        if running_var is not None:
            update(running_var, variance * (count / (count - 1) if count > 1 else np.nan), momentum)
        saved = mean.reshape(-1).astype(dtype), rstd.reshape(-1).astype(dtype)
    else:
        mean = layout.statistic(widen(running_mean))
        rstd = 1 / np.sqrt(layout.statistic(widen(running_var)) + eps)
        saved = np.empty(0, dtype), np.empty(0, dtype)
        result = scaled(picture, layout, mean, rstd, weight, bias)
    return result.reshape(input.shape).astype(input.dtype, copy=False), *saved


# Places of a channel beside one another from which on native kernels read them as vectors.
LEAST_PLACES = 16


def batch_kernels(input: Any, *others: Any) -> Any:
    """The native kernels for a batch of this many places; None where NumPy is to compute it."""
    if input.ndim < 3 or product(input.shape[2:]) < LEAST_PLACES:
        return None
    given = [other for other in others if other is not None]
    return heavy_kernels(input.size * 8, input, *given)


def natively(
    kernels: Any, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    """The kernel's answer by native kernels."""
    if not training:
        given = running_mean, (1 / np.sqrt(running_var.astype(np.float64) + eps)).astype(np.float32)
        none = np.empty(0, np.float32), np.empty(0, np.float32)
        return kernels.batch_norm(input, weight, bias, given, eps)[0], *none
    result, mean, variance, rstd = kernels.batch_norm(input, weight, bias, None, eps)
    count = input.size // input.shape[1]
    if running_mean is not None:
        update(running_mean, mean, momentum)
    if running_var is not None:
        unbiased = variance * (count / (count - 1) if count > 1 else np.nan)
        update(running_var, unbiased, momentum)
    return result, mean, rstd


def update(running: Any, found: Any, momentum: float) -> None:
    """Move running statistics towards those of a batch, in place."""
    moved = (1 - momentum) * widen(running) + momentum * found.reshape(-1)
    running[...] = moved.astype(running.dtype)


@native_batch_norm.vjp
def _(
    grad: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, training: Any,
    eps: Any, result1: Any, result2: Any, needs: Any,
) -> Any:  # fmt: skip
    return aten.native_batch_norm_backward(
        grad, input, weight, running_mean, running_var, result1, result2, training, eps, list(needs)
    )


def batch_samples(make: Any) -> Any:
    for shape in ((3, 2), (2, 2, 3), (2, 2, 1, 2)):
        stats = make(2, low=-1, high=1), make.positive(2)
        yield make(*shape), make(2), make(2), *stats, False, 0.1, 1e-5
        yield make(*shape), make(2), make(2), None, None, True, 0.1, 1e-5
    yield make(3, 2), None, None, None, None, True, 0.1, 1e-5
    yield make.strided(3, 2), make(2), make(2), None, None, True, 0.1, 1e-3


@native_batch_norm.batch
def _(level: Any, op: Any, input: Any, *rest: Any) -> Any:
    statistics = rest[2:4]
    is_written = rest[4] and any([value is not None for value in statistics])
    if is_written and level.holds(input) and not any([level.holds(v) for v in statistics]):
        raise RuntimeError(NO_SHARED_STATISTICS)
    return level.loop(op, (input, *rest))


@native_batch_norm.functionalized
def _(mode: Any, op: Any, args: tuple[Any, ...]) -> Any:
    from rushlight.opset.network.batchstats import run_functionalized

    return run_functionalized(mode, op, args)


native_batch_norm.samples = batch_samples

native_batch_norm_backward = op(
    "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, "
    "Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, "
    "bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    lower="normalisation_gradients",
    batch=late("network.batched:batch_norm"),
    method=False,
    out=False,
    differentiable=["grad_out", "input", "weight"],
    layout="shape",
)


@native_batch_norm_backward.shape
def _(
    grad_out: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, save_mean: Any,
    save_invstd: Any, train: bool, eps: float, output_mask: Any,
) -> Any:  # fmt: skip
    dtype = input._dtype if weight is None else weight._dtype
    vector = Spec((input.shape[1],), dtype)
    specs = (Spec(input.shape, input._dtype, suggested(input, input.shape)), vector, vector)
    return tuple([s if wanted else None for s, wanted in zip(specs, output_mask, strict=True)])


@native_batch_norm_backward.kernel
def _(
    xp: Any, grad_out: Any, input: Any, weight: Any, running_mean: Any, running_var: Any,
    save_mean: Any, save_invstd: Any, train: bool, eps: float, output_mask: Any,
) -> Any:  # fmt: skip
    given = (save_mean, save_invstd) if train else (running_mean, running_var)
    kernels = batch_kernels(input, grad_out, weight, *given)
    if kernels is not None:
        mean, spread = given
        if not train:
            spread = (1 / np.sqrt(spread.astype(np.float64) + eps)).astype(np.float32)
        wants = output_mask[0]
        found = kernels.batch_norm_backward(grad_out, input, weight, mean, spread, train, wants)
        return tuple([v if w else None for v, w in zip(found, output_mask, strict=True)])
    layout = channel_layout(input.shape)
    if train:
        mean, rstd = layout.statistic(widen(save_mean)), layout.statistic(widen(save_invstd))
    else:
        mean = layout.statistic(widen(running_mean))
        rstd = 1 / np.sqrt(layout.statistic(widen(running_var)) + eps)
    return backward_kernel(layout, grad_out, input, weight, mean, rstd, train, output_mask)


@native_batch_norm_backward.vjp
def _(
    grads: Any, grad_out: Any, input: Any, weight: Any, running_mean: Any, running_var: Any,
    train: Any, eps: Any,
) -> Any:  # fmt: skip
    layout = channel_layout(tuple(input.shape))
    if train:
        mean, rstd = fresh_statistics(layout, input, eps)
    else:
        mean = layout.statistic(running_mean)
        rstd = (layout.statistic(running_var) + eps).rsqrt()
    return double_backward(layout, grads, grad_out, input, weight, mean, rstd, train)


def batch_backward_samples(make: Any) -> Any:
    for mask in ([True, True, True], [True, False, False]):
        stats = make(2, low=-1, high=1), make.positive(2)
        yield make(3, 2), make(3, 2), make(2), *stats, None, None, False, 1e-5, mask
        yield make(2, 2, 2), make(2, 2, 2), make(2), *stats, None, None, False, 1e-5, mask


native_batch_norm_backward.samples = batch_backward_samples


@composite(
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    method=False,
    out=False,
    # Its running statistics are written where it runs.
    tags=(Tag.maybe_aliasing_or_mutating,),
)
def batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    channels = input.shape[1] if input.dim() > 1 else 0
    named = {
        "running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias
    }  # fmt: skip
    for name, value in named.items():
        if value is not None and value.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {value.numel()}")
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
    if geometry.is_size(input.numel(), 0):
        # Nothing to take statistics of: the running ones stay. Gradients are zeros.
        result = input.clone()
        if weight is not None:
            result = result * weight[0]
        return result if bias is None else result + bias[0]
    return aten.native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


batch_norm.samples = lambda make: [
    (make(3, 2), make(2), make(2), make(2), make.positive(2), False, 0.1, 1e-5, False),
    (make(3, 2), make(2), make(2), None, None, True, 0.1, 1e-5, False),
]


@composite(
    "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> "
    "Tensor",
    method=False,
    out=False,
    # Its running statistics are written where it runs.
    tags=(Tag.maybe_aliasing_or_mutating,),
)
def instance_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    sizes = tuple(input.shape)
    batch, channels = sizes[0], sizes[1]
    repeated = [
        None if value is None else value.repeat(batch)
        for value in (weight, bias, running_mean, running_var)
    ]
    flat = input.contiguous().view((1, batch * channels, *sizes[2:]))
    result = aten.batch_norm(flat, *repeated, use_input_stats, momentum, eps, cudnn_enabled)
    for running, each in ((running_mean, repeated[2]), (running_var, repeated[3])):
        if running is not None and use_input_stats:
            assert each is not None
            keep_statistics(running, each.view((batch, channels)).mean(0))
    return result.view(sizes)


def keep_statistics(running: Any, found: Any) -> None:
    """Write to running statistics, below all levels of derivatives that do not know them: nothing
    is differentiated through them."""
    levels = LOCAL.state.transforms
    level = levels[-1] if levels else None
    if isinstance(level, Level) and not level.is_own(running):
        level.run(keep_statistics, running, level.lower(found))
    else:
        running.copy_(found)


instance_norm.samples = lambda make: [
    (make(2, 2, 3), make(2), make(2), None, None, True, 0.1, 1e-5, False),
    (make(2, 2, 2, 2), None, None, None, None, True, 0.1, 1e-5, False),
]

# -- layer norm ------------------------------------------------------------------------------------

native_layer_norm = op(
    "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, "
    "float eps) -> (Tensor, Tensor, Tensor)",
    batch=late("network.batched:layer_norm"),
    recompute=True,
    method=False,
    differentiable=["input", "weight", "bias"],
    non_differentiable=(1, 2),
    out=False,
)


@native_layer_norm.lower
def _(build: Any, op: Any, self: Any, normalized: Any, weight: Any, bias: Any, eps: float) -> Any:
    shape = self.shape
    if 0 in shape:
        build.refuse("nothing to normalise")
    axes = tuple(range(len(shape) - len(normalized), len(shape)))
    result, mean, _, rstd = lower_normalised(build, self, axes, weight, bias, eps)
    found = zip((result, mean, rstd), build.val, strict=True)
    return tuple([build.cast(expr, entry.dtype) for expr, entry in found])


def check_normalized(input: Any, normalized: Any, weight: Any, bias: Any) -> None:
    shown = geometry.show(normalized)
    if len(normalized) < 1:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = {shown}"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and not geometry.same_sizes(tuple(value.shape), tuple(normalized)):
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{geometry.show(value.shape)} and normalized_shape = {shown}"
            )
    sizes = tuple(input.shape)
    if len(sizes) < len(normalized) or not geometry.same_sizes(
        sizes[len(sizes) - len(normalized) :], tuple(normalized)
    ):
        inside = ", ".join(str(size) for size in normalized)
        raise RuntimeError(
            f"Given normalized_shape={shown}, expected input with shape [*, {inside}], but got "
            f"input of size{geometry.show(sizes)}"
        )


@native_layer_norm.shape
def _(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    check_normalized(input, normalized_shape, weight, bias)
    check_float(input, "LayerNormKernelImpl")
    count = len(normalized_shape)
    dtype = statistics_dtype(input, weight, bias)
    saved = Spec((*input.shape[: len(input.shape) - count], *[1] * count), dtype)
    return Spec(input.shape, input._dtype), saved, saved


@native_layer_norm.kernel
def _(xp: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    check_normalized(input, normalized_shape, weight, bias)
    if input.dtype.kind in "iubc":
        name = dtypes.from_numpy(input.dtype).scalar_type_name
        raise NotImplementedError(f"\"LayerNormKernelImpl\" not implemented for '{name}'")
    layout = row_layout(input.shape, normalized_shape)
    picture = widen(input).reshape(layout.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, _, rstd = statistics(picture, layout.stats, eps)
    dtype = input.dtype
    for other in (weight, bias):
        if other is not None and other.dtype != input.dtype:
            dtype = np.dtype(np.float32)
    count = len(normalized_shape)
    saved = (*input.shape[: input.ndim - count], *[1] * count)
    result = scaled(picture, layout, mean, rstd, weight, bias)
    return (
        result.reshape(input.shape).astype(input.dtype, copy=False),
        mean.reshape(saved).astype(dtype),
        rstd.reshape(saved).astype(dtype),
    )


@native_layer_norm.vjp
def _(
    grad: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: Any, result1: Any,
    result2: Any, needs: Any,
) -> Any:  # fmt: skip
    return aten.native_layer_norm_backward(
        grad, input, normalized_shape, result1, result2, weight, bias, list(needs)
    )


def layer_samples(make: Any) -> Any:
    yield make(2, 3), (3,), make(3), make(3), 1e-5
    yield make(2, 3), (3,), None, None, 1e-5
    yield make(2, 2, 3), (2, 3), make(2, 3), None, 1e-3
    yield make.strided(2, 3), (3,), make(3), make(3), 1e-5
    yield make(4), (4,), make(4), make(4), 1e-5


native_layer_norm.samples = layer_samples
native_layer_norm.errors = lambda make: [
    (RuntimeError, (make(2, 3), (4,), None, None, 1e-5)),
    (RuntimeError, (make(2, 3), (), None, None, 1e-5)),
]


def gradient_specs(input: Any, weight: Any, sizes: Any, output_mask: Any) -> Any:
    """Results of a backward op: gradients of the input, weight and bias that are wanted."""
    parameter = Spec(sizes, input._dtype if weight is None else weight._dtype)
    specs = (Spec(input.shape, input._dtype), parameter, parameter)
    return tuple([s if wanted else None for s, wanted in zip(specs, output_mask, strict=True)])


native_layer_norm_backward = op(
    "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, "
    "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> "
    "(Tensor, Tensor, Tensor)",
    batch=late("network.batched:layer_norm_backward"),
    method=False,
    out=False,
    differentiable=["grad_out", "input", "weight"],
)


@native_layer_norm_backward.lower
def _(
    build: Any, op: Any, grad: Any, self: Any, normalized: Any, mean: Any, rstd: Any, weight: Any,
    bias: Any, mask: Any,
) -> Any:  # fmt: skip
    shape = self.shape
    if 0 in shape or grad.dtype is not self.dtype:
        build.refuse("nothing to normalise")
    outer = tuple(range(len(shape) - len(normalized)))
    axes = tuple(range(len(outer), len(shape)))
    found = lower_gradients(build, grad, self, weight, mean, rstd, axes, outer, True, mask)
    parameter = self.dtype if weight is None else weight.dtype
    kinds = (self.dtype, parameter, parameter)
    return tuple(
        [
            None
            if expr is None
            else build.cast(build.without(expr, outer) if at else expr, kinds[at])
            for at, expr in enumerate(found)
        ]
    )


@native_layer_norm_backward.shape
def _(
    grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any,
    output_mask: Any,
) -> Any:  # fmt: skip
    return gradient_specs(input, weight, normalized_shape, output_mask)


@native_layer_norm_backward.kernel
def _(
    xp: Any, grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any,
    bias: Any, output_mask: Any,
) -> Any:  # fmt: skip
    layout = row_layout(input.shape, normalized_shape)
    mean, rstd = layout.statistic(widen(mean)), layout.statistic(widen(rstd))
    found = backward_kernel(layout, grad_out, input, weight, mean, rstd, True, output_mask)
    shaped = [None if value is None else value.reshape(normalized_shape) for value in found[1:]]
    return found[0], *shaped


@native_layer_norm_backward.vjp
def _(grads: Any, grad_out: Any, input: Any, normalized_shape: Any, rstd: Any, weight: Any) -> Any:
    layout = row_layout(tuple(input.shape), normalized_shape)
    mean, rstd = fresh_statistics(layout, input, saved_rstd=rstd)
    return double_backward(layout, grads, grad_out, input, weight, mean, rstd, True)


def layer_backward_samples(make: Any) -> Any:
    mean, rstd = make(2, 1, low=-1, high=1), make(2, 1, low=0.5, high=0.6)
    for mask in ([True, True, True], [True, False, False], [False, True, True]):
        yield make(2, 3), make(2, 3), (3,), mean, rstd, make(3), make(3), mask


native_layer_norm_backward.samples = layer_backward_samples


@composite(
    "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1e-05, bool cudnn_enable=True) -> Tensor",
    method=False,
    out=False,
)
def layer_norm(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, cudnn_enable: bool
) -> Any:
    return aten.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


layer_norm.samples = lambda make: [(make(2, 3), (3,), make(3), make(3)), (make(2, 3), (2, 3))]


@composite(
    "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
    "Tensor",
    method=False,
    out=False,
)
def rms_norm(input: Any, normalized_shape: Any, weight: Any, eps: float | None) -> Any:
    check_normalized(input, normalized_shape, weight, None)
    if input.dtype.category < dtypes.FLOAT:
        name = input.dtype.scalar_type_name
        raise NotImplementedError(f"\"rms_norm\" not implemented for '{name}'")
    if eps is None:
        eps = dtypes.finfo(input.dtype).eps
    wide = input.float() if input.dtype in FLOATS[:2] else input
    dims = [-1 - i for i in range(len(normalized_shape))]
    result = (wide * (wide.pow(2).mean(dims, True) + eps).rsqrt()).to(input.dtype)
    return result if weight is None else result * weight


rms_norm.samples = lambda make: [(make(2, 3), (3,), make(3), 1e-5), (make(2, 3), (2, 3))]

# -- group norm ------------------------------------------------------------------------------------

native_group_norm = op(
    "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, "
    "int group, float eps) -> (Tensor, Tensor, Tensor)",
    batch=late("network.batched:group_norm"),
    layout="shape",
    method=False,
    differentiable=["input", "weight", "bias"],
    out=False,
)


@native_group_norm.shape
def _(
    input: Any,
    weight: Any,
    bias: Any,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    eps: float,
) -> Any:
    check_float(input, "GroupNormKernelImpl")
    saved = Spec((N, group), statistics_dtype(input, weight, bias))
    return Spec(input.shape, input._dtype, suggested(input, input.shape)), saved, saved


@native_group_norm.kernel
def _(
    xp: Any,
    input: Any,
    weight: Any,
    bias: Any,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    eps: float,
) -> Any:
    if input.dtype.kind in "iubc":
        name = dtypes.from_numpy(input.dtype).scalar_type_name
        raise NotImplementedError(f"\"GroupNormKernelImpl\" not implemented for '{name}'")
    layout = group_layout(N, C, HxW, group)
    picture = widen(input).reshape(layout.shape)
    result, mean, _, rstd = normalised(picture, layout, weight, bias, eps)
    dtype = (
        np.dtype(np.float32) if weight is not None and weight.dtype != input.dtype else input.dtype
    )
    return (
        result.reshape(input.shape).astype(input.dtype, copy=False),
        mean.reshape(N, group).astype(dtype),
        rstd.reshape(N, group).astype(dtype),
    )


@native_group_norm.vjp
def _(
    grads: Any, input: Any, weight: Any, N: Any, C: Any, HxW: Any, group: Any, eps: Any,
    result1: Any, result2: Any, needs: Any,
) -> Any:  # fmt: skip
    grad, over_mean, over_rstd = grads
    found: tuple[Any, ...] = (None, None, None)
    if grad is not None:
        found = aten.native_group_norm_backward(
            grad, input, result1, result2, weight, N, C, HxW, group, list(needs)
        )
    if needs[0] and (over_mean is not None or over_rstd is not None):
        layout = group_layout(N, C, HxW, group)
        mean, rstd = fresh_statistics(layout, input, eps)
        count = layout.shape[2] * layout.shape[3]
        extra: Any = None
        if over_mean is not None:
            extra = (layout.statistic(over_mean) / count).expand(layout.shape)
        if over_rstd is not None:
            slope = layout.statistic(over_rstd) * rstd.pow(3) / -count
            extra = plus(extra, (input.reshape(layout.shape) - mean) * slope)
        found = (plus(found[0], extra.reshape(input.shape)), *found[1:])
    return found


native_group_norm.samples = lambda make: [
    (make(2, 4, 2), make(4), make(4), 2, 4, 2, 2, 1e-5),
    (make(2, 4), None, None, 2, 4, 1, 2, 1e-5),
]

native_group_norm_backward = op(
    "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
    "Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> "
    "(Tensor, Tensor, Tensor)",
    batch=late("network.batched:group_norm_backward"),
    layout="shape",
    method=False,
    out=False,
    differentiable=["grad_out", "input", "weight"],
)


@native_group_norm_backward.shape
def _(
    grad_out: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: Any, C: Any, HxW: Any,
    group: int, output_mask: Any,
) -> Any:  # fmt: skip
    over_input, *others = gradient_specs(input, weight, (C,), output_mask)
    if over_input is not None:
        over_input = Spec(input.shape, input._dtype, suggested(input, input.shape))
    return over_input, *others


@native_group_norm_backward.kernel
def _(
    xp: Any, grad_out: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: Any, C: Any,
    HxW: Any, group: int, output_mask: Any,
) -> Any:  # fmt: skip
    layout = group_layout(N, C, HxW, group)
    mean, rstd = layout.statistic(widen(mean)), layout.statistic(widen(rstd))
    return backward_kernel(layout, grad_out, input, weight, mean, rstd, True, output_mask)


@native_group_norm_backward.vjp
def _(
    grads: Any, grad_out: Any, input: Any, rstd: Any, weight: Any, N: Any, C: Any, HxW: Any,
    group: Any,
) -> Any:  # fmt: skip
    layout = group_layout(N, C, HxW, group)
    mean, rstd = fresh_statistics(layout, input, saved_rstd=rstd)
    return double_backward(layout, grads, grad_out, input, weight, mean, rstd, True)


native_group_norm_backward.samples = lambda make: [
    (
        make(2, 4, 2), make(2, 4, 2), make(2, 2, low=-1, high=1), make(2, 2, low=0.5, high=0.6),
        make(4), 2, 4, 2, 2, [True, True, True],
    ),
]  # fmt: skip


@composite(
    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
    method=False,
    out=False,
)
def group_norm(
    input: Any, num_groups: int, weight: Any, bias: Any, eps: float, cudnn_enabled: bool
) -> Any:
    sizes = tuple(input.shape)
    batch, channels = sizes[0], sizes[1]
    if num_groups <= 0 or geometry.decided(channels % num_groups != 0):
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {geometry.show(sizes)} and num_groups={num_groups}"
        )
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and not geometry.same_sizes(tuple(given.shape), (channels,)):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {geometry.show(given.shape)} and input of shape "
                f"{geometry.show(sizes)}"
            )
    if input.device.type == "cpu":
        layout = geometry.suggest_memory_format(sizes, strides_of(input))
        input = input.contiguous(memory_format=layout)
    else:
        input = input.contiguous()
    return aten.native_group_norm(
        input, weight, bias, batch, channels, product(sizes[2:]), num_groups, eps
    )[0]


group_norm.samples = lambda make: [
    (make(2, 4, 3), 2, make(4), make(4)),
    (make(2, 4), 2),
    (make(2, 4, 1, 2), 4, make(4)),
]
