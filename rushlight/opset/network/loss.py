"""Losses. `reduction` is 0 for none, 1 for the mean, 2 for the sum, as torch counts them.

Elementwise losses broadcast and promote like arithmetic; unreduced results lie in memory as an
elementwise result would. Halves compute in float32 and round once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.arrays.precision import cast, check_computable, dtype_of, working
from rushlight.arrays.summation import sum_array
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.core.dtype import unsupported
from rushlight.core.promotion import DIM, ZERO_DIM, can_cast, result_type
from rushlight.core.tensor import strides_of
from rushlight.opset.kinds import LOSS, OPAQUE, Spec
from rushlight.opset.large import in_pieces
from rushlight.opset.registry import composite, op, packet
from rushlight.opset.rules import late, sample

NONE, MEAN, SUM = 0, 1, 2


def promoted(*tensors: Any) -> DType:
    operands = []
    for tensor in tensors:
        if tensor is None:
            continue
        operands.append((dtype_of(tensor), DIM if len(tensor.shape) else ZERO_DIM))
    return result_type(operands)


def floats(kernel: str, dtype: DType, *arrays: Any) -> list[Any]:
    """The arrays in the dtype that `dtype` computes in, which must be a real floating one."""
    if dtype.category != dtypes.FLOAT:
        raise unsupported(kernel, dtype)
    check_computable(kernel, dtype)
    work = working(dtype)
    return [None if array is None else cast(array, work) for array in arrays]


def reduced(array: Any, reduction: int, dtype: DType) -> Any:
    """An unreduced loss, or its mean or sum, in the dtype of the result."""
    if reduction == NONE:
        return array.astype(dtype.np, copy=False)
    total = sum_array(array, None)
    if reduction == MEAN:
        total = total / array.dtype.type(array.size)
    return total.astype(dtype.np)


def lowered_floats(build: Any, dtype: DType, *values: Any) -> list[Any]:
    """Operands of one shape as expressions in the dtype that `dtype` computes in."""
    first = values[0]
    if dtype.category != dtypes.FLOAT or 0 in first.shape:
        build.refuse("no floats")
    found: list[Any] = []
    for value in values:
        if value is not None and not geometry.same_sizes(value.shape, first.shape):
            build.refuse("a broadcast loss")
        same = None if value is None else build.cast(build.widen(value), build.working(dtype))
        found.append(same)
    return found


def lowered_reduction(build: Any, loss: Any, shape: Any, reduction: int, dtype: DType) -> Any:
    """As `reduced`, of an expression."""
    if reduction == NONE:
        return build.cast(loss, dtype)
    axes = tuple(range(len(shape)))
    total = (
        build.mean(loss, shape, axes) if reduction == MEAN else build.fold("sum", loss, shape, axes)
    )
    return build.cast(build.without(total, axes), dtype)


def common_shape(*operands: Any) -> tuple[Any, ...]:
    """What the shapes of tensors or arrays broadcast to; None takes no part."""
    given = [tuple(operand.shape) for operand in operands if operand is not None]
    return tuple(geometry.broadcast_shapes(*given))


def misfit(sizes: Any, shape: Any) -> RuntimeError:
    """The error of operands that broadcast to more than the result holds."""
    return RuntimeError(
        f"output with shape {geometry.show(sizes)} doesn't match the broadcast shape "
        f"{geometry.show(shape)}"
    )


def loss_spec(dtype: DType, reduction: int, *tensors: Any) -> Spec:
    given = [tensor for tensor in tensors if tensor is not None]
    if not given:
        return Spec((), dtype)
    shape = common_shape(*given)
    if reduction != NONE:
        return Spec((), dtype)
    operands = [(tuple(tensor.shape), strides_of(tensor)) for tensor in given]
    return Spec(shape, dtype, geometry.elementwise_strides(shape, operands))


def apply_reduction(loss: Any, reduction: int) -> Any:
    if reduction == NONE:
        return loss
    return loss.mean() if reduction == MEAN else loss.sum()


def mean_scale(value: Any, reduction: int, *tensors: Any) -> Any:
    """Divide by the number of elements where the loss is a mean."""
    if reduction != MEAN:
        return value
    return value / geometry.numel(common_shape(*tensors))


# -- losses of a difference -----------------------------------------------------------------------


def pair_samples(*extra: Any) -> Callable[[Any], Any]:
    def samples(make: Any) -> Any:
        for reduction in (NONE, MEAN, SUM):
            yield make(3, 4), make(3, 4), reduction, *extra
        yield make.strided(3, 4), make.strided(3, 4), NONE, *extra
        yield make.strided(3, 4), make(3, 4), NONE, *extra
        yield make(), make(), MEAN, *extra
        yield make(0, 3), make(0, 3), SUM, *extra
        yield make(0, 3), make(0, 3), MEAN, *extra
        yield make(3, 4), make.special(3, 4), NONE, *extra

    return samples


def gradient_samples(*extra: Any) -> Callable[[Any], Any]:
    def samples(make: Any) -> Any:
        if make.dtype.category != dtypes.FLOAT:
            return
        yield make(3, 4), make(3, 4), make(3, 4), NONE, *extra
        yield make(), make(3, 4), make(3, 4), MEAN, *extra
        yield make(), make(3, 4), make(3, 4), SUM, *extra
        yield make(), make.strided(3, 4), make.strided(3, 4), MEAN, *extra

    return samples


def difference_loss(
    name: str,
    parameter: str,
    kernel: str,
    value: Callable[..., Any],
    slope: Callable[..., Any],
    curvature: Callable[..., Any],
    check: Callable[..., None],
    extra: tuple[Any, ...] = (),
) -> None:
    """A loss of self - target with its backward op.

    `value` and `slope` are over arrays (xp, difference, parameter); `curvature`, over tensors
    (difference, parameter), is the second derivative.
    """
    default = f"{parameter}=1." if parameter else ""
    separator = ", " if parameter else ""
    record = op(
        f"{name}(Tensor self, Tensor target, int reduction=1{separator}{default}) -> Tensor",
        autocast="float32",
        kind=LOSS,
        method=False,
        function=None,
        samples=pair_samples(*extra),
        errors=lambda make: [(RuntimeError, (make(2, 3), make(4)))],
    )

    @record.shape
    def _(self: Any, target: Any, reduction: int, *rest: Any) -> Any:
        check(*rest)
        return loss_spec(promoted(self, target), reduction, self, target)

    @record.kernel
    def _(xp: Any, self: Any, target: Any, reduction: int, *rest: Any) -> Any:
        check(*rest)
        dtype = promoted(self, target)
        common_shape(self, target)
        x, y = floats(f"{kernel}_cpu", dtype, self, target)
        loss = in_pieces(lambda m, a, b: value(m, a - b, *rest), (x, y))
        return reduced(loss, reduction, dtype)

    @record.lower
    def _(build: Any, op: Any, self: Any, target: Any, reduction: int, *rest: Any) -> Any:
        dtype = build.val.dtype
        x, y = lowered_floats(build, dtype, self, target)
        loss = value(build.m, x - y, *rest)
        return lowered_reduction(build, loss, self.shape, reduction, dtype)

    back = op(
        f"{name}_backward(Tensor grad_output, Tensor self, Tensor target, int reduction"
        f"{separator}{parameter}) -> Tensor",
        kind=OPAQUE,
        method=False,
        function=False,
        out_name="grad_input",
        batch=late("network.batched:loss_backward"),
        samples=gradient_samples(*extra),
    )

    @back.shape
    def _(grad_output: Any, self: Any, target: Any, reduction: int, *rest: Any) -> Any:
        dtype = promoted(grad_output, self, target)
        return Spec(common_shape(self, target, grad_output), dtype)

    @back.kernel
    def _(xp: Any, grad_output: Any, self: Any, target: Any, reduction: int, *rest: Any) -> Any:
        dtype = promoted(grad_output, self, target)
        common_shape(self, target, grad_output)
        grad, x, y = floats(f"{kernel}_backward_cpu_out", dtype, grad_output, self, target)
        result = slope(xp, x - y, *rest) * grad
        if reduction == MEAN:
            result = result / result.dtype.type(result.size)
        return result.astype(dtype.np, copy=False)

    @back.lower
    def _(
        build: Any, op: Any, grad: Any, self: Any, target: Any, reduction: int, *rest: Any
    ) -> Any:
        dtype = build.val.dtype
        x, y = lowered_floats(build, dtype, self, target)
        share = build.spread(grad, self.shape, build.working(dtype))
        result = slope(build.m, x - y, *rest) * share
        if reduction == MEAN:
            count = build.m.const(geometry.numel(self.shape), result.dtype)
            result = build.m.divide(result, count)
        return build.cast(result, dtype)

    def call(grad: Any, self: Any, target: Any, reduction: int, *rest: Any) -> Any:
        return packet(f"{name}_backward")(grad, self, target, reduction, *rest)

    def second(grad: Any, self: Any, target: Any, reduction: int, *rest: Any) -> Any:
        bend = curvature(self - target, *rest)
        return mean_scale(grad * bend, reduction, self, target)

    saved = parameter.split(" ")[-1]
    record.vjp = {
        "self": loss_rule(call, saved),
        "target": loss_rule(
            lambda grad, self, target, *rest: call(grad, target, self, *rest), saved
        ),
    }
    back.vjp = {
        "grad_output": loss_rule(call, saved),
        "self": second_rule(second, saved),
        "target": second_rule(lambda *given: -second(*given), saved),
    }


def loss_rule(formula: Callable[..., Any], parameter: str) -> Callable[..., Any]:
    """A gradient rule of a loss. A rule saves what its signature names, the parameter too."""
    if parameter == "beta":
        return lambda grad, self, target, reduction, beta: formula(
            grad, self, target, reduction, beta
        )
    if parameter == "delta":
        return lambda grad, self, target, reduction, delta: formula(
            grad, self, target, reduction, delta
        )
    return lambda grad, self, target, reduction: formula(grad, self, target, reduction)


def second_rule(formula: Callable[..., Any], parameter: str) -> Callable[..., Any]:
    """A gradient rule of a loss's backward op, as `loss_rule`."""
    if parameter == "beta":
        return lambda grad, grad_output, self, target, reduction, beta: formula(
            grad * grad_output, self, target, reduction, beta
        )
    if parameter == "delta":
        return lambda grad, grad_output, self, target, reduction, delta: formula(
            grad * grad_output, self, target, reduction, delta
        )
    return lambda grad, grad_output, self, target, reduction: formula(
        grad * grad_output, self, target, reduction
    )


