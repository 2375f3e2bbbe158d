"""Dispatch modes, function modes, and the switches that turn overrides off.

A mode stack is a tuple in `ThreadState`, innermost last; entering and leaving only exchange
tuples, so that a snapshot of the state stays valid. `core.dispatch` calls the innermost mode with
the stack shortened by it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rushlight.core import geometry
from rushlight.core.dispatch import disabled_torch_function
from rushlight.core.state import (
    LAYER_AUTOGRAD,
    LAYER_FUNCTION,
    LAYER_FUNCTION_MODES,
    LAYER_MODES,
    LAYER_SUBCLASS,
    LOCAL,
    USER_FUNCTION,
    USER_FUNCTION_MODES,
    Change,
    ThreadState,
)
from rushlight.core.tensor import (
    Tensor,
    disabled_torch_dispatch,
    sizes_of,
    storage_of,
    strides_of,
)

if TYPE_CHECKING:
    from rushlight.base.schema import AliasInfo
    from rushlight.core.op import OpOverload
    from rushlight.core.protocols import Args, Function, Kwargs, Sizes, Strides

__all__ = [
    "BaseTorchDispatchMode",
    "BaseTorchFunctionMode",
    "DisableTorchDispatch",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchDispatchMode",
    "TorchFunctionMode",
    "disable_current_modes",
    "enable_reentrant_dispatch",
    "get_current_dispatch_mode",
    "get_current_function_mode",
    "is_traceable_wrapper_subclass",
    "no_dispatch",
    "return_and_correct_aliasing",
    "transform_subclass",
]

F = TypeVar("F", bound=Callable[..., Any])

# torch: the names under which classes switch their overrides off.
disabled_torch_function_impl = disabled_torch_function
disabled_torch_dispatch_impl = disabled_torch_dispatch


class StateSwitch(Change):
    """Base of context managers that set bits of `ThreadState.excluded` or clear them."""

    excludes = 0
    admits = 0

    def fields(self, state: ThreadState) -> dict[str, Any]:
        return {"excluded": (state.excluded | self.excludes) & ~self.admits}

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return function(*args, **kwargs)

        return cast(F, inside)


class DisableTorchFunctionSubclass(StateSwitch):
    """`__torch_function__` of subclasses is not called inside; modes still are."""

    excludes = LAYER_FUNCTION | USER_FUNCTION


class EnableTorchFunctionSubclass(StateSwitch):
    """`__torch_function__` of subclasses is called inside again: for kernels over tensors."""

    admits = LAYER_FUNCTION | USER_FUNCTION


class DisableTorchFunction(StateSwitch):
    """Neither `__torch_function__` of subclasses nor function modes are called inside."""

    excludes = LAYER_FUNCTION | USER_FUNCTION | LAYER_FUNCTION_MODES | USER_FUNCTION_MODES


class DisableTorchDispatch(StateSwitch):
    """Neither dispatch modes nor `__torch_dispatch__` of subclasses are called inside."""

    excludes = LAYER_MODES | LAYER_SUBCLASS


no_dispatch = DisableTorchDispatch


class enable_reentrant_dispatch(StateSwitch):
    """Inside `__torch_dispatch__`: calls pass autograd again, as if made outside of it."""

    admits = LAYER_AUTOGRAD


# -- dispatch modes -------------------------------------------------------------------------------


def set_dispatch_modes(modes: tuple[Any, ...]) -> None:
    state = LOCAL.state
    state.dispatch_modes = modes
    state.refresh()


def set_pre_modes(modes: tuple[Any, ...]) -> None:
    state = LOCAL.state
    state.pre_modes = modes
    state.refresh()


def set_function_modes(modes: tuple[Any, ...]) -> None:
    state = LOCAL.state
    state.function_modes = modes
    state.refresh()


class TorchDispatchMode:
    """Sees every operator call made while it is active, below autograd.

    With `_dispatch_key=DispatchKey.PreDispatch` it stands above autograd and autocast, where
    composite operators are still whole.

    >>> import rushlight as torch
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     y = torch.ones(2)
    aten.ones.default
    """

    _dispatch_key: Any = None

    def __init__(self, _dispatch_key: object = None) -> None:
        if _dispatch_key is not None:
            self._dispatch_key = _dispatch_key

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Kwargs | None = None,
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        if is_pre_dispatch(self._dispatch_key):
            set_pre_modes((*LOCAL.state.pre_modes, self))
        else:
            set_dispatch_modes((*LOCAL.state.dispatch_modes, self))
        return self

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        if is_pre_dispatch(self._dispatch_key):
            set_pre_modes(LOCAL.state.pre_modes[:-1])
        else:
            set_dispatch_modes(LOCAL.state.dispatch_modes[:-1])

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        import warnings

        warnings.warn(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`",
            stacklevel=2,
        )
        return cls(*args, **kwargs)


def is_pre_dispatch(key: object) -> bool:
    """Whether a dispatch key names the layer above autograd."""
    return key is not None and str(getattr(key, "name", key)).rpartition(".")[2] == "PreDispatch"


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Kwargs | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def get_current_dispatch_mode() -> Any:
    modes = LOCAL.state.dispatch_modes
    return modes[-1] if modes else None


def get_current_dispatch_mode_stack() -> list[Any]:
    return list(LOCAL.state.dispatch_modes)


def len_torch_dispatch_stack() -> int:
    return len(LOCAL.state.dispatch_modes)


class disable_current_modes(Change):
    """No dispatch mode is active inside; gives the modes that were."""

    def fields(self, state: ThreadState) -> dict[str, Any]:
        return {"dispatch_modes": ()}

    def __enter__(self) -> list[Any]:
        modes = list(LOCAL.state.dispatch_modes)
        super().__enter__()
        return modes


class pop_mode_temporarily(Change):
    """The innermost dispatch mode is off inside; gives that mode."""

    def fields(self, state: ThreadState) -> dict[str, Any]:
        return {"dispatch_modes": state.dispatch_modes[:-1]}

    def __enter__(self) -> Any:
        innermost = LOCAL.state.dispatch_modes[-1]
        super().__enter__()
        return innermost


# -- function modes -------------------------------------------------------------------------------


class TorchFunctionMode:
    """Sees every public function and method called while it is active, before anything else."""

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self,
        func: Function,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Kwargs | None = None,
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        set_function_modes((*LOCAL.state.function_modes, self))
        return self

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        set_function_modes(LOCAL.state.function_modes[:-1])

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`"
        )


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self,
        func: Function,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Kwargs | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def get_current_function_mode() -> Any:
    modes = LOCAL.state.function_modes
    return modes[-1] if modes else None


def get_current_function_mode_stack() -> list[Any]:
    return list(LOCAL.state.function_modes)


def len_torch_function_stack() -> int:
    return len(LOCAL.state.function_modes)


class pop_function_mode_temporarily(Change):
    """The innermost function mode is off inside; gives that mode."""

    def fields(self, state: ThreadState) -> dict[str, Any]:
        return {"function_modes": state.function_modes[:-1]}

    def __enter__(self) -> Any:
        innermost = LOCAL.state.function_modes[-1]
        super().__enter__()
        return innermost


# -- wrapper subclasses ---------------------------------------------------------------------------


def is_traceable_wrapper_subclass_type(cls: type) -> bool:
    return (
        issubclass(cls, Tensor)
        and cls is not Tensor
        and hasattr(cls, "__tensor_flatten__")
        and hasattr(cls, "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass(value: object) -> bool:
    """Whether a tensor says how it is taken apart into plain tensors and put together again."""
    return isinstance(value, Tensor) and is_traceable_wrapper_subclass_type(type(value))


def transform_subclass(
    value: Tensor,
    callback: Callable[[str, Tensor], Tensor],
    outer_size: Sizes | None = None,
    outer_stride: Strides | None = None,
) -> Any:
    """The same wrapper around inner tensors that `callback(name, inner)` returns."""
    outer_size = value.size() if outer_size is None else outer_size
    outer_stride = value.stride() if outer_stride is None else outer_stride
    names, context = value.__tensor_flatten__()
    inner = {name: callback(name, getattr(value, name)) for name in names}
    cls: Any = type(value)
    made = cls.__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if not geometry.same_sizes(tuple(made.shape), tuple(outer_size)) or tuple(
        made.stride()
    ) != tuple(outer_stride):
        raise AssertionError(
            f"{type(value).__name__}.__tensor_unflatten__() gave a tensor of shape "
            f"{tuple(made.shape)} and strides {tuple(made.stride())}, expected shape "
            f"{tuple(outer_size)} and strides {tuple(outer_stride)}"
        )
    return made


def aliased_argument(op: OpOverload, alias: AliasInfo, args: Args, kwargs: Kwargs) -> Any:
    """The argument whose alias set a return's mark names."""
    for position, argument in enumerate(op._schema.arguments):
        found = argument.alias_info
        if found is not None and set(found.names) & set(alias.names):
            if not argument.kwarg_only and position < len(args):
                return args[position]
            return kwargs.get(argument.name)
    return None


