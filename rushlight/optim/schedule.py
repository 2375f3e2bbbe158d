"""`LRScheduler`: the base of learning rate schedules.

A schedule's `get_lr` gives the rates of all groups from the current ones (most can be chained that
way); `_get_closed_form_lr` gives them from the initial ones, for jumps to a given epoch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import ref

from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.rule import number

__all__ = ["LRScheduler"]

EPOCH_GIVEN = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)
ORDER_HELP = (
    "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, option: str) -> list[Any]:
    """An option of every group, apart from later changes."""
    return [copied(group[option]) for group in optimizer.param_groups]


def put(group: dict[str, Any], option: str, value: Any) -> None:
    """Set an option; one that is a tensor stays that tensor."""
    if isinstance(group[option], Tensor):
        group[option].fill_(number(value))
    else:
        group[option] = value


def for_groups(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group, from a value or a list of them."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {count}."
        )
    return [copied(entry) for entry in value]


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def note_steps(optimizer: Any) -> None:
    """Let `optimizer.step` leave a mark, which tells whether it is called at all."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function, owner = optimizer.step.__func__, ref(optimizer)

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        instance: Any = owner()
        instance._opt_called = True
        return function(instance, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step


@contextmanager
def within_step(scheduler: LRScheduler) -> Iterator[LRScheduler]:
    """Where `get_lr` may be called without a warning: within a step."""
    scheduler._get_lr_called_within_step = True
    try:
        yield scheduler
    finally:
        scheduler._get_lr_called_within_step = False


def check_within_step(scheduler: LRScheduler) -> None:
    scheduler._check_called_within_step()


class LRScheduler:
    """Base of schedules: counts epochs and writes the rates that `get_lr` gives.

    >>> import rushlight as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    # What a checkpoint leaves out.
    _unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for position, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{position}] when "
                    "resuming scheduler with last_epoch >= 0. Load the optimizer's state first, or "
                    "leave last_epoch out for a fresh run."
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        raise NotImplementedError(f"{type(self).__name__}.get_lr")

    def _check_called_within_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def current(self) -> list[Any]:
        return values_of(self.optimizer, "lr")

    def scaled(self, factor: float) -> list[Any]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_GIVEN, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                f"`lr_scheduler.step()`. {ORDER_HELP}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping "
                f"the first value of the learning rate schedule. {ORDER_HELP}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        with within_step(self):
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = getattr(self, "_get_closed_form_lr", self.get_lr)()
        self._put_rates(rates)

    def _put_rates(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            put(group, "lr", rate)
        self._last_lr = self.current()
