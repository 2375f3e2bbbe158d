"""Losses, softmax and their gradients as programs over core ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.aot.decompositions.texts import MATH, as_tensor, cast, wide
from rushlight.aot.decompositions.written import program
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset.network.loss import promoted
from rushlight.opset.rules import aten

__all__: list[str] = []

NONE, MEAN = 0, 1


def complement(x: Tensor) -> Any:
    """1 - x."""
    return aten.add(aten.neg(x), 1)


def reduced(loss: Any, reduction: int) -> Any:
    if reduction == NONE:
        return loss
    return aten.mean(loss) if reduction == MEAN else aten.sum(loss, list(range(loss.dim())))


def per_element(grad: Tensor, like: Any, reduction: int) -> Any:
    """The gradient of each element's loss."""
    return aten.div(grad, like.numel()) if reduction == MEAN else grad


# -- softmax ---------------------------------------------------------------------------------------


@program("_softmax")
def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Any:
    powers = aten.exp(shifted(wide(self), dim))
    result = aten.div(powers, aten.sum(powers, [dim], True))
    return result if half_to_float else cast(result, self.dtype)


@program("_log_softmax")
def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Any:
    if self.dtype.category != dtypes.FLOAT:
        return NotImplemented
    x = shifted(wide(self), dim)
    result = aten.sub(x, aten.log(aten.sum(aten.exp(x), [dim], True)))
    return result if half_to_float else cast(result, self.dtype)


def shifted(x: Tensor, dim: int) -> Any:
    """A tensor less its largest elements along a dim, so that no power is too large."""
    return x if x.numel() == 0 else aten.sub(x, aten.amax(x, [dim], True))


@program("_softmax_backward_data")
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Any:
    weighted = aten.mul(wide(grad_output), wide(output))
    total = aten.sum(weighted, [dim], True)
    return cast(aten.sub(weighted, aten.mul(wide(output), total)), input_dtype)


@program("_log_softmax_backward_data")
def _log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Any:
    grad = wide(grad_output)
    total = aten.sum(grad, [dim], True)
    return cast(aten.sub(grad, aten.mul(aten.exp(wide(output)), total)), input_dtype)


@program("_safe_softmax")
def _safe_softmax(self: Tensor, dim: int, dtype: Any = None) -> Any:
    x = self if dtype is None else cast(self, dtype)
    result = aten._softmax(x, dim, False)
    seen = aten.any(aten.ne(x, float("-inf")), dim, True)
    return aten.where(seen, result, as_tensor(0, result))


# -- losses of a difference ------------------------------------------------------------------------


def squared(difference: Tensor) -> Any:
    return aten.mul(difference, difference)


def squared_slope(difference: Tensor) -> Any:
    return aten.mul(difference, 2)


def huber(difference: Tensor, delta: float) -> Any:
    size = aten.abs(difference)
    near = aten.mul(squared(difference), 0.5)
    far = aten.mul(aten.sub(size, 0.5 * delta), delta)
    return aten.where(aten.le(size, delta), near, far)


def huber_slope(difference: Tensor, delta: float) -> Any:
    return aten.clamp(difference, -delta, delta)


def smooth(difference: Tensor, beta: float) -> Any:
    size = aten.abs(difference)
    if beta == 0:
        return size
    near = aten.div(aten.mul(squared(size), 0.5), beta)
    return aten.where(aten.lt(size, beta), near, aten.sub(size, 0.5 * beta))


def smooth_slope(difference: Tensor, beta: float) -> Any:
    if beta == 0:
        return aten.sign(difference)
    size = aten.abs(difference)
    return aten.where(aten.lt(size, beta), aten.div(difference, beta), aten.sign(difference))


def loss_of_difference(value: Callable[..., Any]) -> Callable[..., Any]:
    def loss(self: Tensor, target: Tensor, reduction: int = 1, *rest: float) -> Any:
        common = promoted(self, target)
        difference = aten.sub(wide(cast(self, common)), wide(cast(target, common)))
        return cast(reduced(value(difference, *(rest or defaults(value))), reduction), common)

    return loss


def defaults(value: Callable[..., Any]) -> tuple[float, ...]:
    return () if value is squared else (1.0,)


