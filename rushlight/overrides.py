"""torch.overrides: the protocol by which classes and modes take over function calls."""

from __future__ import annotations

import functools
from typing import Any

from rushlight.core import dispatch
from rushlight.core.modes import (
    BaseTorchFunctionMode,
    TorchFunctionMode,
    enable_reentrant_dispatch,
)
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.state import LAYER_FUNCTION, LAYER_FUNCTION_MODES, LOCAL
from rushlight.core.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_torch_function",
    "resolve_name",
    "wrap_torch_function",
]


def modes_active() -> bool:
    state = LOCAL.state
    return bool(state.function_modes and not state.excluded & LAYER_FUNCTION_MODES)


def overriding(values: Any) -> list[Any]:
    """The values whose class overrides functions, or nothing where overrides are off."""
    if LOCAL.state.excluded & LAYER_FUNCTION:
        return []
    return dispatch.overriding(tuple(values), {})


def has_torch_function(relevant_args: Any) -> bool:
    """Whether a call with these arguments must be offered to an override."""
    if not hasattr(relevant_args, "__iter__"):
        raise TypeError("expected a sequence")
    return modes_active() or bool(overriding(relevant_args))


def has_torch_function_unary(arg: Any) -> bool:
    return modes_active() or bool(overriding((arg,)))


def has_torch_function_variadic(*args: Any) -> bool:
    return modes_active() or bool(overriding(args))


def handle_torch_function(public_api: Any, relevant_args: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Give a call to the active mode, or else to the overrides of `relevant_args`."""
    state = LOCAL.state
    if modes_active():
        return dispatch.call_function_mode(state, public_api, args, kwargs)
    found = overriding(relevant_args)
    types = tuple(type(value) for value in found)
    for value in found:
        result = value.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{getattr(public_api, '__module__', '')}.{getattr(public_api, '__name__', public_api)}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{[cls.__name__ for cls in types]}"
    )


def redispatch_torch_function(public_api: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Run a function with the overrides of subclasses off."""
    from rushlight.core.modes import DisableTorchFunctionSubclass

    with DisableTorchFunctionSubclass():
        return public_api(*args, **(kwargs or {}))


def wrap_torch_function(dispatcher: Any) -> Any:
    """Decorate a function so that `dispatcher(*args)` names the arguments that may override it."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a Tensor or overrides functions as one."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def tensor_members() -> dict[Any, str]:
    """Every method of Tensor and the getter and setter of every property, with their names."""
    found: dict[Any, str] = {}
    for cls in Tensor.__mro__:
        for name in vars(cls):
            member = getattr(Tensor, name)
            if isinstance(member, property):
                if member.fget is not None:
                    found[member.fget] = f"torch.Tensor.{name}.__get__"
                if member.fset is not None:
                    found[member.fset] = f"torch.Tensor.{name}.__set__"
            elif callable(member):
                try:
                    found[member] = f"torch.Tensor.{name}"
                except TypeError:
                    continue
    return found


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether `func`, as handed to `__torch_function__`, belongs to the Tensor class."""
    return func in tensor_members() or getattr(func, "__name__", "") == "__get__"


def resolve_name(f: Any) -> str | None:
    """The dotted name under which a function is public, or None."""
    if isinstance(f, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{f}"
    found = tensor_members().get(f)
    if found is not None:
        return found
    import rushlight

    name = getattr(f, "__name__", None)
    if name is not None and getattr(rushlight, name, None) is f:
        return f"torch.{name}"
    return None


def get_testing_overrides() -> dict[Any, Any]:
    """A function of the same name for every overridable function; each answers -1."""
    import rushlight
    from rushlight.opset import families, registry

    families.load_all()
    found: dict[Any, Any] = {}
    for name in list(registry.PACKETS["aten"]):
        if name.startswith("_"):
            continue
        public = getattr(rushlight, name, None)
        for function in (public, getattr(Tensor, name, None)):
            if callable(function):
                found[function] = functools.partial(minus_one)
    return found


def minus_one(*args: Any, **kwargs: Any) -> int:
    return -1


def get_overridable_functions() -> dict[Any, list[Any]]:
    """The overridable functions by the namespace that holds them."""
    import rushlight

    methods = set(tensor_members())
    table: dict[Any, list[Any]] = {rushlight: [], Tensor: []}
    for function in get_testing_overrides():
        table[Tensor if function in methods else rushlight].append(function)
    return table


def get_ignored_functions() -> set[Any]:
    """Public functions that are never offered to overrides."""
    import rushlight

    names = "is_tensor set_default_dtype get_default_dtype is_grad_enabled set_grad_enabled no_grad"
    return {getattr(rushlight, name) for name in names.split()}


def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results the default `__torch_function__` leaves as plain tensors."""
    from rushlight.core.tensor import KEEPS_BASE_TYPE

    return KEEPS_BASE_TYPE
