"""Functions on tensors that modules are made of."""

from __future__ import annotations

from typing import Any

from rushlight.opset import functions

__all__ = [
    "cross_entropy",
    "dropout",
    "l1_loss",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "softmax",
]

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}

# Operators that are functions here under the same name; anything else is defined below.
SAME = frozenset(
    (
        "bilinear", "celu", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d", "elu", "gelu", "glu", "hardshrink", "hardsigmoid",
        "hardswish", "leaky_relu", "linear", "logsigmoid", "mish", "pad",
        "pixel_shuffle", "pixel_unshuffle", "prelu", "relu6", "rrelu", "selu", "sigmoid", "silu",
        "softplus", "softshrink", "tanh", "tanhshrink",
    )
)  # fmt: skip


def __getattr__(name: str) -> Any:
    plain = name[:-1] if name.endswith("_") else name
    if plain not in SAME:
        raise AttributeError(f"module 'rushlight.nn.functional' has no attribute '{name}'")
    try:
        found = getattr(functions, "log_sigmoid" if name == "logsigmoid" else name)
    except AttributeError:
        raise AttributeError(
            f"module 'rushlight.nn.functional' has no attribute '{name}'"
        ) from None
    globals()[name] = found
    return found


def reduction_number(reduction: str) -> int:
    found = REDUCTIONS.get(reduction)
    if found is None:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return found


def relu(input: Any, inplace: bool = False) -> Any:
    """max(input, 0), elementwise."""
    return input.relu_() if inplace else functions.relu(input)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """The input clamped between `min_val` and `max_val`."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        return input.hardtanh_(min_val, max_val)
    return functions.hardtanh(input, min_val, max_val)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """`value` where the input is not above `threshold`."""
    if inplace:
        return functions.threshold_(input, threshold, value)
    return functions.threshold(input, threshold, value)


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """exp(input) normalised to sum one along `dim`."""
    return input.softmax(default_softmax_dim(input) if dim is None else dim, dtype=dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of `softmax`, computed stably."""
    return input.log_softmax(default_softmax_dim(input) if dim is None else dim, dtype=dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """`softmax` of the negated input."""
    return softmax(-input, dim, dtype=dtype)


def default_softmax_dim(input: Any) -> int:
    import warnings

    warnings.warn(
        "Implicit dimension choice for softmax has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if input.dim() in (0, 1, 3) else 1


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero elements with probability `p` while training, scaling the rest by 1/(1-p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return input.dropout_(p, training) if inplace else functions.dropout(input, p, training)


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
        input, target, weight, reduction_number(reduction), ignore_index, label_smoothing
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
    return functions.nll_loss_nd(input, target, weight, reduction_number(reduction), ignore_index)


def mse_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """Squared difference, elementwise, reduced."""
    return functions.mse_loss(*same_size(input, target), reduction_number(reduction))


def l1_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """Absolute difference, elementwise, reduced."""
    return functions.l1_loss(*same_size(input, target), reduction_number(reduction))


def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """Quadratic below `beta`, linear above."""
    pair = same_size(input, target)
    return functions.smooth_l1_loss(*pair, reduction_number(reduction), beta)


def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """Quadratic below `delta`, linear above, continuous in slope."""
    return functions.huber_loss(*same_size(input, target), reduction_number(reduction), delta)


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
    return functions.binary_cross_entropy(input, target, weight, reduction_number(reduction))


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
        input, target, weight, pos_weight, reduction_number(reduction)
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
    if reduction == "batchmean":
        total = functions.kl_div(input, target, 2, log_target=log_target)
        return total / input.shape[0] if input.dim() else total
    return functions.kl_div(input, target, reduction_number(reduction), log_target=log_target)


def same_size(input: Any, target: Any) -> tuple[Any, Any]:
    if input.shape == target.shape:
        return input, target
    import warnings

    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=3,
    )
    pair = functions.broadcast_tensors([input, target])
    return pair[0], pair[1]


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
        count = input.shape[0]
        for size in input.shape[2:]:
            count = count * size
        if count == 1:
            raise ValueError(
                "Expected more than 1 value per channel when training, got input size "
                f"{input.shape}"
            )
    return functions.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
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
    if use_input_stats:
        count = 1
        for size in input.shape[2:]:
            count = count * size
        if count == 1:
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
    return functions.group_norm(input, num_groups, weight, bias, eps, False)


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
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
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
        import warnings

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
