"""torch.distributed.checkpoint.state_dict: state by the names of parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.base import pytree
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, setup
from rushlight.distributed.checkpointed import PREFIX
from rushlight.distributed.ddp import DistributedDataParallel
from rushlight.distributed.dtensor import DTensor, distribute_tensor
from rushlight.distributed.errors import refuse
from rushlight.distributed.objects import broadcast_object_list
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.optim.optimizer import Optimizer

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """`full_state_dict`: whole tensors in place of DTensors. `cpu_offload` changes nothing where
    all memory is the CPU's."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name not in SERVED and getattr(self, each.name) != each.default:
                refuse("StateDictOptions", **{each.name: True})


# The options that have an effect, or need none.
SERVED = ("full_state_dict", "cpu_offload", "strict", "broadcast_from_rank0")


def cleaner(model: Module) -> Callable[[str], str]:
    """From names in a model to those without what wrappers add."""
    wrappers = [n for n, each in model.named_modules() if isinstance(each, DistributedDataParallel)]

    def clean(name: str) -> str:
        # From the innermost wrapper, whose own name has those around it.
        for outer in reversed(wrappers):
            start = f"{outer}." if outer else ""
            if name.startswith(f"{start}module."):
                name = start + name.removeprefix(f"{start}module.")
        return name.replace(PREFIX, "")

    return clean


def whole(value: Any, options: StateDictOptions | None) -> Any:
    full = options is not None and options.full_state_dict
    return value.full_tensor() if full and isinstance(value, DTensor) else value


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's parameters and buffers by their names, without a wrapper's prefix."""
    refuse("get_model_state_dict", submodules=submodules)
    clean = cleaner(model)
    return {clean(name): whole(value, options) for name, value in model.state_dict().items()}


def set_model_state_dict(
    model: Module,
    model_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> Any:
    """Write parameters and buffers, from whole tensors or from parts."""
    clean = cleaner(model)
    model_state_dict = told(model_state_dict, options)
    known = {clean(name): (name, value) for name, value in model.state_dict().items()}
    given = {}
    for name, value in model_state_dict.items():
        full, target = known.get(name, (name, None))
        given[full] = like(value, target)
    return model.load_state_dict(given, strict=options is None or options.strict)


def told(state: Any, options: StateDictOptions | None) -> Any:
    """The state that rank 0 has, in all processes, where that is asked for."""
    if options is None or not options.broadcast_from_rank0:
        return state
    if not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    leaves, spec = pytree.tree_flatten(state)
    rank = setup.get_rank()
    facts = [
        Fact(tuple(leaf.shape), leaf.dtype) if isinstance(leaf, Tensor) else leaf for leaf in leaves
    ]
    outline: list[Any] = [pytree.tree_unflatten(facts, spec) if rank == 0 else None]
    broadcast_object_list(outline, src=0)
    facts, spec = pytree.tree_flatten(outline[0])
    found = []
    for place, fact in enumerate(facts):
        if not isinstance(fact, Fact):
            found.append(fact)
            continue
        tensor = (
            leaves[place].detach() if rank == 0 else functions.empty(fact.shape, dtype=fact.dtype)
        )
        collectives.broadcast(tensor, src=0)
        found.append(tensor)
    return pytree.tree_unflatten(found, spec)


@dataclass
class Fact:
    """What a tensor is that is yet to come."""

    shape: tuple[int, ...]
    dtype: Any


def like(value: Any, target: Any) -> Any:
    """A whole tensor in the layout of the one that it is written to."""
    if isinstance(target, DTensor) and isinstance(value, Tensor) and not isinstance(value, DTensor):
        return distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None)
    return value


def names_of(model: Module) -> dict[int, str]:
    clean = cleaner(model)
    return {id(parameter): clean(name) for name, parameter in model.named_parameters()}


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | list[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """Optimisers' state by the names of parameters."""
    refuse("get_optimizer_state_dict", submodules=submodules)
    names = names_of(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in [optimizers] if isinstance(optimizers, Optimizer) else optimizers:
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            inner = [names[id(parameter)] for parameter in group["params"]]
            groups.append({**group, "params": inner})
            for parameter, name in zip(group["params"], inner):
                if parameter in optimizer.state:
                    values = optimizer.state[parameter]
                    state[name] = {key: whole(each, options) for key, each in values.items()}
    return {"state": state, "param_groups": groups}


def _init_optim_state(optimizer: Optimizer) -> None:
    """State for every parameter, as after a step that changes nothing."""
    if optimizer.state:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if any([parameter.grad is not None for parameter in parameters]):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    with no_grad():
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.grad = parameter.detach().clone().zero_()
        for group in optimizer.param_groups:
            group["lr"] = 0.0
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | list[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Give optimisers the state that is told by the names of parameters."""
    names = names_of(model)
    optim_state_dict = told(optim_state_dict, options)
    groups = iter(optim_state_dict["param_groups"])
    for optimizer in [optimizers] if isinstance(optimizers, Optimizer) else optimizers:
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            given = next(groups)
            group.update({key: value for key, value in given.items() if key != "params"})
            for parameter in group["params"]:
                given_state = optim_state_dict["state"].get(names[id(parameter)])
                if given_state is None:
                    continue
                kept = optimizer.state[parameter]
                for key, value in given_state.items():
                    kept[key] = like(value, kept.get(key))


def get_state_dict(
    model: Module,
    optimizers: Optimizer | list[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both."""
    refuse("get_state_dict", submodules=submodules)
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizer | list[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Both."""
    if optim_state_dict:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
