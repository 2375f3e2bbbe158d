"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.optim.optimizer import Optimizer, check_options

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent with momentum, Nesterov momentum and weight decay.

    >>> import rushlight as torch
    >>> p = torch.ones(1, requires_grad=True)
    >>> (p * 2).sum().backward()
    >>> torch.optim.SGD([p], lr=0.25).step()
    >>> p
    tensor([0.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = dict(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        check_options(**options)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, options)

    @no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = self.run_closure(closure)
        for group in self.param_groups:
            momentum = group["momentum"]
            for value in self.with_gradients(group):
                grad = -value.grad if group["maximize"] else value.grad
                if group["weight_decay"]:
                    grad = grad.add(value, alpha=group["weight_decay"])
                if momentum:
                    grad = self.with_momentum(value, grad, group)
                value.add_(grad, alpha=-group["lr"])
        return loss

    def with_momentum(self, value: Any, grad: Any, group: dict[str, Any]) -> Any:
        state = self.state[value]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = grad.detach().clone()
        else:
            buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
        return grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
