"""Adam and AdamW."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.optim.rule import (
    PerParameter,
    fused_step,
    is_plain,
    number,
    set_maximum,
    step_count,
    zeros_after,
)

__all__ = ["Adam", "AdamW"]


class Adam(PerParameter):
    """Adaptive moments; weight decay is part of the gradient.

    >>> import rushlight as torch
    >>> p = torch.ones(1, requires_grad=True)
    >>> (p * 2).sum().backward()
    >>> torch.optim.Adam([p], lr=0.5).step()
    >>> p
    tensor([0.5000], requires_grad=True)
    """

    sparse_advice = ", please consider SparseAdam instead"

    options = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False)
    keyword_options = dict(
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    )
    group_order = (
        "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
        "decoupled_weight_decay"
    )

    def check(self, **options: Any) -> None:
        betas = options["betas"]
        given = [isinstance(beta, Tensor) for beta in betas]
        if any(given) and not all(given):
            raise ValueError("betas must be either both floats or both Tensors")
        if options.get("foreach") and not options.get("capturable"):
            for name, value in {"lr": options["lr"], "betas[0]": betas[0]}.items():
                if isinstance(value, Tensor):
                    raise ValueError(
                        f"{name} as a Tensor is not supported for capturable=False and foreach=True"
                    )
        super().check(**options)

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        state = {
            "step": step_count(),
            "exp_avg": zeros_after(value),
            "exp_avg_sq": zeros_after(value),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_after(value)
        return state

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        step, (beta1, beta2) = state["step"].item(), map(number, group["betas"])
        first, second = state["exp_avg"], state["exp_avg_sq"]
        first.lerp_(grad, 1 - beta1)
        second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            most = state["max_exp_avg_sq"]
            set_maximum(most, second, group)
            second = most
        denominator = (second.sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        value.addcdiv_(first, denominator, value=-lr / (1 - beta1**step))

    def update_together(self, values: list[Any], group: dict[str, Any]) -> bool:
        if not is_plain(values, group):
            return False
        states = [self.state[value] for value in values]
        decoupled = group["decoupled_weight_decay"]
        move = fused_step("_fused_adamw_" if decoupled else "_fused_adam_")
        beta1, beta2 = map(number, group["betas"])
        move(
            values,
            [value.grad for value in values],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else [],
            [state["step"] for state in states],
            lr=number(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=group["amsgrad"],
            maximize=group["maximize"],
        )
        return True


class AdamW(Adam):
    """Adam with weight decay apart from the gradient."""

    options = {**Adam.options, "weight_decay": 1e-2}
    keyword_options = dict(
        maximize=False, foreach=None, capturable=False, differentiable=False, fused=None
    )
    fixed_options = dict(decoupled_weight_decay=True)
