"""Autocast in custom autograd functions: `custom_fwd` and `custom_bwd`."""

from __future__ import annotations

from functools import partial, wraps
from typing import Any

from rushlight.amp.autocasting import autocast, get_autocast_dtype, is_autocast_enabled
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor

__all__ = ["custom_bwd", "custom_fwd"]


def cast_tree(value: Any, device_type: str, dtype: Any) -> Any:
    """Floating point tensors in nests of sequences and dicts, cast; the rest as it is."""
    if isinstance(value, Tensor):
        eligible = (
            value._dtype.is_floating_point
            and value.device.type == device_type
            and value._dtype is not dtypes.float64
        )
        return value.to(dtype) if eligible else value  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {key: cast_tree(item, device_type, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [cast_tree(item, device_type, dtype) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def check_device(name: str, device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(
            f"Expected `device_type` of type `str`, got: `{type(device_type)}` in {name}"
        )


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """For `forward`: remember autocast's state; with `cast_inputs`, cast and run without it."""
    check_device("custom_fwd", device_type)
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        active = is_autocast_enabled(device_type)
        if cast_inputs is None or not active:
            ctx._fwd_used_autocast = active
            return fwd(ctx, *args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(device_type=device_type, enabled=False):
            return fwd(
                ctx,
                *cast_tree(args, device_type, cast_inputs),
                **cast_tree(kwargs, device_type, cast_inputs),
            )

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """For `backward`: run with the state that `custom_fwd` remembered."""
    check_device("custom_bwd", device_type)
    if bwd is None:
        return partial(custom_bwd, device_type=device_type)

    @wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type=device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return backward