def check_beta(beta: float) -> None:
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")


def check_delta(delta: float) -> None:
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")


def smooth_value(xp: Any, difference: Any, beta: float) -> Any:
    size = xp.abs(difference)
    if beta == 0:
        return size
    return xp.where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta)


def smooth_slope(xp: Any, difference: Any, beta: float) -> Any:
    if beta == 0:
        return xp.sign(difference)
    return xp.minimum(xp.maximum(difference / beta, -1), 1)


def smooth_curvature(difference: Any, beta: float) -> Any:
    near = (difference.abs() < beta).to(difference._dtype)
    return near / beta if beta else near


def huber_value(xp: Any, difference: Any, delta: float) -> Any:
    size = xp.abs(difference)
    return xp.where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta))


difference_loss(
    "mse_loss",
    "",
    "mse",
    lambda xp, difference: difference * difference,
    lambda xp, difference: 2 * difference,
    lambda difference: 2.0,
    lambda: None,
)
difference_loss(
    "smooth_l1_loss",
    "float beta",
    "smooth_l1",
    smooth_value,
    smooth_slope,
    smooth_curvature,
    check_beta,
    (0.75,),
)
difference_loss(
    "huber_loss",
    "float delta",
    "huber",
    huber_value,
    lambda xp, difference, delta: xp.minimum(xp.maximum(difference, -delta), delta),
    lambda difference, delta: difference.abs() < delta,
    check_delta,
    (0.75,),
)


