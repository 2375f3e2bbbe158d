"""ASGD: gradient descent that also averages its parameters."""

from __future__ import annotations

from typing import Any

from rushlight.optim.optimizer import check_options
from rushlight.optim.rule import PerParameter, number, step_count, zeros_after

__all__ = ["ASGD"]


class ASGD(PerParameter):
    """Averaged stochastic gradient descent; the average is the state `ax`."""

    counts = ("step", "eta", "mu")
    options = dict(
        lr=1e-2,
        lambd=1e-4,
        alpha=0.75,
        t0=1e6,
        weight_decay=0,
        foreach=None,
        maximize=False,
        differentiable=False,
        capturable=False,
    )

    def check(self, **options: Any) -> None:
        # torch: `alpha` is not looked at here.
        check_options(**{name: value for name, value in options.items() if name != "alpha"})

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(),
            "eta": step_count(number(group["lr"])),
            "mu": step_count(1.0),
            "ax": zeros_after(value),
        }

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        lambd, eta, mu, average = group["lambd"], state["eta"], state["mu"], state["ax"]
        rate = eta.item()
        value.mul_(1 - lambd * rate).add_(grad, alpha=-rate)
        if mu.item() == 1:
            average.copy_(value)
        else:
            average.add_(value.sub(average).mul_(mu))
        step = state["step"].item()
        eta.fill_(lr / (1 + lambd * lr * step) ** group["alpha"])
        mu.fill_(1 / max(1, step - group["t0"]))