def gradient_of_difference(slope: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(
        grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, *rest: float
    ) -> Any:
        common = promoted(grad_output, self, target)
        difference = aten.sub(wide(cast(self, common)), wide(cast(target, common)))
        grad = per_element(wide(cast(grad_output, common)), difference, reduction)
        return cast(aten.mul(slope(difference, *rest), grad), common)

    return gradient


for name, value, slope in (
    ("mse_loss", squared, squared_slope),
    ("huber_loss", huber, huber_slope),
    ("smooth_l1_loss", smooth, smooth_slope),
):
    program(name)(loss_of_difference(value))
    program(f"{name}_backward")(gradient_of_difference(slope))


@program("soft_margin_loss")
def soft_margin_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Any:
    common = promoted(self, target)
    x = aten.mul(wide(cast(self, common)), wide(cast(target, common)))
    return cast(reduced(aten.log1p(aten.exp(aten.neg(x))), reduction), common)


# -- cross-entropies -------------------------------------------------------------------------------


@program("binary_cross_entropy")
def binary_cross_entropy(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Any:
    x, y = wide(self), wide(target)
    # torch: logarithms are cut off at -100.
    near = aten.mul(aten.sub(y, 1), aten.clamp(aten.log1p(aten.neg(x)), -100))
    loss = aten.sub(near, aten.mul(y, aten.clamp(aten.log(x), -100)))
    if weight is not None:
        loss = aten.mul(loss, wide(weight))
    return cast(reduced(loss, reduction), self.dtype)


@program("binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
) -> Any:
    x, y, grad = wide(self), wide(target), wide(grad_output)
    spread = aten.clamp(aten.mul(complement(x), x), 1e-12)
    result = aten.div(aten.mul(grad, aten.sub(x, y)), spread)
    if weight is not None:
        result = aten.mul(result, wide(weight))
    return cast(per_element(result, x, reduction), self.dtype)


@program("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Any = None,
    reduction: int = 1,
) -> Any:
    common = promoted(self, target)
    x, y = wide(self), wide(target)
    log_sigmoid = aten.sub(
        aten.minimum(x, as_tensor(0, x)), aten.log1p(aten.exp(aten.neg(aten.abs(x))))
    )
    factor = log_sigmoid
    if pos_weight is not None:
        scale = aten.add(aten.mul(aten.sub(wide(pos_weight), 1), y), 1)
        factor = aten.mul(scale, log_sigmoid)
    loss = aten.sub(aten.mul(complement(y), x), factor)
    if weight is not None:
        loss = aten.mul(loss, wide(weight))
    return cast(reduced(loss, reduction), common)


def picked(target: Tensor, ignore_index: Any, dim: int) -> tuple[Any, Any]:
    """Which targets count, and an index that is safe for those that do not."""
    counts = aten.ne(target, ignore_index)
    index = aten.where(counts, target, as_tensor(0, target))
    return counts, aten.unsqueeze(index, dim)


def class_weights(self: Tensor, weight: Tensor | None, index: Tensor, dim: int) -> Any:
    """The weight of each target."""
    shape = [1] * self.dim()
    shape[dim] = self.shape[dim]
    spread = aten.expand(aten.view(wide(weight), shape), self.shape)
    return aten.squeeze(aten.gather(spread, dim, index), dim)


@program("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: Any
) -> Any:
    dim = 0 if self.dim() == 1 else 1
    x = wide(self)
    counts, index = picked(target, ignore_index, dim)
    loss = aten.neg(aten.squeeze(aten.gather(x, dim, index), dim))
    zero = as_tensor(0, x)
    weights = None
    if weight is not None:
        weights = aten.where(counts, class_weights(self, weight, index, dim), zero)
        loss = aten.mul(loss, weights)
    loss = aten.where(counts, loss, zero)
    if reduction == NONE and target.dim():
        nothing = aten.full([], 0, dtype=self.dtype, device=self.device)
        return cast(loss, self.dtype), nothing
    dims = list(range(loss.dim()))
    total = aten.sum(cast(counts, x.dtype) if weights is None else weights, dims)
    found = aten.sum(loss, dims)
    if reduction == MEAN:
        found = aten.div(found, total)
    return cast(found, self.dtype), cast(total, self.dtype)


@program("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: Any,
    total_weight: Any,
) -> Any:
    dim = 0 if self.dim() == 1 else 1
    grad = wide(grad_output)
    counts, index = picked(target, ignore_index, dim)
    if reduction == MEAN:
        grad = aten.div(grad, wide(total_weight))
    each = aten.neg(grad)
    if weight is not None:
        each = aten.mul(each, class_weights(self, weight, index, dim))
    each = aten.where(counts, each, as_tensor(0, each))
    zeros = aten.full(self.shape, 0, dtype=each.dtype, device=self.device)
    rows = aten.unsqueeze(aten.expand(each, target.shape), dim)
    return cast(aten.scatter(zeros, dim, index, rows), self.dtype)


# -- other activations -----------------------------------------------------------------------------


def halves(self: Tensor, dim: int) -> Any:
    half = self.shape[dim] // 2
    return aten.slice(self, dim, 0, half), aten.slice(self, dim, half, 2 * half)


@program("glu")
def glu(self: Tensor, dim: int = -1) -> Any:
    first, second = halves(wide(self), dim)
    return cast(aten.mul(first, aten.sigmoid(second)), self.dtype)


@program("glu_backward")
def glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Any:
    first, second = halves(wide(self), dim)
    gate = aten.sigmoid(second)
    left = aten.mul(gate, wide(grad_output))
    right = aten.mul(aten.mul(aten.mul(complement(gate), gate), first), wide(grad_output))
    return cast(aten.cat([left, right], dim), self.dtype)


@program("native_dropout_backward")
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Any:
    return aten.mul(grad_output, aten.mul(cast(mask, grad_output.dtype), scale))


@program("bernoulli")
def bernoulli(self: Tensor, *, generator: Any = None) -> Any:
    if generator is not None:
        return NotImplemented
    work = dtypes.float64 if self.dtype is dtypes.float64 else dtypes.float32
    drawn = aten.rand(self.shape, dtype=work, device=self.device)
    return cast(aten.lt(drawn, self), self.dtype)


@program("nan_to_num")
def nan_to_num(self: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if self.dtype.category != dtypes.FLOAT:
        return aten.clone(self)
    limits = dtypes.finfo(self.dtype)
    x = aten.where(aten.isnan(self), as_tensor(0.0 if nan is None else nan, self), self)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    x = aten.where(aten.eq(self, float("inf")), as_tensor(high, self), x)
    return aten.where(aten.eq(self, float("-inf")), as_tensor(low, self), x)


@program("special_log_ndtr")
def special_log_ndtr(self: Tensor) -> Any:
    x = wide(
        self if self.dtype.category >= dtypes.FLOAT else cast(self, dtypes.get_default_dtype())
    )
    t = aten.mul(x, 0.7071067811865476)
    left = aten.sub(aten.log(aten.div(MATH.erfcx(aten.neg(t)), 2)), aten.mul(t, t))
    right = aten.log1p(aten.div(aten.neg(MATH.erfc(t)), 2))
    found = aten.where(aten.lt(x, 1), left, right)
    return cast(found, self.dtype) if self.dtype.category >= dtypes.FLOAT else found
