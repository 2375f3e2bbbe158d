"""RAdam: Adam whose second moment counts once its variance is bounded."""

from __future__ import annotations

from typing import Any

from rushlight.optim.rule import PerParameter, plus, step_count, zeros_after

__all__ = ["RAdam"]


class RAdam(PerParameter):
    """Adam with a rectified learning rate."""

    options = dict(
        lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False
    )
    keyword_options = dict(foreach=None, maximize=False, capturable=False, differentiable=False)
    group_order = (
        "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay "
        "differentiable"
    )

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(),
            "exp_avg": zeros_after(value),
            "exp_avg_sq": zeros_after(value),
        }

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        step, (beta1, beta2) = state["step"].item(), group["betas"]
        average, square = state["exp_avg"], state["exp_avg_sq"]
        average.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction = 1 - beta2**step
        move = average / (1 - beta1**step) * lr
        # The length of the average that the second moment stands for, in the limit and by now.
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / correction
        if length > 5.0:
            rectified = (
                (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            ) ** 0.5
            move = move * (correction**0.5 / plus(square.sqrt(), group["eps"], group)) * rectified
        value.add_(move, alpha=-1.0)