@composite(
    "l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), make(4)))],
    autocast="float32",
    method=False,
    function=None,
    samples=pair_samples(),
)
def l1_loss(self: Any, target: Any, reduction: int) -> Any:
    return apply_reduction((self - target).abs(), reduction)


# -- cross entropies over probabilities -----------------------------------------------------------

binary_cross_entropy = op(
    "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1)"
    " -> Tensor",
    may_raise=True,
    errors=lambda make: [
        (RuntimeError, (make.ints(2, low=2, dtype=dtypes.float32), make(2, low=0, high=1)))
    ],
    autocast="float32",
    exact_out=True,
    kind=LOSS,
    method=False,
    function=None,
    vjp={
        "self": lambda grad, self, target, weight, reduction: packet(
            "binary_cross_entropy_backward"
        )(grad, self, target, weight, reduction),
        "target": lambda grad, self, target, weight, reduction: target_gradient(
            grad, self, target, weight, reduction
        ),
    },
)


@binary_cross_entropy.samples
def _(make: Any) -> Any:
    low, high = 0.05, 0.95

    def part(*shape: int) -> Any:
        return make(*shape, low=low, high=high)

    for reduction in (NONE, MEAN, SUM):
        yield part(3, 4), part(3, 4), None, reduction
        yield part(3, 4), part(3, 4), make.positive(4), reduction
    yield make.strided(3, 4, low=low, high=high), make.strided(3, 4, low=low, high=high), None, 0
    yield part(), part(), None, MEAN
    if make.dtype.category == dtypes.FLOAT:
        edge = part(2, 2)
        edge._array[0, 0], edge._array[1, 1] = 0, 1
        yield edge, part(2, 2), None, NONE


