"""Activations: functions of each element, and of a dim as softmax."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.opset import functions

__all__ = [
    "celu", "elu", "glu", "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "log_softmax", "mish", "relu", "relu6", "rrelu", "selu", "silu", "softmax", "softmin",
    "softsign", "tanhshrink", "threshold",
]  # fmt: skip


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
    return (-input).softmax(default_dim(input, "softmin") if dim is None else dim, dtype=dtype)


def default_dim(input: Any, name: str) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=4,
    )
    return 0 if input.dim() in (0, 1, 3) else 1


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
