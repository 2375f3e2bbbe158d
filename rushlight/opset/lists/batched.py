"""Batch rules of optimisers' steps and of gradient scaling, as programs over ops.

What a kernel reads as one number (rates, counts of steps, scales) may differ between samples here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core import dtype as dtypes
from rushlight.opset import functions as aten
from rushlight.opset.lists.fused import check_lists, check_scale, check_unscaling

if TYPE_CHECKING:
    from rushlight.core.batching import VmapLevel
    from rushlight.core.op import OpOverload

__all__ = ["adagrad", "adam", "adamw", "sgd", "unscale", "update_scale"]


def stepped(lists: Any, found_inf: Any, step: Callable[..., Any]) -> tuple[list[Any], ...]:
    """Lists as a step leaves them. `step` gets a number and the tensors of that number, halves as
    float32 and None of an empty list, and answers what becomes of them, None if nothing does.
    Nothing changes where a gradient was found to be infinite."""
    results: list[list[Any]] = [[] for _ in lists]
    for number in range(len(lists[0])):
        before = [entries[number] if entries else None for entries in lists]
        after = step(number, *[None if value is None else wide(value) for value in before])
        for result, old, new in zip(results, before, after, strict=True):
            if old is not None:
                moved = old if new is None else new.to(old.dtype)
                kept = None if found_inf is None else found_inf.reshape(()) == 1
                result.append(moved if kept is None else aten.where(kept, old, moved))
    return tuple(results)


def wide(value: Any) -> Any:
    return value.to(dtypes.float32) if value.dtype.itemsize < 4 else value


def unscaled(grad: Any, grad_scale: Any) -> Any:
    return grad if grad_scale is None else grad / grad_scale.reshape(())


def adam_rule(decoupled: bool) -> Callable[..., Any]:
    def rule(
        level: VmapLevel, op: OpOverload, self: Any, grads: Any, exp_avgs: Any, exp_avg_sqs: Any,
        max_exp_avg_sqs: Any, state_steps: Any, lr: Any, beta1: float, beta2: float,
        weight_decay: float, eps: float, amsgrad: bool, maximize: bool, grad_scale: Any,
        found_inf: Any,
    ) -> Any:  # fmt: skip
        lists = (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
        check_lists("fused_adam_kernel", *lists)

        def step(
            number: int, value: Any, grad: Any, average: Any, square: Any, largest: Any
        ) -> Any:
            grad = unscaled(grad, grad_scale)
            move = -grad if maximize else grad
            if weight_decay and decoupled:
                value = value * (1 - lr * weight_decay)
            elif weight_decay:
                move = move + value * weight_decay
            average = average + (move - average) * (1 - beta1)
            square = square * beta2 + move * (1 - beta2) * move
            if amsgrad:
                largest = aten.maximum(largest, square)
            count = state_steps[number]
            root = (largest if amsgrad else square).sqrt() / (1 - aten.pow(beta2, count)).sqrt()
            rate = lr / (1 - aten.pow(beta1, count))
            return value - average / (root + eps) * rate, grad, average, square, largest

        return stepped(lists, found_inf, step)

    return rule


adam, adamw = adam_rule(False), adam_rule(True)


def sgd(
    level: VmapLevel, op: OpOverload, self: Any, grads: Any, momentum_buffer_list: Any,
    weight_decay: float, momentum: float, lr: Any, dampening: float, nesterov: bool,
    maximize: bool, is_first_step: bool, grad_scale: Any, found_inf: Any,
) -> Any:  # fmt: skip
    lists = (self, grads, momentum_buffer_list)
    check_lists("fused_sgd_kernel", *lists)

    def step(number: int, value: Any, grad: Any, buffer: Any) -> Any:
        grad = unscaled(grad, grad_scale)
        move = -grad if maximize else grad
        if weight_decay:
            move = move + value * weight_decay
        if momentum:
            buffer = move if is_first_step else buffer * momentum + move * (1 - dampening)
            move = move + buffer * momentum if nesterov else buffer
        return value - move * lr, grad, buffer

    return stepped(lists, found_inf, step)


def adagrad(
    level: VmapLevel, op: OpOverload, self: Any, grads: Any, state_sums: Any, state_steps: Any,
    lr: Any, lr_decay: float, weight_decay: float, eps: float, maximize: bool, grad_scale: Any,
    found_inf: Any,
) -> Any:  # fmt: skip
    lists = (self, grads, state_sums)
    check_lists("fused_adagrad_kernel", *lists)

    def step(number: int, value: Any, grad: Any, total: Any) -> Any:
        grad = unscaled(grad, grad_scale)
        move = -grad if maximize else grad
        if weight_decay:
            move = move + value * weight_decay
        total = total + move * move
        rate = lr / (1 + (state_steps[number] - 1) * lr_decay)
        return value - move / (total.sqrt() + eps) * rate, grad, total

    found = stepped(lists, found_inf, step)
    # Counts of steps are among what some overloads write, and are as they were.
    return found if len(op._schema.returns) == len(lists) else (*found, list(state_steps))


def unscale(level: VmapLevel, op: OpOverload, self: Any, found_inf: Any, inv_scale: Any) -> Any:
    check_unscaling(self, found_inf, inv_scale)
    factor = inv_scale.reshape(())
    for tensor in self:
        found_inf = aten.where(tensor.isfinite().all(), found_inf, 1.0)
    return [(wide(tensor) * factor).to(tensor.dtype) for tensor in self], found_inf


def update_scale(
    level: VmapLevel, op: OpOverload, self: Any, growth_tracker: Any, found_inf: Any,
    scale_growth_factor: float, scale_backoff_factor: float, growth_interval: int,
) -> Any:  # fmt: skip
    check_scale(self, growth_tracker, found_inf)
    is_bad = found_inf.reshape(self.shape) != 0
    successful = growth_tracker + 1
    is_due = successful == growth_interval
    grown = self * scale_growth_factor
    grows = is_due.reshape(self.shape) & grown.isfinite()
    scale = aten.where(is_bad, self * scale_backoff_factor, aten.where(grows, grown, self))
    starts_again = is_due | is_bad.reshape(growth_tracker.shape)
    return scale, aten.where(starts_again, 0, successful).to(growth_tracker.dtype)
