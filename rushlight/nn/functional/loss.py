"""Losses, and the reductions they share."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.base.errors import error
from rushlight.core.state import LOCAL, PROCESS, active_tracer
from rushlight.opset import functions

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
    "cross_entropy", "ctc_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss",
    "kl_div", "l1_loss", "linear_cross_entropy", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss",
    "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
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


def weighted(values: Any, weight: Any, number: int) -> Any:
    """Losses times their weights; the mean is divided by the sum of the weights."""
    if weight.shape != values.shape:
        raise ValueError("Weights and input must have the same size.")
    values = values * weight
    if number == REDUCTIONS["none"]:
        return values
    total = values.sum()
    return total if number == REDUCTIONS["sum"] else total / weight.sum()


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Cross entropy between logits and class indices or probabilities."""
    return functions.cross_entropy_loss(
        input,
        target,
        weight,
        reduction_number(reduction, size_average, reduce),
        ignore_index,
        label_smoothing,
    )


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """`cross_entropy` of the logits that a linear layer makes of the input."""
    if options is not None:
        raise error("RL1101", NotImplementedError, function="linear_cross_entropy")
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    outer, (classes, *others, features) = input.shape[:-1], linear_weight.shape
    if input.shape[-1] != features:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {features}, respectively"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *others):
        raise RuntimeError(
            f"expected linear_bias shape {(classes, *others)}, got {tuple(linear_bias.shape)}"
        )
    if others and not outer:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {features}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    sizes = (*outer, classes, *others)
    if tuple(target.shape) == sizes and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = functions.linear(input, linear_weight.reshape(-1, features), bias).reshape(sizes)
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Negative log likelihood of class indices under log probabilities."""
    if input.dim() == 1 and target.dim() == 1 and target.shape[0] != 1:
        raise ValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}"
        )
    number = reduction_number(reduction, size_average, reduce)
    return functions.nll_loss_nd(input, target, weight, number, ignore_index)


def mse_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Squared difference, elementwise, reduced."""
    number = reduction_number(reduction, size_average, reduce)
    pair = same_size(input, target)
    if weight is None:
        return functions.mse_loss(*pair, number)
    return weighted(functions.mse_loss(*pair, REDUCTIONS["none"]), weight, number)


def l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Absolute difference, elementwise, reduced."""
    number = reduction_number(reduction, size_average, reduce)
    pair = same_size(input, target)
    if weight is None:
        return functions.l1_loss(*pair, number)
    return weighted(functions.l1_loss(*pair, REDUCTIONS["none"]), weight, number)


def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """Quadratic below `beta`, linear above."""
    number = reduction_number(reduction, size_average, reduce)
    return functions.smooth_l1_loss(*same_size(input, target), number, beta)


def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """Quadratic below `delta`, linear above, continuous in slope."""
    number = reduction_number(reduction)
    pair = same_size(input, target)
    if weight is None:
        return functions.huber_loss(*pair, number, delta)
    values = functions.huber_loss(*pair, REDUCTIONS["none"], delta)
    if number == REDUCTIONS["mean"]:
        # torch: not divided by the weights.
        return weighted(values, weight, REDUCTIONS["none"]).mean()
    return weighted(values, weight, number)


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Cross entropy between probabilities and binary targets."""
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    number = reduction_number(reduction, size_average, reduce)
    return functions.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """`binary_cross_entropy` of sigmoid(input), computed stably."""
    if input.shape != target.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    return functions.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, reduction_number(reduction, size_average, reduce)
    )


def kl_div(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """Kullback-Leibler divergence from log probabilities."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    elif reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
            stacklevel=3,
        )
    by_batch = reduction == "batchmean"
    number = REDUCTIONS["sum"] if by_batch else reduction_number(reduction)
    result = functions.kl_div(input, target, number, log_target=log_target)
    return result / input.shape[0] if by_batch and input.dim() else result


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """The loss of all alignments of targets with log probabilities over time."""
    return functions.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        reduction_number(reduction),
        zero_infinity,
    )


def same_size(input: Any, target: Any) -> tuple[Any, Any]:
    if target.shape == input.shape:
        if PROCESS.special and active_tracer() is not None:
            # A trace must hold for shapes that differ, too.
            pair = functions.broadcast_tensors([input, target])
            return pair[0], pair[1]
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=4,
    )
    pair = functions.broadcast_tensors([input, target])
    return pair[0], pair[1]


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
    if target.requires_grad and LOCAL.state.grad:
        raise RuntimeError(
            "The function 'soft_margin_loss' is not differentiable with respect to argument "
            "'target'. This input cannot have requires_grad True."
        )
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
    class_dim = input.dim() - 1
    return reduced(values.sum(class_dim) / input.shape[class_dim], reduction)


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
