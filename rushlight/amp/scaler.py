"""`GradScaler`: scaled losses keep small gradients above what float16 can hold."""

from __future__ import annotations

import warnings
from collections import defaultdict
from enum import Enum
from inspect import signature
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = ["GradScaler"]


def sparse_like(grad: Any, values: Any) -> Any:
    """A coalesced sparse gradient with other values."""
    indices = grad.coalesce().indices()
    return functions.sparse_coo_tensor(indices, values, grad.shape, is_coalesced=True)


class OptState(Enum):
    """How far an optimiser's step has come since the last update of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def fresh_state() -> dict[str, Any]:
    """What is known of an optimizer before its gradients were looked at."""
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Multiplies losses, divides gradients, skips steps with infinite ones and adapts the factor.

    >>> import rushlight as torch
    >>> torch.amp.GradScaler("cpu", init_scale=8.0).scale(torch.tensor(2.0))
    tensor(16.)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if enabled and device == "cuda":
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        if not enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = float(init_scale)
        # None until the first loss is scaled.
        self._scale: Any = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Any = None
        # By id of the optimizer. Libraries that subclass this class know these names.
        self._per_optimizer_states: Any = defaultdict(fresh_state)

    def scale(self, outputs: Any) -> Any:
        """The losses times the current factor."""
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = functions.full((), self._init_scale, dtype=dtypes.float32)
            self._growth_tracker = functions.full((), self._init_growth_tracker, dtype=dtypes.int32)
        if isinstance(outputs, Tensor):
            return outputs * self._scale  # type: ignore[operator]
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(item) for item in outputs])
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def known_scale(self, what: str) -> Any:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {what} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimizer's gradients by the factor, noting whether all are finite."""
        if not self._enabled:
            return
        factor = self.known_scale("unscale_").double().reciprocal().float()
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        found = functions.full((), 0.0, dtype=dtypes.float32)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, factor, found, False)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool
    ) -> dict[Any, Any]:
        """Multiply gradients by `inv_scale`: what was found of them, by device."""
        grads = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        if not allow_fp16 and any(grad.dtype is dtypes.float16 for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        if not grads:
            return {}
        # The values of a sparse gradient are all there is to scale.
        dense = [grad.coalesce().values() if grad.is_sparse else grad for grad in grads]
        with no_grad():
            functions._amp_foreach_non_finite_check_and_unscale_(dense, found_inf, inv_scale)
            for grad, values in zip(grads, dense, strict=True):
                if grad.is_sparse:
                    grad.copy_(sparse_like(grad, values))
        return {found_inf.device: found_inf}

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Any]:
        """Look for infinite gradients without changing any."""
        self.known_scale("_check_inf_per_device")
        one = functions.full((), 1.0, dtype=dtypes.float32)
        found = functions.full((), 0.0, dtype=dtypes.float32)
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, found, True)
        return state["found_inf_per_device"]  # type: ignore[no-any-return]

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Any]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]  # type: ignore[no-any-return]

    def _maybe_opt_step(
        self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()`, unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self.known_scale("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self.hand_over(optimizer, state, args, kwargs)
            state["stage"] = OptState.STEPPED
            return result
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def hand_over(self, optimizer: Any, state: dict[str, Any], args: Any, kwargs: Any) -> Any:
        """A step of an optimizer that divides by the scale itself, and skips what is infinite."""
        if "grad_scaler" in signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed "
                "optimizer. In the near future GradScaler registers `grad_scale: Tensor` and "
                "`found_inf: Tensor` to the passed optimizer and let the optimizer use them "
                "directly.",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        given = getattr(optimizer, "grad_scale", None)
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
            given = self._scale if given is None else self._scale * given
        optimizer.grad_scale = given
        found = state["found_inf_per_device"].values()
        optimizer.found_inf = sum(found, functions.full((), 0.0, dtype=dtypes.float32))
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: Any = None) -> None:
        """Adapt the factor to what the steps since the last update found."""
        if not self._enabled:
            return
        scale = self.known_scale("update")
        if new_scale is not None:
            scale.fill_(float(new_scale))
        else:
            found = [
                found
                for state in self._per_optimizer_states.values()
                for found in state["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            infinite = any(each.item() for each in found)
            functions._amp_update_scale_(
                scale,
                self._growth_tracker,
                functions.full((), float(infinite), dtype=dtypes.float32),
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
        self._per_optimizer_states = defaultdict(fresh_state)

    def get_scale(self) -> float:
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = float(state_dict["scale"])
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(self._init_growth_tracker)
