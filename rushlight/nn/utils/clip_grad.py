"""Gradients kept within bounds: by their norm, or value by value."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


def as_list(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def gradients_of(parameters: Any) -> list[Any]:
    return [value.grad for value in as_list(parameters) if value.grad is not None]


def by_dtype(tensors: list[Any]) -> list[list[Any]]:
    """Tensors that one call on a list takes: those of one dtype."""
    groups: dict[Any, list[Any]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """The norm of all tensors together, as if they were one vector."""
    values, order = as_list(tensors), float(norm_type)
    if not values:
        return functions.scalar_tensor(0.0)
    norms: list[Any] = []
    for group in by_dtype(values):
        if foreach is False:
            norms += [functions.linalg_vector_norm(value, order) for value in group]
        else:
            norms += functions._foreach_norm(group, order)
    total = functions.linalg_vector_norm(functions.stack(norms), order)
    if error_if_nonfinite and not total.isfinite().item():
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite "
            "norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Any,
    foreach: bool | None = None,
) -> None:
    """Scale gradients down by what takes `total_norm` to `max_norm`; never up."""
    grads = gradients_of(parameters)
    if not grads:
        return
    factor = functions.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    for group in by_dtype(grads):
        if foreach is False:
            for grad in group:
                grad.mul_(factor)
        else:
            functions._foreach_mul_(group, factor)


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scale gradients so that their norm is at most `max_norm`; answers the norm before.

    >>> import rushlight as torch
    >>> p = torch.ones(4, requires_grad=True)
    >>> p.sum().backward()
    >>> torch.nn.utils.clip_grad_norm_([p], 1.0)
    tensor(2.)
    >>> p.grad
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    values = as_list(parameters)
    if not values and isinstance(parameters, GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3
        )
    total = get_total_norm(gradients_of(values), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(values, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """The old name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp every element of the gradients to [-clip_value, clip_value]."""
    bound = float(clip_value)
    for group in by_dtype(gradients_of(parameters)):
        if foreach is False:
            for grad in group:
                grad.clamp_(min=-bound, max=bound)
        else:
            functions._foreach_clamp_min_(group, -bound)
            functions._foreach_clamp_max_(group, bound)
