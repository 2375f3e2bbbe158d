"""Initial values of parameters. Every function writes in place and returns its tensor."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.opset import functions

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_",
    "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_",
    "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip

LINEAR_GAINS = frozenset(
    ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
     "conv_transpose3d", "sigmoid")
)  # fmt: skip


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Values between `a` and `b`."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normally distributed values."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Any, val: float) -> Any:
    """The same value everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """All ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """All zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Any) -> Any:
    """The identity matrix."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(functions.eye(*tensor.shape, dtype=tensor.dtype))


def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Normal values cut off at `a` and `b`: draws outside, or too unlikely, are repeated."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / (std * math.sqrt(2.0)))) / 2.0

    likely = below(b) - below(a) > 0.3
    # torch: bounds are compared at the tensor's precision.
    low, high = (tensor.new_tensor(bound, requires_grad=False).item() for bound in (a, b))
    # Far in a tail few normal draws fall inside: even ones are kept by their relative density.
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def draw(target: Any) -> Any:
        if likely:
            return target.normal_(mean, std, generator=generator)
        return target.uniform_(a, b, generator=generator)

    def rejected(drawn: Any) -> Any:
        if likely:
            return (drawn < low) | (drawn > high)
        density = drawn.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        return functions.empty_like(tensor).uniform_(generator=generator).log_() > density

    with no_grad():
        wrong = rejected(draw(tensor))
        while bool(wrong.any()):
            drawn = draw(functions.empty_like(tensor))
            tensor.copy_(drawn.where(wrong, tensor))
            wrong = wrong & rejected(drawn)
    return tensor


def fans(tensor: Any) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = fans


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    """The fan that a mode names."""
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {list(modes)}")
    return fans(tensor)[modes.index(mode.lower())]


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which weights grow to keep variances through a nonlinearity."""
    if nonlinearity in LINEAR_GAINS:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {slope} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform values with variance gain² · 2/(fan_in + fan_out)."""
    std = gain * math.sqrt(2.0 / sum(fans(tensor)))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal values with variance gain² · 2/(fan_in + fan_out)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float | None:
    """The deviation that keeps variances; None for a tensor without elements."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan = fans(tensor)[0 if mode == "fan_in" else 1]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Uniform values that keep the variance of a rectified layer."""
    std = kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Normal values that keep the variance of a rectified layer."""
    std = kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Kernels of a convolution that passes its input channels on, in each group."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outer = tensor.shape[0]
    if outer % groups:
        raise ValueError("dim 0 must be divisible by groups")
    if tensor.is_meta:
        return tensor
    width = outer // groups
    with no_grad():
        tensor.zero_()
        centre = tensor[(slice(None), slice(None), *[size // 2 for size in tensor.shape[2:]])]
        for group in range(groups):
            centre[group * width : (group + 1) * width].fill_diagonal_(1)
    return tensor


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """A matrix with orthonormal rows or columns, whichever are fewer."""
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = functions.linalg_qr(drawn.t() if rows < columns else drawn)
        # Signs from R make the result uniformly distributed.
        q = q * r.diagonal().sign()
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape) * gain)
    return tensor


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normal values, and zeros in a fraction of each column."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[functions.randperm(rows)[:zeros], column] = 0
    return tensor


def older_name(function: Any) -> Any:
    """torch: a function under its name without underscore."""
    new = function.__name__
    old = new[:-1]

    def deprecated_init(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    deprecated_init.__name__ = deprecated_init.__qualname__ = old
    deprecated_init.__doc__ = f"The older name of `{new}`."
    return deprecated_init


constant = older_name(constant_)
dirac = older_name(dirac_)
eye = older_name(eye_)
kaiming_normal = older_name(kaiming_normal_)
kaiming_uniform = older_name(kaiming_uniform_)
normal = older_name(normal_)
orthogonal = older_name(orthogonal_)
sparse = older_name(sparse_)
uniform = older_name(uniform_)
xavier_normal = older_name(xavier_normal_)
xavier_uniform = older_name(xavier_uniform_)
