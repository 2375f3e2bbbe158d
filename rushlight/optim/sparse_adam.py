"""SparseAdam: Adam for gradients that touch few rows."""

from __future__ import annotations

import math
from typing import Any

from rushlight.optim.optimizer import check_lr, check_options
from rushlight.optim.rule import PerParameter, zeros_after

__all__ = ["SparseAdam"]


class SparseAdam(PerParameter):
    """Adam of dense parameters with sparse gradients: moments move where gradients are."""

    takes_sparse = True

    options = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False)

    def check(self, **options: Any) -> None:
        check_lr(options["lr"])
        if not options["lr"] > 0.0:
            raise ValueError(f"Invalid learning rate: {options['lr']}")
        if not options["eps"] > 0.0:
            raise ValueError(f"Invalid epsilon value: {options['eps']}")
        check_options(**options)

    def begin(self) -> None:
        places = [
            ([number, index], value)
            for number, group in enumerate(self.param_groups)
            for index, value in enumerate(group["params"])
        ]
        sparse = [place for place, value in places if value.is_sparse]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        pairs = [place for place, value in places if value.is_complex()]
        if pairs:
            raise ValueError(
                f"Complex params at indices {pairs}: SparseAdam does not support complex parameters"
            )

    # torch: this one counts in a plain number.
    counts = ()

    def prepare(self, value: Any, group: dict[str, Any]) -> None:
        if not value.grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        super().prepare(value, group)

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0, "exp_avg": zeros_after(value), "exp_avg_sq": zeros_after(value)}

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        # The update is not linear, so no index may occur twice.
        grad = grad.coalesce()
        places, entries = tuple(grad.indices()), grad.values()
        if not entries.numel():
            return
        step, (beta1, beta2) = state["step"], group["betas"]
        first = state["exp_avg"][places].lerp_(entries, 1 - beta1)
        second = state["exp_avg_sq"][places].lerp_(entries.square(), 1 - beta2)
        state["exp_avg"].index_put_(places, first)
        state["exp_avg_sq"].index_put_(places, second)
        size = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        move = first.div(second.sqrt().add_(group["eps"])).mul_(-size)
        value.index_put_(places, move, accumulate=True)
