"""torch: modules as functions of their parameters and buffers, as `functorch` made them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.func.stateless import Owners, checked_ensemble
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


class State:
    """The names of a module's tensors of one kind, shared ones under all of their names."""

    def __init__(self, named: Callable[..., Iterable[tuple[str, Any]]]) -> None:
        self.tensors = [tensor for _, tensor in named()]
        self.names = tuple([name for name, _ in named()])
        every = list(named(remove_duplicate=False))
        self.shared = [[n for n, other in every if other is tensor] for tensor in self.tensors]


def swap_state(module: Any, shared: list[list[str]], tensors: Iterable[Any]) -> list[Any]:
    """Put tensors into a module under all of their names; what was there."""
    owners = Owners(module)
    before = []
    for names, tensor in zip(shared, tensors, strict=True):
        first, *_ = [owners.swap(name, tensor) for name in names]
        before.append(first)
    return before


def without_memory(tensor: Any) -> Any:
    empty = functions.empty_like(tensor, device="meta")
    return Parameter(empty, tensor.requires_grad) if isinstance(tensor, Parameter) else empty


class FunctionalModuleWithBuffers(Module):
    """A module without state: `f(parameters, buffers, *args)`."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.stateless_model = module
        parameters, buffers = State(module.named_parameters), State(module.named_buffers)
        self.param_names, self.buffer_names = parameters.names, buffers.names
        self.shared_names = parameters.shared + buffers.shared
        self.extracted = parameters.tensors, buffers.tensors
        everything = parameters.tensors + buffers.tensors
        swap_state(module, self.shared_names, [without_memory(tensor) for tensor in everything])

    @classmethod
    def _create_from(cls, model: Any, disable_autograd_tracking: bool = False) -> Any:
        made = cls(copy.deepcopy(model))
        parameters, buffers = made.__dict__.pop("extracted")
        if disable_autograd_tracking:
            for parameter in parameters:
                parameter.requires_grad_(False)
        return made, tuple(parameters), tuple(buffers)

    def forward(
        self, params: Iterable[Any], buffers: Iterable[Any], *args: Any, **kwargs: Any
    ) -> Any:
        before = swap_state(self.stateless_model, self.shared_names, (*params, *buffers))
        try:
            return self.stateless_model(*args, **kwargs)
        finally:
            swap_state(self.stateless_model, self.shared_names, before)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without state: `f(parameters, *args)`."""

    @classmethod
    def _create_from(cls, model: Any, disable_autograd_tracking: bool = False) -> Any:
        return super()._create_from(model, disable_autograd_tracking)[:2]

    def forward(self, params: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        return super().forward(params, (), *args, **kwargs)


def make_functional(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Any, ...]]:
    """(a module as a function of its parameters and arguments, its parameters).

    >>> import rushlight as torch
    >>> from rushlight.compat.make_functional import make_functional
    >>> f, (weight,) = make_functional(torch.nn.Linear(1, 1, bias=False))
    >>> f((torch.ones(1, 1),), torch.tensor([3.0]))
    tensor([3.])
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    found: tuple[FunctionalModule, tuple[Any, ...]] = FunctionalModule._create_from(
        model, disable_autograd_tracking
    )
    return found


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """(a module as a function of its state and arguments, its parameters, its buffers)."""
    found: tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]] = (
        FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)
    )
    return found


def combine_state_for_ensemble(
    models: Any,
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """(the first model as a function of its state, all parameters stacked, all buffers stacked)."""
    models = checked_ensemble(models, "combine_state_for_ensemble")
    made = [FunctionalModuleWithBuffers._create_from(model) for model in models]

    def stacked(place: int) -> tuple[Any, ...]:
        columns = zip(*[entry[place] for entry in made], strict=True)
        return tuple(functions.stack(list(column)).detach() for column in columns)

    return made[0][0], stacked(1), stacked(2)
