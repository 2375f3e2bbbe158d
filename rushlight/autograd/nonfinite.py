"""The forward half of anomaly detection: which op first made a NaN or an infinity, and where.

`ForwardGuard` runs an op and looks at its results. An op is blamed only when no input, numbers
included, had such a value: what merely passes a NaN on, or was handed one, is not.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from rushlight.core import dispatch, ports
from rushlight.core.history import PACKAGE
from rushlight.core.state import ThreadState
from rushlight.core.tensor import Tensor, values_of

__all__ = ["ForwardGuard", "module_path"]


class ForwardGuard:
    """Runs ops of the forward pass; raises where one makes values that are not finite."""

    __slots__ = ("nan_only",)

    def __init__(self, nan_only: bool) -> None:
        self.nan_only = nan_only

    def __call__(self, op: Any, args: tuple[Any, ...], state: ThreadState) -> Any:
        overwrites = bool(op.mutated_positions)
        # A write destroys the evidence, so its inputs are looked at before.
        clean = not overwrites or self.is_clean(op, args)
        state.forward_guard = None
        try:
            result = dispatch.run_below(op, args, state)
        finally:
            state.forward_guard = self
        if clean and not op.is_view_op and not op.options.get("unwritten"):
            written = [args[position] for position in op.mutated_positions]
            for number, value in enumerate(tensors_in(written if overwrites else (result,))):
                bad = self.bad_values(value)
                if bad is not None and bad.any() and (overwrites or self.is_clean(op, args)):
                    raise RuntimeError(self.complaint(op, args, number, value, bad, overwrites))
        return result

    def bad_values(self, tensor: Any) -> Any:
        """A mask of the values to complain about; None where there can be none."""
        array = visible_values(tensor)
        if array is None:
            return None
        return np.isnan(array) if self.nan_only else ~np.isfinite(array)

    def is_clean(self, op: Any, args: tuple[Any, ...]) -> bool:
        """Whether no input has a value of the kind that this guard looks for."""
        return all(
            position in op.out_positions or self.is_good(value)
            for position, value in enumerate(args)
        )

    def is_good(self, value: Any) -> bool:
        if isinstance(value, Tensor):
            bad = self.bad_values(value)
            return bad is None or not bad.any()
        if isinstance(value, (float, complex)):
            return not np.isnan(value) if self.nan_only else bool(np.isfinite(value))
        if isinstance(value, (list, tuple)):
            return all(self.is_good(entry) for entry in value)
        return True

    def complaint(
        self, op: Any, args: tuple[Any, ...], number: int, value: Any, bad: Any, overwrites: bool
    ) -> str:
        array = visible_values(value)
        nans = int(np.isnan(array).sum())
        infs = int(bad.sum()) - nans if not self.nan_only else 0
        found = " and ".join(
            f"{count} {what}" for count, what in ((nans, "nan"), (infs, "inf")) if count
        )
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        lines = [
            f"Operation '{op.name()}' made {found} among the {array.size} values of its "
            f"{number}th output, first at index {first}; its inputs had none.",
        ]
        path = module_path()
        if path:
            lines.append(f"  in module {path}")
        place = user_line()
        if place:
            lines.append(f"  at {place}")
        for argument, given in zip(op._schema.arguments, args, strict=True):
            # A written argument no longer has the values that went in.
            if not (overwrites and argument.is_write):
                lines += described(argument.name, given)
        lines.append(
            "This was found because of check_forward in anomaly mode; check_forward=False lets "
            "such values pass"
            + ("." if self.nan_only else ", check_forward='nan' lets infinities pass.")
        )
        return "\n".join(lines)


def tensors_in(values: Any) -> list[Any]:
    """The tensors among results, which may be lists."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
    return found


def visible_values(tensor: Any) -> Any:
    """The floating values of a tensor as an ndarray; None where there are none to look at."""
    dtype = tensor._dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        return None
    unusual = tensor._unusual
    if unusual is not None and unusual.parts is not None:
        values = getattr(unusual.parts, "values", None)
        return None if values is None or values._array is None else values_of(values)
    return None if tensor._array is None else values_of(tensor)


def described(name: str, value: Any) -> list[str]:
    """One line for each tensor that an argument holds, or for a number."""
    if isinstance(value, (list, tuple)):
        return [
            line
            for number, entry in enumerate(value)
            if isinstance(entry, Tensor)
            for line in described(f"{name}[{number}]", entry)
        ]
    if isinstance(value, (bool, int, float, complex)):
        return [f"  {name} = {value}"]
    if not isinstance(value, Tensor):
        return []
    text = f"  {name}: {value._dtype} of shape {list(value.shape)}"
    array = visible_values(value)
    if array is None or not array.size:
        return [text]
    if value._dtype.is_complex:
        return [f"{text}, magnitudes {np.abs(array).min():g} to {np.abs(array).max():g}"]
    return [f"{text}, values {float(array.min()):g} to {float(array.max()):g}"]


# -- where ----------------------------------------------------------------------------------------


def user_line() -> str:
    """The innermost line of the stack that is not this package's own."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((PACKAGE, "<rushlight")):
            import linecache

            text = linecache.getline(name, frame.f_lineno).strip()
            place = f"{name}:{frame.f_lineno}, in {frame.f_code.co_name}"
            return f"{place}\n    {text}" if text else place
        frame = frame.f_back
    return ""


def module_path() -> str:
    """The modules whose calls are on the stack, as a path from the outermost one."""
    module_type: Any = ports.module_type
    if module_type is None:
        return ""
    running: list[Any] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is module_type.__call__.__code__:
            running.append(frame.f_locals["self"])
        frame = frame.f_back
    running.reverse()
    steps: list[str] = []
    for number, module in enumerate(running):
        class_name = type(module).__name__
        name = None if number == 0 else name_within(running[number - 1], module)
        if name is None:
            # A call of a module that is no part of the one around it.
            steps.append(f"{' -> ' if steps else ''}{class_name}")
        elif name:
            steps.append(f".{name}")
    inner = "" if len(steps) < 2 else f" ({type(running[-1]).__name__})"
    return "".join(steps) + inner


def name_within(outer: Any, module: Any) -> str | None:
    for name, candidate in outer.named_modules():
        if candidate is module:
            return str(name)
    return None
