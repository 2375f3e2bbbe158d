"""`while_loop`: a function repeated while another one says so, kept as one op in graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core.batching import VmapLevel, batched
from rushlight.core.dtype import int64
from rushlight.core.recording import Recorder
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.higher_order.structured import (
    Call,
    ControlFlowOp,
    Operands,
    at_level,
    filled,
    gradient_of,
    is_differentiable,
)
from rushlight.higher_order.subgraphs import check_alike, is_integer, reopened
from rushlight.opset import functions

__all__ = ["while_loop", "while_loop_op"]

Body = Callable[..., Any]


def while_loop(cond_fn: Body, body_fn: Body, carried_inputs: Any) -> Any:
    """`carried = body_fn(*carried)` as long as `cond_fn(*carried)` holds.

    >>> import rushlight as torch
    >>> torch.while_loop(lambda x: x < 100, lambda x: (x * 2,), (torch.tensor(3),))
    (tensor(192),)
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)) or not all(
        isinstance(leaf, (Tensor, int, float, bool)) for leaf in pytree.tree_leaves(carried_inputs)
    ):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only "
            f"consists of tensor or number leaves, but got {carried_inputs}."
        )
    leaves, structure = pytree.tree_flatten(tuple(carried_inputs))

    def flat_cond(*given: Any) -> Any:
        answer = cond_fn(*pytree.tree_unflatten(list(given), structure))
        if isinstance(answer, Tensor) and (answer.dim() or answer.dtype.name != "bool"):
            raise RuntimeError(
                f"cond_fn must return a boolean scalar tensor or a boolean but got {answer}"
            )
        return answer

    def flat_body(*given: Any) -> Any:
        result = body_fn(*pytree.tree_unflatten(list(given), structure))
        if not isinstance(result, tuple) and len(leaves) == 1:
            # torch: a body with one result may leave the tuple out.
            result = (result,)
        found, result_structure = pytree.tree_flatten(result)
        if result_structure != structure:
            raise error("RL0736", op="while_loop", first=result_structure, second=structure)
        return tuple(found)

    result = while_loop_op(flat_cond, flat_body, tuple(leaves), ())
    return pytree.tree_unflatten(list(result), structure)


class WhileLoopOp(ControlFlowOp):
    """`while_loop(cond_fn, body_fn, carried, additional)`."""

    def compute(self, cond_fn: Body, body_fn: Body, carried: Operands, additional: Operands) -> Any:
        while cond_fn(*carried, *additional):
            carried = body_fn(*carried, *additional)
        return tuple(carried)

    def infer(
        self, mode: Any, cond_fn: Body, body_fn: Body, carried: Operands, additional: Operands
    ) -> Any:
        given = any_numbers(mode.shape_env, carried)
        with reopened(), mode:
            cond_fn(*given, *additional)
            result = body_fn(*given, *additional)
        check_alike("while_loop", result, carried)
        return any_numbers(mode.shape_env, result, are_results=True)

    def examples(self, groups: Sequence[Operands]) -> list[Any]:
        mode = LOCAL.state.fake
        env = None if mode is None else mode.shape_env
        return self.arguments([any_numbers(env, groups[0]), *groups[1:]])

    def check_traced(self, counts: Sequence[int], operands: Operands, outputs: Operands) -> None:
        check_alike("while_loop", outputs[1], operands[: counts[0]])

    def noted(self, recorder: Recorder, group: Operands) -> Any:
        return tuple(super().noted(recorder, group))

    def pullback(
        self, call: Call, operands: Operands, results: Operands, grads: Operands, needs: Operands
    ) -> Sequence[Any]:
        """A loop from the last step to the first. The operands of each step are found by running
        the steps before it again: nothing of unknown length is kept."""
        carried, additional = call.groups(operands)
        cond_fn, body = call.functions
        count = len(carried)
        wanted = [True] * count + list(needs[count:])
        pairs = zip(wanted, operands, strict=True)
        moving = [want and is_differentiable(value) for want, value in pairs]
        backward = gradient_of(body, len(operands), moving)
        start = functions.zeros((), dtype=int64, device=carried[0].device)

        def goes_on(_: Any, *given: Any) -> Any:
            return cond_fn(*given)

        def step(done: Any, *given: Any) -> Any:
            return (done + 1, *body(*given))

        def is_before(done: Any, end: Any, *given: Any) -> Any:
            return done < end

        def step_before(done: Any, end: Any, *given: Any) -> Any:
            return (done + 1, end.clone(), *body(*given))

        def is_left(left: Any, *given: Any) -> Any:
            return left > 0

        def step_back(left: Any, *given: Any) -> Any:
            rest = iter(given)
            found = [next(rest) if moves else None for moves in moving]
            first, more = [next(rest) for _ in carried], list(rest)
            before = left - 1
            begin = [functions.zeros_like(left), before.clone(), *first]
            values = self(is_before, step_before, begin, more)[2:]
            grads = iter(backward(*values, *more, *found[:count]))
            new = [next(grads) if moves else None for moves in moving[:count]]
            new += [None if sums is None else sums + next(grads) for sums in found[count:]]
            return (before, *[value for value in new if value is not None])

        steps = self(goes_on, step, [start, *carried], additional)[0]
        grads = filled(results, grads)
        begin = [grad for grad, moves in zip(grads, moving) if moves]
        rest = zip(additional, moving[count:], strict=True)
        begin += [functions.zeros_like(value) for value, moves in rest if moves]
        found = iter(self(is_left, step_back, [steps, *begin], [*carried, *additional])[1:])
        result = [next(found) if moves else None for moves in moving]
        return [grad if need else None for grad, need in zip(result, needs, strict=True)]

    def vectorize(
        self, level: VmapLevel, cond_fn: Body, body_fn: Body, carried: Operands, extra: Operands
    ) -> Any:
        """The loop goes on while any sample's does; samples that are done keep their values."""

        def goes_on(*given: Any) -> Any:
            return at_level(level, cond_fn)(*given).any()

        def step(*given: Any) -> Any:
            going = at_level(level, cond_fn)(*given)
            if not isinstance(going, Tensor):
                return at_level(level, body_fn)(*given)
            pairs = zip(at_level(level, body_fn)(*given), given)
            return tuple(functions.where(aligned(going, new), new, old) for new, old in pairs)

        groups = [
            self.placed(level, number, group) for number, group in enumerate((carried, extra))
        ]
        result = level.run(lambda: self.dispatch(goes_on, step, *groups))
        return tuple(batched(value, 0, level.level) for value in result)


def any_numbers(env: Any, carried: Operands, are_results: bool = False) -> tuple[Any, ...]:
    """What is carried, with symbols in the place of integers: these are others in each turn."""
    if not any(map(is_integer, carried)):
        return tuple(carried)
    if env is None:
        raise error("RL0744", NotImplementedError)
    # Nothing that is recorded gives what a turn begins with.
    with nullcontext() if are_results else env.ignore_fresh_unbacked_symbols():
        return tuple([env.create_unbacked_symint() if is_integer(v) else v for v in carried])


def aligned(going: Tensor, value: Tensor) -> Any:
    """One flag a sample, as a mask for values whose batch axis comes first."""
    return going.reshape((going.shape[0],) + (1,) * (value.dim() - 1))


while_loop_op = WhileLoopOp("while_loop", ("while_loop_cond_graph", "while_loop_body_graph"))
