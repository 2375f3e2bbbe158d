"""Calling a module that has hooks: forward pre/post hooks and full backward hooks.

A full backward hook sees gradients through two identity Functions around the module: one on its
inputs, one on its outputs.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import is_grad_enabled
from rushlight.core.state import active_tracer
from rushlight.core.tensor import Tensor
from rushlight.nn.module import (
    GLOBAL_BACKWARD_HOOKS,
    GLOBAL_BACKWARD_PRE_HOOKS,
    GLOBAL_FORWARD_HOOKS,
    GLOBAL_FORWARD_PRE_HOOKS,
    GLOBAL_HOOKS_ALWAYS_CALLED,
    GLOBAL_HOOKS_WITH_KWARGS,
    GLOBAL_OLDER_HOOKS,
)

__all__ = ["call_with_hooks"]


class BackwardHookFunction(Function):
    """Identity on tensors; its node is where module hooks attach."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


def through_identity(values: Any, attach: Any) -> Any:
    """Pass the tensors among `values` through one node and let `attach` register on it."""
    is_single = not isinstance(values, tuple)
    items = [values] if is_single else list(values)
    places = [i for i, v in enumerate(items) if isinstance(v, Tensor)]
    if not any(items[i].requires_grad for i in places):
        return values
    if not is_grad_enabled():
        return values
    passed = BackwardHookFunction.apply(*[items[i] for i in places])
    node = next(t.grad_fn for t in passed if t.grad_fn is not None)
    attach(node, places, len(items))
    for place, value in zip(places, passed, strict=True):
        items[place] = value
    if is_single:
        return items[0]
    return tuple(items) if type(values) is tuple else type(values)(*items)


def fill(grads: Any, places: list[int], count: int) -> tuple[Any, ...]:
    full: list[Any] = [None] * count
    for place, grad in zip(places, grads, strict=True):
        full[place] = grad
    return tuple(full)


def run_hooks(
    hooks: list[Any], arguments: Any, values: tuple[Any, ...], what: str
) -> tuple[Any, ...]:
    """Gradients as the hooks leave them; `arguments` makes a hook's from the gradients so far."""
    for hook in hooks:
        replaced = hook(*arguments(values))
        if replaced is None:
            continue
        replaced = replaced if isinstance(replaced, tuple) else (replaced,)
        if len(replaced) != len(values):
            raise RuntimeError(f"{what}, got {len(replaced)}, but expected {len(values)}")
        values = replaced
    return values


class BackwardHook:
    """Joins the gradient at a module's outputs with the one at its inputs, then calls the hooks."""

    def __init__(self, module: Any) -> None:
        self.module = module
        own = module._backward_hooks.values() if module._is_full_backward_hook else ()
        self.hooks = [*GLOBAL_BACKWARD_HOOKS.values(), *own]
        self.pre_hooks = [
            *GLOBAL_BACKWARD_PRE_HOOKS.values(),
            *module._backward_pre_hooks.values(),
        ]
        self.grad_outputs: Any = None
        self.input_places: list[int] | None = None
        self.input_count = 0

    def around_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.input_count = len(args)

        def attach(node: Any, places: list[int], count: int) -> None:
            self.input_places = places

            def run(grad_input: Any, grad_output: Any) -> Any:
                if self.grad_outputs is None:
                    return None
                result = run_hooks(
                    self.hooks,
                    lambda grads: (self.module, grads, self.grad_outputs),
                    fill(grad_input, places, count),
                    "Backward hook returned an invalid number of grad_input",
                )
                self.grad_outputs = None
                return tuple([result[place] for place in places])

            node.register_hook(run)

        return tuple(through_identity(args, attach))

    def around_outputs(self, result: Any) -> Any:
        def attach(node: Any, places: list[int], count: int) -> None:
            def run(grad_outputs: Any) -> Any:
                full = run_hooks(
                    self.pre_hooks,
                    lambda grads: (self.module, grads),
                    fill(grad_outputs, places, count),
                    "Backward pre hook returned an invalid number of grad_output",
                )
                self.grad_outputs = full
                local = tuple([full[place] for place in places])
                if self.input_places is None:
                    self.run_without_inputs()
                return local

            node.register_prehook(run)

        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=4,
            )
        return through_identity(result, attach)

    def run_without_inputs(self) -> None:
        """No input requires grad: the hooks run when the outputs' gradients are known."""
        for hook in self.hooks:
            found = hook(self.module, (None,) * self.input_count, self.grad_outputs)
            nothing = isinstance(found, tuple) and all(grad is None for grad in found)
            if found is not None and not nothing:
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_outputs = None


