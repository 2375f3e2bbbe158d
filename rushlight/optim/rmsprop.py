"""RMSprop: gradients divided by their running size."""

from __future__ import annotations

from typing import Any

from rushlight.optim.rule import PerParameter, plus, step_count, zeros_after

__all__ = ["RMSprop"]


class RMSprop(PerParameter):
    """Gradients over the root of their mean square, or of their variance when `centered`."""

    options = dict(
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    )
    group_order = (
        "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
    )

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": step_count(), "square_avg": zeros_after(value)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_after(value)
        if group["centered"]:
            state["grad_avg"] = zeros_after(value)
        return state

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        alpha, momentum, square = group["alpha"], group["momentum"], state["square_avg"]
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            average = state["grad_avg"].lerp_(grad, 1 - alpha)
            size = square.addcmul(average, average, value=-1).sqrt_()
        else:
            size = square.sqrt()
        size = plus(size, group["eps"], group)
        if momentum > 0:
            value.add_(state["momentum_buffer"].mul_(momentum).addcdiv_(grad, size), alpha=-lr)
        else:
            value.addcdiv_(grad, size, value=-lr)
