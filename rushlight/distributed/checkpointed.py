"""torch.distributed.algorithms._checkpoint.checkpoint_wrapper: modules whose forward is computed
again for the backward. Their parameters keep the names that they have without the wrapper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from rushlight.autograd.checkpoint import checkpoint
from rushlight.core.parameter import Parameter
from rushlight.distributed.errors import refuse
from rushlight.nn.module import Module

__all__ = [
    "CheckpointImpl", "CheckpointWrapper", "apply_activation_checkpointing", "checkpoint_wrapper",
]  # fmt: skip

PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(Enum):
    """How a forward is computed again."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class CheckpointWrapper(Module):
    """A module whose forward is computed again for the backward."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.checkpoint_impl = checkpoint_impl
        reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        if checkpoint_fn is None:
            given = {"use_reentrant": reentrant} | checkpoint_fn_kwargs
            self.checkpoint_fn: Callable[..., Any] = partial(checkpoint, **given)
        else:
            self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)
        self._register_state_dict_hook(without_prefix)
        self.register_load_state_dict_pre_hook(with_prefix)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner = self._checkpoint_wrapped_module
        if kwargs and self.checkpoint_impl is CheckpointImpl.REENTRANT:
            # It passes no keywords on.
            return self.checkpoint_fn(lambda *words: inner(*words, **kwargs), *args)
        return self.checkpoint_fn(inner, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        found: Any = self._checkpoint_wrapped_module
        return found[key]

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        for name, parameter in super().named_parameters(prefix, recurse, remove_duplicate):
            yield name.replace(PREFIX, ""), parameter


def without_prefix(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for name in list(state):
        if name.startswith(prefix + PREFIX):
            state[prefix + name.removeprefix(prefix + PREFIX)] = state.pop(name)


def with_prefix(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for name in list(state):
        if name.startswith(prefix):
            state[prefix + PREFIX + name.removeprefix(prefix)] = state.pop(name)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """Let a module's forward be computed again for the backward."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda module: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wrap the modules inside of a model that `check_fn` is true of, inner ones first."""
    refuse("apply_activation_checkpointing", auto_wrap_policy=auto_wrap_policy)
    for name, inner in list(model.named_children()):
        apply_activation_checkpointing(inner, checkpoint_wrapper_fn, check_fn)
        if check_fn(inner):
            model._modules[name] = checkpoint_wrapper_fn(inner)
