"""Optimisers in capture: steps without hooks, and what tells whether one call may move all
parameters."""

from __future__ import annotations

from typing import Any

from rushlight.capture.outcomes import Break
from rushlight.capture.sources import const
from rushlight.capture.values import Const, Obj, Tensor
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor as RealTensor
from rushlight.optim import rule
from rushlight.optim.optimizer import EVERY_POST_HOOK, EVERY_PRE_HOOK, with_step_hooks

__all__ = ["special"]

HOOKED_STEP = with_step_hooks(lambda: None).__code__
OWN_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def special(t: Any, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a function of optimisers; None where it is captured like others."""
    if function.__code__ is HOOKED_STEP:
        return step(t, function, args, kwargs)
    if function is rule.is_plain:
        return Const(is_plain(t, *args))
    return None


def step(t: Any, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    optimizer = t.real(args[0])
    tables = [EVERY_PRE_HOOK, EVERY_POST_HOOK]
    if not isinstance(optimizer, Obj):
        raise Break("step of an optimiser made in the function")
    tables += [getattr(optimizer.value, name) for name in OWN_HOOKS]
    if any(tables):
        raise Break("hooks of an optimiser")
    for table in tables[:2]:
        t.guard("filled", const(table))
    t.guard("text", optimizer.source, lambda e, k: " or ".join(f"{e}.{n}" for n in OWN_HOOKS))
    inner = function.__wrapped__
    return t.call(Obj(inner, const(inner)), args, kwargs)


def is_plain(t: Any, values: Any, group: Any) -> bool:
    """As `rule.is_plain`, of tensors that guards describe."""
    group = t.real(group)

    def option(name: str) -> Any:
        return t.python(group.items[name]) if name in group.items else None

    parameters = t.iterate(values)
    if not parameters or option("foreach") or option("fused") is False:
        return False
    if t.modes["inference"] or t.modes["autocast"][0]:
        return False
    tensors = [t.real(v) for p in parameters for v in (p, t.getattr(p, "grad"))]
    kinds = (RealTensor, Parameter)
    if not all(isinstance(v, Tensor) and t.world.tensor_type(v) in kinds for v in tensors):
        return False
    examples = [v.example for v in tensors]
    return all(x.is_contiguous() and x.dtype.is_floating_point for x in examples) and all(
        value.dtype is grad.dtype for value, grad in zip(examples[::2], examples[1::2])
    )
