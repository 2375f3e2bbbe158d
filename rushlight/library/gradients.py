"""A custom operator at the autograd layer: the function that records its backward."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.function import Function
from rushlight.base.errors import error
from rushlight.core.dispatch import torch_arguments
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
    may_shorten = any([argument.has_default for argument in op._schema.arguments[:split]])
    writes = op._schema.is_mutable
    types = [entry.type for entry in op._schema.arguments]
    types += [entry.type for entry in op._schema.returns]
    has_lists = any(t.is_tensor_like and t.kind != "Tensor" for t in types)

    def run_below(bound: tuple[Any, ...]) -> Any:
        result = custom.below_autograd(op, bound)
        if writes:
            custom.bump_written(op, bound)
        return result

    def forward(ctx: Any, *given: Any) -> Any:
        *flat, call = given
        bound = (*regroup(flat, call.lengths), *call.keywords)
        result = run_below(bound)
        call.returned = type(result)
        flat_result, call.returned_lengths = flatten(as_tuple(result))
        ctx.call = call
        if setup_context is not None:
            if names:
                keywords = dict(zip(names, call.keywords, strict=True))
                setup_context(
                    ctx=ctx, inputs=bound[:split], keyword_only_inputs=keywords, output=result
                )
            else:
                setup_context(ctx=ctx, inputs=bound, output=result)
        return tuple(flat_result)

    def run_backward(ctx: Any, *grads: Any) -> Any:
        call = ctx.call
        needed = ctx.needs_input_grad
        ctx.needs_input_grad = tuple(regroup(needed[:-1], call.lengths))
        try:
            answers = backward(ctx, *regroup(grads, call.returned_lengths))
        finally:
            ctx.needs_input_grad = needed
        answers = call.completed(answers if isinstance(answers, tuple) else (answers,))
        if not has_lists:
            return (*answers, None)
        if len(answers) != len(call.lengths):
            raise structure_error(op, call.lengths, answers)
        flat: list[Any] = []
        for answer, length in zip(answers, call.lengths, strict=True):
            if length is None and not isinstance(answer, list):
                flat.append(answer)
            elif length is not None and answer is None:
                flat += [None] * length
            elif length is not None and isinstance(answer, list) and len(answer) == length:
                flat += answer
            else:
                raise structure_error(op, call.lengths, answers)
        return (*flat, None)

    class_name = f"GeneratedBackwardFor_{op.namespace}_{op.base_name}_{op._overloadname}"
    generated: Any = type(
        class_name,
        (Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(run_backward)},
    )

    def kernel(*bound: Any) -> Any:
        if not custom.records_gradient(bound):
            return run_below(bound)
        flat, lengths = flatten(bound[:split])
        given = len(torch_arguments(op, bound)[0]) if may_shorten else split
        call = Call(lengths, bound[split:], given)
        found = regroup(generated.apply(*flat, call), call.returned_lengths)
        return tuple(found) if call.returned is tuple else found[0] if found else None

    return kernel


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else () if result is None else (result,)


def structure_error(op: OpOverload, lengths: list[int | None], answers: Any) -> RuntimeError:
    wanted = [length if length is None else f"list of {length}" for length in lengths]
    given = [f"list of {len(a)}" if isinstance(a, list) else None for a in answers]
    return RuntimeError(
        "Expected the return from backward to be of the same structure as the inputs. Got: "
        f"{given} (return from backward), {wanted} (inputs) for {op.name()}"
    )


class Call:
    """What one recorded call of a custom op must remember to put its gradients in order."""

    __slots__ = ("given", "keywords", "lengths", "returned", "returned_lengths")

    def __init__(self, lengths: list[int | None], keywords: tuple[Any, ...], given: int) -> None:
        # How many positional arguments there are up to the last one without its default.
        self.given = given
        self.lengths = lengths
        self.keywords = keywords
        self.returned: type = tuple
        self.returned_lengths: list[int | None] = []

    def completed(self, answers: tuple[Any, ...]) -> tuple[Any, ...]:
        """What a backward answered; arguments at the end that have their default need no answer."""
        missing = len(self.lengths) - len(answers)
        return answers + (None,) * missing if self.given <= len(answers) else answers


def no_formula(op: OpOverload) -> Any:
    def backward(ctx: Any, *grads: Any) -> Any:
        raise error("RL0608", op=op)

    return backward
