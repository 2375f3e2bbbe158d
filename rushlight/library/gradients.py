"""A custom operator at the autograd layer: the function that records its backward."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.function import Function
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.opset import custom

__all__ = ["autograd_kernel", "no_formula"]


def flatten(values: Any) -> tuple[list[Any], list[int | None]]:
    """Arguments with lists of tensors spread out, and the length of each list (None: no list)."""
    flat: list[Any] = []
    lengths: list[int | None] = []
    for value in values:
        if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
            flat += value
            lengths.append(len(value))
        else:
            flat.append(value)
            lengths.append(None)
    return flat, lengths


def regroup(flat: Any, lengths: list[int | None]) -> list[Any]:
    values: list[Any] = []
    start = 0
    for length in lengths:
        if length is None:
            values.append(flat[start])
            start += 1
        else:
            values.append(list(flat[start : start + length]))
            start += length
    return values


def autograd_kernel(op: OpOverload, backward: Any, setup_context: Any) -> Any:
    """The op's stand-in at the autograd layer, which records `backward`."""
    split = sum(not argument.kwarg_only for argument in op._schema.arguments)
    names = [argument.name for argument in op._schema.arguments[split:]]

    def forward(ctx: Any, call: Any, *flat: Any) -> Any:
        bound = tuple(regroup(flat, call.lengths))
        result = custom.below_autograd(op, bound)
        call.returns_list = isinstance(result, list)
        call.count = len(result) if isinstance(result, (list, tuple)) else 1
        ctx.call = call
        if setup_context is not None:
            keywords = dict(zip(names, bound[split:], strict=True))
            if names:
                setup_context(
                    ctx=ctx, inputs=bound[:split], keyword_only_inputs=keywords, output=result
                )
            else:
                setup_context(ctx=ctx, inputs=bound, output=result)
        return tuple(result) if isinstance(result, list) else result

    def run_backward(ctx: Any, *grads: Any) -> Any:
        call = ctx.call
        given = (list(grads),) if call.returns_list else grads
        answers = backward(ctx, *given)
        answers = answers if isinstance(answers, (tuple, list)) else (answers,)
        if len(answers) != split:
            raise RuntimeError(
                f"Expected the backward of {op.name()} to return {split} gradients (one for each "
                f"positional argument) but got {len(answers)}"
            )
        spread: list[Any] = []
        for number, length in enumerate(call.lengths):
            answer = answers[number] if number < split else None
            if length is None:
                spread.append(answer)
            else:
                spread += [None] * length if answer is None else list(answer)
        return (None, *spread)

    class_name = f"GeneratedBackwardFor_{op.namespace}_{op.base_name}_{op._overloadname}"
    generated: Any = type(
        class_name,
        (Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(run_backward)},
    )

    def kernel(*bound: Any) -> Any:
        if not custom.records_gradient(bound):
            result = custom.below_autograd(op, bound)
            custom.bump_written(op, bound)
            return result
        flat, lengths = flatten(bound)
        call = Call(lengths)
        result = generated.apply(call, *flat)
        return list(result) if call.returns_list else result

    return kernel


class Call:
    """What one recorded call of a custom op must remember to put its gradients in order."""

    __slots__ = ("count", "lengths", "returns_list")

    def __init__(self, lengths: list[int | None]) -> None:
        self.lengths = lengths
        self.returns_list = False
        self.count = 1


def no_formula(op: OpOverload) -> Any:
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"Trying to backward through {op} but no autograd formula was registered. Please use "
            "register_autograd to add one."
        )

    return backward
