"""Anomaly detection: NaN checks after every node, and where a failing node was created.

`core.history.note_creation` records the stack; this module turns the mode on and off, checks
results, and reports. The report goes through `warnings`; where a filter would turn it into an
exception it goes to stderr instead, so that the original error surfaces. Results of forward
calls are looked at by a `ForwardGuard`, which `core.dispatch` calls where the thread has one.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from rushlight.core.batching import BatchedTensor
from rushlight.core.levels import LevelTensor
from rushlight.core.state import LOCAL, STARTING, ThreadState

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled"]
__all__ += ["set_anomaly_enabled", "set_detect_anomaly"]


def is_anomaly_enabled() -> bool:
    return LOCAL.state.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    return LOCAL.state.anomaly_check_nan


def guard_for(check_forward: bool | str | None, check_nan: bool) -> Any:
    """The guard that `check_forward=` asks for, or None; left out, NaN is looked for if `check_nan`
    says so."""
    if check_forward is None:
        check_forward = "nan" if check_nan else False
    if check_forward is False:
        return None
    from rushlight.autograd.nonfinite import ForwardGuard

    if check_forward is True or check_forward == "nan":
        return ForwardGuard(nan_only=check_forward == "nan")
    raise ValueError(f"check_forward must be True, False or 'nan', not {check_forward!r}")


def current_mode() -> tuple[bool, bool, Any]:
    state = LOCAL.state
    return state.anomaly, state.anomaly_check_nan, state.forward_guard


def set_mode(enabled: bool, check_nan: bool, guard: Any) -> None:
    state = LOCAL.state
    state.anomaly = enabled
    state.anomaly_check_nan = check_nan
    state.forward_guard = guard if enabled else None
    state.refresh()


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly detection; forward calls are not watched."""
    set_mode(enabled, check_nan, None)


def detect_everywhere() -> None:
    """This thread and all that start later detect anomalies, as the setting `anomaly` asks."""
    set_mode(True, True, guard_for(None, True))
    state = LOCAL.state
    STARTING.update(
        {name: getattr(state, name) for name in ("anomaly", "anomaly_check_nan", "forward_guard")}
    )


class detect_anomaly:
    """Inside: errors of backward name the forward call behind them; NaN gradients are errors.

    An op of the forward pass that makes a NaN from inputs without one raises at once and names
    itself, the module and the line. With `check_forward=True` infinities are errors too, which
    programs may well compute with; False lets everything pass.
    """

    def __init__(self, check_nan: bool = True, check_forward: bool | str | None = None) -> None:
        self.previous = current_mode()
        self.check_nan = check_nan
        self.guard = guard_for(check_forward, check_nan)
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.previous = current_mode()
        set_mode(True, self.check_nan, self.guard)

    def __exit__(self, *args: object) -> None:
        set_mode(*self.previous)


class set_detect_anomaly:
    """Switch anomaly detection at once; as a context manager, restore it afterwards."""

    def __init__(
        self, mode: bool, check_nan: bool = True, check_forward: bool | str | None = None
    ) -> None:
        self.previous = current_mode()
        set_mode(mode, check_nan, guard_for(check_forward, check_nan))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *args: object) -> None:
        set_mode(*self.previous)


FORWARD_HINT = (
    "\nIf the forward pass already had infinities, detect_anomaly(check_forward=True) stops at the "
    "operation that made the first of them."
)


def apply_watched(node: Any, grads: Any, needs: Any, state: ThreadState) -> Any:
    """Run a node's formula; with `check_nan`, refuse NaN in what it returns."""
    results = node.apply(grads, needs)
    if state.anomaly_check_nan:
        for number, result in enumerate(results):
            if result is not None and has_nan(result):
                guard = state.forward_guard
                hint = FORWARD_HINT if guard is None or guard.nan_only else ""
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {number}th output.{hint}"
                )
    return results


def has_nan(tensor: Any) -> bool:
    while isinstance(tensor, (BatchedTensor, LevelTensor)):
        tensor = tensor._value
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_meta:
        return False
    values = tensor.detach()
    if values.is_sparse:
        values = values._values()
    return bool(values.isnan().any())


def report(node: Any) -> None:
    """Say where a failing node, and the nodes that led to its creation, came from."""
    name, notes = node.name(), node.metadata
    if "traceback_" in notes:
        say(
            f"Error detected in {name}. Traceback of forward call that caused the error:\n"
            + "".join(notes["traceback_"])
        )
    else:
        say(
            f"Error detected in {name}. No forward pass information available. Enable detect "
            "anomaly during forward pass for more information."
        )
    parent = notes.get("parent_")
    while parent is not None:
        name, notes = parent.name(), parent.metadata
        if "traceback_" in notes:
            say(
                f"\n\nPrevious calculation was induced by {name}. Traceback of forward call that "
                "induced the previous calculation:\n" + "".join(notes["traceback_"])
            )
        else:
            say(
                f"\n\nPrevious calculation was induced by {name}. No forward pass information "
                "available. Enable detect anomaly during forward pass for more information."
            )
        parent = notes.get("parent_")


def say(text: str) -> None:
    try:
        warnings.warn(text, UserWarning, stacklevel=2)
    except UserWarning:
        print(f"Warning: {text}", file=sys.stderr)
