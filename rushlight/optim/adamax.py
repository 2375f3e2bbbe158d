"""Adamax: Adam with the largest gradient in the place of the second moment."""

from __future__ import annotations

from typing import Any

from rushlight.optim.rule import PerParameter, set_maximum, step_count, zeros_after

__all__ = ["Adamax"]


class Adamax(PerParameter):
    """Adam by the infinity norm."""

    options = dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None)
    keyword_options = dict(maximize=False, differentiable=False, capturable=False)

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
