"""Training on uneven inputs: processes that are done shadow what those that are not do."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any, NamedTuple

from rushlight.distributed import collectives
from rushlight.distributed.groups import ProcessGroup
from rushlight.opset import functions

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process does after its last input."""

    def main_hook(self) -> None:
        """Once for each step that another process still makes."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """When no process makes steps any more."""


class JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


class Joinable:
    """What `Join` can be given."""

    _join_config = JoinConfig(False, False, True)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        raise NotImplementedError

    @property
    def join_device(self) -> Any:
        raise NotImplementedError

    @property
    def join_process_group(self) -> ProcessGroup:
        raise NotImplementedError


def count(here: int, group: ProcessGroup) -> int:
    """How many processes say 1."""
    number = functions.full((1,), here)
    collectives.all_reduce(number, group=group)
    return int(number.item())


class Join:
    """Within it, processes may end at different times."""

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self.joinables = joinables
        self.enable = enable
        self.throws = throw_on_early_termination
        self.hooks = [each.join_hook(**kwargs) for each in joinables]
        groups = {each.join_process_group for each in joinables}
        if len(groups) != 1:
            raise ValueError("Using join context manager with multiple process groups")
        self.group = groups.pop()
        for index, each in enumerate(joinables):
            each._join_config = JoinConfig(enable, throw_on_early_termination, index == 0)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        cls: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.enable or cls is not None:
            return
        is_last = True
        steps = 0
        while count(0, self.group):
            if self.throws:
                count(1, self.group)
                raise RuntimeError("Rank exhausted all inputs.")
            is_last = False
            steps += 1
            if steps == 1000:
                warnings.warn(
                    "Detected uneven input skew of greater than 1000. Join will continue.",
                    stacklevel=2,
                )
            for hook in self.hooks:
                hook.main_hook()
        for hook in self.hooks:
            hook.post_hook(is_last)
        for each in self.joinables:
            each._join_config = JoinConfig(False, False, True)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> int | None:
        """Before the collectives of a step: how many processes make it; None outside `Join`."""
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        active = count(1, group)
        if config.throw_on_early_termination and active < group.size() and count(0, group):
            raise RuntimeError(
                "Detected at least one rank that exhausted inputs. Throwing across all ranks."
            )
        return active
