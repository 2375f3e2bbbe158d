"""`Module`: parameters, buffers, submodules, hooks and state dicts.

Registration goes through `__setattr__`; parameters, buffers and modules live in their own tables
and are found through `__getattr__`, so that ordinary attributes stay ordinary.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.base.naming import typename
from rushlight.core import ports
from rushlight.core.binding import as_dtype
from rushlight.core.device import device, memory_format
from rushlight.core.dtype import dtype
from rushlight.core.hooks import HookDict, OwnedHook, RemovableHandle
from rushlight.core.parameter import Parameter, clear_gradient
from rushlight.core.tensor import Tensor, TensorType, set_requires_grad
from rushlight.nn.conversion import convert_parameters
from rushlight.nn.loading import _IncompatibleKeys, load_tree, load_value
from rushlight.nn.registration import (
    BUFFER_HOOKS,
    MODULE_HOOKS,
    PARAMETER_HOOKS,
    passed_by,
)
from rushlight.opset import functions

__all__ = [
    "Buffer",
    "Module",
    "register_module_backward_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]  # fmt: skip

EXTRA_STATE = "_extra_state"
TABLES = ("_parameters", "_buffers", "_modules")


class BufferType(TensorType):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=BufferType):
    """A tensor that becomes a buffer of the module it is assigned to: `self.x = Buffer(tensor)`."""

    __slots__ = ()

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = functions.empty((0,))
        made = data.detach()
        set_requires_grad(made, data.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


GLOBAL_FORWARD_HOOKS: HookDict = HookDict()
GLOBAL_FORWARD_PRE_HOOKS: HookDict = HookDict()
GLOBAL_BACKWARD_HOOKS: HookDict = HookDict()
GLOBAL_BACKWARD_PRE_HOOKS: HookDict = HookDict()
GLOBAL_OLDER_HOOKS: HookDict = HookDict()
# Numbers of global forward hooks, as the tables of modules have them.
GLOBAL_HOOKS_WITH_KWARGS: HookDict = HookDict()
GLOBAL_HOOKS_ALWAYS_CALLED: HookDict = HookDict()


def called_by_own(self: Module, *args: Any, **kwargs: Any) -> Any:
    """A call of a class that has a `_call_impl` of its own."""
    compiled = self.__dict__.get("_compiled_call_impl")
    return (self._call_impl if compiled is None else compiled)(*args, **kwargs)


class Module:
    """Base class of all neural network modules.

    >>> import rushlight as torch
    >>> class Double(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> Double()(torch.ones(2))
    tensor([2., 2.])
    """

    dump_patches = False
    _version = 1
    training: bool
    call_super_init = False
    # No annotation: libraries read those of their modules where torch has this class.
    _compiled_call_impl = None  # type: Callable[..., Any] | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            name = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'")
            raise TypeError(f"{name} takes 1 positional argument but {len(args) + 1} were given")
        put = object.__setattr__
        put(self, "training", True)
        put(self, "_parameters", {})
        put(self, "_buffers", {})
        put(self, "_non_persistent_buffers_set", set())
        put(self, "_modules", {})
        put(self, "_is_full_backward_hook", None)
        for name in HOOK_TABLES:
            put(self, name, HookDict())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # -- registration ---------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Any) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        check_name(self, name, "parameter", self._parameters)
        if param is None:
            self._parameters[name] = None
        elif not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        elif param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        else:
            if PARAMETER_HOOKS:
                param = passed_by(PARAMETER_HOOKS, self, name, param)
            self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        check_name(self, name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor "
                "or None required)"
            )
        if BUFFER_HOOKS:
            tensor = passed_by(BUFFER_HOOKS, self, name, tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_module(self, name: str, module: Any) -> None:
        self.add_module(name, module)

    def add_module(self, name: str, module: Any) -> None:
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        check_name(self, name, "module", self._modules)
        if MODULE_HOOKS:
            module = passed_by(MODULE_HOOKS, self, name, module)
        self._modules[name] = module

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        for table in TABLES:
            found = fields.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        parameters = fields.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            forget(fields, name, ("_buffers", "_modules"))
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            parameters[name] = None
        elif isinstance(value, Module):
            if fields.get("_modules") is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            forget(fields, name, ("_parameters", "_buffers"))
            if MODULE_HOOKS:
                value = passed_by(MODULE_HOOKS, self, name, value)
            fields["_modules"][name] = value
        elif name in (fields.get("_modules") or ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            fields["_modules"][name] = None
        elif isinstance(value, Buffer):
            # torch: methods of subclasses may not know of buffers that are not kept.
            self.register_buffer(name, value, *(() if value.persistent else (False,)))
        elif name in (fields.get("_buffers") or ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, "
                    "torch.Tensor or None expected)"
                )
            if BUFFER_HOOKS:
                value = passed_by(BUFFER_HOOKS, self, name, value)
            fields["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for table in TABLES:
            found = self.__dict__.get(table)
            if found is not None and name in found:
                del found[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        for table in TABLES:
            names.update(self.__dict__.get(table, ()))
        return sorted(name for name in names if not name[:1].isdigit())

    # -- calling ----------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_call_impl" in cls.__dict__ and "__call__" not in cls.__dict__:
            # Calls go past `_call_impl` where there are no hooks; not past one of the user's.
            cls.__call__ = called_by_own  # type: ignore[method-assign]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fields = self.__dict__
        if not (
            fields["_forward_hooks"]
            or fields["_forward_pre_hooks"]
            or fields["_backward_hooks"]
            or fields["_backward_pre_hooks"]
            or GLOBAL_FORWARD_HOOKS
            or GLOBAL_FORWARD_PRE_HOOKS
            or GLOBAL_BACKWARD_HOOKS
            or GLOBAL_BACKWARD_PRE_HOOKS
            or GLOBAL_OLDER_HOOKS
            or "_compiled_call_impl" in fields
        ):
            return self.forward(*args, **kwargs)
        compiled = fields.get("_compiled_call_impl")
        return (self._call_impl if compiled is None else compiled)(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """A call that is not compiled."""
        from rushlight.nn.hooks import call_with_hooks

        return call_with_hooks(self, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile calls of this module, hooks and all; arguments are those of `torch.compile`.

        >>> import rushlight as torch
        >>> layer = torch.nn.Linear(2, 2)
        >>> layer.compile(backend="eager")
        >>> layer(torch.ones(2)).shape
        torch.Size([2])
        """
        import rushlight

        compiled = rushlight.compile(call_plainly, *args, **kwargs)
        self.__dict__["_compiled_call_impl"] = functools.partial(compiled, self)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled code belongs to this object.
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        handle = add(self._forward_pre_hooks, hook, prepend, self._forward_pre_hooks_with_kwargs)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        handle = add(
            self._forward_hooks,
            hook,
            prepend,
            [self._forward_hooks_with_kwargs, self._forward_hooks_always_called],
        )
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        self._choose_backward_hooks(full=True)
        return add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """torch: the older form; it sees the gradients of the last node of `forward` only."""
        self._choose_backward_hooks(full=False)
        return add(self._backward_hooks, hook, False)

    def _choose_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self._is_full_backward_hook = full

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        return add(self._backward_pre_hooks, hook, prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add(self._state_dict_pre_hooks, hook, False)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add(self._state_dict_hooks, functools.partial(without_result, hook), False)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add(self._state_dict_hooks, hook, False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add(self._load_state_dict_pre_hooks, OwnedHook(hook, self), False)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return add(
            self._load_state_dict_pre_hooks,
            OwnedHook(hook, self) if with_module else hook,
            False,
        )

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add(self._load_state_dict_post_hooks, hook, False)

    # -- walking ----------------------------------------------------------------------------------

    def named_modules(
        self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        owners = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for owner_name, module in owners:
            for name, value in getattr(module, table).items():
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (f"{owner_name}.{name}" if owner_name else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        for _, value in self.named_parameters(recurse=recurse):
            yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, value in self.named_buffers(recurse=recurse):
            yield value

    def get_submodule(self, target: str) -> Module:
        module: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        found: Module = module
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module in the place that a dotted name means; `strict` only replaces."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            parent.get_submodule(name)
        setattr(parent, name, module)

    def _found(self, target: str) -> tuple[Module, str, Any]:
        """(owner, name, value) of a dotted name."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        return module, name, getattr(module, name)

    def get_parameter(self, target: str) -> Parameter:
        _, name, value = self._found(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        module, name, value = self._found(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        found: Tensor = value
        return found

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- changing ----------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                else:
                    clear_gradient(parameter.grad)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Module:
        if recurse:
            for module in self.children():
                module._apply(fn)
        convert_parameters(self._parameters, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        place, dtype, layout = conversion(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature: some of them may not work as they should with "
                "complex parameters.",
                stacklevel=2,
            )

        def convert(value: Any) -> Any:
            if value.is_meta and place is not None and place.type != "meta":
                # torch: the words.
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use "
                    "torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                    "from meta to a different device."
                )
            fits = value.is_floating_point() or value.is_complex()
            own_layout = layout if value.dim() in (4, 5) else None
            return value.to(device=place, dtype=dtype if fits else None, memory_format=own_layout)

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Module:
        """Parameters and buffers on a device, with values that are not set."""
        return self._apply(lambda value: functions.empty_like(value, device=device), recurse)

    def type(self, dst_type: Any) -> Module:
        return self._apply(lambda value: value.type(dst_type))

    def float(self) -> Module:
        return self._apply(lambda value: value.float() if value.is_floating_point() else value)

    def double(self) -> Module:
        return self._apply(lambda value: value.double() if value.is_floating_point() else value)

    def half(self) -> Module:
        return self._apply(lambda value: value.half() if value.is_floating_point() else value)

    def bfloat16(self) -> Module:
        return self._apply(lambda value: value.bfloat16() if value.is_floating_point() else value)

    def cpu(self) -> Module:
        return self._apply(lambda value: value.cpu())

    def cuda(self, device: Any = None) -> Module:
        return self._apply(lambda value: value.cuda(device))

    def share_memory(self) -> Module:
        return self._apply(lambda value: value.share_memory_())

    # -- state -------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self._parameters.items():
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by name.

        >>> import rushlight as torch
        >>> sorted(torch.nn.Linear(2, 1).state_dict())
        ['bias', 'weight']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 else prefix
            keep_vars = args[2] if len(args) > 2 else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local)
            if result is not None:
                destination = result
        return destination

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        owned = {
            name: value
            for name, value in [*self._parameters.items(), *self._buffers.items()]
            if value is not None and name not in self._non_persistent_buffers_set
        }
        for name, own in owned.items():
            key = prefix + name
            if key in state_dict:
                load_value(self, name, own, state_dict[key], key, assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        takes_extra = type(self).set_extra_state is not Module.set_extra_state
        if takes_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif takes_extra and strict:
            missing_keys.append(extra)
        if not strict:
            return
        for key in state_dict:
            if not key.startswith(prefix) or (key == extra and takes_extra):
                continue
            first, dot, _ = key[len(prefix) :].partition(".")
            if first not in (self._modules if dot else owned):
                unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        if not hasattr(state_dict, "keys"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None) or {}
        found = _IncompatibleKeys(missing, unexpected)
        load_tree(self, OrderedDict(state_dict), "", metadata, assign, found, errors)
        if strict:
            if unexpected:
                shown = ", ".join(f'"{key}"' for key in unexpected)
                errors.insert(0, f"Unexpected key(s) in state_dict: {shown}. ")
            if missing:
                shown = ", ".join(f'"{key}"' for key in missing)
                errors.insert(0, f"Missing key(s) in state_dict: {shown}. ")
        if errors:
            joined = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{joined}"
            )
        return found

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        for name in HOOK_TABLES:
            self.__dict__.setdefault(name, HookDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # -- printing ----------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
        ]
        if not children and len(extra_lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(extra_lines + children) + "\n)"


ports.fill(module_type=Module)

HOOK_TABLES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def forget(fields: dict[str, Any], name: str, tables: tuple[str, ...]) -> None:
    fields.pop(name, None)
    for table in tables:
        fields.get(table, {}).pop(name, None)
    fields.get("_non_persistent_buffers_set", set()).discard(name)


def check_name(module: Module, name: Any, what: str, table: dict[str, Any]) -> None:
    if "_parameters" not in module.__dict__:
        raise AttributeError(f"cannot assign {what} before Module.__init__() call")
    if not isinstance(name, str):
        raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
    if "." in name:
        # torch: only a module's message repeats the name.
        shown = f", got: {name}" if what == "module" else ""
        raise KeyError(f'{what} name can\'t contain "."{shown}')
    if name == "":
        raise KeyError(f'{what} name can\'t be empty string ""')
    if hasattr(module, name) and name not in table:
        raise KeyError(f"attribute '{name}' already exists")


def add(table: HookDict, hook: Any, prepend: bool, extra: Any = None) -> RemovableHandle:
    handle = RemovableHandle(table, extra_dict=extra)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def without_result(hook: Any, *args: Any) -> None:
    if hook(*args) is not None:
        raise RuntimeError("state_dict post-hook must return None")


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook before the `forward` of every module."""
    return add(GLOBAL_FORWARD_PRE_HOOKS, hook, False)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call a hook after the `forward` of every module, with its keyword arguments and after a
    failure too where that is asked for."""
    marks = [GLOBAL_HOOKS_WITH_KWARGS] * with_kwargs + [GLOBAL_HOOKS_ALWAYS_CALLED] * always_call
    handle = RemovableHandle(GLOBAL_FORWARD_HOOKS, extra_dict=marks)
    GLOBAL_FORWARD_HOOKS[handle.id] = hook
    for marked in marks:
        marked[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook with the gradients of every module's outputs."""
    return add(GLOBAL_BACKWARD_PRE_HOOKS, hook, False)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook with the gradients of every module's inputs and outputs."""
    if GLOBAL_OLDER_HOOKS:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    return add(GLOBAL_BACKWARD_HOOKS, hook, False)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """torch: the older form; it sees the gradients of the last node of every `forward`."""
    if GLOBAL_BACKWARD_HOOKS:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    return add(GLOBAL_OLDER_HOOKS, hook, False)


def conversion(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(device, dtype, memory format) that arguments of `Module.to` ask for."""
    first = args[0] if args else None
    order = ["device", "dtype", "non_blocking", "copy"]
    if isinstance(first, Tensor) or (not args and "tensor" in kwargs):
        order[:2] = ["tensor"]
    elif isinstance(first, (dtype, type)):
        order[:1] = []
    given = dict(zip(order, args, strict=False))
    if len(args) > len(order) or given.keys() & kwargs.keys():
        raise wrong_conversion(args, kwargs)
    given.update(kwargs)
    if given.keys() - {*order, "memory_format"}:
        raise wrong_conversion(args, kwargs)
    if "copy" in given:
        raise RuntimeError(
            ".to() does not accept copy argument: modules change in place. Use copy.deepcopy first."
        )
    layout = given.get("memory_format")
    known_layout = layout is None or isinstance(layout, memory_format)
    if not known_layout or not isinstance(given.get("non_blocking", False), bool):
        raise wrong_conversion(args, kwargs)
    if "tensor" in given:
        return given["tensor"].device, given["tensor"].dtype, layout
    place, target_dtype = given.get("device"), given.get("dtype")
    try:
        target_dtype = None if target_dtype is None else as_dtype(target_dtype)
    except TypeError:
        raise wrong_conversion(args, kwargs) from None
    return None if place is None else device(place), target_dtype, layout


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, whether not to wait, memory format) that arguments of `Module.to` ask for."""
    place, target_dtype, layout = conversion(args, kwargs)
    flags = [value for value in args if type(value) is bool]
    return place, target_dtype, kwargs.get("non_blocking", any(flags)), layout


def wrong_conversion(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    shown = [type(value).__name__ for value in args]
    shown += [f"{name}={type(value).__name__}" for name, value in kwargs.items()]
    return TypeError(
        f"to() received an invalid combination of arguments - got ({', '.join(shown)}), but "
        "expected one of (device, dtype, non_blocking), (dtype, non_blocking) or "
        "(tensor, non_blocking), each with memory_format by name"
    )


def call_plainly(module: Module, *args: Any, **kwargs: Any) -> Any:
    return module._call_impl(*args, **kwargs)
