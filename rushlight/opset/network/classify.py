"""Losses over classes: nll_loss with its backward ops, cross_entropy_loss, and margin losses.

The class dimension is 1, or 0 for an unbatched input. Targets equal to `ignore_index` count
neither in the sum nor in the mean's weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import cast, check_computable, working
from rushlight.arrays.summation import sum_array
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call
from rushlight.core.dtype import dtype as DType
from rushlight.core.dtype import unsupported
from rushlight.core.geometry import show
from rushlight.core.quick import Quick, Step
from rushlight.core.state import LOCAL
from rushlight.opset.kinds import OPAQUE, Spec
from rushlight.opset.network.loss import MEAN, NONE, SUM, apply_reduction
from rushlight.opset.network.softmax import example_array, is_small_matrix, small_log_softmax
from rushlight.opset.registry import composite, find, op
from rushlight.opset.rules import aten, late


def check_nll(self: Any, target: Any, weight: Any) -> None:
    sizes, labels = tuple(self.shape), tuple(target.shape)
    if not 1 <= len(sizes) <= 2:
        raise RuntimeError("input tensor should be 1D or 2D")
    if len(labels) > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    unbatched = len(sizes) == 1
    if not (unbatched and (not labels or labels[0] == 1)) and (
        not labels or unbatched or sizes[0] != labels[0]
    ):
        raise RuntimeError(f"size mismatch (got input: {show(sizes)}, target: {show(labels)})")
    check_class_weight(weight, sizes[-1])


def check_class_weight(weight: Any, classes: Any, name: str = "") -> None:
    if weight is not None and (len(weight.shape) != 1 or weight.shape[0] != classes):
        raise RuntimeError(
            f"{name}weight tensor should be defined either for all {classes} classes or no classes "
            f"but got weight tensor of shape: {show(weight.shape)}"
        )


def check_nll2d(self: Any, target: Any, weight: Any) -> None:
    sizes, labels = tuple(self.shape), tuple(target.shape)
    if len(labels) != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{len(labels)}"
        )
    if len(sizes) != 4:
        raise RuntimeError(
            "only batches of spatial inputs supported (4D tensors), but got input of dimension: "
            f"{len(sizes)}"
        )
    check_class_weight(weight, sizes[1])
    if (sizes[0], *sizes[2:]) != labels:
        raise RuntimeError(f"size mismatch (got input: {show(sizes)} , target: {show(labels)}")


def check_nll_gradient(
    check: Any,
    grad_output: Any,
    self: Any,
    target: Any,
    weight: Any,
    reduction: int,
    total_weight: Any,
) -> None:
    """Sizes of a backward op's arguments; `check` is the forward op's."""
    check(self, target, None)
    sizes, labels, given = tuple(self.shape), tuple(target.shape), tuple(grad_output.shape)
    spatial = len(sizes) == 4
    count = geometry.numel(total_weight.shape)
    if count != 1:
        # torch: the second space is its own.
        raise RuntimeError(
            f"expected total_weight to be a {'' if spatial else ' '}single element tensor, got: "
            f"{show(total_weight.shape)} ({count} elements)"
        )
    if weight is not None and geometry.numel(weight.shape) != sizes[1 if len(sizes) > 1 else 0]:
        raise RuntimeError("weight tensor should be defined either for all or no classes")
    if reduction != NONE or len(sizes) == 1:
        if len(given) > 1 or geometry.numel(given) != 1:
            raise RuntimeError(
                f"Expected a single element grad_output tensor, but got: {show(given)}"
            )
    elif spatial:
        if len(given) != 3:
            raise RuntimeError(
                f"grad_output must have same dimension as target (3) but got dimension: "
                f"{show(given)}"
            )
        if given != labels:
            raise RuntimeError(
                f"size mismatch (got grad_output: {show(given)} target: {show(labels)}"
            )
    elif given != labels:
        geometry.wrap_dim(0, len(given), wrap_scalar=False)
        raise RuntimeError(
            f"Expected a tensor of dimension 1 and tensor.size[0] == {labels[0]} but got: "
            f"dimension {len(given)} and tensor.size[0] = {given[0]}"
        )


def check_labels(name: str, self: Any, target: Any, weight: Any) -> DType:
    dtype = dtypes.from_numpy(self.dtype)
    label = dtypes.from_numpy(target.dtype)
    if label not in (dtypes.int64, dtypes.uint8):
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {label.scalar_type_name}"
        )
    if dtype.category != dtypes.FLOAT:
        raise unsupported(name, dtype)
    check_computable(name, dtype)
    if weight is not None and weight.dtype != self.dtype:
        found = dtypes.from_numpy(weight.dtype).scalar_type_name
        raise RuntimeError(f"expected scalar type {dtype.scalar_type_name} but found {found}")
    return dtype


def labelled(self: Any, target: Any, weight: Any, ignore_index: int, dtype: DType) -> Any:
    """(class axis, labels with that axis, weights of the labels, 0 where ignored)."""
    axis = 0 if self.ndim == 1 else 1
    labels = target.reshape(()) if self.ndim == 1 else target
    labels = np.expand_dims(labels.astype(np.int64), axis)
    counted = labels != ignore_index
    classes = self.shape[axis]
    outside = counted & ((labels < 0) | (labels >= classes))
    if outside.any():
        raise IndexError(f"Target {int(labels[outside][0])} is out of bounds.")
    labels = np.where(counted, labels, 0)
    work = working(dtype).np
    if weight is None:
        weights = counted.astype(work)
    else:
        weights = np.where(counted, weight.astype(work)[labels], 0).astype(work)
    return axis, labels, counted, weights


ROWS = np.arange(1024)
LABEL = np.dtype("int64").char


def is_plain_batch(scores: Any, target: Any, weight: Any, ignore_index: int) -> bool:
    """Whether a batch's every label is counted with weight one, if only labels are classes."""
    shape = scores.shape
    return not (
        weight is not None
        or len(shape) != 2
        or not geometry.same_sizes(target.shape, shape[:1])
        or not 0 < shape[0] <= 1024
        or scores.dtype.char not in "fd"
        or target.dtype.char != LABEL
        or 0 <= ignore_index < shape[1]
    )


