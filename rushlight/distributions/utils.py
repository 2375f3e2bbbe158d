"""What the distributions share: broadcasting of parameters, probabilities and logits, lazy
properties, noise, and lower triangles as vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from rushlight.autograd.grad_mode import enable_grad
from rushlight.core.construct import tensor
from rushlight.core.dtype import finfo, get_default_dtype
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060
EMPTY = Size()


def is_number(value: Any) -> bool:
    """Whether `value` is a plain Python number."""
    return isinstance(value, (int, float, bool))


def is_tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """The values as tensors of one shape; numbers take the dtype of the first tensor.

    >>> from rushlight.distributions.utils import broadcast_all
    >>> broadcast_all(1.0, 2.0)
    (tensor(1.), tensor(2.))
    """
    if not all(is_tensor_like(value) or is_number(value) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__."
        )
    like = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = get_default_dtype() if like is None else like.dtype
    place = None if like is None else like.device
    return tuple(
        functions.broadcast_tensors(
            [v if is_tensor_like(v) else tensor(v, dtype=dtype, device=place) for v in values]
        )
    )


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    return value.reshape((*value.shape[:-dim], -1)).sum(-1)


def per_event(scores: Any, event_ndims: int, counted: int) -> Any:
    """Scores of events of `counted` dimensions, summed to scores of `event_ndims`."""
    return sum_rightmost(scores, event_ndims - counted)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities; `is_binary`: each entry is the log odds of its own event."""
    return functions.sigmoid(logits) if is_binary else functions.softmax(logits, -1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept an epsilon away from 0 and 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Logits of probabilities that are clamped to stay finite."""
    inside = clamp_probs(probs)
    return functions.log(inside) - functions.log1p(-inside) if is_binary else functions.log(inside)


class lazy_property:
    """A property that is computed on first access, with gradients, and then kept."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Draws from the normal distribution of mean 0 and variance 1."""
    return functions.randn(shape, dtype=dtype, device=device)


def uniform_like(like: Any, shape: Any, low: float = 0.0) -> Any:
    """Draws from [low, 1) of the dtype of `like`."""
    return like.new_empty(shape).uniform_(low, 1)


def triangle_mask(n: int, diag: int, device: Any) -> Any:
    positions = functions.arange(n, device=device)
    return positions < positions.view(-1, 1) + (diag + 1)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The entries on and below diagonal `diag`, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., triangle_mask(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The square matrices whose entries on and below diagonal `diag` are given row by row."""
    length = vec.shape[-1]
    corner = 1 + 2 * diag
    exact = (-corner + (corner**2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    n = round(exact)
    if n - exact > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    sizes = (*vec.shape[:-1], n, n)
    if length == 0:
        return vec.new_zeros(sizes)
    mask = triangle_mask(n, diag, vec.device)
    places = (mask.reshape(-1).cumsum(0) - 1).clamp(min=0)
    return vec[..., places].reshape(sizes).masked_fill(~mask, 0.0)
