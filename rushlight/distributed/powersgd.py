"""PowerSGD: gradients of matrices travel as products of thin ones (Vogels, Karimireddy, Jaggi,
2019).

A matrix M becomes P Qᵀ: P = M Q, averaged and made orthogonal, then Q = Mᵀ P, averaged. What the
product lacks is added to the next gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.rng import Generator
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.ddp import GradBucket
from rushlight.distributed.groups import ProcessGroup, the_group
from rushlight.futures import Future
from rushlight.opset import functions
from rushlight.opset.creation.random import randn

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """Ranks of the products, and what is carried from step to step."""

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if start_powerSGD_iter <= 1 and (use_error_feedback or warm_start):
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.generator = Generator().manual_seed(random_seed)
        self.iter = 0
        self.errors: dict[int, Tensor] = {}
        self.factors: dict[tuple[int, int], Tensor] = {}

    def next_step(self, bucket: GradBucket) -> bool:
        """Whether this bucket's gradients are compressed already."""
        begun = self.iter >= self.start_powerSGD_iter
        if bucket.is_last():
            self.iter += 1
        return begun

    def group(self) -> ProcessGroup:
        found = the_group(self.process_group, "powerSGD_hook")
        assert found is not None
        return found

    def factor(self, key: tuple[int, int], columns: int, rank: int, like: Tensor) -> Tensor:
        """The Q to begin with: the last one, or one that all processes draw alike."""
        known = self.factors.get(key)
        if self.warm_start and known is not None and tuple(known.shape) == (columns, rank):
            return known
        drawn = randn(columns, rank, generator=self.generator).to(like.dtype)
        return orthogonal(drawn, self.orthogonalization_epsilon)


def orthogonal(matrix: Tensor, epsilon: float) -> Tensor:
    """Columns made orthonormal one by one; those that vanish stay zero."""
    result = matrix.clone()
    for index in range(matrix.shape[1]):
        column = result[:, index]
        if index:
            before = result[:, :index]
            column -= before @ (before.t() @ column)
        length = float(column.norm()) + epsilon
        if length > 0:
            column /= length
    found: Tensor = result
    return found


def mean(values: Tensor, group: ProcessGroup) -> None:
    collectives.all_reduce(values, group=group)
    values.div_(group.size())


def compress(state: PowerSGDState, bucket: GradBucket, matrices: list[Tensor]) -> None:
    """Replace matrices, in place, by the products of the means of their factors."""
    group = state.group()
    ranks = [min(state.matrix_approximation_rank, *matrix.shape) for matrix in matrices]
    qs = [
        state.factor((bucket.index(), i), matrix.shape[1], rank, matrix)
        for i, (matrix, rank) in enumerate(zip(matrices, ranks))
    ]
    ps = [matrix.matmul(q) for matrix, q in zip(matrices, qs)]
    ps = [orthogonal(p, state.orthogonalization_epsilon) for p in shared_mean(ps, group)]
    qs = shared_mean([matrix.t() @ p for matrix, p in zip(matrices, ps)], group)
    for i, (matrix, p, q) in enumerate(zip(matrices, ps, qs)):
        matrix.copy_(p @ q.t())
        state.factors[bucket.index(), i] = q


def shared_mean(tensors: list[Tensor], group: ProcessGroup) -> list[Tensor]:
    """The means of several matrices, by one collective."""
    if not tensors:
        return []
    whole = functions.cat([tensor.reshape(-1) for tensor in tensors])
    mean(whole, group)
    parts = whole.split([tensor.numel() for tensor in tensors])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors)]


def with_feedback(state: PowerSGDState, bucket: GradBucket) -> Tensor | None:
    """Adds to a bucket what was lost before; answers what is to be sent now."""
    if not state.use_error_feedback:
        return None
    values = bucket.buffer()
    lost = state.errors.get(bucket.index())
    if lost is not None and lost.shape == values.shape:
        values.add_(lost)
    kept: Tensor = values.clone()
    return kept


def settled(values: Any) -> Future:
    future = Future()
    future.set_result(values)
    return future


Reduction = Callable[[PowerSGDState, GradBucket, "Tensor | None"], None]


def hook_of(reduce: Reduction) -> Callable[[PowerSGDState, GradBucket], Future]:
    """A hook that takes plain means in the first steps, and what `reduce` does from then on. That
    is told what the bucket holds with the errors of the step before, if these are kept."""

    @wraps(reduce)
    def hook(state: PowerSGDState, bucket: GradBucket) -> Future:
        with no_grad():
            if state.next_step(bucket):
                reduce(state, bucket, with_feedback(state, bucket))
            else:
                mean(bucket.buffer(), state.group())
            return settled(bucket.buffer())

    del hook.__wrapped__  # which takes one argument more
    return hook


@hook_of
def powerSGD_hook(state: PowerSGDState, bucket: GradBucket, wanted: Tensor | None) -> None:
    """Matrices travel as products, what is worth it; vectors as they are."""
    matrices, others = [], []
    for gradient in bucket.gradients():
        if gradient.dim() < 2 or not worth(state, gradient):
            others.append(gradient)
        else:
            matrices.append(gradient.view(gradient.shape[0], -1))
    for gradient, found in zip(others, shared_mean(others, state.group())):
        gradient.copy_(found)
    own = [] if wanted is None else [each.clone() for each in matrices]
    compress(state, bucket, matrices)
    if wanted is not None:
        # Only what was compressed has lost anything.
        state.errors[bucket.index()] = functions.zeros_like(bucket.buffer())
        begin = 0
        kept = {each.data_ptr(): each for each in matrices}
        sent = dict(zip(kept, own))
        for gradient in bucket.gradients():
            end = begin + gradient.numel()
            before = sent.get(gradient.data_ptr())
            if before is not None:
                lost = (before - kept[gradient.data_ptr()]).reshape(-1)
                state.errors[bucket.index()][begin:end] = lost
            begin = end


def worth(state: PowerSGDState, gradient: Tensor) -> bool:
    """Whether factors are enough smaller than the matrix."""
    rows = gradient.shape[0]
    columns = gradient.numel() // rows
    rank = min(rows, columns, state.matrix_approximation_rank)
    return bool((rows + columns) * rank * state.min_compression_rate < rows * columns)


@hook_of
def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket, wanted: Tensor | None) -> None:
    """The whole bucket travels as the product of one square matrix's factors."""
    values = bucket.buffer()
    side = int(values.numel() ** 0.5)
    side += side * side < values.numel()
    square = functions.zeros(side * side, dtype=values.dtype)
    square[: values.numel()] = values
    compress(state, bucket, [square.view(side, side)])
    values.copy_(square[: values.numel()])
    if wanted is not None:
        state.errors[bucket.index()] = wanted.sub(values)
