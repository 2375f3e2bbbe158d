"""Functions on tensors that modules are made of."""

from __future__ import annotations

from typing import Any

from rushlight.opset import functions

__all__ = [
    "cross_entropy",
    "dropout",
    "l1_loss",
    "linear",
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
        "bilinear", "celu", "elu", "embedding", "gelu", "glu", "hardshrink", "hardsigmoid",
        "hardswish", "hardtanh", "leaky_relu", "linear", "logsigmoid", "mish", "pad",
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


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """`value` where the input is not above `threshold`."""
    if inplace:
        return input.threshold_(threshold, value)
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
    return functions.nll_loss_nd(
        input, target, weight, reduction_number(reduction), ignore_index
    )


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
    if input.shape != target.shape:
        import warnings

        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )
    pair = functions.broadcast_tensors([input, target])
    return pair[0], pair[1]


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Class indices as rows of zeros with a single one."""
    from rushlight.core.dtype import int64

    if tensor.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        if tensor.numel() == 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(tensor.max().item()) + 1
    classes = functions.arange(num_classes, dtype=int64)
    return (tensor.unsqueeze(-1) == classes).to(int64)
