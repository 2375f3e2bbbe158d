"""Adamax: Adam with the largest gradient in the place of the second moment."""

from __future__ import annotations

from typing import Any

from rushlight.optim.optimizer import check_options
from rushlight.optim.rule import PerParameter, set_maximum, step_count, zeros_after

__all__ = ["Adamax"]


class Adamax(PerParameter):
    """Adam by the infinity norm."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        options = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        check_options(**options)
        super().__init__(params, options)

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(),
            "exp_avg": zeros_after(value),
            "exp_inf": zeros_after(value),
        }

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        beta1, beta2 = group["betas"]
        average, largest = state["exp_avg"], state["exp_inf"]
        average.lerp_(grad, 1 - beta1)
        set_maximum(largest.mul_(beta2), grad.abs().add_(group["eps"]), group)
        value.addcdiv_(average, largest, value=-lr / (1 - beta1 ** state["step"].item()))
