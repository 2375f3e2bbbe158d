"""Connectionist temporal classification: the loss of all alignments of a target with an input.

Alignments are paths through 2 n + 1 states: a blank before, between and after the n labels.
Sums over paths run over time only, for the whole batch and all states at once; states beyond a
target's end hold -inf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.core.op import Tag
from rushlight.core.refusals import unknown_size
from rushlight.core.tensor import Tensor, values_of
from rushlight.opset.kinds import OPAQUE, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late, not_differentiable

NONE, MEAN, SUM = 0, 1, 2
WHERE = "(while checking arguments for ctc_loss_allocate_outputs)"

# -- on arrays -------------------------------------------------------------------------------------


def as_lengths(lengths: Any) -> Any:
    if isinstance(lengths, Tensor):
        lengths = values_of(lengths)
    return np.asarray(lengths, np.int64).reshape(-1)


def check(
    shape: Any, dtype: Any, targets: Any, target_dtype: Any, input_lengths: Any,
    target_lengths: Any, blank: int,
) -> None:  # fmt: skip
    if target_dtype not in (dtypes.int32, dtypes.int64):
        raise RuntimeError(
            "Expected tensor for argument #2 'targets' to have scalar type Int; but got "
            f"torch.{target_dtype.legacy_tensor_name} instead {WHERE}"
        )
    if len(shape) != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {len(shape)}-dimensional tensor for argument "
            f"#1 'log_probs' {WHERE}"
        )
    steps, batch, classes = shape
    if any(geometry.is_size(size, 0) for size in shape):
        raise RuntimeError("log_probs tensor must not be empty")
    if dtype not in (dtypes.float32, dtypes.float64):
        raise unsupported("ctc_loss_cpu", dtype)
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if len(lengths) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        for length in lengths:
            if length < 0:
                raise RuntimeError(
                    f"Expected {name} to have value at least 0, but got value {length} {WHERE}"
                )
    check_targets(targets, target_lengths, batch)
    for length in input_lengths:
        if length > steps:
            raise RuntimeError(
                f"Expected input_lengths to have value at most {steps}, but got value {length} "
                f"{WHERE}"
            )


def check_targets(targets: Any, target_lengths: Any, batch: Any) -> None:
    longest = max(target_lengths)
    if len(targets) == 1:
        if targets[0] != sum(target_lengths):
            raise RuntimeError(
                f"Expected tensor to have size {sum(target_lengths)} at dimension 0, but got size "
                f"{targets[0]} for argument #2 'targets' {WHERE}"
            )
    elif targets[0] != batch:
        raise RuntimeError(
            f"Expected tensor to have size {batch} at dimension 0, but got size {targets[0]} for "
            f"argument #2 'targets' {WHERE}"
        )
    elif targets[1] < longest:
        raise RuntimeError(
            f"Expected tensor to have size at least {longest} at dimension 1, but got size "
            f"{targets[1]} for argument #2 'targets' {WHERE}"
        )


class Paths:
    """The states of a batch: their labels, which exist, and which a path may skip a blank into."""

    def __init__(
        self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int
    ) -> None:
        self.input_lengths = as_lengths(input_lengths)
        self.target_lengths = as_lengths(target_lengths)
        batch = len(self.target_lengths)
        longest = int(self.target_lengths.max(initial=0))
        there = np.arange(longest) < self.target_lengths[:, None]
        labels = np.full((batch, longest), blank, np.int64)
        labels[there] = targets if targets.ndim == 1 else targets[:, :longest][there]
        wrong = labels[(labels < 0) | (labels >= log_probs.shape[2])]
        if wrong.size:
            raise RuntimeError(
                f"targets must be labels from 0 to {log_probs.shape[2] - 1}, but got {wrong[0]}"
            )
        self.labels = np.full((batch, 2 * longest + 1), blank, np.int64)
        self.labels[:, 1::2] = labels
        self.exists = np.arange(2 * longest + 1) < 2 * self.target_lengths[:, None] + 1
        self.skips = np.zeros(self.labels.shape, np.bool_)
        self.skips[:, 3::2] = labels[:, 1:] != labels[:, :-1]
        self.steps, _, self.classes = log_probs.shape
        self.scores = np.take_along_axis(log_probs, self.labels[None], axis=2)
        self.scores[:, ~self.exists] = -np.inf
        self.last = 2 * self.target_lengths

    def alive(self, step: int) -> Any:
        """Which sequences are still going on."""
        return step < self.input_lengths

    def forward(self) -> Any:
        """Logarithms of the probability of reaching each state at each step."""
        batch, states = self.labels.shape
        found = np.full((batch, self.steps, states), -np.inf, self.scores.dtype)
        found[:, 0, :2] = self.scores[0, :, :2]
        for step in range(1, self.steps):
            before = found[:, step - 1]
            total = before.copy()
            total[:, 1:] = np.logaddexp(total[:, 1:], before[:, :-1])
            if states > 2:
                skipped = np.where(self.skips[:, 2:], before[:, :-2], -np.inf)
                total[:, 2:] = np.logaddexp(total[:, 2:], skipped)
            found[:, step] = total + self.scores[step]
        return found

    def losses(self, alpha: Any) -> Any:
        rows = np.arange(len(self.labels))
        ends = alpha[rows, np.maximum(self.input_lengths - 1, 0)]
        total = ends[rows, self.last]
        before = ends[rows, np.maximum(self.last - 1, 0)]
        total = np.where(self.last > 0, np.logaddexp(total, before), total)
        nothing = np.where(self.target_lengths == 0, 0.0, -np.inf)
        return -np.where(self.input_lengths == 0, nothing, total).astype(alpha.dtype)

    def backward(self) -> Any:
        """Logarithms of the probability of the rest of a path from each state at each step."""
        batch, states = self.labels.shape
        found = np.full((batch, self.steps, states), -np.inf, self.scores.dtype)
        index = np.arange(states)
        final = (index == self.last[:, None]) | (index == self.last[:, None] - 1)
        later = np.full((batch, states), -np.inf, self.scores.dtype)
        for step in range(self.steps - 1, -1, -1):
            total = later.copy()
            total[:, :-1] = np.logaddexp(total[:, :-1], later[:, 1:])
            if states > 2:
                skipped = np.where(self.skips[:, 2:], later[:, 2:], -np.inf)
                total[:, :-2] = np.logaddexp(total[:, :-2], skipped)
            ends = (step == self.input_lengths - 1)[:, None]
            total = np.where(ends, np.where(final, 0.0, -np.inf), total)
            later = (total + self.scores[step]).astype(found.dtype, copy=False)
            found[:, step] = later
        return found


# -- ops -------------------------------------------------------------------------------------------


def given(lengths: Any, name: str) -> Any:
    """Lengths as ints, which the size of the paths follows from; None where nobody knows."""
    if not isinstance(lengths, Tensor):
        return [int(length) for length in lengths]
    check_integral(lengths._dtype, name)
    return None if lengths._array is None else values_of(lengths).reshape(-1).tolist()


def check_integral(dtype: Any, name: str) -> None:
    if dtype.category >= dtypes.FLOAT or dtype is dtypes.bool_:
        raise RuntimeError(f"{name} must be integral")


def as_given(kind: str, make: Any, *values: int) -> Any:
    if kind != "Tensor":
        return list(values)
    made = make.ints(len(values), high=0)
    for place, value in enumerate(values):
        made[place] = value
    return made


def loss_samples(kind: str) -> Any:
    def samples(make: Any) -> Any:
        if make.dtype.category != dtypes.FLOAT:
            return
        # torch: what lies beyond an input's or a target's end is not set in the second result.
        every = as_given(kind, make, 4, 4), as_given(kind, make, 2, 2)
        yield log_softmax(make(4, 2, 3)), make.ints(2, 2, low=1, high=2), *every
        yield log_softmax(make(4, 2, 3)), make.ints(4, low=1, high=2), *every
        yield log_softmax(make(4, 2, 3)), make.ints(2, 2, low=0, high=1), *every, 2, True
        short = as_given(kind, make, 1, 1), as_given(kind, make, 2, 2)
        yield log_softmax(make(1, 2, 3)), make.ints(2, 2, low=1, high=2), *short, 0, True

    return samples


def define_loss(overload: str, kind: str, node_index: int, tags: tuple[Any, ...]) -> Any:
    ending = f".{overload}" if overload else ""
    lengths = f"{kind} input_lengths, {kind} target_lengths"

    record = op(
        f"_ctc_loss{ending}(Tensor log_probs, Tensor targets, {lengths}, int blank=0, "
        "bool zero_infinity=False) -> (Tensor, Tensor)",
        kind=OPAQUE,
        may_raise=True,
        method=False,
        node_index=node_index,
        batch=late("network.batched:ctc_loss"),
        differentiable=["log_probs"],
        non_differentiable=(1,),
        tags=tags,
    )

    @record.shape
    def _(
        log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int,
        zero_infinity: bool,
    ) -> Any:  # fmt: skip
        inputs, ends = (
            given(input_lengths, "input_lengths"),
            given(target_lengths, "target_lengths"),
        )
        if inputs is None or ends is None:
            longest = unknown_size(record, "the length of the longest target")
        else:
            check(
                log_probs.shape, log_probs._dtype, targets.shape, targets._dtype, inputs, ends,
                blank,
            )  # fmt: skip
            longest = max(ends)
        steps, batch, _ = log_probs.shape
        paths = (batch, steps, 2 * longest + 1)
        return Spec((batch,), log_probs._dtype), Spec(paths, log_probs._dtype)

    @record.kernel
    def _(
        xp: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int,
        zero_infinity: bool,
    ) -> Any:  # fmt: skip
        for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
            if isinstance(lengths, np.ndarray):
                check_integral(dtypes.from_numpy(lengths.dtype), name)
        inputs, ends = as_lengths(input_lengths).tolist(), as_lengths(target_lengths).tolist()
        given = [dtypes.from_numpy(array.dtype) for array in (log_probs, targets)]
        check(log_probs.shape, given[0], targets.shape, given[1], inputs, ends, blank)
        paths = Paths(log_probs, targets, inputs, ends, blank)
        alpha = paths.forward()
        return paths.losses(alpha), alpha

    @record.vjp
    def _(
        grad: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
        blank: Any, zero_infinity: Any, result0: Any, result1: Any,
    ) -> Any:  # fmt: skip
        return aten._ctc_loss_backward(
            grad, log_probs, targets, input_lengths, target_lengths, result0, result1, blank,
            zero_infinity,
        )  # fmt: skip

    @record.jvp
    def _(
        log_probs_t: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
        blank: Any, zero_infinity: Any, result0: Any, result1: Any,
    ) -> Any:  # fmt: skip
        slopes = aten._ctc_loss_backward(
            aten.ones_like(result0), log_probs, targets, input_lengths, target_lengths, result0,
            result1, blank, zero_infinity,
        )  # fmt: skip
        return (slopes * log_probs_t).sum((0, 2)), None

    record.samples = loss_samples(kind)
    record.errors = lambda make: [
        (
            RuntimeError,
            (
                make(3, 2, 3),
                make.ints(2, 2),
                as_given(kind, make, 4, 3),
                as_given(kind, make, 1, 1),
            ),
        ),
        (
            RuntimeError,
            (
                make(3, 2, 3),
                make.ints(2, 2),
                as_given(kind, make, 3, 3),
                as_given(kind, make, 3, 1),
            ),
        ),
        (
            RuntimeError,
            (make(3, 2, 3), make.ints(2, 2), as_given(kind, make, 3), as_given(kind, make, 1, 1)),
        ),
        (
            RuntimeError,
            (
                make(3, 2, 3),
                make.ints(2, 2),
                as_given(kind, make, 3, 3),
                as_given(kind, make, 1, 1),
                5,
            ),
        ),
    ]
    return record


def define_backward(overload: str, kind: str, record: Any, tags: tuple[Any, ...]) -> None:
    ending = f".{overload}" if overload else ""
    lengths = f"{kind} input_lengths, {kind} target_lengths"

    back = op(
        f"_ctc_loss_backward{ending}(Tensor grad, Tensor log_probs, Tensor targets, {lengths}, "
        "Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> "
        "Tensor",
        kind=OPAQUE,
        method=False,
        out=not overload,
        batch=late("network.batched:ctc_loss_backward"),
        differentiable=["grad", "log_probs"],
        vjp=not_differentiable("aten::_ctc_loss_backward"),
        tags=tags,
    )

    @back.shape
    def _(grad: Any, log_probs: Any, *rest: Any) -> Any:
        return Spec(log_probs.shape, log_probs._dtype)

    @back.kernel
    def _(
        xp: Any, grad: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
        neg_log_likelihood: Any, log_alpha: Any, blank: int, zero_infinity: bool,
    ) -> Any:  # fmt: skip
        paths = Paths(log_probs, targets, input_lengths, target_lengths, blank)
        # Scores are part of what comes before and of what comes after: they count once.
        both = xp.moveaxis(log_alpha + paths.backward(), 1, 0)
        with xp.errstate(invalid="ignore"):
            power = both - paths.scores + neg_log_likelihood[:, None]
            share = xp.where(xp.isneginf(both), 0, xp.exp(power))
        steps, batch = share.shape[:2]
        rows = xp.arange(steps * batch).reshape(steps, batch, 1) * paths.classes
        places = xp.broadcast_to(rows + paths.labels, share.shape)
        total = xp.bincount(places.reshape(-1), share.reshape(-1), steps * batch * paths.classes)
        result = (xp.exp(log_probs) - total.reshape(log_probs.shape)) * grad[:, None]
        endless = xp.isposinf(neg_log_likelihood)
        result = xp.where(endless[:, None], 0 if zero_infinity else xp.nan, result)
        there = xp.arange(steps)[:, None] < paths.input_lengths
        return xp.where(there[..., None], result, 0).astype(log_probs.dtype)

    def back_samples(make: Any) -> Any:
        for case in loss_samples(kind)(make):
            zero_infinity = len(case) > 5
            blank = case[4] if zero_infinity else 0
            found = record(*case)
            yield make(2), *case[:4], *found, blank, zero_infinity

    back.samples = back_samples


def define_public(overload: str, kind: str, tags: tuple[Any, ...]) -> None:
    lengths = f"{kind} input_lengths, {kind} target_lengths"

    @composite(
        f"ctc_loss.{overload or 'IntList'}(Tensor log_probs, Tensor targets, {lengths}, "
        "int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
        autocast="float32",
        method=False,
        out=False,
        tags=tags,
    )
    def public(
        log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int,
        reduction: int, zero_infinity: bool,
    ) -> Any:  # fmt: skip
        batched = log_probs.dim() == 3
        source = log_probs if batched else log_probs.unsqueeze(1)
        losses = aten._ctc_loss(
            source, targets if batched else targets.reshape((1, -1)), reshaped(input_lengths),
            reshaped(target_lengths), blank, zero_infinity,
        )[0]  # fmt: skip
        if zero_infinity:
            losses = aten.where(losses == np.inf, aten.zeros((), dtype=losses._dtype), losses)
        if reduction == MEAN:
            ends = target_lengths
            if not isinstance(ends, Tensor):
                ends = losses.new_tensor(list(ends), dtype=dtypes.int64)
            return (losses / ends.clamp_min(1)).mean()
        if reduction == SUM:
            return losses.sum()
        return losses if batched else losses.squeeze(0)

    def public_samples(make: Any) -> Any:
        if make.dtype.category != dtypes.FLOAT:
            return
        for reduction in (NONE, MEAN, SUM):
            lengths = as_given(kind, make, 4, 3), as_given(kind, make, 2, 1)
            targets = make.ints(2, 2, low=1, high=2)
            yield log_softmax(make(4, 2, 3)), targets, *lengths, 0, reduction
        lengths = as_given(kind, make, 3, 1), as_given(kind, make, 2, 2)
        yield log_softmax(make(3, 2, 3)), make.ints(4, low=1, high=2), *lengths, 0, NONE, True
        one = as_given(kind, make, 4), as_given(kind, make, 2)
        yield log_softmax(make(4, 3)), make.ints(2, low=1, high=2), *one, 0, NONE

    public.samples = public_samples


def log_softmax(tensor: Any) -> Any:
    return aten.log_softmax(tensor, -1)


def reshaped(lengths: Any) -> Any:
    return lengths.reshape(-1) if isinstance(lengths, Tensor) else lengths


for each in (("", "int[]", 0, ()), ("Tensor", "Tensor", 1, (Tag.data_dependent_output,))):
    made = define_loss(*each)
    define_backward(each[0], each[1], made, each[3])
    define_public(each[0], each[1], each[3])
