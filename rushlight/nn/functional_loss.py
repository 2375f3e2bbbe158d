"""Losses that compare vectors, rank, or keep margins; and the reductions all losses share."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.opset import functions

__all__ = [
    "cosine_embedding_loss", "gaussian_nll_loss", "hinge_embedding_loss", "margin_ranking_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "poisson_nll_loss", "soft_margin_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def legacy_reduction(size_average: Any, reduce: Any) -> str:
    """torch: the reduction that the two older arguments stand for."""
    found = "sum" if size_average is not None and not size_average else "mean"
    if reduce is not None and not reduce:
        found = "none"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.",
        stacklevel=5,
    )
    return found


def reduction_number(reduction: str, size_average: Any = None, reduce: Any = None) -> int:
    """The number by which loss ops know a reduction."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    elif reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=4,
        )
        reduction = "mean"
    found = REDUCTIONS.get(reduction)
    if found is None:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return found


def reduced(values: Any, reduction: str, complaint: str = "is not valid") -> Any:
    """Losses as they are, their mean or their sum."""
    if reduction == "mean":
        return values.mean()
    if reduction == "sum":
        return values.sum()
    if reduction == "none":
        return values
    raise ValueError(f"{reduction} {complaint}")


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Negative log likelihood of counts under Poisson rates, or their logarithms."""
    number = reduction_number(reduction, size_average, reduce)
    return functions.poisson_nll_loss(input, target, log_input, full, eps, number)


def differing(wanted: tuple[int, ...], given: tuple[int, ...]) -> list[int]:
    """The given sizes that are not the wanted ones."""
    return [size for want, size in zip(wanted, given, strict=True) if want != size]


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """Negative log likelihood of targets under normal distributions with given variances."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = functions.ones_like(input) * var
    elif bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    wanted, given = tuple(input.shape), tuple(var.shape)
    if given != wanted:
        if wanted[:-1] == given:
            var = var.unsqueeze(-1)
        elif len(wanted) != len(given) or [g for w, g in zip(wanted, given) if w != g] != [1]:
            raise ValueError("var is of incorrect size")
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    # The gradient passes by the clamp: a variance below eps still learns.
    with no_grad():
        var.clamp_(min=eps)
    values = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        values = values + 0.5 * math.log(2 * math.pi)
    return reduced(values, reduction)


def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Distances of pairs that belong together, and what others lack of the margin."""
    number = reduction_number(reduction, size_average, reduce)
    return functions.hinge_embedding_loss(input, target, margin, number)


def multilabel_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """Margin between each class of a sample and each class that is not."""
    number = reduction_number(reduction, size_average, reduce)
    return functions.multilabel_margin_loss(input, target, number)


def soft_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """log(1 + exp(-target · input))."""
    number = reduction_number(reduction, size_average, reduce)
    return functions.soft_margin_loss(input, target, number)


def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Binary cross entropy of logits, averaged over the classes of each sample."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    values = -(target * functions.log_sigmoid(input) + (1 - target) * functions.log_sigmoid(-input))
    if weight is not None:
        values = values * weight
    return reduced(values.sum(-1) / input.shape[-1], reduction)


def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """What pairs lack of the order that the target (1 or -1) names."""
    number = reduction_number(reduction, size_average, reduce)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return functions.margin_ranking_loss(input1, input2, target, margin, number)


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Angle of pairs that belong together (target 1), likeness above the margin of others."""
    number = reduction_number(reduction, size_average, reduce)
    return functions.cosine_embedding_loss(input1, input2, target, margin, number)


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """What the right class lacks of the margin over each other one, to the power p."""
    number = reduction_number(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return functions.multi_margin_loss(input, target, p, margin, weight, number)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """How far the positive is from the anchor, beyond the negative less the margin."""
    number = reduction_number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return functions.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Any = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with a distance of the caller's."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    counts = [value.dim() for value in (anchor, positive, negative)]
    if len(set(counts)) != 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            "dimensions, but got: anchor {}D, positive {}D, and negative {}D inputs".format(*counts)
        )
    distance = functions.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = functions.minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), reduction)
