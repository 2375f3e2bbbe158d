"""Margin losses over classes and distances between rows.

`multi_margin_loss` and `multilabel_margin_loss` are spelled out in other ops, so that, beyond
torch, they can be differentiated twice.
"""

from __future__ import annotations

from typing import Any

from rushlight.arrays.precision import dtype_of
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.core.promotion import promote_types
from rushlight.opset.kinds import LOSS
from rushlight.opset.network.loss import (
    MEAN,
    NONE,
    SUM,
    apply_reduction,
    common_shape,
    floats,
    loss_spec,
    mean_scale,
    misfit,
    reduced,
)
from rushlight.opset.reduction.reduce import has_values
from rushlight.opset.registry import composite, op, packet

soft_margin_loss = op(
    "soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), make(4)))],
    autocast="float32",
    exact_out=True,
    kind=LOSS,
    method=False,
    function=None,
    differentiable=["self"],
    vjp=lambda grad, self, target, reduction: mean_scale(
        -target * (-target * self).sigmoid() * grad, reduction, self, target
    ),
)


@soft_margin_loss.samples
def _(make: Any) -> Any:
    if make.dtype.category != dtypes.FLOAT:
        return
    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), make(3, 4).sign(), reduction
    yield make.strided(3, 4), make.strided(3, 4).sign(), NONE


def check_fits(self: Any, target: Any) -> None:
    # torch: everything is written into a copy of the input.
    shape = common_shape(self, target)
    if not geometry.same_sizes(shape, tuple(self.shape)):
        raise misfit(self.shape, shape)


@soft_margin_loss.shape
def _(self: Any, target: Any, reduction: int) -> Any:
    check_fits(self, target)
    return loss_spec(self._dtype, reduction, self, target)


@soft_margin_loss.kernel
def _(xp: Any, self: Any, target: Any, reduction: int) -> Any:
    check_fits(self, target)
    dtype = dtype_of(self)
    if dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {dtype.scalar_type_name}"
        )
    x, y = floats("soft_margin_loss", dtype, self, target)
    return reduced(xp.log1p(xp.exp(-x * y)), reduction, dtype)


def batched(self: Any, target: Any) -> tuple[Any, Any]:
    """Input and target with a batch dimension."""
    if self.dim() < 2:
        return self.reshape(1, -1), target.reshape(1, -1)
    return self, target


def check_classes(kernel: str, self: Any, target: Any) -> None:
    """Rows of class scores in a dtype that margins are computed in, and whole labels."""
    sizes = tuple(self.shape)
    if len(sizes) > 2 or any(
        geometry.is_size(size, 0) for size in sizes[1 if len(sizes) == 2 else 0 :]
    ):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{geometry.show(sizes)}"
        )
    if self._dtype not in (dtypes.float32, dtypes.float64):
        raise unsupported(kernel, self._dtype)
    if target._dtype is not dtypes.int64:
        raise RuntimeError(f"expected scalar type Long but found {target._dtype.scalar_type_name}")


@composite(
    "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, "
    "Tensor? weight=None, int reduction=1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), make.ints(3, high=2)))],
    autocast="float32",
    exact_out=True,
    method=False,
    function=None,
)
def multi_margin_loss(
    self: Any, target: Any, p: Any, margin: Any, weight: Any, reduction: int
) -> Any:
    if p not in (1, 2):
        raise RuntimeError("only p == 1 and p == 2 supported")
    check_classes("multi_margin_loss_cpu_kernel", self, target)
    single = self.dim() < 2
    rows = self.reshape(1, -1) if single else self
    labels = target.reshape(-1)
    if labels.shape[0] != rows.shape[0]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{rows.shape[0]}], but got "
            f"{geometry.show(target.shape)}. Input has shape {geometry.show(self.shape)}."
        )
    classes = rows.shape[1]
    if weight is not None and (weight.dim() != 1 or weight.shape[0] != classes):
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {geometry.show(weight.shape)}"
        )
    if has_values(labels) and bool((labels < 0).logical_or(labels >= classes).any()):
        raise RuntimeError("target out of range")
    chosen = labels.unsqueeze(1)
    gaps = (margin - rows.gather(1, chosen) + rows).clamp(min=0)
    if p == 2:
        gaps = gaps * gaps
    if weight is not None:
        gaps = gaps * weight.gather(0, labels).unsqueeze(1)
    losses = gaps.scatter(1, chosen, 0).sum(1) / classes
    # torch: the target tells whether there is a batch.
    alone = reduction == NONE and target.dim() == 0
    return apply_reduction(losses.squeeze(0) if alone else losses, reduction)


@multi_margin_loss.samples
def _(make: Any) -> Any:
    if make.dtype not in (dtypes.float32, dtypes.float64):
        return
    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), make.index(3, below=4), 1, 1, None, reduction
        yield make(3, 4), make.index(3, below=4), 2, 0.5, None, reduction
    yield make(4), make.index(below=4)


