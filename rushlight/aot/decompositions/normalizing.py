"""Normalisations and their gradients as programs over core ops.

All of them look at the input as a picture: the dims of statistics, and a shape in which parameters
broadcast over it.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight.aot.decompositions.moving import view_or_copy
from rushlight.aot.decompositions.texts import cast, wide
from rushlight.aot.decompositions.written import program
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset.rules import aten

__all__: list[str] = []


def moments(x: Tensor, dims: list[int], eps: float) -> tuple[Any, Any, Any]:
    """(mean, biased variance, 1 / standard deviation), each with its dims kept."""
    mean = aten.mean(x, dims, True)
    spread = aten.sub(x, mean)
    variance = aten.mean(aten.mul(spread, spread), dims, True)
    return mean, variance, aten.rsqrt(aten.add(variance, eps))


def scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Any) -> Any:
    if weight is not None:
        x = aten.mul(x, aten.view(wide(weight), shape))
    if bias is not None:
        x = aten.add(x, aten.view(wide(bias), shape))
    return x


def gradient(
    grad: Tensor,
    normal: Any,
    rstd: Tensor,
    weight: Tensor | None,
    dims: list[int],
    moving: bool = True,
) -> Any:
    """The gradient of the input: `normal` is the normalised input, `weight` broadcasts over it.
    Unless statistics are `moving` with the input they are constants."""
    inner = grad if weight is None else aten.mul(grad, weight)
    if not moving:
        return aten.mul(inner, rstd)
    mean = aten.mean(inner, dims, True)
    slope = aten.mean(aten.mul(inner, normal), dims, True)
    return aten.mul(aten.sub(aten.sub(inner, mean), aten.mul(normal, slope)), rstd)


# -- batch norm ------------------------------------------------------------------------------------


def channels(input: Tensor) -> tuple[list[int], list[Any]]:
    """(dims of statistics, shape of parameters) of a batch norm."""
    dims = [0, *range(2, input.dim())]
    return dims, [1, input.shape[1], *[1] * (input.dim() - 2)]


def statistics_dtype(input: Tensor, *others: Any) -> Any:
    mixed = any([other is not None and other.dtype is not input.dtype for other in others])
    return dtypes.float32 if mixed else input.dtype


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Any, ...]:  # fmt: skip
    """(result, saved mean, saved 1 / deviation, new running mean, new running variance)."""
    dims, shape = channels(input)
    x = wide(input)
    kept = statistics_dtype(input, weight, bias, running_mean, running_var)
    if not training:
        mean = aten.view(wide(running_mean), shape)
        rstd = aten.rsqrt(aten.add(aten.view(wide(running_var), shape), eps))
        result = scaled(aten.mul(aten.sub(x, mean), rstd), weight, bias, shape)
        nothing = aten.full([0], 0, dtype=kept, device=input.device)
        return cast(result, input.dtype), nothing, nothing, running_mean, running_var
    mean, variance, rstd = moments(x, dims, eps)
    result = scaled(aten.mul(aten.sub(x, mean), rstd), weight, bias, shape)
    saved = [cast(aten.squeeze(entry, dims), kept) for entry in (mean, rstd)]
    count: Any = math.prod([input.shape[d] for d in dims])
    if running_mean is not None:
        running_mean = moved(running_mean, aten.squeeze(mean, dims), momentum)
    if running_var is not None:
        unbiased = aten.mul(aten.squeeze(variance, dims), count / (count - 1))
        running_var = moved(running_var, unbiased, momentum)
    return cast(result, input.dtype), *saved, running_mean, running_var


def moved(running: Any, found: Any, momentum: float) -> Any:
    """Running statistics, moved towards those of a batch."""
    result = aten.add(aten.mul(wide(running), 1 - momentum), aten.mul(found, momentum))
    return cast(result, running.dtype)


@program("_native_batch_norm_legit_functional")
def native_batch_norm_functional(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    found = batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return found if training else (*found[:3], aten.clone(found[3]), aten.clone(found[4]))


@program("native_batch_norm", "_native_batch_norm_legit")
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    found = batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if training and running_mean is not None:
        aten.copy_(running_mean, found[3])
    if training and running_var is not None:
        aten.copy_(running_var, found[4])
    return found[:3]


@program("_native_batch_norm_legit.no_stats")
def native_batch_norm_alone(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    return batch_norm(input, weight, bias, None, None, training, momentum, eps)[:3]


@program("_native_batch_norm_legit_no_training")
def native_batch_norm_fixed(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> Any:
    return batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)[:3]


@program("native_batch_norm_backward")
def native_batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    output_mask: Any,
) -> Any:
    dims, shape = channels(input)
    x, grad = wide(input), wide(grad_out)
    if train:
        mean, rstd = aten.view(wide(save_mean), shape), aten.view(wide(save_invstd), shape)
    else:
        mean = aten.view(wide(running_mean), shape)
        rstd = aten.rsqrt(aten.add(aten.view(wide(running_var), shape), eps))
    normal = aten.mul(aten.sub(x, mean), rstd)
    spread = None if weight is None else aten.view(wide(weight), shape)
    kept = input.dtype if weight is None else weight.dtype
    return masked(
        output_mask,
        lambda: cast(gradient(grad, normal, rstd, spread, dims, train), input.dtype),
        lambda: cast(aten.sum(aten.mul(grad, normal), dims), kept),
        lambda: cast(aten.sum(grad, dims), kept),
    )


def masked(mask: Tensor, *gradients: Any) -> tuple[Any, ...]:
    """The gradients that are wanted."""
    pairs = zip(mask, gradients, strict=True)
    return tuple([find() if wanted else None for wanted, find in pairs])


# -- layer norm, group norm ------------------------------------------------------------------------


def trailing(input: Tensor, normalized_shape: Any) -> tuple[list[int], list[int]]:
    """(leading dims, dims of statistics) of a layer norm."""
    first = input.dim() - len(normalized_shape)
    return list(range(first)), list(range(first, input.dim()))


@program("native_layer_norm")
def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Any:
    _, dims = trailing(input, normalized_shape)
    x = wide(input)
    mean, _, rstd = moments(x, dims, eps)
    result = aten.mul(aten.sub(x, mean), rstd)
    if weight is not None:
        result = aten.mul(result, wide(weight))
    if bias is not None:
        result = aten.add(result, wide(bias))
    kept = statistics_dtype(input, weight, bias)
    return cast(result, input.dtype), cast(mean, kept), cast(rstd, kept)


@program("native_layer_norm_backward")
def native_layer_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Any,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Any,
) -> Any:
    outer, dims = trailing(input, normalized_shape)
    grad = wide(grad_out)
    normal = aten.mul(aten.sub(wide(input), wide(mean)), wide(rstd))
    spread = None if weight is None else wide(weight)

    def summed(value: Any, like: Any) -> Any:
        kept = input.dtype if like is None else like.dtype
        return cast(aten.sum(value, outer) if outer else value, kept)

    return masked(
        output_mask,
        lambda: cast(gradient(grad, normal, wide(rstd), spread, dims), input.dtype),
        lambda: summed(aten.mul(grad, normal), weight),
        lambda: summed(grad, bias),
    )


@program("native_group_norm")
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    eps: float,
) -> Any:
    x = view_or_copy(wide(input), [N, group, C // group, HxW])
    mean, _, rstd = moments(x, [2, 3], eps)
    result = scaled(aten.mul(aten.sub(x, mean), rstd), weight, bias, [1, group, C // group, 1])
    kept = statistics_dtype(input, weight, bias)
    saved = [cast(aten.squeeze(entry, [2, 3]), kept) for entry in (mean, rstd)]
    return cast(aten.view(result, input.shape), input.dtype), *saved


@program("native_group_norm_backward")
def native_group_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    output_mask: Any,
) -> Any:
    shape = [N, group, C // group, HxW]
    grad, x = view_or_copy(wide(grad_out), shape), view_or_copy(wide(input), shape)
    deviation = aten.view(wide(rstd), [N, group, 1, 1])
    normal = aten.mul(aten.sub(x, aten.view(wide(mean), [N, group, 1, 1])), deviation)
    spread = None if weight is None else aten.view(wide(weight), [1, group, C // group, 1])
    kept = input.dtype if weight is None else weight.dtype

    def summed(value: Any) -> Any:
        return cast(aten.view(aten.sum(value, [0, 3]), [C]), kept)

    def of_input() -> Any:
        found = gradient(grad, normal, deviation, spread, [2, 3])
        return cast(aten.view(found, input.shape), input.dtype)

    return masked(
        output_mask, of_input, lambda: summed(aten.mul(grad, normal)), lambda: summed(grad)
    )