def take_outer_geometry(wrapper: Tensor, moved: Tensor) -> None:
    """What an in-place view op does to a wrapper whose parts it has been applied to."""
    unusual = wrapper._unusual
    if moved is wrapper or unusual is None:
        return
    unusual = wrapper._unusual = unusual.copy()
    unusual.sizes, unusual.strides = sizes_of(moved), strides_of(moved)
    wrapper._offset = moved._offset


def return_and_correct_aliasing(
    func: OpOverload, args: Args, kwargs: Kwargs | None, out: Any
) -> Any:
    """What a `__torch_dispatch__` should return for `func`: results that alias as its schema says.

    Written arguments come back as the objects given; views share their source's storage.
    """
    returns = func._schema.returns
    if not returns:
        return out
    kwargs = kwargs or {}
    single = len(returns) == 1
    results = [out] if single else list(out)
    for number, entry in enumerate(returns):
        alias = entry.alias_info
        if alias is None:
            continue
        source = aliased_argument(func, alias, args, kwargs)
        if alias.is_write:
            if source is not None:
                moves = func.replayed_as is not None or func.options.get("manual")
                if moves and isinstance(source, Tensor):
                    take_outer_geometry(source, results[number])
                results[number] = source
            continue
        views = results[number] if isinstance(results[number], (list, tuple)) else [results[number]]
        for view in views:
            if isinstance(source, Tensor) and isinstance(view, Tensor):
                view._storage = storage_of(source)
    if single:
        return results[0]
    return type(out)(results) if not hasattr(out, "_fields") else type(out)(*results)
