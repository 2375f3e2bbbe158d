"""Functions on tensors that modules are made of."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.nn import functional_image, functional_loss, functional_pool
from rushlight.nn.functional_image import *  # noqa: F403
from rushlight.nn.functional_loss import *  # noqa: F403
from rushlight.nn.functional_loss import REDUCTIONS, legacy_reduction, reduction_number
from rushlight.nn.functional_pool import *  # noqa: F403
from rushlight.nn.offering import offered
from rushlight.opset import functions

__all__ = [
    "alpha_dropout", "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "celu", "cross_entropy", "ctc_loss", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu",
    "embedding", "embedding_bag", "feature_alpha_dropout", "glu", "group_norm", "gumbel_softmax",
    "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "instance_norm", "kl_div", "l1_loss",
    "layer_norm", "leaky_relu", "linear_cross_entropy", "local_response_norm", "log_softmax",
    "mish", "mse_loss", "nll_loss", "normalize", "pad", "relu", "relu6", "rms_norm", "rrelu",
    "selu", "silu", "smooth_l1_loss", "softmax", "softmin", "softsign", "tanhshrink", "threshold",
]  # fmt: skip
__all__ += functional_image.__all__ + functional_loss.__all__ + functional_pool.__all__

# Operators that are functions here under the same name; anything else is defined below.
SAME = frozenset(
    (
        "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear",
        "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
        "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "gelu", "hardshrink", "linear",
        "logsigmoid", "native_channel_shuffle", "one_hot", "pairwise_distance", "pdist",
        "pixel_shuffle", "pixel_unshuffle", "prelu", "scaled_dot_product_attention", "softplus",
        "softshrink",
        "celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_",
    )
)  # fmt: skip


def __getattr__(name: str) -> Any:
    try:
        if name == "multi_head_attention_forward":
            from rushlight.nn.attention import multi_head_attention_forward

            found = offered(multi_head_attention_forward, __name__)
        elif name in SAME:
            found = getattr(functions, "log_sigmoid" if name == "logsigmoid" else name)
        else:
            raise AttributeError(name)
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


def glu(input: Any, dim: int = -1) -> Any:
    """One half of the input along `dim` times the sigmoid of the other."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return functions.glu(input, dim)


def sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-input))."""
    return input.sigmoid()


def tanh(input: Any) -> Any:
    """Hyperbolic tangent."""
    return input.tanh()


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
        stacklevel=4,
    )
    return 0 if input.dim() in (0, 1, 3) else 1


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """The input with a border: widths on both sides, last dim first."""
    return functions.pad(input, pad, mode, value)


def check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero elements with probability `p` while training, scaling the rest by 1/(1-p)."""
    check_probability(p)
    return (functions.dropout_ if inplace else functions.dropout)(input, p, training)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`dropout` to the lower limit of `selu`, keeping mean and variance."""
    check_probability(p)
    return (functions.alpha_dropout_ if inplace else functions.alpha_dropout)(input, p, training)


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """`alpha_dropout` of whole channels."""
    check_probability(p)
    run = functions.feature_alpha_dropout_ if inplace else functions.feature_alpha_dropout
    return run(input, p, training)


def channel_dropout(input: Any, p: float, training: bool, inplace: bool, batched: bool) -> Any:
    """`dropout` of whole channels; an input without a batch is a batch of one."""
    if batched:
        return (functions.feature_dropout_ if inplace else functions.feature_dropout)(
            input, p, training
        )
    if inplace:
        functions.feature_dropout_(input.unsqueeze(0), p, training)
        return input
    return functions.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)


def warn_of_dims(input: Any, count: int) -> None:
    dims = input.dim()
    if dims not in (count + 1, count + 2):
        warnings.warn(
            f"dropout{count}d: Received a {dims}-D input to dropout{count}d, which is deprecated "
            "and will result in an error in a future release. To retain the behavior and silence "
            f"this warning, please use dropout instead. Note that dropout{count}d exists to "
            f"provide channel-wise dropout on inputs with {count} spatial dimensions, a channel "
            f"dimension, and an optional batch dimension (i.e. {count + 1}D or {count + 2}D "
            "inputs).",
            stacklevel=4,
        )


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of (N, C, L) or (C, L)."""
    check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return channel_dropout(input, p, training, inplace, input.dim() == 3)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of (N, C, H, W)."""
    check_probability(p)
    warn_of_dims(input, 2)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
            stacklevel=3,
        )
    return channel_dropout(input, p, training, inplace, True)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    check_probability(p)
    warn_of_dims(input, 3)
    return channel_dropout(input, p, training, inplace, input.dim() == 5)


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """Vectors along `dim` divided by their p-norm, or by `eps` where that is larger."""
    length = input.norm(p, dim, keepdim=True).clamp_min(eps)
    return functions.div(input, length.expand_as(input), out=out)


# -- losses ----------------------------------------------------------------------------------------


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
        raise NotImplementedError(
            "linear_cross_entropy: the work is not split into chunks here; pass options=None"
        )
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
    if input.shape == target.shape:
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=4,
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


def rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    """Division by the root mean square over the last dims."""
    return functions.rms_norm(input, normalized_shape, weight, eps)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """Division by a power of the mean square over `size` neighbouring channels."""
    dims = input.dim()
    if dims < 3:
        # torch: the line break inside its message is one of spaces.
        raise ValueError(
            f"Expected 3D or higher dimensionality {' ' * 25}input (got {dims} dimensions)"
        )
    if input.numel() == 0:
        return input
    sizes = input.shape
    squares = (input * input).reshape(sizes[0], 1, sizes[1], sizes[2], -1)
    squares = functions.pad(squares, (0, 0, 0, 0, size // 2, (size - 1) // 2))
    means = functions.avg_pool3d(squares, (size, 1, 1), 1).reshape(sizes)
    return input / (means * alpha + k) ** beta


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """Softmax of logits with Gumbel noise; `hard` gives one-hot values with its gradient."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    noise = -functions.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    chosen = functions.zeros_like(logits).scatter_(dim, index, 1.0)
    return chosen - soft.detach() + soft


# -- indices ---------------------------------------------------------------------------------------


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
            functions.embedding_renorm_(weight.detach(), input.contiguous(), max_norm, norm_type)
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
            stacklevel=3,
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
            functions.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
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


for public in __all__:
    globals()[public] = offered(globals()[public], __name__)
