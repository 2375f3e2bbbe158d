"""Muon: momentum steps of matrices, made orthogonal."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.dtype import bfloat16
from rushlight.opset import functions
from rushlight.optim.optimizer import check_lr
from rushlight.optim.rule import PerParameter

__all__ = ["Muon"]

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalized(matrix: Any, coefficients: Any, steps: int, eps: float) -> Any:
    """A matrix with the same singular vectors and singular values near 1.

    Newton-Schulz iteration by an odd polynomial of degree five, in bfloat16.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    linear, cubic, quintic = coefficients
    tall = matrix.size(0) > matrix.size(1)
    value = matrix.to(bfloat16)
    value = value.t() if tall else value
    # Not in place: a bfloat16 matrix is the momentum buffer itself.
    value = value / functions.linalg_vector_norm(value).clamp(min=eps)
    for _ in range(steps):
        gram = value @ value.t()
        mixed = functions.addmm(gram, gram, gram, beta=cubic, alpha=quintic)
        value = functions.addmm(value, mixed, value, beta=linear)
    return value.t() if tall else value


class Muon(PerParameter):
    """For weights of hidden layers: every parameter is a matrix."""

    decays_weights = False

    options = dict(
        lr=1e-3,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=True,
        ns_coefficients=COEFFICIENTS,
        eps=1e-7,
        ns_steps=5,
        adjust_lr_fn=None,
    )

    def check(self, **options: Any) -> None:
        check_lr(options["lr"])
        for name, given in (
            ("Learning rate", options["lr"]),
            ("momentum", options["momentum"]),
            ("weight decay", options["weight_decay"]),
        ):
            if given < 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {given}")
        adjust = options["adjust_lr_fn"]
        if adjust not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust} is not supported")

    def begin(self) -> None:
        for group in self.param_groups:
            for value in group["params"]:
                if value.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{value.size()}"
                    )

    def prepare(self, value: Any, group: dict[str, Any]) -> None:
        if value.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        super().prepare(value, group)

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": functions.zeros_like(value.grad)}

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        momentum = group["momentum"]
        buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        move = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        move = orthogonalized(move, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = value.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        else:
            ratio = math.sqrt(max(1, rows / columns))
        value.mul_(1 - lr * group["weight_decay"])
        value.add_(move, alpha=-lr * ratio)
