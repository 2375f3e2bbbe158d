"""`autocast`: ops run in the precision that suits them while a block is active.

`ThreadState.autocast` holds a `Caster` while CPU autocast is on. The dispatcher asks it about each
op on its way down. The fact `autocast` of an op says how it casts operands: "lower" where low
precision is fast and robust (products), "float32" where it loses too much, "widest" where operands
must meet. Such an op runs with autocast off below it, composites as a whole. Casts are ordinary
ops, so gradients come back in the original dtype.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core.device import device as make_device
from rushlight.core.promotion import promote_types
from rushlight.core.state import (
    LAYER_AUTOCAST,
    LAYER_PRE_PROXY,
    LOCAL,
    PROCESS,
    Change,
    ThreadState,
)
from rushlight.core.tensor import Tensor

__all__ = ["Caster", "DisableAutocast", "autocast"]

CPU_DTYPES = (dtypes.bfloat16, dtypes.float16)


class Caster:
    """Casts operands to `dtype`, float32 or their widest dtype, as ops ask for."""

    __slots__ = ("cache", "caches", "dtype")

    def __init__(self, dtype: Any, caches: bool, cache: dict[int, Any]) -> None:
        self.dtype = dtype
        self.caches = caches
        # id of a parameter -> (the parameter, its cast); shared by nested blocks.
        self.cache = cache

    def cast(self, op: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The operands in the precision for this op; None when it asks for none."""
        if op.out_positions:
            return None
        own = op.options.get("autocast_dtypes", {}).get("cpu")
        if own is not None:
            return tuple([self.converted(value, own) for value in args])
        wanted = op.options.get("autocast")
        if wanted is None:
            return None
        if wanted == "lower":
            target = self.dtype
        elif wanted == "float32":
            target = dtypes.float32
        else:
            target = widest(args, self.dtype)
        return tuple([self.converted(value, target) for value in args])

    def converted(self, value: Any, target: Any) -> Any:
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
            return [self.converted(item, target) for item in value]
        if not isinstance(value, Tensor) or not is_eligible(value) or value._dtype is target:
            return value
        if not (
            self.caches
            and value._dtype is dtypes.float32
            and target is self.dtype
            and value.requires_grad
            and value.is_leaf
            and value._view is None
        ):
            return value.to(target)  # type: ignore[attr-defined]
        found = self.cache.get(id(value))
        if found is None:
            found = self.cache[id(value)] = (value, value.to(target))  # type: ignore[attr-defined]
        return found[1]


def is_eligible(value: Tensor) -> bool:
    dtype = value._dtype
    return dtype.is_floating_point and dtype is not dtypes.float64 and value.device.type == "cpu"


def widest(args: tuple[Any, ...], lower: Any) -> Any:
    found = lower
    for value in args:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, Tensor) and item._dtype.is_floating_point:
                found = promote_types(found, item._dtype)
    return found


class Choices(threading.local):
    """What a thread has chosen beside the caster itself."""

    def __init__(self) -> None:
        self.dtypes: dict[str, Any] = {}
        self.caches = True
        self.nesting = 0
        self.cache: dict[int, Any] = {}
        # Devices without kernels: their flag can be set and read, nothing more.
        self.enabled: dict[str, bool] = {}


CHOICES = Choices()


@contextmanager
def uncached() -> Iterator[None]:
    """Inside, no block keeps casts unless it asks to: a graph is not to tie its calls together."""
    before = CHOICES.caches
    CHOICES.caches = False
    try:
        yield
    finally:
        CHOICES.caches = before


def device_name(device_type: str) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return str(make_device(device_type).type)


def is_autocast_available(device_type: str) -> bool:
    """Whether a device type has autocast at all."""
    return device_name(device_type) in ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "xla")


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    name = device_name(device_type)
    if name == "cpu":
        return LOCAL.state.autocast is not None and not LOCAL.state.excluded & LAYER_AUTOCAST
    return CHOICES.enabled.get(name, False)


