"""Rprop: resilient backpropagation, which looks at signs of gradients only."""

from __future__ import annotations

from typing import Any

from rushlight.opset import functions
from rushlight.optim.optimizer import check_options
from rushlight.optim.rule import PerParameter, number, step_count, zeros_after

__all__ = ["Rprop"]


class Rprop(PerParameter):
    """Step sizes that grow while a gradient keeps its sign, and shrink when it changes."""

    options = dict(lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50))
    keyword_options = dict(capturable=False, foreach=None, maximize=False, differentiable=False)
    group_order = "lr etas step_sizes foreach maximize differentiable capturable"

    def check(self, **options: Any) -> None:
        check_options(**options)
        shrink, grow = options["etas"]
        if not 0.0 < shrink < 1.0 < grow:
            raise ValueError(f"Invalid eta values: {shrink}, {grow}")

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        lr = number(group["lr"])
        size = complex(lr, lr) if value.is_complex() else lr
        return {
            "step": step_count(),
            "prev": zeros_after(value),
            "step_size": functions.full_like(value.grad, size),
        }

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        previous, size = state["prev"], state["step_size"]
        agreement = grad.mul(previous)
        factor = functions.ones_like(grad)
        factor.masked_fill_(agreement > 0, grow).masked_fill_(agreement < 0, shrink)
        size.mul_(factor).clamp_(least, most)
        # Where the sign has changed, this step is left out and the next one is a first one.
        grad = grad.masked_fill(agreement < 0, 0)
        value.addcmul_(grad.sign(), size, value=-1)
        previous.copy_(grad)
