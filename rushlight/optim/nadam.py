"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from rushlight.optim.optimizer import check_options
from rushlight.optim.rule import PerParameter, plus, step_count, zeros_after

__all__ = ["NAdam"]


class NAdam(PerParameter):
    """Adam that looks ahead along a momentum which grows with the steps."""

    counts = ("step", "mu_product")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        options = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
        )
        check_options(**options)
        super().__init__(params, options)

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
        product = state["mu_product"].item()
        average.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denominator = plus(square.div(1 - beta2**step).sqrt(), group["eps"], group)
        value.addcdiv_(grad, denominator, value=-lr * (1.0 - now) / (1.0 - product))
        value.addcdiv_(average, denominator, value=-lr * then / (1.0 - product * then))