def set_autocast_enabled(device_type: Any, enabled: Any = None) -> None:
    """Switch autocast for a device type; the older form with one argument means CUDA."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    name = device_name(device_type)
    if name != "cpu":
        CHOICES.enabled[name] = bool(enabled)
        return
    state = LOCAL.state
    state.autocast = new_caster() if enabled else None
    state.refresh()


def new_caster() -> Caster:
    return Caster(get_autocast_dtype("cpu"), CHOICES.caches, CHOICES.cache)


def get_autocast_dtype(device_type: str) -> Any:
    name = device_name(device_type)
    default = dtypes.float16 if name in ("cuda", "mps", "ipu") else dtypes.bfloat16
    return CHOICES.dtypes.get(name, default)


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    name = device_name(device_type)
    CHOICES.dtypes[name] = dtype
    if name == "cpu" and LOCAL.state.autocast is not None:
        LOCAL.state.autocast = new_caster()


def is_autocast_cpu_enabled() -> bool:
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Any:
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Any:
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    set_autocast_dtype("cuda", dtype)


# torch: devices that had functions of their own.
get_autocast_ipu_dtype = partial(get_autocast_dtype, "ipu")
get_autocast_xla_dtype = partial(get_autocast_dtype, "xla")
is_autocast_ipu_enabled = partial(is_autocast_enabled, "ipu")
is_autocast_xla_enabled = partial(is_autocast_enabled, "xla")
set_autocast_ipu_dtype = partial(set_autocast_dtype, "ipu")
set_autocast_xla_dtype = partial(set_autocast_dtype, "xla")
set_autocast_ipu_enabled = partial(set_autocast_enabled, "ipu")
set_autocast_xla_enabled = partial(set_autocast_enabled, "xla")


def is_autocast_cache_enabled() -> bool:
    return CHOICES.caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    CHOICES.caches = bool(enabled)
    if LOCAL.state.autocast is not None:
        LOCAL.state.autocast = new_caster()


def clear_autocast_cache() -> None:
    """Forget cast parameters."""
    CHOICES.cache.clear()


def autocast_increment_nesting() -> int:
    CHOICES.nesting += 1
    return CHOICES.nesting


def autocast_decrement_nesting() -> int:
    CHOICES.nesting -= 1
    return CHOICES.nesting


def autocast_decorator(autocast_instance: Any, func: Any) -> Any:
    """A function that runs within an `autocast`."""

    @wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


class autocast:
    """Runs products in low precision and delicate ops in float32, for a block or a function.

    >>> import rushlight as torch
    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     (x @ x).dtype
    torch.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = device_name(device_type)
        if not is_autocast_available(self.device):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{self.device}'"
            )
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = CHOICES.caches if cache_enabled is None else cache_enabled
        if enabled and self.device != "cpu":
            warnings.warn(
                f"User provided device_type of '{self.device}', but {self.device.upper()} is not "
                "available. Disabling",
                stacklevel=2,
            )
            enabled = False
        if enabled and self.fast_dtype not in CPU_DTYPES:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled

    def __enter__(self) -> autocast:
        # Kept by the thread: several may use this object at once.
        before = is_autocast_enabled(self.device), get_autocast_dtype(self.device), CHOICES.caches
        LOCAL.state.entered.append((self, (*before, self.note_entry())))
        CHOICES.caches = self._cache_enabled
        set_autocast_dtype(self.device, self.fast_dtype)
        set_autocast_enabled(self.device, self._enabled)
        autocast_increment_nesting()
        return self

    def __exit__(self, *details: Any) -> bool:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        enabled, dtype, CHOICES.caches, note = LOCAL.state.leave(self)
        set_autocast_dtype(self.device, dtype)
        set_autocast_enabled(self.device, enabled)
        if note is not None:
            recorder, node = note
            recorder.note_switch(exit_autocast, node)
        return False

    def note_entry(self) -> Any:
        """Tell a recorder that sits above autocast; the recorder and its node, None without."""
        state = LOCAL.state
        if not PROCESS.special or state.pre_proxy is None or state.excluded & LAYER_PRE_PROXY:
            return None
        chosen = self.device, self.fast_dtype, self._enabled, self._cache_enabled
        node = state.pre_proxy.note_switch(enter_autocast, *chosen)
        return None if node is None else (state.pre_proxy, node)

    def __call__(self, function: Any) -> Any:
        @wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return within


def enter_autocast(*chosen: Any) -> autocast:
    """Enter an `autocast` of these arguments, as graphs do."""
    return autocast(*chosen).__enter__()


def exit_autocast(mode: autocast) -> None:
    """Leave what `enter_autocast` gave."""
    mode.__exit__(None, None, None)


class DisableAutocast(Change):
    """Switches autocast off for a block, on every device."""

    def fields(self, state: ThreadState) -> dict[str, Any]:
        return {"excluded": state.excluded | LAYER_AUTOCAST}
