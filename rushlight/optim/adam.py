"""Adam and AdamW."""

from __future__ import annotations

import math
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.opset import functions
from rushlight.optim.optimizer import Optimizer, check_options

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

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        options = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        check_options(**options)
        for position, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {position}: {beta}")
        super().__init__(params, options)

    @no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = self.run_closure(closure)
        for group in self.param_groups:
            for value in self.with_gradients(group):
                self.update(value, group)
        return loss

    def update(self, value: Any, group: dict[str, Any]) -> None:
        if value.grad.is_sparse:
            raise RuntimeError(
                "Adam does not support sparse gradients, please consider SparseAdam instead"
            )
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
            if group["decoupled_weight_decay"]:
                value.mul_(1 - lr * group["weight_decay"])
            else:
                grad = grad.add(value, alpha=group["weight_decay"])
        state["step"] += 1
        step = state["step"].item()
        first, second, most = (
            real_view(state.get(name)) for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        )
        grad, value = real_view(grad), real_view(value)
        first.lerp_(grad, 1 - beta1)
        second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            functions.maximum(most, second, out=most)
            second = most
        denominator = (second.sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        value.addcdiv_(first, denominator, value=-lr / (1 - beta1**step))


def real_view(tensor: Any) -> Any:
    """A complex tensor as pairs of real numbers, each with moments of its own."""
    is_complex = tensor is not None and tensor.is_complex()
    return functions.view_as_real(tensor) if is_complex else tensor


class AdamW(Adam):
    """Adam with weight decay apart from the gradient."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        options["decoupled_weight_decay"] = True
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **options)
