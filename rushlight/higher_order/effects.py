"""`with_effects`: ops that are called for what they do, in the order of the program.

Each kind of effect has a token, an empty tensor. `with_effects(token, op, *args)` gives a new token
and the op's results, so that a graph orders such calls by their data. Tokens of a program are kept
by its `FunctionalMode`: who makes them graph inputs puts them into `tokens`, whose values after the
run are graph outputs; a first run with a mode that `finds_tokens` tells which there are.
An op keeps its effect whatever kernels are registered for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import Enum
from typing import Any

from rushlight.base.errors import error
from rushlight.core.construct import tensor as make_tensor
from rushlight.core.functional import FunctionalMode, map_tensors
from rushlight.core.hop import HigherOrderOperator
from rushlight.core.op import OpOverload
from rushlight.core.state import BELOW_FAKE, excluding
from rushlight.core.tensor import Tensor
from rushlight.graph.node import _side_effectful_functions
from rushlight.higher_order.calls import CallOp
from rushlight.opset import registry

__all__ = [
    "EFFECTS",
    "EffectType",
    "constant_token",
    "effect_of",
    "new_token",
    "register_effectful_op",
    "with_effects",
]


class EffectType(Enum):
    """What calls are kept in order with one another."""

    ORDERED = "Ordered"


def new_token() -> Tensor:
    found: Tensor = make_tensor([])
    return found


def constant_token(effect: EffectType) -> Tensor:
    """A token with memory, while functions are traced."""
    with excluding(BELOW_FAKE):
        return new_token()


class WithEffects(CallOp):
    """`with_effects(token, op, *args, **kwargs)`."""

    def __call__(self, token: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(op, (OpOverload, HigherOrderOperator)):
            raise AssertionError(f"op must be HigherOrderOperator or OpOverload, got {type(op)}")
        if has_aliasing(op):
            raise AssertionError("Ops with aliasing is not supported")
        return super().__call__(token, op, *args, **kwargs)

    def compute(self, token: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        result = op(*args, **kwargs)
        return (new_token(), *result) if isinstance(result, tuple) else (new_token(), result)

    def differentiate(self, *args: Any, **kwargs: Any) -> Any:
        return self.go_on(*args, **kwargs)


with_effects = WithEffects("with_effects")
# Dead code elimination leaves such calls in place.
_side_effectful_functions.add(with_effects)


def has_aliasing(op: Any) -> bool:
    if isinstance(op, HigherOrderOperator):
        return False
    entries = (*op._schema.arguments, *op._schema.returns)
    return any([entry.alias_info is not None for entry in entries])


# -- which ops have effects ------------------------------------------------------------------------


# The ops that have an effect.
EFFECTS: dict[OpOverload, EffectType] = {}


class Handle:
    """Undoes a registration."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self.destroy = undo


def find(op: Any) -> OpOverload:
    if isinstance(op, str):
        namespace, _, name = op.partition("::")
        base, _, overload = name.partition(".")
        found: OpOverload = getattr(registry.packet(base, namespace), overload or "default")
        return found
    defined = getattr(op, "_opoverload", op)
    if not isinstance(defined, OpOverload):
        raise ValueError(f"Invalid operator input {op}")
    return defined


def register_effectful_op(op: Any, effect: EffectType | None) -> Handle:
    """Declare that calls of an op have an effect, or that they have none."""
    record = find(op)
    if effect is not None and has_aliasing(record):
        raise error("RL0738", NotImplementedError, op=record.name())
    before = effect_of(record)

    def put(effect: EffectType | None) -> None:
        if effect is None:
            EFFECTS.pop(record, None)
            record.rules.pop("effectful", None)
        else:
            EFFECTS[record] = effect
            record.rules["effectful"] = run_effect

    put(effect)
    return Handle(lambda: put(before))


def effect_of(op: Any) -> EffectType | None:
    """The effect that an op was registered with."""
    return None if isinstance(op, HigherOrderOperator) else EFFECTS.get(find(op))


# -- functionalization -----------------------------------------------------------------------------


def run_effect(mode: FunctionalMode, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """How functionalization runs an effectful op: with the mode's token of its effect."""
    effect = effect_of(op)
    assert effect is not None
    token = mode.tokens.get(effect)
    if token is None:
        if not mode.finds_tokens:
            raise error("RL0739", AssertionError, effect=effect, op=op.name())
        token = (mode.make_token or constant_token)(effect)
    values = map_tensors(op, args, mode.value_of)
    with mode.below():
        found = with_effects.dispatch(token, op, *values)
    mode.tokens[effect] = found[0]
    count = len(op._schema.returns)
    results = mode.wrapped(found[1:])
    return results if count > 1 else results[0]


@functools.cache
def register_builtin() -> None:
    """Declare the effects of the ops that come with the package."""
    register_effectful_op("aten::_print", EffectType.ORDERED)
