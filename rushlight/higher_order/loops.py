"""`while_loop`: a function repeated while another one says so, kept as one op in graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core.batching import VmapLevel, batched
from rushlight.core.recording import Recorder
from rushlight.core.tensor import Tensor
from rushlight.higher_order.structured import Call, ControlFlowOp, Operands, at_level
from rushlight.higher_order.subgraphs import check_alike, reopened
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
            raise error("RL0735", op="while_loop", first=result_structure, second=structure)
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
        with reopened(), mode:
            cond_fn(*carried, *additional)
            result = body_fn(*carried, *additional)
        check_alike("while_loop", result, carried)
        return tuple(result)

    def check_traced(self, counts: Sequence[int], operands: Operands, outputs: Operands) -> None:
        check_alike("while_loop", outputs[1], operands[: counts[0]])

    def noted(self, recorder: Recorder, group: Operands) -> Any:
        return tuple(super().noted(recorder, group))

    def pullback(
        self, call: Call, operands: Operands, results: Operands, grads: Operands, needs: Operands
    ) -> Sequence[Any]:
        raise error("RL0736", NotImplementedError)

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


def aligned(going: Tensor, value: Tensor) -> Any:
    """One flag a sample, as a mask for values whose batch axis comes first."""
    return going.reshape((going.shape[0],) + (1,) * (value.dim() - 1))


while_loop_op = WhileLoopOp("while_loop", ("while_loop_cond_graph", "while_loop_body_graph"))
