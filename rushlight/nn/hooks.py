"""Calling a module that has hooks: forward pre/post hooks and full backward hooks.

A full backward hook sees gradients through two identity Functions around the module: one on its
inputs, one on its outputs.
"""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.autograd.function import Function
from rushlight.core.tensor import Tensor
from rushlight.nn.module import GLOBAL_FORWARD_HOOKS, GLOBAL_FORWARD_PRE_HOOKS

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
    is_single = not isinstance(values, (tuple, list))
    items = [values] if is_single else list(values)
    places = [i for i, v in enumerate(items) if isinstance(v, Tensor)]
    if not any(items[i].requires_grad for i in places):
        return values, None
    from rushlight.autograd.grad_mode import is_grad_enabled

    if not is_grad_enabled():
        return values, None
    passed = BackwardHookFunction.apply(*[items[i] for i in places])
    node = next(t.grad_fn for t in passed if t.grad_fn is not None)
    attach(node, places, len(items))
    for place, value in zip(places, passed, strict=True):
        items[place] = value
    if is_single:
        return items[0], node
    if hasattr(values, "_fields"):
        return type(values)(*items), node
    return type(values)(items), node


def fill(grads: Any, places: list[int], count: int) -> tuple[Any, ...]:
    full: list[Any] = [None] * count
    for place, grad in zip(places, grads, strict=True):
        full[place] = grad
    return tuple(full)


class BackwardHook:
    """Joins the gradient at a module's outputs with the one at its inputs, then calls the hooks."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.hooks = list(module._backward_hooks.values())
        self.pre_hooks = list(module._backward_pre_hooks.values())
        self.grad_outputs: Any = None
        self.input_places: list[int] | None = None
        self.output_places: list[int] = []
        self.output_count = 1

    def around_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        def attach(node: Any, places: list[int], count: int) -> None:
            self.input_places = places

            def run(grad_input: Any, grad_output: Any) -> Any:
                if self.grad_outputs is None:
                    return None
                result = fill(grad_input, places, count)
                for hook in self.hooks:
                    replaced = hook(self.module, result, self.grad_outputs)
                    if replaced is None:
                        continue
                    replaced = replaced if isinstance(replaced, tuple) else (replaced,)
                    if len(replaced) != len(result):
                        raise RuntimeError(
                            "Backward hook returned an invalid number of grad_input, got "
                            f"{len(replaced)}, but expected {len(result)}"
                        )
                    result = replaced
                self.grad_outputs = None
                return tuple([result[place] for place in places])

            node.register_hook(run)

        found, _ = through_identity(args, attach)
        return tuple(found)

    def around_outputs(self, result: Any) -> Any:
        def attach(node: Any, places: list[int], count: int) -> None:
            def run(grad_outputs: Any) -> Any:
                full = fill(grad_outputs, places, count)
                for hook in self.pre_hooks:
                    replaced = hook(self.module, full)
                    if replaced is None:
                        continue
                    replaced = replaced if isinstance(replaced, tuple) else (replaced,)
                    if len(replaced) != len(full):
                        raise RuntimeError(
                            "Backward pre hook returned an invalid number of grad_output, got "
                            f"{len(replaced)}, but expected {len(full)}"
                        )
                    full = replaced
                self.grad_outputs = full
                local = tuple([full[place] for place in places])
                if self.input_places is None:
                    # No input requires grad: the hooks run here, with no gradients for inputs.
                    for hook in self.hooks:
                        if hook(self.module, (), self.grad_outputs) is not None:
                            raise RuntimeError(
                                "Backward hook for Modules where no input requires gradient should "
                                "always return None or None for all gradients."
                            )
                    self.grad_outputs = None
                return local

            node.register_prehook(run)

        found, _ = through_identity(result, attach)
        return found


def run_pre_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments as the hooks before `forward` leave them."""
    for hook in list(GLOBAL_FORWARD_PRE_HOOKS.values()):
        replaced = hook(module, args)
        if replaced is not None:
            args = replaced if isinstance(replaced, tuple) else (replaced,)
    for number, hook in list(module._forward_pre_hooks.items()):
        if number in module._forward_pre_hooks_with_kwargs:
            replaced = hook(module, args, kwargs)
            if replaced is not None:
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}."
                    )
                args, kwargs = replaced
        else:
            replaced = hook(module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
    return args, kwargs


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`module(*args, **kwargs)` with every hook in its place."""
    args, kwargs = run_pre_hooks(module, args, kwargs)
    backward = None
    if module._backward_hooks or module._backward_pre_hooks:
        backward = BackwardHook(module)
        args = backward.around_inputs(args)
    called: set[int] = set()
    try:
        result = module.forward(*args, **kwargs)
        for number, hook in [
            *((None, hook) for hook in GLOBAL_FORWARD_HOOKS.values()),
            *module._forward_hooks.items(),
        ]:
            if number is not None:
                called.add(number)
            if number is not None and number in module._forward_hooks_with_kwargs:
                replaced = hook(module, args, kwargs, result)
            else:
                replaced = hook(module, args, result)
            if replaced is not None:
                result = replaced
    except BaseException:
        run_skipped_hooks(module, args, kwargs, called)
        raise
    return result if backward is None else backward.around_outputs(result)


def run_skipped_hooks(module: Any, args: Any, kwargs: Any, called: set[int]) -> None:
    """After a failed forward: the hooks that are always called and were not yet."""
    for number, hook in list(module._forward_hooks.items()):
        if number not in module._forward_hooks_always_called or number in called:
            continue
        try:
            if number in module._forward_hooks_with_kwargs:
                hook(module, args, kwargs, None)
            else:
                hook(module, args, None)
        except Exception as error:
            warnings.warn(
                "module forward hook with ``always_call=True`` raised an exception that "
                f"was silenced as another error was raised in forward: {error}",
                stacklevel=3,
            )