def check_same_dtype(self: Any, *others: Any) -> None:
    for other in others:
        if other is not None and other.dtype != self.dtype:
            raise RuntimeError(
                f"Found dtype {dtype_of(other).scalar_type_name} but expected "
                f"{dtype_of(self).scalar_type_name}"
            )


@binary_cross_entropy.shape
def _(self: Any, target: Any, weight: Any, reduction: int) -> Any:
    check_same_dtype(self, target)
    return loss_spec(self._dtype, reduction, self, target, weight)


@binary_cross_entropy.kernel
def _(xp: Any, self: Any, target: Any, weight: Any, reduction: int) -> Any:
    check_same_dtype(self, target)
    common_shape(self, target, weight)
    dtype = dtypes.from_numpy(self.dtype)
    x, y, w = floats("binary_cross_entropy", dtype, self, target, weight)
    if not bool(((x >= 0) & (x <= 1)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1")
    if not bool(((y >= 0) & (y <= 1)).all()):
        raise RuntimeError("all elements of target should be between 0 and 1")
    floor = x.dtype.type(-100)
    loss = (y - 1) * xp.maximum(xp.log1p(-x), floor) - y * xp.maximum(xp.log(x), floor)
    return reduced(loss if w is None else loss * w, reduction, dtype)


def weighted(value: Any, weight: Any) -> Any:
    return value if weight is None else value * weight


def target_gradient(grad: Any, self: Any, target: Any, weight: Any, reduction: int) -> Any:
    share = grad * ((-self).log1p() - self.log())
    return mean_scale(weighted(share, weight), reduction, self, target)


binary_cross_entropy_backward = op(
    "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, "
    "Tensor? weight=None, int reduction=1) -> Tensor",
    kind=OPAQUE,
    layout="shape",
    method=False,
    function=False,
    out_name="grad_input",
    batch=late("network.batched:loss_backward"),
    vjp={
        "grad_output": lambda grad, self, target, weight, reduction: packet(
            "binary_cross_entropy_backward"
        )(grad, self, target, weight, reduction),
        "self": lambda grad, grad_output, self, target, weight, reduction: mean_scale(
            weighted(
                grad
                * grad_output
                * (self * self - 2 * self * target + target)
                / ((self + 1e-12).pow(2) * (1 - self + 1e-12).pow(2)),
                weight,
            ),
            reduction,
            self,
            target,
        ),
        "target": lambda grad, grad_output, self, target, weight, reduction: mean_scale(
            weighted(-grad * grad_output / ((self + 1e-12) * (1 - self + 1e-12)), weight),
            reduction,
            self,
            target,
        ),
    },
)


@binary_cross_entropy_backward.samples
def _(make: Any) -> Any:
    def part(*shape: int) -> Any:
        return make(*shape, low=0.05, high=0.95)

    yield make(3, 4), part(3, 4), part(3, 4), None, NONE
    yield make(), part(3, 4), part(3, 4), make.positive(4), MEAN
    yield make(), part(3, 4), part(3, 4), None, SUM


@binary_cross_entropy_backward.shape
def _(grad_output: Any, self: Any, target: Any, weight: Any, reduction: int) -> Any:
    sizes = tuple(self.shape)
    shape = common_shape(self, target, weight, grad_output)
    if not geometry.same_sizes(shape, sizes):
        raise misfit(sizes, shape)
    return Spec(sizes, self._dtype, geometry.like_strides(sizes, strides_of(self)))


@binary_cross_entropy_backward.kernel
def _(xp: Any, grad_output: Any, self: Any, target: Any, weight: Any, reduction: int) -> Any:
    common_shape(self, target, weight, grad_output)
    dtype = dtypes.from_numpy(self.dtype)
    grad, x, y, w = floats(
        "binary_cross_entropy_backward", dtype, grad_output, self, target, weight
    )
    result = grad * (x - y) / xp.maximum((1 - x) * x, x.dtype.type(1e-12))
    if w is not None:
        result = result * w
    if reduction == MEAN:
        result = result / result.dtype.type(result.size)
    return result.astype(dtype.np, copy=False)


binary_cross_entropy_with_logits = op(
    "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, "
    "Tensor? pos_weight=None, int reduction=1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2), make(3)))],
    autocast="float32",
    batch="loss",
    kind=OPAQUE,
    layout="shape",
    method=False,
)


@binary_cross_entropy_with_logits.samples
def _(make: Any) -> Any:
    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), make(3, 4, low=0, high=1), None, None, reduction
        yield make(3, 4), make(3, 4), make.positive(4), make.positive(3, 4), reduction
    yield make.strided(3, 4), make.strided(3, 4), None, None, NONE
    yield make(), make()
    yield make(3, low=-40, high=40), make(3)


def logits_dtype(self: Any, target: Any, weight: Any, pos_weight: Any) -> DType:
    """The result's dtype after a check of all operands.

    torch: the loss is accumulated in `1 - target`, whose shape and dtype it so keeps.
    """
    if dtype_of(self).category < dtypes.FLOAT:
        raise unsupported("log_sigmoid_cpu", dtype_of(self))
    dtype = dtype_of(target)
    if dtype is dtypes.bool_:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if pos_weight is not None:
        common_shape(pos_weight, target)
    for other in (self, pos_weight, weight):
        if other is None:
            continue
        common = promoted(target, other)
        if not can_cast(common, dtype):
            raise RuntimeError(
                f"result type {common.scalar_type_name} can't be cast to the desired output type "
                f"{dtype.scalar_type_name}"
            )
        shape = common_shape(target, other)
        if not geometry.same_sizes(shape, tuple(target.shape)):
            raise misfit(target.shape, shape)
    return dtype


@binary_cross_entropy_with_logits.shape
def _(self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    dtype = logits_dtype(self, target, weight, pos_weight)
    return loss_spec(dtype, reduction, target)


@binary_cross_entropy_with_logits.kernel
def _(xp: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    dtype = logits_dtype(self, target, weight, pos_weight)
    x, y, w, p = floats("log_sigmoid_cpu", dtype, self, target, weight, pos_weight)
    softplus = xp.maximum(-x, 0) + xp.log1p(xp.exp(-xp.abs(x)))
    loss = (1 - y) * x + (softplus if p is None else ((p - 1) * y + 1) * softplus)
    return reduced(loss if w is None else loss * w, reduction, dtype)


@binary_cross_entropy_with_logits.lower
def _(
    build: Any, op: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int
) -> Any:
    m = build.m
    x, y, w, p = lowered_floats(build, target.dtype, self, target, weight, pos_weight)
    softplus = m.add(m.maximum(-x, 0), m.log1p(m.exp(-m.abs(x))))
    loss = (1 - y) * x + (softplus if p is None else ((p - 1) * y + 1) * softplus)
    loss = loss if w is None else loss * w
    return lowered_reduction(build, loss, self.shape, reduction, target.dtype)


def logits_gradient(
    grad: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int
) -> Any:
    if pos_weight is None:
        share = (self.sigmoid() - target) * grad
    else:
        positive = pos_weight * target
        share = ((positive + 1 - target) * self.sigmoid() - positive) * grad
    return mean_scale(weighted(share, weight), reduction, self, target)


def logits_target_gradient(
    grad: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int
) -> Any:
    if pos_weight is None:
        share = -self * grad
    else:
        log_sigmoid = packet("log_sigmoid")
        share = (log_sigmoid(-self) - pos_weight * log_sigmoid(self)) * grad
    return mean_scale(weighted(share, weight), reduction, self, target)


binary_cross_entropy_with_logits.vjp = {
    "self": lambda grad, self, target, weight, pos_weight, reduction: logits_gradient(
        grad, self, target, weight, pos_weight, reduction
    ),
    "target": lambda grad, self, target, weight, pos_weight, reduction: logits_target_gradient(
        grad, self, target, weight, pos_weight, reduction
    ),
}


@composite(
    "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2), make(3)))],
    autocast="float32",
    method=False,
)
def kl_div(self: Any, target: Any, reduction: int, log_target: bool) -> Any:
    if self._dtype.is_complex or target._dtype.is_complex:
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if self._dtype.category < dtypes.FLOAT or target._dtype.category < dtypes.FLOAT:
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        loss = target.exp() * (target - self)
    else:
        loss = target.xlogy(target) - target * self
    return apply_reduction(loss, reduction)


@kl_div.samples
def _(make: Any) -> Any:
    for reduction in (NONE, MEAN, SUM):
        yield sample(make(3, 4), make.positive(3, 4), reduction)
        yield sample(make(3, 4), make(3, 4), reduction, log_target=True)
