"""Functions on tensors that modules are made of."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.opset import functions

__all__ = [
    "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu",
    "cross_entropy", "dropout", "elu", "embedding", "embedding_bag", "group_norm",
    "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "instance_norm", "kl_div", "l1_loss",
    "layer_norm", "leaky_relu", "log_softmax", "mish", "mse_loss", "nll_loss", "normalize",
    "one_hot", "relu", "relu6", "rrelu", "selu", "silu", "smooth_l1_loss", "softmax",
    "softmin", "softsign", "tanhshrink", "threshold",
]  # fmt: skip

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}

# Operators that are functions here under the same name; anything else is defined below.
SAME = frozenset(
    (
        "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d", "cosine_similarity", "gelu", "glu", "hardshrink", "linear",
        "logsigmoid", "pad", "pixel_shuffle", "pixel_unshuffle", "prelu", "rms_norm", "sigmoid",
        "softplus", "softshrink", "tanh",
        "celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_",
    )
)  # fmt: skip


def __getattr__(name: str) -> Any:
    try:
        if name not in SAME:
            raise AttributeError(name)
        found = getattr(functions, "log_sigmoid" if name == "logsigmoid" else name)
    except AttributeError:
        raise AttributeError(
            f"module 'rushlight.nn.functional' has no attribute '{name}'"
        ) from None
    globals()[name] = found
    return found


# -- activations -----------------------------------------------------------------------------------


def relu(input: Any, inplace: bool = False) -> Any:
    """max(input, 0), elementwise."""
    return input.relu_() if inplace else functions.relu(input)


def relu6(input: Any, inplace: bool = False) -> Any:
    """The input clamped between 0 and 6."""
    return (functions.relu6_ if inplace else functions.relu6)(input)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """The input, or alpha (exp(input) - 1) where it is negative."""
    return (functions.elu_ if inplace else functions.elu)(input, alpha)


def selu(input: Any, inplace: bool = False) -> Any:
    """`elu`, scaled so that layers keep mean zero and variance one."""
    return (functions.selu_ if inplace else functions.selu)(input)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """`elu` with a continuous slope for every alpha."""
    return (functions.celu_ if inplace else functions.celu)(input, alpha)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """The input, or a fraction of it where it is negative."""
    return (functions.leaky_relu_ if inplace else functions.leaky_relu)(input, negative_slope)


def rrelu(
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """`leaky_relu` with a slope drawn for each element while training."""
    return (functions.rrelu_ if inplace else functions.rrelu)(input, lower, upper, training)


def silu(input: Any, inplace: bool = False) -> Any:
    """input · sigmoid(input)."""
    return (functions.silu_ if inplace else functions.silu)(input)


def mish(input: Any, inplace: bool = False) -> Any:
    """input · tanh(softplus(input))."""
    return (functions.mish_ if inplace else functions.mish)(input)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """`silu` in straight pieces."""
    return (functions.hardswish_ if inplace else functions.hardswish)(input)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """`sigmoid` in straight pieces."""
    return (functions.hardsigmoid_ if inplace else functions.hardsigmoid)(input)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """The input clamped between `min_val` and `max_val`."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (functions.hardtanh_ if inplace else functions.hardtanh)(input, min_val, max_val)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """`value` where the input is not above `threshold`."""
    return (functions.threshold_ if inplace else functions.threshold)(input, threshold, value)


def softsign(input: Any) -> Any:
    """input / (1 + |input|)."""
    return input / (input.abs() + 1)


def tanhshrink(input: Any) -> Any:
    """input - tanh(input)."""
    return input - input.tanh()


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """exp(input) normalised to sum one along `dim`."""
    return input.softmax(default_dim(input, "softmax") if dim is None else dim, dtype=dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of `softmax`, computed stably."""
    return input.log_softmax(default_dim(input, "log_softmax") if dim is None else dim, dtype=dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """`softmax` of the negated input."""
    return softmax(-input, default_dim(input, "softmin") if dim is None else dim, dtype=dtype)


def default_dim(input: Any, name: str) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if input.dim() in (0, 1, 3) else 1


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero elements with probability `p` while training, scaling the rest by 1/(1-p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return (functions.dropout_ if inplace else functions.dropout)(input, p, training)


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """Vectors along `dim` divided by their p-norm, or by `eps` where that is larger."""
    length = input.norm(p, dim, keepdim=True).clamp_min(eps)
    return functions.div(input, length.expand_as(input), out=out)


# -- losses ----------------------------------------------------------------------------------------


def legacy_reduction(size_average: Any, reduce: Any) -> str:
    """torch: the reduction that the two older arguments stand for."""
    found = "sum" if size_average is not None and not size_average else "mean"
    if reduce is not None and not reduce:
        found = "none"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.",
        stacklevel=4,
    )
    return found


def reduction_number(reduction: str, size_average: Any = None, reduce: Any = None) -> int:
    """The number by which loss ops know a reduction."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    elif reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=3,
        )
        reduction = "mean"
    found = REDUCTIONS.get(reduction)
    if found is None:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return found


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
            stacklevel=2,
        )
    by_batch = reduction == "batchmean"
    number = REDUCTIONS["sum"] if by_batch else reduction_number(reduction)
    result = functions.kl_div(input, target, number, log_target=log_target)
    return result / input.shape[0] if by_batch and input.dim() else result


def same_size(input: Any, target: Any) -> tuple[Any, Any]:
    if input.shape == target.shape:
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=3,
    )
    pair = functions.broadcast_tensors([input, target])
    return pair[0], pair[1]


# -- norms -----------------------------------------------------------------------------------------


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel normalised over the batch, or with running statistics."""
    if training:
        check_values_per_channel(input.shape)
    return functions.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )


