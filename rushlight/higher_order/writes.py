"""`auto_functionalized`: an op that writes to its arguments, as a function of values.

`auto_functionalized(op, name=value, ...)` runs the op on copies of what it writes to, and gives
what the op returned, then the new values in the order of the schema.
"""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import error
from rushlight.core.functional import (
    FunctionalMode,
    FunctionalTensor,
    map_tensors,
    operands_of,
)
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.higher_order.calls import CallOp

__all__ = ["auto_functionalized", "functionalize_write"]


class AutoFunctionalized(CallOp):
    """`auto_functionalized(op, **arguments)`."""

    def __call__(self, op: Any, /, **kwargs: Any) -> Any:
        if not isinstance(op, OpOverload) or not op._schema.is_mutable:
            raise error("RL0703", NotImplementedError, op=op)
        return super().__call__(op, **kwargs)

    def compute(self, op: OpOverload, /, **kwargs: Any) -> Any:  # type: ignore[override]
        values = dict(kwargs)
        new = []
        for name in written_names(op):
            values[name] = copied(kwargs[name])
            new.append(values[name])
        result = op(**values)
        results = result if isinstance(result, tuple) else (result,)
        return (*results, *new)


def written_names(op: OpOverload) -> list[str]:
    return [argument.name for argument in op._schema.arguments if argument.is_write]


def copied(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [copied(item) for item in value]
    return value.clone() if isinstance(value, Tensor) else value


auto_functionalized = AutoFunctionalized("auto_functionalized")
# torch: where graphs name it.
auto_functionalized.__module__ = "torch._higher_order_ops.auto_functionalize"


def functionalize_write(mode: FunctionalMode, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """How functionalization runs an op that writes and has no functional form."""
    written = [args[position] for position in op.mutated_positions]
    flat = [v for w in written for v in (w if isinstance(w, (list, tuple)) else (w,))]
    targets = [value for value in flat if mode.is_own(value)]
    if not targets:
        return mode.write(op, args)
    check_separate(op, args, targets)
    names = [argument.name for argument in op._schema.arguments]
    values = dict(zip(names, map_tensors(op, args, mode.value_of), strict=True))
    with mode.below():
        found = auto_functionalized.dispatch(op, **values)
    count = len(found) - len(written)
    for target, value in zip(written, found[count:], strict=True):
        pairs = zip(target, value, strict=True) if isinstance(target, (list, tuple)) else ()
        for one, new in pairs or [(target, value)]:
            if mode.is_own(one):
                mode.replace(one, new)
    results = mode.wrapped(found[:count])
    return results if len(op._schema.returns) > 1 else results[0]


def check_separate(op: OpOverload, args: tuple[Any, ...], targets: list[Any]) -> None:
    """Copies of tensors that share memory would not share it."""
    if any(mark.alias_info is not None for mark in op._schema.returns):
        raise error("RL0703", NotImplementedError, op=op.name())
    given = [v for v in operands_of(op, args) if isinstance(v, FunctionalTensor)]
    for target in targets:
        shared = [v for v in given if v.functional_storage is target.functional_storage]
        if len(shared) > 1:
            raise error("RL0737", NotImplementedError, op=op.name())
