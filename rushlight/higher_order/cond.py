"""`torch.cond`: one of two functions, chosen by a value that a graph need not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core.batching import BatchedTensor, VmapLevel
from rushlight.core.tensor import Tensor
from rushlight.higher_order.structured import Call, ControlFlowOp, Operands, filled, gradient_of
from rushlight.higher_order.subgraphs import check_alike, reopened
from rushlight.opset import functions
from rushlight.symbolic import SymBool

__all__ = ["cond", "cond_op"]

Branch = Callable[..., Any]


def cond(
    pred: Any,
    true_fn: Branch,
    false_fn: Branch,
    operands: Sequence[Any] = (),
) -> Any:
    """`true_fn(*operands)` if `pred` else `false_fn(*operands)`, kept as one op in graphs.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, -2.0])
    >>> torch.cond(x.sum() > 0, torch.sin, torch.abs, (x,))
    tensor([1., 2.])
    """
    if isinstance(pred, (int, float)) and not isinstance(pred, bool):
        # Nothing is left to decide: graphs hold one of the branches.
        return (true_fn if pred else false_fn)(*operands)
    if not isinstance(pred, (bool, Tensor, SymBool)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(operands)
    ):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists "
            f"of tensor leaves, but got {operands}."
        )
    leaves, structure = pytree.tree_flatten(tuple(operands))
    shapes: dict[int, Any] = {}

    def flat(branch: Branch, number: int) -> Branch:
        def run(*given: Any) -> Any:
            result = branch(*pytree.tree_unflatten(list(given), structure))
            found, shapes[number] = pytree.tree_flatten(result)
            return tuple(found)

        return run

    result = cond_op(pred, flat(true_fn, 0), flat(false_fn, 1), list(leaves))
    known = next(iter(shapes.values()))
    if any(known != other for other in shapes.values()):
        raise error("RL0733", op="cond", first=shapes[0], second=shapes[1])
    return pytree.tree_unflatten(list(result), known)


class CondOp(ControlFlowOp):
    """`cond(pred, true_fn, false_fn, operands)`; the predicate is a group that functions do not
    get."""

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        pred, true_fn, false_fn, operands = args
        return [true_fn, false_fn], [[pred], list(operands)]

    def join(self, functions: Sequence[Any], groups: Sequence[Any]) -> tuple[Any, ...]:
        return (groups[0][0], *functions, groups[1])

    def arguments(self, groups: Sequence[Operands]) -> list[Any]:
        return list(groups[1])

    def compute(self, pred: Any, true_fn: Branch, false_fn: Branch, operands: Operands) -> Any:
        return (true_fn if pred else false_fn)(*operands)

    def infer(
        self, mode: Any, pred: Any, true_fn: Branch, false_fn: Branch, operands: Operands
    ) -> Any:
        with reopened(), mode:
            result = true_fn(*operands)
            check_alike("cond", result, false_fn(*operands), with_strides=True)
        return result

    def check_traced(self, counts: Sequence[int], operands: Operands, outputs: Operands) -> None:
        check_alike("cond", *outputs, with_strides=True)

    def pullback(
        self, call: Call, operands: Operands, results: Operands, grads: Operands, needs: Operands
    ) -> Sequence[Any]:
        (pred,), given = call.groups(operands)
        branches = [gradient_of(branch, len(given), needs[1:]) for branch in call.functions]
        found = iter(self(pred, *branches, [*given, *filled(results, grads)]))
        return [None, *[next(found) if need else None for need in needs[1:]]]

    def vectorize(
        self, level: VmapLevel, pred: Any, true_fn: Branch, false_fn: Branch, operands: Operands
    ) -> Any:
        if isinstance(pred, BatchedTensor):
            # Samples differ in their branch: both run, and each sample takes its own.
            first, second = true_fn(*operands), false_fn(*operands)
            pairs = zip(first, second, strict=True)
            return tuple(functions.where(pred, one, other) for one, other in pairs)
        return super().vectorize(level, pred, true_fn, false_fn, operands)

    def placed(self, level: VmapLevel, number: int, group: Operands) -> list[Any]:
        return super().placed(level, number, group) if number else list(group)


cond_op = CondOp("cond", ("true_graph", "false_graph"), node_name="conditional")
