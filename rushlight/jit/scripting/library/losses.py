# mypy: ignore-errors
# ruff: noqa: B028
"""Losses of `nn.functional` as they are compiled."""

import math
import warnings
from collections.abc import Callable

import rushlight as torch
from rushlight.core.tensor import Tensor

aten = torch.ops.aten


# -- reductions ------------------------------------------------------------------------------------


def get_enum(reduction: str) -> int:
    if reduction == "none":
        return 0
    elif reduction == "mean":
        return 1
    elif reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead."
        )
        return 1
    elif reduction == "sum":
        return 2
    raise ValueError(f"{reduction} is not a valid value for reduction")


def legacy_get_string(size_average: bool | None, reduce: bool | None) -> str:
    found = "mean"
    if size_average is not None and not size_average:
        found = "sum"
    if reduce is not None and not reduce:
        found = "none"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{found}' instead."
    )
    return found


def legacy_get_enum(reduction: str, size_average: bool | None, reduce: bool | None) -> int:
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return get_enum(reduction)


for _function in (get_enum, legacy_get_string, legacy_get_enum):
    _function._jit_override_qualname = f"__torch__.torch.nn._reduction.{_function.__name__}"


def reduced(values: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return values.mean()
    elif reduction == "sum":
        return values.sum()
    elif reduction == "none":
        return values
    raise ValueError(f"{reduction} is not valid")


def same_size(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."  # noqa: E501
        )
    expanded_input, expanded_target = torch.broadcast_tensors(input, target)
    return expanded_input, expanded_target


def weighted(values: Tensor, weight: Tensor, number: int) -> Tensor:
    if weight.size() != values.size():
        raise ValueError("Weights and input must have the same size.")
    values = values * weight
    if number == 0:
        return values
    total = values.sum()
    return total if number == 2 else total / weight.sum()


# -- functions -------------------------------------------------------------------------------------

FUNCTIONS: list[Callable] = []


def loss(function):
    function._jit_override_qualname = f"__torch__.torch.nn.functional.{function.__name__}"
    FUNCTIONS.append(function)
    return function


@loss
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    return aten.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


@loss
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    if input.dim() == 1 and target.dim() == 1 and target.size(0) != 1:
        raise ValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {target.size(0)}"
        )
    number = legacy_get_enum(reduction, size_average, reduce)
    return aten.nll_loss_nd(input, target, weight, number, ignore_index)


@loss
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    expanded_input, expanded_target = same_size(input, target)
    if weight is None:
        return aten.mse_loss(expanded_input, expanded_target, number)
    return weighted(aten.mse_loss(expanded_input, expanded_target, 0), weight, number)


@loss
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    expanded_input, expanded_target = same_size(input, target)
    if weight is None:
        return aten.l1_loss(expanded_input, expanded_target, number)
    return weighted(aten.l1_loss(expanded_input, expanded_target, 0), weight, number)


@loss
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    expanded_input, expanded_target = same_size(input, target)
    return aten.smooth_l1_loss(expanded_input, expanded_target, number, beta)


@loss
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    number = get_enum(reduction)
    expanded_input, expanded_target = same_size(input, target)
    if weight is None:
        return aten.huber_loss(expanded_input, expanded_target, number, delta)
    values = aten.huber_loss(expanded_input, expanded_target, 0, delta)
    if number == 1:
        return weighted(values, weight, 0).mean()
    return weighted(values, weight, number)


@loss
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated. Please ensure they have the same size."  # noqa: E501
        )
    number = legacy_get_enum(reduction, size_average, reduce)
    return aten.binary_cross_entropy(input, target, weight, number)


@loss
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    if target.size() != input.size():
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    number = legacy_get_enum(reduction, size_average, reduce)
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


@loss
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    elif reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the same as 'batchmean' in the next major release."  # noqa: E501
        )
    number = 2 if reduction == "batchmean" else get_enum(reduction)
    found = torch.kl_div(input, target, number, log_target=log_target)
    if reduction == "batchmean" and input.dim() != 0:
        found = found / input.size(0)
    return found


@loss
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    return torch.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, get_enum(reduction), zero_infinity
    )


@loss
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    return torch.poisson_nll_loss(input, target, log_input, full, eps, number)


def checked_variance(input: Tensor, var: Tensor) -> Tensor:
    if bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    wanted, given = input.size(), var.size()
    if given == wanted:
        return var
    if given == wanted[:-1]:
        return var.unsqueeze(-1)
    if len(wanted) == len(given):
        differing = 0
        is_one = True
        for i in range(len(wanted)):
            if wanted[i] != given[i]:
                differing += 1
                is_one = given[i] == 1
        if differing == 1 and is_one:
            return var
    raise ValueError("var is of incorrect size")


@loss
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        variance = torch.ones_like(input) * var
    else:
        variance = checked_variance(input, var)
    if reduction != "none" and reduction != "mean" and reduction != "sum":
        raise ValueError(f"{reduction} is not valid")
    variance = variance.clone()
    with torch.no_grad():
        variance.clamp_(min=eps)
    values = 0.5 * (variance.log() + (input - target) ** 2 / variance)
    if full:
        values = values + 0.5 * math.log(2 * math.pi)
    return reduced(values, reduction)


@loss
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    return torch.hinge_embedding_loss(input, target, margin, number)


@loss
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    return aten.multilabel_margin_loss(input, target, number)


@loss
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    return aten.soft_margin_loss(input, target, number)


@loss
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    values = -(target * aten.log_sigmoid(input) + (1 - target) * aten.log_sigmoid(-input))
    if weight is not None:
        values = values * weight
    return reduced(values.sum(-1) / input.size(-1), reduction)


@loss
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "  # noqa: E501
        )
    return torch.margin_ranking_loss(input1, input2, target, margin, number)


@loss
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    return torch.cosine_embedding_loss(input1, input2, target, margin, number)


@loss
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    if p != 1 and p != 2:
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None:
        if weight.dim() != 1:
            raise ValueError("weight must be one-dimensional")
    return aten.multi_margin_loss(input, target, p, margin, weight, number)


@loss
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    number = legacy_get_enum(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)
