"""Forward mode through custom Functions: calls a Function's `jvp` and checks what it returns.

A tangent must stand to its value as in the forward: modified in place where the forward modified
an input, a view of the input's tangent where the forward returned a view of the input.
"""

from __future__ import annotations

from typing import Any

from rushlight.autograd.engine import with_user_code
from rushlight.autograd.forward import set_tangent, tangent_of
from rushlight.core import history
from rushlight.core.duals import lowered, owner_of
from rushlight.core.node import version_of
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = ["function_tangents"]


def function_tangents(
    cls: Any, ctx: Any, args: tuple[Any, ...], outputs: tuple[Any, ...], results: list[Any]
) -> None:
    """Give a Function's results their tangents; `outputs` are forward's own, before wrapping."""
    level = next((owner for value in args if (owner := owner_of(value)) is not None), None)
    tangents = [tangent_of(value) for value in args]
    if all([tangent is None for tangent in tangents]):
        return
    given = [
        zero_tangent(value) if tangent is None and ctx.materialize_grads else tangent
        for value, tangent in zip(args, tangents, strict=True)
    ]
    if level is not None:
        # Like what the rule reads from ctx: it may write to a tangent where forward writes.
        given = [level.captured(value) if isinstance(value, Tensor) else value for value in given]
    versions = [None if tangent is None else version_of(tangent) for tangent in tangents]
    state = LOCAL.state
    enabled = state.forward_enabled
    if level is None:
        state.forward_enabled = False
    else:
        level.is_pushing = False
    try:
        returned = with_user_code(state, cls.jvp, ctx, *given)
        if not isinstance(returned, tuple):
            returned = (returned,)
        if level is not None:
            returned = tuple([level.lower(value) for value in returned])
        if len(returned) != len(outputs):
            raise RuntimeError(
                "Function's jvp returned an invalid number of forward gradients (expected "
                f"{len(outputs)} but got {len(returned)})"
            )
        dirty = {id(value) for value in ctx.dirty_tensors or ()}
        opaque = {id(value) for value in ctx.non_differentiable or ()}
        for number, (output, result) in enumerate(zip(outputs, results, strict=True)):
            tangent = returned[number]
            if not isinstance(output, Tensor) or (
                id(output) in opaque or not history.is_differentiable(output)
            ):
                if tangent is not None:
                    raise RuntimeError(
                        f"Function's jvp returned a Tensor at position {number}, but the "
                        "corresponding forward output is not a differentiable Tensor. You should "
                        "return None at that position instead."
                    )
                continue
            if id(output) in dirty:
                position = [id(value) for value in args].index(id(output))
                keep_written(result, tangent, tangents[position], versions[position])
            else:
                keep_view(result, tangent, args, tangents)
    finally:
        state.forward_enabled = enabled
        if level is not None:
            level.is_pushing = True


def zero_tangent(value: Any) -> Any:
    if not isinstance(value, Tensor) or not history.is_differentiable(value):
        return None
    return functions.zeros_like(lowered(value))


def keep_written(result: Any, tangent: Any, old: Any, version: int | None) -> None:
    """The tangent of an input that forward modified in place."""
    if old is None:
        if tangent is not None:
            set_tangent(result, tangent)
        return
    if tangent is not old or version_of(tangent) == version:
        raise RuntimeError(
            "An inplace custom Function is not modifying the forward mode gradients inplace. If "
            "the forward is modifying an input inplace, then the jvp function must modify the "
            "corresponding gradient inplace."
        )


def keep_view(result: Any, tangent: Any, args: tuple[Any, ...], tangents: list[Any]) -> None:
    """The tangent of any other output."""
    view = result._view
    if view is not None:
        for value, old in zip(args, tangents, strict=True):
            if not isinstance(value, Tensor) or old is None:
                continue
            if view.base is not (value if value._view is None else value._view.base):
                continue
            if tangent is None or tangent._view is None:
                raise RuntimeError(
                    "A custom Function's forward is returning a view (or an input as-is) but the "
                    "jvp is not returning a view."
                )
            if old._view is None and tangent._view.base is not old:
                raise RuntimeError(
                    "A custom Function is returning a view but the jvp is not returning a view of "
                    "the given grad input."
                )
            if old._view is not None and tangent._view.base is not old._view.base:
                raise RuntimeError(
                    "A custom Function is returning a view but the jvp is not returning a view of "
                    "the same base as the given grad input."
                )
            break
    if tangent is not None:
        set_tangent(result, tangent)