def are_classes(target: Any, classes: int) -> bool:
    # Negative labels are large as unsigned numbers; a byte of a bool array is 0 or 1.
    return b"\0" not in np.less(target.view(np.uint64), class_count(classes)).tobytes()


def rows_of(scores: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    """Row numbers of a plain batch; None for any other."""
    if not is_plain_batch(scores, target, weight, ignore_index):
        return None
    return ROWS[: scores.shape[0]] if are_classes(target, scores.shape[1]) else None


COUNTS: dict[int, Any] = {}


def class_count(classes: int) -> Any:
    """A number of classes as NumPy compares it soonest."""
    found = COUNTS.get(classes)
    if found is None:
        found = COUNTS[classes] = np.array(classes, np.uint64)
    return found


def small_nll(self: Any, target: Any, rows: Any, reduction: int) -> tuple[Any, Any]:
    """(loss, total weight) of a batch whose every label counts one."""
    count = len(rows)
    value = -np.add.reduce(self[rows, target])
    if reduction == MEAN:
        value = value / count
    return np.asarray(value), np.array(count, self.dtype)


def small_nll_backward(
    grad: Any, scores: Any, target: Any, rows: Any, reduction: int, total: Any
) -> Any:
    # A quotient of two numbers of the dtype, rounded from double, is rounded once.
    share = -float(grad)
    if reduction == MEAN:
        share /= float(total)
    result = np.zeros(scores.shape, scores.dtype)
    result[rows, target] = share
    return result


def prepared_nll_backward(
    grad_output: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
    total_weight: Any,
) -> Any:  # fmt: skip
    if reduction == NONE or grad_output.dim() or total_weight.dim():
        return None
    if not is_plain_batch(example_array(self), example_array(target), weight, ignore_index):
        return None
    count, classes = self.shape
    rows = ROWS[:count]

    def run(grad: Any, scores: Any, target: Any, total: Any) -> Any:
        if are_classes(target, classes):
            return small_nll_backward(grad, scores, target, rows, reduction, total)
        return nll_backward(grad, scores, target, None, reduction, ignore_index, total)

    return run


def nll_forward(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    name = "nll_loss_out_frame" if self.ndim < 4 else "nll_loss2d_forward_out_frame"
    dtype = check_labels(name, self, target, weight)
    axis, labels, counted, weights = labelled(self, target, weight, ignore_index, dtype)
    work = working(dtype)
    if self.shape[axis]:
        chosen = np.take_along_axis(self, labels, axis)
    else:
        chosen = np.zeros(labels.shape, self.dtype)
    losses = np.where(counted, -cast(chosen, work) * weights, 0).squeeze(axis)
    total = sum_array(weights, None)
    scalar = self.ndim == 1
    if reduction == NONE:
        kept = total if scalar else np.zeros((), work.np)
        return losses.astype(self.dtype), np.asarray(kept).astype(self.dtype)
    value = sum_array(losses, None)
    if reduction == MEAN:
        value = value / total
    return value.astype(self.dtype), total.astype(self.dtype)


def nll_backward(
    grad_output: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
    total_weight: Any,
) -> Any:  # fmt: skip
    dtype = check_labels("nll_loss_backward_out_frame", self, target, weight)
    axis, labels, counted, weights = labelled(self, target, weight, ignore_index, dtype)
    work = working(dtype)
    grad = cast(grad_output, work)
    whole = reduction == NONE and self.ndim > 1
    grad = np.expand_dims(grad, axis) if whole else grad.reshape(())
    if reduction == MEAN:
        grad = grad / cast(total_weight, work).reshape(())
    result = np.zeros(self.shape, work.np)
    share = np.where(counted, -weights * grad, 0).astype(work.np)
    np.put_along_axis(result, labels, share, axis)
    return result.astype(self.dtype, copy=False)


def nll_samples(make: Any) -> Any:
    def labels(*shape: int) -> Any:
        return make.index(*shape, below=4)

    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), labels(3), None, reduction, -100
        yield make(3, 4), labels(3), make.positive(4), reduction, 1
        yield make(4), labels(), None, reduction, -100
    yield make.strided(3, 4), labels(3), None, MEAN, -100
    yield make(0, 4), labels(0), None, SUM, -100


def nll2d_samples(make: Any) -> Any:
    def labels(*shape: int) -> Any:
        return make.index(*shape, below=3)

    for reduction in (NONE, MEAN, SUM):
        yield make(2, 3, 2, 1), labels(2, 2, 1), None, reduction, -100
        yield make(2, 3, 1, 2), labels(2, 1, 2), make.positive(3), reduction, 1


def backward_samples(make: Any, samples: Any) -> Any:
    """Calls of a backward op for the samples of its forward op."""
    for scores, target, *rest in samples(make):
        whole = rest[1] == NONE and scores.dim() > 1
        grad = make(*target.shape) if whole else make()
        yield grad, scores, target, *rest, make.positive()


def nll_errors(make: Any) -> Any:
    yield IndexError, (make(2, 3), make.ints(2, low=3, high=5))
    yield RuntimeError, (make(2, 3), make(2))
    yield RuntimeError, (make(2, 3), make.ints(2, high=2), make.positive(4))


def nll_pair(name: str, check: Any, samples: Any) -> None:
    forward = op(
        f"{name}_forward(Tensor self, Tensor target, Tensor? weight, int reduction, "
        "SymInt ignore_index) -> (Tensor output, Tensor total_weight)",
        may_raise=True,
        kind=OPAQUE,
        method=False,
        function=False,
        out_name="output",
        differentiable=["self"],
        non_differentiable=(1,),
        node="NllLossBackward0" if name == "nll_loss" else "NllLoss2DBackward0",
        batch=late("network.batched:nll_forward"),
        samples=samples,
        vjp=lambda grad, self, target, weight, reduction, ignore_index, total_weight: getattr(
            aten, f"{name}_backward"
        )(grad, self, target, weight, reduction, ignore_index, total_weight),
    )

    @forward.shape
    def _(self: Any, target: Any, weight: Any, reduction: int, ignore_index: Any) -> Any:
        check(self, target, weight)
        whole = reduction == NONE and self.dim() > 1
        dtype = self._dtype
        return Spec(target.shape if whole else (), dtype), Spec((), dtype)

    @forward.kernel
    def _(xp: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
        rows = None if reduction == NONE else rows_of(self, target, weight, ignore_index)
        if rows is not None:
            return small_nll(self, target, rows, reduction)
        check(self, target, weight)
        return nll_forward(self, target, weight, reduction, ignore_index)

    backward = op(
        f"{name}_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
        "int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
        kind=OPAQUE,
        method=False,
        function=False,
        out_name="grad_input",
        prepared=prepared_nll_backward,
        node="NllLossBackwardBackward0" if name == "nll_loss" else "NllLoss2DBackwardBackward0",
        batch=late("network.batched:nll_backward"),
        samples=lambda make: backward_samples(make, samples),
        vjp={
            "grad_output": lambda grad, target, weight, reduction, ignore_index: getattr(
                aten, name
            )(grad, target, weight, reduction, ignore_index),
            "self": lambda grad: grad.new_zeros(grad.shape),
        },
    )

    @backward.shape
    def _(
        grad_output: Any,
        self: Any,
        target: Any,
        weight: Any,
        reduction: int,
        ignore_index: Any,
        total_weight: Any,
    ) -> Any:
        check_nll_gradient(check, grad_output, self, target, weight, reduction, total_weight)
        return Spec(self.shape, self._dtype)

    @backward.kernel
    def _(
        xp: Any,
        grad_output: Any,
        self: Any,
        target: Any,
        weight: Any,
        reduction: int,
        ignore_index: int,
        total_weight: Any,
    ) -> Any:
        single = reduction != NONE and grad_output.ndim == 0 == total_weight.ndim
        rows = rows_of(self, target, weight, ignore_index) if single else None
        if rows is not None:
            return small_nll_backward(grad_output, self, target, rows, reduction, total_weight)
        check_nll_gradient(check, grad_output, self, target, weight, reduction, total_weight)
        return nll_backward(
            grad_output, self, target, weight, reduction, ignore_index, total_weight
        )

    @composite(
        f"{name}(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
        "SymInt ignore_index=-100) -> Tensor",
        autocast="float32",
        method=False,
        function=None if name == "nll_loss" else False,
        samples=samples,
        errors=nll_errors if name == "nll_loss" else None,
    )
    def public(self: Any, target: Any, weight: Any, reduction: int, ignore_index: Any) -> Any:
        if weight is not None and weight.requires_grad and LOCAL.state.grad:
            raise RuntimeError(
                f"The function '{name}_forward' is not differentiable with respect to argument "
                "'weight'. This input cannot have requires_grad True."
            )
        return getattr(aten, f"{name}_forward")(self, target, weight, reduction, ignore_index)[0]


nll_pair("nll_loss", check_nll, nll_samples)
nll_pair("nll_loss2d", check_nll2d, nll2d_samples)


def nd_samples(make: Any) -> Any:
    yield make(3, 4), make.index(3, below=4)
    yield make(4), make.index(below=4)
    yield make(2, 3, 2), make.index(2, 2, below=3), None, NONE
    yield make(2, 3, 2, 1), make.index(2, 2, 1, below=3), make.positive(3), MEAN
    yield make(1, 3, 2, 1, 2), make.index(1, 2, 1, 2, below=3), None, SUM, 1
    yield make(1, 3, 2, 1, 2), make.index(1, 2, 1, 2, below=3), None, NONE


@composite(
    "nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
    "SymInt ignore_index=-100) -> Tensor",
    method=False,
    function=False,
    samples=nd_samples,
)
def nll_loss_nd(self: Any, target: Any, weight: Any, reduction: int, ignore_index: Any) -> Any:
    sizes, labels = self.shape, target.shape
    if len(sizes) == 2 and len(labels) == 1 and sizes[0] == labels[0]:
        return aten.nll_loss(self, target, weight, reduction, ignore_index)
    if not sizes:
        raise ValueError(f"Expected 1 or more dimensions (got {len(sizes)})")
    if len(sizes) != 1 and (not labels or sizes[0] != labels[0]):
        batch = labels[0] if labels else 0
        raise ValueError(
            f"Expected input batch_size ({sizes[0]}) to match target batch_size ({batch})."
        )
    if len(sizes) <= 2:
        return aten.nll_loss(self, target, weight, reduction, ignore_index)
    if len(sizes) == 4:
        return aten.nll_loss2d(self, target, weight, reduction, ignore_index)
    wanted = (sizes[0], *sizes[2:])
    if not geometry.same_sizes(tuple(labels[1:]), tuple(sizes[2:])):
        raise RuntimeError(f"Expected target size {show(wanted)}, got {show(labels)}")
    flat = self.reshape(sizes[0], sizes[1], 1, -1)
    flat_target = target.reshape(sizes[0], 1, -1)
    found = aten.nll_loss2d(flat, flat_target, weight, reduction, ignore_index)
    return found.reshape(wanted) if reduction == NONE else found


def cross_entropy_samples(make: Any) -> Any:
    def labels(*shape: int) -> Any:
        return make.index(*shape, below=4)

    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), labels(3), None, reduction
        yield make(3, 4), labels(3), make.positive(4), reduction, 1
        yield make(3, 4), labels(3), None, reduction, -100, 0.25
        yield make(3, 4), labels(3), make.positive(4), reduction, 2, 0.25
        yield make(3, 4), make.positive(3, 4), None, reduction
        yield make(3, 4), make.positive(3, 4), make.positive(4), reduction, -100, 0.5
    yield make(4), labels()
    yield make(2, 3, 2), make.index(2, 2, below=3), None, NONE


def small_cross_entropy(logits: Any, labels: Any, reduction: int, ignore_index: int) -> Any:
    """(loss, log of softmax, total weight) of a batch of plain labels; None for any other."""
    rows = rows_of(logits, labels, None, ignore_index)
    if rows is None:
        return None
    if is_small_matrix(logits, 1):
        scores = small_log_softmax(logits)
    else:
        scores = find("_log_softmax").array_kernel(np, logits, 1, False)
    value, total = small_nll(scores, labels, rows, reduction)
    return value, scores, total


@composite(
    "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
    "SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor",
    errors=lambda make: [
        (ValueError, (make(2, 3), make.ints(3, high=2))),
        (IndexError, (make(2, 3), make.ints(2, low=4, high=5))),
        (RuntimeError, (make(2, 3), make.ints(2, 3))),
        (RuntimeError, (make(2, 3), make.ints(2, high=2), None, 1, -100, 2.0)),
    ],
    autocast="float32",
    method=False,
    function=False,
    samples=cross_entropy_samples,
    quick=Quick(
        "(parts_ := small_cross_entropy({self}, {target}, {reduction}, {ignore_index})) "
        "and parts_[0]",
        when="weight is None and label_smoothing == 0.0 and reduction != NONE",
        result_is_contiguous=True,
        scope={"small_cross_entropy": small_cross_entropy, "NONE": NONE},
        graph=(
            Step("scores", "_log_softmax", ("self", "1", "False"), "parts_[1]"),
            Step(
                "",
                "nll_loss_forward",
                ("scores", "target", "None", "reduction", "ignore_index"),
                "array_",
                also="parts_[2]",
            ),
        ),
    ),
)
def cross_entropy_loss(
    self: Any, target: Any, weight: Any, reduction: int, ignore_index: Any, label_smoothing: float
) -> Any:
    ndim = self.dim()
    plain = ndim == 2 and label_smoothing == 0.0 and weight is None and target.dim() == 1
    if plain and geometry.same_sizes(self.shape[:1], target.shape):
        # What the general way comes to for a batch of plain labels.
        scores = aten._log_softmax(self, 1, False)
        return aten.nll_loss_forward(scores, target, None, reduction, ignore_index)[0]
    axis = 0 if ndim == 1 else 1
    if ndim == target.dim() and geometry.same_sizes(self.shape, target.shape):
        if target._dtype.category != dtypes.FLOAT:
            raise RuntimeError(
                "Expected floating point type for target with class probabilities, got "
                f"{target._dtype.scalar_type_name}"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return soft_cross_entropy(self, target, weight, reduction, label_smoothing, axis)
    check_smoothing(label_smoothing)
    scores = self.log_softmax(axis)
    hard = aten.nll_loss_nd(scores, target, weight, reduction, ignore_index)
    if label_smoothing <= 0.0:
        return hard
    classes = self.shape[axis]
    if weight is None:
        smooth = -scores.sum(axis)
    else:
        check_class_weight(weight, classes)
        smooth = -(scores * class_shaped(weight, scores, axis)).sum(axis)
    ignored = target == ignore_index
    smooth = smooth.masked_fill(ignored, 0.0)
    if reduction == MEAN:
        # The same weight that nll_loss divides by, from the counted targets.
        counted = ignored.logical_not()
        if weight is None:
            total = counted.sum()
        else:
            total = (weight[target.masked_fill(ignored, 0)] * counted).sum()
        smooth = smooth.sum() / total
    elif reduction == SUM:
        smooth = smooth.sum()
    return hard * (1 - label_smoothing) + smooth * (label_smoothing / classes)


def check_smoothing(label_smoothing: float) -> None:
    # torch: a negative number is no smoothing.
    if label_smoothing > 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")


def class_shaped(weight: Any, scores: Any, axis: int) -> Any:
    return weight.view([-1 if at == axis else 1 for at in range(scores.dim())])


def soft_cross_entropy(
    self: Any, target: Any, weight: Any, reduction: int, label_smoothing: float, axis: int
) -> Any:
    """Cross entropy with a distribution over the classes as target."""
    classes = self.shape[axis]
    check_class_weight(weight, classes, "cross_entropy: ")
    scores = self.log_softmax(axis)
    check_smoothing(label_smoothing)
    if label_smoothing > 0.0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    loss = scores * target
    if weight is not None:
        loss = loss * class_shaped(weight, scores, axis)
    if reduction == NONE:
        return -loss.sum(axis)
    if reduction == SUM:
        return -loss.sum()
    count = loss.numel() // classes if classes != 0 else 0
    return call(find("div", "Scalar"), (-loss.sum(), count))


# -- margin losses --------------------------------------------------------------------------------


@composite(
    "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
    "int reduction=1) -> Tensor",
    autocast="float32",
    method=False,
)
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float, reduction: int
) -> Any:
    return apply_reduction((-target * (input1 - input2) + margin).clamp(min=0), reduction)


@composite(
    "hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor",
    autocast="float32",
    method=False,
)
def hinge_embedding_loss(self: Any, target: Any, margin: float, reduction: int) -> Any:
    far = (margin - self).clamp(min=0).masked_fill(target == 1, 0)
    return apply_reduction(far + self.masked_fill(target == -1, 0), reduction)


@composite(
    "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
    "int reduction=1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), make(2, 3), make(2, 3)))],
    autocast="float32",
    method=False,
)
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float, reduction: int
) -> Any:
    ndim = target.dim()
    if ndim not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.dim() != ndim + 1 or input2.dim() != ndim + 1:
        kind = f"{ndim}D target tensor expects {ndim + 1}D input tensors"
        raise RuntimeError(
            f"{kind}, but found inputs with sizes {show(input1.shape)} and {show(input2.shape)}."
        )
    # torch: the norms are kept from zero by this much.
    tiny = 1e-12
    product = (input1 * input2).sum(ndim)
    first = (input1 * input1).sum(ndim) + tiny
    second = (input2 * input2).sum(ndim) + tiny
    cosine = product / (first * second).sqrt()
    near = (1 - cosine).masked_fill(target != 1, 0)
    far = (cosine - margin).clamp(min=0).masked_fill(target != -1, 0)
    return apply_reduction(near + far, reduction)


@composite(
    "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, "
    "int reduction) -> Tensor",
    autocast="float32",
    method=False,
)
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * np.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return apply_reduction(loss, reduction)


def margin_samples(make: Any) -> Any:
    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), make(3, 4), make(3, 4).sign(), 0.5, reduction


margin_ranking_loss.samples = margin_samples


@hinge_embedding_loss.samples
def _(make: Any) -> Any:
    if make.dtype.category < dtypes.FLOAT:
        return
    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), make(3, 4).sign(), 1.0, reduction


@cosine_embedding_loss.samples
def _(make: Any) -> Any:
    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), make(3, 4), make(3).sign(), 0.25, reduction
    yield make(4), make(4), make().sign()


@poisson_nll_loss.samples
def _(make: Any) -> Any:
    for reduction in (NONE, MEAN, SUM):
        yield make(3, 4), make.positive(3, 4), True, True, 1e-8, reduction
        yield make.positive(3, 4), make.positive(3, 4), False, False, 1e-8, reduction
