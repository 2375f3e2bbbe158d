"""`custom_op`: a Python function turned into an operator.

The operator runs the function, and never as something that is recorded in its parts.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.core.op import Tag
from rushlight.core.tensor import Tensor, storage_of
from rushlight.library.gradients import autograd_kernel, no_formula
from rushlight.library.helpers import can_generate_trivial_fake_impl
from rushlight.library.registration import (
    Library,
    impl,
    key_of_device,
    parse_qualname,
    register_autocast,
    register_autograd,
    register_schema,
    register_torch_dispatch,
    register_vmap,
)
from rushlight.library.schemas import infer_schema
from rushlight.opset import custom
from rushlight.opset.kinds import tensors_in

__all__ = ["CustomOpDef", "custom_op", "register_kernel"]

PT2_COMPLIANT = Tag.pt2_compliant_tag
# "ns::name" -> the definition in force.
OPDEFS: dict[str, CustomOpDef] = {}


LOG = logging.getLogger("torch._library.custom_ops")


class CustomOpDef:
    """A function turned into an operator; call it like the function."""

    __module__ = "rushlight.library"

    def __init__(self, namespace: str, name: str, schema: str, fn: Any, tags: Any = None) -> None:
        self._namespace = namespace
        self._name = name
        self._schema = schema
        self._init_fn = fn
        before = OPDEFS.get(self._qualname)
        if before is not None:
            # Running a definition twice (in a notebook, say) replaces the operator.
            before._lib._destroy()
        self._lib: Library = Library(namespace, "FRAGMENT")
        listed = tags if isinstance(tags, (tuple, list)) else () if tags is None else (tags,)
        self._opoverload = register_schema(namespace, name + schema, (*listed, PT2_COMPLIANT))
        self._lib.entries.defined.append(self._opoverload)
        arguments = self._opoverload._schema.arguments
        if any([a.kwarg_only and a.type.is_tensor_like for a in arguments]):
            self._lib._destroy()
            # torch: the words.
            raise NotImplementedError(
                "custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. "
                f"Got: {name}{schema}"
            )
        OPDEFS[self._qualname] = self
        self._opoverload.options["definition"] = self
        self._opoverload.options["formula"] = autograd_kernel(
            self._opoverload, no_formula(self._opoverload), None
        )
        if can_generate_trivial_fake_impl(self._opoverload):
            self._lib.entries.install(self._opoverload, "Meta", lambda *args: None)
        # Device type (None: any) -> the function that computes the operator there.
        self.kernels: dict[str | None, Any] = {}
        self.disabled: set[str] = set()
        functools.update_wrapper(self, fn)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Inside, the kernel of a device type yields to the one that the operator was made from, or
        is back in force."""
        before = device_type in self.disabled
        action = "enable" if enabled else "disable"
        if device_type not in self.kernels:
            LOG.warning(
                "Attempted to %s kernel for %s but no kernel was registered for this device type.",
                *(action, device_type),
            )
        if before != enabled:
            LOG.warning("The kernel for %s is already %sd.", device_type, action)
        (self.disabled.discard if enabled else self.disabled.add)(device_type)
        try:
            yield
        finally:
            (self.disabled.add if before else self.disabled.discard)(device_type)

    def switched(self, device_type: str | None, function: Any) -> Any:
        """A kernel that yields to the function of the definition while it is disabled."""
        if function is self._init_fn or device_type is None:
            return function

        @functools.wraps(function)
        def kernel(*args: Any, **kwargs: Any) -> Any:
            chosen = self._init_fn if device_type in self.disabled else function
            return chosen(*args, **kwargs)

        return kernel

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Add a kernel for some device types (None: for all)."""

        def register(function: Any) -> Any:
            types = device_types
            for entry in (types,) if isinstance(types, str) or types is None else types:
                kernel = custom.with_keywords(
                    self._opoverload, checked(self._name, self.switched(entry, function))
                )
                self.kernels[entry] = function
                self._lib.entries.install(self._opoverload, key_of_device(entry), kernel)
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Any, /) -> Any:
        """Add what the operator does to tensors without values."""
        self._lib._register_fake(self._opoverload, fn)
        return fn

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Add the operator's gradient."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Any = None) -> Any:
        return register_vmap(self._opoverload, func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        register_autocast(self._opoverload, device_type, cast_inputs)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Any = None, /) -> Any:
        return register_torch_dispatch(self._opoverload, torch_dispatch_class, fn)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register a kernel for an operator on some device types."""
    if isinstance(op, CustomOpDef):
        return op.register_kernel(device_types, func)
    return impl(op, "default" if device_types is None else device_types, func, lib=lib)


ALIASES = (
    "{name} (with implementation in {module}): The output of this custom operator (1) must not "
    "also be an input to this custom operator and (2) may not alias any inputs to this custom "
    "operator or other returns. The most common way to trigger this error is if we have y = "
    "custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending "
    "output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not return y."
)


def checked(name: str, function: Any) -> Any:
    """A kernel whose results are refused when they share memory with an input or one another."""

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        given = (*args, *kwargs.values()) if kwargs else args
        seen = {memory_of(tensor) for tensor in tensors_in(given)}
        for tensor in tensors_in(result if isinstance(result, tuple) else (result,)):
            memory = memory_of(tensor)
            if memory in seen:
                raise RuntimeError(ALIASES.format(name=name, module=function.__module__))
            seen.add(memory)
        return result

    return kernel


def memory_of(tensor: Tensor) -> int:
    """Equal for tensors that share memory. Makes no storage object for a fresh result."""
    array = tensor._array
    if array is None:
        return id(storage_of(tensor))
    while array.base is not None:
        if not isinstance(array.base, np.ndarray):
            return id(array.base)
        array = array.base
    return id(array)


def custom_op(
    name: str,
    fn: Any = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Turn a function into an operator: its schema is read off its type annotations."""

    def register(function: Any) -> CustomOpDef:
        text = schema
        if text is None:
            text = infer_schema(function, mutates_args=mutates_args)
        namespace, base = parse_qualname(name)
        made = CustomOpDef(namespace, base, text, function, tags)
        if schema is not None:
            written = {a.name for a in made._opoverload._schema.arguments if a.is_write}
            expected = set() if mutates_args == "unknown" else set(mutates_args)
            if written != expected:
                raise ValueError(
                    f"Attempted to create a custom op with `mutates_args={mutates_args}` and "
                    f"`schema={schema}. The schema suggests that the op mutates {written}which is "
                    "different from what was provided to us in `mutates_args`. Please make these "
                    "consistent."
                )
        made.register_kernel(device_types)(function)
        return made

    return register if fn is None else register(fn)
