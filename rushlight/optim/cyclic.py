"""Schedules that go up and down: `CyclicLR` and `OneCycleLR`."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from rushlight.optim.schedule import LRScheduler, check_optimizer, for_groups, put

__all__ = ["CyclicLR", "OneCycleLR"]


def put_momentum(group: dict[str, Any], value: Any, use_beta1: bool) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class _Cycle(LRScheduler):
    """Schedules that move momentum against the rate."""

    use_beta1: bool

    def _start_momentum(self, base: Any, highest: Any, last_epoch: int) -> None:
        known = self.optimizer.defaults
        if "momentum" not in known and "betas" not in known:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in known
        if last_epoch != -1:
            return
        for group, low, high in zip(self.optimizer.param_groups, base, highest, strict=True):
            put_momentum(group, high, self.use_beta1)
            group["max_momentum"] = high
            group["base_momentum"] = low


class CyclicLR(_Cycle):
    """Up and down between two rates, in straight lines that a function of the cycle scales."""

    _unsaved = ("optimizer", "_scale_fn_custom")

    def __init__(
        self,
        optimizer: Any,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = for_groups("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                put(group, "lr", rate)
        self.max_lrs = for_groups("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = for_groups("base_momentum", optimizer, base_momentum)
            self.max_momentums = for_groups("max_momentum", optimizer, max_momentum)
            self._start_momentum(self.base_momentums, self.max_momentums, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """How high the cycle's peak is; of the cycle's number or of the iteration's."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / 2.0 ** (x - 1)
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        self._check_called_within_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        part = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds, strict=True):
                put_momentum(group, high - (high - low) * part * scale, self.use_beta1)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * part * scale for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        function = self._scale_fn_custom
        plain = function is None or isinstance(function, FunctionType)
        saved = None if plain else function.__dict__.copy()
        return super().state_dict() | {"_scale_fn_custom": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        saved = state_dict.get("_scale_fn_custom")
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)


# Ends of a phase: (rate from, rate to, momentum from, momentum to), names of options of a group.
RISE = ("initial_lr", "max_lr", "max_momentum", "base_momentum")
FALL = ("max_lr", "initial_lr", "base_momentum", "max_momentum")
FALL_FAR = ("max_lr", "min_lr", "base_momentum", "max_momentum")
FADE = ("initial_lr", "min_lr", "max_momentum", "max_momentum")
PHASE_KEYS = ("start_lr", "end_lr", "start_momentum", "end_momentum")


class OneCycleLR(_Cycle):
    """One rise to `max_lr` and one fall far below the initial rate."""

    def __init__(
        self,
        optimizer: Any,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        given = {"total_steps": total_steps}
        if total_steps is None:
            given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        self.total_steps = 1
        for name, count in given.items():
            if not isinstance(count, int) or count <= 0:
                raise ValueError(f"Expected positive integer {name}, but got {count}")
            self.total_steps *= count
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        top = float(pct_start * self.total_steps) - 1
        phases: list[tuple[float, tuple[str, ...]]] = [(top, RISE)]
        if three_phase:
            phases.append((float(2 * pct_start * self.total_steps) - 2, FALL))
        phases.append((self.total_steps - 1, FADE if three_phase else FALL_FAR))
        self._schedule_phases = [
            {"end_step": end} | dict(zip(PHASE_KEYS, names, strict=True)) for end, names in phases
        ]
        highest = for_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(
                for_groups("base_momentum", optimizer, base_momentum),
                for_groups("max_momentum", optimizer, max_momentum),
                last_epoch,
            )
        super().__init__(optimizer, last_epoch)

    def between(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[Any]:
        self._check_called_within_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin: Any = 0.0
        for phase in self._schedule_phases:
            end: Any = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            begin = end
        part = (step - begin) / (end - begin)
        rates = []
        for group in self.optimizer.param_groups:
            first, last, low, high = (group.get(phase[key]) for key in PHASE_KEYS)
            rates.append(self.between(first, last, part))
            if self.cycle_momentum:
                put_momentum(group, self.between(low, high, part), self.use_beta1)
        return rates
