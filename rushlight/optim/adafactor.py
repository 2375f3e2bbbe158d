"""Adafactor: second moments of matrices as products of a column and a row."""

from __future__ import annotations

from typing import Any

from rushlight.core.dtype import finfo
from rushlight.opset import functions
from rushlight.optim.optimizer import check_lr
from rushlight.optim.rule import PerParameter, step_count

__all__ = ["Adafactor"]


def mean_square(grad: Any, dim: int) -> Any:
    return functions.linalg_vector_norm(grad, 2, [dim], True).square_().div_(grad.size(dim))


class Adafactor(PerParameter):
    """Adaptive steps with memory that grows with the sum of a matrix's sides only."""

    decays_weights = False

    options = dict(lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0)
    keyword_options = dict(foreach=None, maximize=False)

    def check(self, **options: Any) -> None:
        lr, (least, floor) = options["lr"], options["eps"]
        check_lr(lr)
        for name, given, fits, bound in (
            ("Learning rate", lr, lr >= 0.0, ">= 0"),
            ("beta2_decay", options["beta2_decay"], options["beta2_decay"] <= 0.0, "<= 0"),
            ("epsilon1", least, least is None or least >= 0.0, ">= 0"),
            ("epsilon2", floor, floor >= 0.0, ">= 0"),
            ("Clipping threshold d", options["d"], options["d"] >= 1.0, ">= 1"),
            ("weight_decay", options["weight_decay"], options["weight_decay"] >= 0.0, ">= 0"),
        ):
            if not fits:
                raise ValueError(f"{name} should be {bound} but is: {given}")

    def prepare(self, value: Any, group: dict[str, Any]) -> None:
        if value.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        super().prepare(value, group)

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        state, grad = {"step": step_count()}, value.grad
        if grad.dim() > 1:
            *outer, rows, columns = grad.shape
            state["row_var"] = grad.new_zeros((*outer, rows, 1))
            state["col_var"] = grad.new_zeros((*outer, 1, columns))
        else:
            state["variance"] = functions.zeros_like(grad)
        return state

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        least, smallest_size = group["eps"]
        least = finfo(value.dtype).eps if least is None else least
        step = state["step"].item()
        weight = step ** group["beta2_decay"]
        size = max(smallest_size, value.norm(2).item() / value.numel() ** 0.5)
        size *= min(lr, 1 / step**0.5)
        if group["weight_decay"]:
            value.mul_(1 - lr * group["weight_decay"])
        if grad.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            row.lerp_(mean_square(grad, -1), weight)
            column.lerp_(mean_square(grad, -2), weight)
            variance = (row @ column).div_(row.mean(dim=-2, keepdim=True).clamp_(min=least))
        else:
            variance = state["variance"].lerp_(grad * grad, weight).clone()
        move = variance.clamp_(min=least * least).rsqrt_().mul_(grad)
        excess = max(1.0, move.norm(2).item() / (move.numel() ** 0.5 * group["d"]))
        value.add_(move, alpha=-size / excess)