def attach_to_last_node(module: Any, result: Any) -> None:
    """torch: older backward hooks hang on the node of the first tensor of the result."""
    first = result
    while not isinstance(first, Tensor):
        values = list(first.values() if isinstance(first, dict) else first)
        first = next((v for v in values if isinstance(v, Tensor)), values[0])
    node = first.grad_fn
    if node is None:
        return
    own = module._backward_hooks.values() if module._is_full_backward_hook is False else ()
    for hook in (*GLOBAL_OLDER_HOOKS.values(), *own):
        node.register_hook(functools.partial(hook, module))


class Call:
    """One call of a module: what its hooks have made of arguments and result so far."""

    __slots__ = ("args", "called", "kwargs", "module", "result")

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.called: set[int] = set()

    def run_pre_hooks(self) -> None:
        module = self.module
        for number, hook in [
            *((None, hook) for hook in GLOBAL_FORWARD_PRE_HOOKS.values()),
            *module._forward_pre_hooks.items(),
        ]:
            if number is not None and number in module._forward_pre_hooks_with_kwargs:
                replaced = hook(module, self.args, self.kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}."
                    )
                self.args, self.kwargs = replaced
            else:
                replaced = hook(module, self.args)
                if replaced is not None:
                    self.args = replaced if isinstance(replaced, tuple) else (replaced,)

    def run_hook(self, number: int, hook: Any, with_kwargs: dict[int, bool]) -> None:
        self.called.add(number)
        if number in with_kwargs:
            replaced = hook(self.module, self.args, self.kwargs, self.result)
        else:
            replaced = hook(self.module, self.args, self.result)
        if replaced is not None:
            self.result = replaced

    def run_forward(self) -> Any:
        module = self.module
        self.run_pre_hooks()
        backward = None
        own_older = module._is_full_backward_hook is False and module._backward_hooks
        older = own_older or GLOBAL_OLDER_HOOKS
        if (
            (module._backward_hooks and not own_older)
            or module._backward_pre_hooks
            or GLOBAL_BACKWARD_HOOKS
            or GLOBAL_BACKWARD_PRE_HOOKS
        ):
            backward = BackwardHook(module)
            self.args = backward.around_inputs(self.args)
        tracer = active_tracer()
        if tracer is None:
            self.result = module.forward(*self.args, **self.kwargs)
        else:
            self.result = tracer.call_forward(module, self.args, self.kwargs)
        for number, hook in list(GLOBAL_FORWARD_HOOKS.items()):
            self.run_hook(number, hook, GLOBAL_HOOKS_WITH_KWARGS)
        for number, hook in list(module._forward_hooks.items()):
            self.run_hook(number, hook, module._forward_hooks_with_kwargs)
        if backward is not None:
            self.result = backward.around_outputs(self.result)
        if older:
            attach_to_last_node(module, self.result)
        return self.result

    def run_skipped_hooks(self) -> None:
        """After a failure: the hooks that are always called and were not yet."""
        module = self.module
        # torch: no keyword arguments for a global hook here.
        for what, hooks, always, with_kwargs in (
            ("global module", GLOBAL_FORWARD_HOOKS, GLOBAL_HOOKS_ALWAYS_CALLED, {}),
            (
                "module",
                module._forward_hooks,
                module._forward_hooks_always_called,
                module._forward_hooks_with_kwargs,
            ),
        ):
            for number, hook in list(hooks.items()):
                if number not in always or number in self.called:
                    continue
                try:
                    self.run_hook(number, hook, with_kwargs)
                except Exception as error:
                    warnings.warn(
                        f"{what} forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {error}",
                        stacklevel=4,
                    )


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`module(*args, **kwargs)` with every hook in its place."""
    call = Call(module, args, kwargs)
    try:
        return call.run_forward()
    except Exception:
        call.run_skipped_hooks()
        raise
