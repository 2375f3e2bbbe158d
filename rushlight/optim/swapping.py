"""`swap_in_optimizer_params_and_state`: an optimiser that works on other parameters for a while."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["swap_in_optimizer_params_and_state"]

NAME = "swap_in_optimizer_params_and_state"


def check_state(state: Any) -> dict[int, Any]:
    if not isinstance(state, dict) or not all(isinstance(value, dict) for value in state.values()):
        raise RuntimeError(
            f"{NAME} requires per-parameter optimizer state entries to be dictionaries."
        )
    return state


def check_group(number: int, live: dict[str, Any], given: Any) -> list[int]:
    """The numbers of a group's parameters."""
    if not isinstance(given, dict):
        raise RuntimeError(f"{NAME} requires each optimizer param group to be a dictionary.")
    numbers = given.get("params")
    if not isinstance(numbers, list) or not all(isinstance(each, int) for each in numbers):
        raise RuntimeError(
            f"{NAME} requires optimizer.state_dict()-style param_groups[*]['params'] entries keyed "
            "by packed parameter ids."
        )
    if len(numbers) != len(live["params"]):
        raise RuntimeError(
            f"swapin_optim_state param group {number} has a different number of params than the "
            "live optimizer param group."
        )
    if given.keys() != live.keys():
        raise RuntimeError(
            f"{NAME} requires the keys of group {number} to match the live ones. Keys only in "
            f"swap-in: {[k for k in given if k not in live]}. Keys only in live: "
            f"{[k for k in live if k not in given]}."
        )
    return numbers


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Any, swapin_parameters: dict[str, Any], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Within it, the optimiser has other parameters, in the order of its own, and the state and the
    options of a `state_dict()`. Writes in place reach what was given; all else is undone."""
    if not optimizer.state:
        raise RuntimeError(f"{NAME} requires initialized optimizer state.")
    if not isinstance(swapin_optim_state, dict):
        raise RuntimeError(f"{NAME} requires a DCP-style optimizer state_dict.")
    state = check_state(swapin_optim_state.get("state"))
    groups = swapin_optim_state.get("param_groups")
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{NAME} requires swapin_optim_state['param_groups'] to be a list of param-group "
            f"dicts, got {type(groups).__name__}."
        )
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    pairs = list(zip(optimizer.param_groups, groups, strict=True))
    numbers = [check_group(i, live, given) for i, (live, given) in enumerate(pairs)]
    parameters = list(swapin_parameters.values())
    if len(parameters) < sum([len(each) for each in numbers]):
        raise RuntimeError(
            f"{NAME} requires the explicit parameter state to match optimizer.param_groups "
            "ordering."
        )
    known = {number for each in numbers for number in each}
    extra = [number for number in state if number not in known]
    if extra:
        raise RuntimeError(f"{NAME}: state of parameters that no group has: {extra!r}.")

    before_state = optimizer.state
    before_groups = [dict(live) for live in optimizer.param_groups]
    rest = iter(parameters)
    try:
        swapped: defaultdict[Any, Any] = defaultdict(dict)
        for (live, given), own in zip(pairs, numbers, strict=True):
            taken = [next(rest) for _ in own]
            live.update(given, params=taken)
            for parameter, number in zip(taken, own, strict=True):
                if number in state:
                    swapped[parameter] = dict(state[number])
        optimizer.state = swapped
        yield
    finally:
        optimizer.state = before_state
        for live, kept in zip(optimizer.param_groups, before_groups, strict=True):
            live.clear()
            live.update(kept)
