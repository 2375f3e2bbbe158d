"""Rprop: resilient backpropagation, which looks at signs of gradients only."""

from __future__ import annotations

from typing import Any

from rushlight.opset import functions
from rushlight.optim.optimizer import check_options
from rushlight.optim.rule import PerParameter, number, step_count, zeros_after

__all__ = ["Rprop"]


class Rprop(PerParameter):
    """Step sizes that grow while a gradient keeps its sign, and shrink when it changes."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        options = dict(
            lr=lr,
            etas=etas,
            step_sizes=step_sizes,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        check_options(**options)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, options)

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
