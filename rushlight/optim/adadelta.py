"""Adadelta: steps in the units of the parameters."""

from __future__ import annotations

from typing import Any

from rushlight.optim.optimizer import check_options
from rushlight.optim.rule import PerParameter, step_count, zeros_after

__all__ = ["Adadelta"]


class Adadelta(PerParameter):
    """Gradients scaled by the ratio of running sizes: of past steps, of past gradients."""

    options = dict(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None)
    keyword_options = dict(capturable=False, maximize=False, differentiable=False)
    group_order = "lr rho eps weight_decay maximize capturable foreach differentiable"

    def check(self, **options: Any) -> None:
        check_options(**options)
        if not 0.0 <= options["rho"] <= 1.0:
            raise ValueError(f"Invalid rho value: {options['rho']}")

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(),
            "square_avg": zeros_after(value),
            "acc_delta": zeros_after(value),
        }

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        rho, eps = group["rho"], group["eps"]
        square, moved = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        size, last = square.add(eps).sqrt_(), moved.add(eps).sqrt_()
        # A graph keeps the root, so it is not written over.
        delta = last / size * grad if group["differentiable"] else last.div_(size).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        value.add_(delta, alpha=-lr)
