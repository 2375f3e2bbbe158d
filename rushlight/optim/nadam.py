"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from rushlight.optim.rule import PerParameter, plus, step_count, zeros_after

__all__ = ["NAdam"]


class NAdam(PerParameter):
    """Adam that looks ahead along a momentum which grows with the steps."""

    counts = ("step", "mu_product")
    options = dict(
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
    )
    keyword_options = dict(foreach=None, maximize=False, capturable=False, differentiable=False)
    group_order = (
        "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach "
        "capturable differentiable"
    )

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(),
            "mu_product": step_count(1.0),
            "exp_avg": zeros_after(value),
            "exp_avg_sq": zeros_after(value),
        }

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        step, (beta1, beta2) = state["step"].item(), group["betas"]
        average, square = state["exp_avg"], state["exp_avg_sq"]
        now, then = (
            beta1 * (1.0 - 0.5 * 0.96 ** (count * group["momentum_decay"]))
            for count in (step, step + 1)
        )
        state["mu_product"].mul_(now)
        average.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denominator = plus(square.div(1 - beta2**step).sqrt(), group["eps"], group)
        if group["differentiable"]:
            product = state["mu_product"]
            value.addcdiv_(grad * (-lr * (1.0 - now) / (1.0 - product)), denominator)
            value.addcdiv_(average * (-lr * then / (1.0 - product * then)), denominator)
            return
        product = state["mu_product"].item()
        value.addcdiv_(grad, denominator, value=-lr * (1.0 - now) / (1.0 - product))
        value.addcdiv_(average, denominator, value=-lr * then / (1.0 - product * then))
