"""Adam and AdamW."""

from __future__ import annotations

import math
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.opset import functions
from rushlight.optim.optimizer import Optimizer

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adaptive moments; weight decay is part of the gradient.

    >>> import rushlight as torch
    >>> p = torch.ones(1, requires_grad=True)
    >>> (p * 2).sum().backward()
    >>> torch.optim.Adam([p], lr=0.5).step()
    >>> p
    tensor([0.5000], requires_grad=True)
    """

    decoupled = False

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if eps < 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for position, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {position}: {beta}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                amsgrad=amsgrad,
                foreach=foreach,
                maximize=maximize,
                capturable=capturable,
                differentiable=differentiable,
                fused=fused,
            ),
        )

    @no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = self.run_closure(closure)
        for group in self.param_groups:
            for value in self.with_gradients(group):
                self.update(value, group)
        return loss

    def update(self, value: Any, group: dict[str, Any]) -> None:
        grad = -value.grad if group["maximize"] else value.grad
        state = self.state[value]
        if not state:
            state["step"] = functions.scalar_tensor(0.0)
            state["exp_avg"] = functions.zeros_like(value)
            state["exp_avg_sq"] = functions.zeros_like(value)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = functions.zeros_like(value)
        lr, (beta1, beta2) = group["lr"], group["betas"]
        if group["weight_decay"]:
            if self.decoupled:
                value.mul_(1 - lr * group["weight_decay"])
            else:
                grad = grad.add(value, alpha=group["weight_decay"])
        state["step"] += 1
        step = state["step"].item()
        first, second = state["exp_avg"], state["exp_avg_sq"]
        first.lerp_(grad, 1 - beta1)
        second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            functions.maximum(state["max_exp_avg_sq"], second, out=state["max_exp_avg_sq"])
            second = state["max_exp_avg_sq"]
        denominator = (second.sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        value.addcdiv_(first, denominator, value=-lr / (1 - beta1**step))


class AdamW(Adam):
    """Adam with weight decay apart from the gradient."""

    decoupled = True

    def __init__(
        self, params: Any, lr: float = 1e-3, weight_decay: float = 1e-2, **rest: Any
    ) -> None:
        super().__init__(params, lr, weight_decay=weight_decay, **rest)
