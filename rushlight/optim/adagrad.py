"""Adagrad: steps shrink with the sum of squared gradients."""

from __future__ import annotations

from typing import Any

from rushlight.opset import functions
from rushlight.optim.rule import PerParameter, fused_step, is_plain, number, plus, step_count

__all__ = ["Adagrad"]


class Adagrad(PerParameter):
    """Gradient descent with a learning rate for each element; gradients may be sparse."""

    takes_sparse = True

    options = dict(
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
    )
    keyword_options = dict(maximize=False, differentiable=False, fused=None)
    group_order = (
        "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable "
        "fused"
    )

    def begin(self) -> None:
        for group in self.param_groups:
            for value in group["params"]:
                self.state[value].update(self.new_state(value, group))

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        start = group["initial_accumulator_value"]
        start = complex(start, start) if value.is_complex() else start
        return {"step": step_count(), "sum": functions.full_like(value, start)}

    def share_memory(self) -> None:
        """Put the sums where other processes can see them."""
        for group in self.param_groups:
            for value in group["params"]:
                self.state[value]["sum"].share_memory_()

    def rate(self, state: dict[str, Any], group: dict[str, Any], lr: float) -> float:
        decayed: float = lr / (1 + (state["step"].item() - 1) * group["lr_decay"])
        return decayed

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        total, rate = state["sum"], self.rate(state, group, lr)
        if grad.is_sparse:
            # The update is not linear, so no index may occur twice.
            grad = grad.coalesce()
            places, entries = tuple(grad.indices()), grad.values()
            total.index_put_(places, entries.square(), accumulate=True)
            root = total[places].sqrt_().add_(group["eps"])
            value.index_put_(places, (entries / root).mul_(-rate), accumulate=True)
            return
        total.addcmul_(grad, grad, value=1)
        value.addcdiv_(grad, plus(total.sqrt(), group["eps"], group), value=-rate)

    def update_together(self, values: list[Any], group: dict[str, Any]) -> bool:
        if not is_plain(values, group):
            return False
        states = [self.state[value] for value in values]
        fused_step("_fused_adagrad_")(
            values,
            [value.grad for value in values],
            [state["sum"] for state in states],
            [state["step"] for state in states],
            lr=number(group["lr"]),
            lr_decay=group["lr_decay"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
        )
        return True
