"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from rushlight.opset import functions
from rushlight.opset.heavy import heavy_kernels, may_compile
from rushlight.optim.optimizer import check_options
from rushlight.optim.rule import PerParameter, fused_step, is_plain, number

__all__ = ["SGD"]

# So many operations of one each take longer than what puts them into one call.
MANY = 16


class SGD(PerParameter):
    """Gradient descent with momentum, Nesterov momentum and weight decay.

    >>> import rushlight as torch
    >>> p = torch.ones(1, requires_grad=True)
    >>> (p * 2).sum().backward()
    >>> torch.optim.SGD([p], lr=0.25).step()
    >>> p
    tensor([0.5000], requires_grad=True)
    """

    takes_sparse = True

    options = dict(lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False)
    keyword_options = dict(maximize=False, foreach=None, differentiable=False, fused=None)

    def check(self, **options: Any) -> None:
        check_options(**options)
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        # The first gradient becomes the momentum buffer.
        return {}

    def update_one(self, value: Any, group: dict[str, Any]) -> None:
        # No operation here tells complex numbers from pairs, and sparse gradients stay sparse.
        lr, momentum, decay = number(group["lr"]), group["momentum"], group["weight_decay"]
        grad = -value.grad if group["maximize"] else value.grad
        if decay:
            grad = grad.add(value, alpha=decay)
        if momentum:
            state = self.state[value]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                first = grad if group["differentiable"] else grad.detach()
                buffer = state["momentum_buffer"] = first.clone()
            else:
                if group["differentiable"]:
                    buffer = state["momentum_buffer"] = buffer.clone()
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        value.add_(grad, alpha=-lr)

    def update_together(self, values: list[Any], group: dict[str, Any]) -> bool:
        if not is_plain(values, group):
            return False
        momentum, buffers = group["momentum"], []
        if not group["fused"] and not self.is_native(values, group):
            return False
        if momentum:
            states = [self.state[value] for value in values]
            fresh = ["momentum_buffer" not in state for state in states]
            if any(fresh) and not all(fresh):
                return False
            for value, state in zip(values, states, strict=True):
                if fresh[0]:
                    state["momentum_buffer"] = functions.empty_like(value)
                buffers.append(state["momentum_buffer"])
        fused_step("_fused_sgd_")(
            values,
            [value.grad for value in values],
            buffers,
            weight_decay=number(group["weight_decay"]),
            momentum=momentum,
            lr=number(group["lr"]),
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            is_first_step=bool(momentum) and fresh[0],
        )
        return True

    def is_native(self, values: list[Any], group: dict[str, Any]) -> bool:
        """Whether native code takes the step, and is quicker than operations on each parameter."""
        is_short = not group["momentum"] and not group["weight_decay"]
        if group["maximize"] or (is_short and len(values) < MANY) or not may_compile():
            return False
        if group["momentum"] and any(
            ["momentum_buffer" not in self.state[value] for value in values]
        ):
            return False
        arrays = [value._array for value in values]
        return heavy_kernels(4 * sum([array.size for array in arrays]), *arrays) is not None