def check_values_per_channel(size: Any) -> None:
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel of each sample normalised."""
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    return functions.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False
    )


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalisation over the last dims."""
    return functions.layer_norm(input, tuple(normalized_shape), weight, bias, eps, False)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Groups of channels of each sample normalised."""
    if input.dim() < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
        )
    sizes = tuple(input.shape)
    if num_groups > 0:
        check_values_per_channel([sizes[0] * sizes[1] // num_groups, num_groups, *sizes[2:]])
    return functions.group_norm(input, num_groups, weight, bias, eps, False)


# -- indices ---------------------------------------------------------------------------------------


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Class indices as rows of zeros with a single one."""
    from rushlight.core.dtype import int64

    if tensor.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
    elif int(tensor.min()) < 0:
        raise RuntimeError(f"Class values must be non-negative. Got {int(tensor.min())}.")
    elif num_classes == -1:
        num_classes = int(tensor.max()) + 1
    elif int(tensor.max()) >= num_classes:
        raise RuntimeError(
            f"Class values must be smaller than num_classes. Got {int(tensor.max())} with "
            f"num_classes={num_classes}."
        )
    classes = functions.arange(num_classes, dtype=int64)
    return (tensor.unsqueeze(-1) == classes).to(int64)


def padding_row(padding_idx: int | None, rows: int, name: str) -> int | None:
    """The row of a table that an index from either end means."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"{name} must be within num_embeddings")
    return padding_idx % rows


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of `weight` that `input` names."""
    row = padding_row(padding_idx, weight.shape[0], "Padding_idx")
    padding_idx = -1 if row is None else row
    if max_norm is not None:
        from rushlight.autograd.grad_mode import no_grad

        with no_grad():
            functions.embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
    return functions.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sums, means or maxima of bags of rows of `weight`."""
    from rushlight.core import dtype as dtypes

    if weight.dtype is dtypes.int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag("
            "weight, input, ...)` is deprecated, and should now be `embedding_bag(input, weight, "
            "...)`.",
            UserWarning,
            stacklevel=2,
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        offsets = functions.arange(0, input.numel(), input.shape[1], dtype=input.dtype)
        include_last_offset = False
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if mode not in BAG_MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        from rushlight.autograd.grad_mode import no_grad

        with no_grad():
            functions.embedding_renorm_(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    return functions.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        BAG_MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]