@composite(
    "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), make.ints(2, high=2)))],
    autocast="float32",
    exact_out=True,
    method=False,
    function=None,
)
def multilabel_margin_loss(self: Any, target: Any, reduction: int) -> Any:
    if self.dim() > 2 or (self.dim() and geometry.is_size(self.shape[-1], 0)):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{geometry.show(self.shape)}"
        )
    if not geometry.same_sizes(tuple(self.shape), tuple(target.shape)):
        raise RuntimeError(
            f"inconsistent target size: {geometry.show(target.shape)} for input of size: "
            f"{geometry.show(self.shape)}"
        )
    check_classes("multilabel_margin_loss_forward_out_frame", self, target)
    rows, labels = batched(self, target)
    classes = rows.shape[1]
    if has_values(labels) and bool((labels < -1).logical_or(labels >= classes).any()):
        raise RuntimeError("argument #2 'target' is out of range")
    # Labels count up to the first -1.
    listed = (labels != -1).to(dtypes.int64).cumprod(1)
    places = labels.clamp(min=0)
    is_target = listed.new_zeros(listed.shape).scatter_add(1, places, listed) > 0
    gaps = (1 - rows.gather(1, places).unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    counted = listed.to(dtypes.bool_).unsqueeze(2).logical_and(is_target.logical_not().unsqueeze(1))
    losses = gaps.masked_fill(counted.logical_not(), 0).sum((1, 2)) / classes
    single = self.dim() < 2 and reduction == NONE
    return apply_reduction(losses.squeeze(0) if single else losses, reduction)


@multilabel_margin_loss.samples
def _(make: Any) -> Any:
    if make.dtype not in (dtypes.float32, dtypes.float64):
        return
    labels = make.index(3, 4, below=4)
    labels._array[0] = [2, 0, -1, 1]
    labels._array[1, 0] = -1
    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), labels, reduction
    yield make(4), labels[0]


# -- distances ------------------------------------------------------------------------------------


@composite(
    "pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, "
    "bool keepdim=False) -> Tensor",
    functional=True,
    method=False,
)
def pairwise_distance(x1: Any, x2: Any, p: float, eps: float, keepdim: bool) -> Any:
    last = max(x1.dim(), x2.dim()) - 1
    return packet("norm").ScalarOpt_dim(x1 - x2 + eps, p, [last], keepdim)


@pairwise_distance.samples
def _(make: Any) -> Any:
    yield make(3, 4), make(3, 4)
    yield make(3, 4), make(4), 1.0, 1e-6, True
    yield make(4), make(4), 3.0


@composite(
    "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    functional=True,
    errors=lambda make: [(RuntimeError, (make(2, 3), make(2, 4)))],
    method=False,
)
def cosine_similarity(x1: Any, x2: Any, dim: int, eps: float) -> Any:
    dtype = promote_types(x1._dtype, x2._dtype)
    if dtype.category != dtypes.FLOAT:
        raise RuntimeError(
            "expected common dtype to be floating point, yet common dtype is "
            f"{dtype.scalar_type_name}"
        )
    shape = geometry.broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
    first, second = x1.to(dtype).expand(shape), x2.to(dtype).expand(shape)
    return (unit(first, dim, eps) * unit(second, dim, eps)).sum(dim)


def unit(value: Any, dim: int, eps: float) -> Any:
    """A vector over its norm, which counts as at least `eps` though its gradient flows."""
    size = packet("linalg_vector_norm")(value, 2, [dim], True)
    return value / (size + (eps - size).clamp(min=0).detach())


@cosine_similarity.samples
def _(make: Any) -> Any:
    yield make(3, 4), make(3, 4)
    yield make(3, 4), make(4), 0
    yield make(4), make(4), -1, 0.5


@composite(
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., "
    "float p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), make(2, 3), make(3)))],
    autocast="float32",
    method=False,
)
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: int,
) -> Any:
    ranks = [tensor.dim() for tensor in (anchor, positive, negative)]
    if len(set(ranks)) != 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative "
            f"{ranks[2]}D inputs"
        )
    distance = packet("pairwise_distance")
    near = distance(anchor, positive, p, eps)
    far = distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(distance(positive, negative, p, eps))
    return apply_reduction((margin + near - far).clamp(min=0), reduction)


@triplet_margin_loss.samples
def _(make: Any) -> Any:
    if make.dtype.category < dtypes.FLOAT:
        return
    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), make(3, 4), make(3, 4), 1.0, 2.0, 1e-6, False, reduction
    if not make.dtype.is_complex:
        yield make(3, 4), make(3, 4), make(3, 4), 5.0, 1.0, 1e-6, True, NONE
