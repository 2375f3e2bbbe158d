"""`torch.cond`: one of two functions, chosen by a value that a graph need not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.backward import grad as gradients_of
from rushlight.autograd.function import Function
from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core.batching import BatchedTensor, VmapLevel
from rushlight.core.functional import FunctionalMode
from rushlight.core.hop import HigherOrderOperator, asks_gradient
from rushlight.core.recording import Recorder
from rushlight.core.state import changed
from rushlight.core.tensor import Tensor
from rushlight.higher_order.subgraphs import (
    Watched,
    functionalized,
    is_traced,
    likeness,
    reopened,
    trace_functions,
    unwrapped,
)
from rushlight.opset import functions
from rushlight.symbolic import SymBool

__all__ = ["cond", "cond_op"]

Branch = Callable[..., Any]

cond_op = HigherOrderOperator("cond", cacheable=True)


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


def choose(pred: Any, true_fn: Branch, false_fn: Branch, operands: Sequence[Any]) -> Any:
    return (true_fn if pred else false_fn)(*operands)


cond_op.rule("eager")(choose)


class CondFunction(Function):
    """A `cond` whose gradient is the `cond` of the branches' gradients."""

    @staticmethod
    def forward(ctx: Any, pred: Any, true_fn: Branch, false_fn: Branch, *operands: Any) -> Any:
        ctx.pred, ctx.branches = pred, (true_fn, false_fn)
        ctx.save_for_backward(*operands)
        ctx.count = len(operands)
        ctx.set_materialize_grads(True)
        return cond_op.go_on(pred, true_fn, false_fn, list(operands))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        operands = ctx.saved_tensors
        needs = ctx.needs_input_grad[3:]
        true_grad, false_grad = [
            gradient_of(branch, len(operands), needs) for branch in ctx.branches
        ]
        found = iter(cond_op(ctx.pred, true_grad, false_grad, [*operands, *grads]))
        return (None, None, None, *[next(found) if need else None for need in needs])


def gradient_of(branch: Branch, count: int, needs: Sequence[bool]) -> Branch:
    """A branch's gradient for the operands that need one, by running the branch again."""

    def run(*given: Any) -> Any:
        grads = given[count:]
        with changed(grad=True):
            operands = [
                value.detach().requires_grad_(bool(need)) for value, need in zip(given, needs)
            ]
            outputs = branch(*operands)
            pairs = [(y, g) for y, g in zip(outputs, grads, strict=True) if y.requires_grad]
            wanted = [value for value, need in zip(operands, needs) if need]
            found: Sequence[Any] = [None] * len(wanted)
            if pairs:
                found = gradients_of(
                    [y for y, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True
                )
        return tuple(
            functions.zeros_like(value) if grad is None else grad
            for value, grad in zip(wanted, found, strict=True)
        )

    return run


@cond_op.rule("autograd")
def _(pred: Any, true_fn: Branch, false_fn: Branch, operands: Sequence[Any]) -> Any:
    if not is_traced((pred, operands)):
        # The branch itself is differentiable, in what it closes over too.
        return choose(pred, true_fn, false_fn, operands)
    true_fn, false_fn = Watched("cond", true_fn), Watched("cond", false_fn)
    if not asks_gradient(operands):
        return cond_op.go_on(pred, true_fn, false_fn, operands)
    return CondFunction.apply(pred, true_fn, false_fn, *operands)


@cond_op.rule("functional")
def _(
    mode: FunctionalMode, pred: Any, true_fn: Branch, false_fn: Branch, operands: Sequence[Any]
) -> Any:
    branches = [functionalized(mode, "cond", branch) for branch in (true_fn, false_fn)]
    pred, operands = unwrapped((pred, list(operands)))
    with mode.below():
        result = cond_op.dispatch(pred, *branches, operands)
    return mode.wrapped(result)


@cond_op.rule("proxy")
def _(
    recorder: Recorder, pred: Any, true_fn: Branch, false_fn: Branch, operands: Sequence[Any]
) -> Any:
    traced = trace_functions(recorder, (true_fn, false_fn), operands)
    check_alike(*traced.outputs)
    operands = [*operands, *traced.lifted]
    names = ("true_graph", "false_graph")
    graphs = [recorder.submodule(name, m) for name, m in zip(names, traced.modules, strict=True)]
    inputs = (recorder.node_of(pred), *graphs, [recorder.node_of(value) for value in operands])
    node = recorder.graph.create_node("call_function", cond_op, inputs, name="conditional")
    with recorder.below():
        result = cond_op.dispatch(pred, *traced.modules, operands)
    recorder.track(result, node)
    return result


def check_alike(first: Sequence[Any], second: Sequence[Any]) -> None:
    if len(first) != len(second):
        raise error("RL0733", op="cond", first=len(first), second=len(second))
    for one, other in zip(first, second, strict=True):
        if likeness(one) != likeness(other):
            raise error("RL0733", op="cond", first=likeness(one), second=likeness(other))


@cond_op.rule("fake")
def _(mode: Any, pred: Any, true_fn: Branch, false_fn: Branch, operands: Sequence[Any]) -> Any:
    with reopened(), mode:
        result = true_fn(*operands)
        check_alike(result, false_fn(*operands))
    return result


@cond_op.rule("batch")
def _(
    level: VmapLevel, pred: Any, true_fn: Branch, false_fn: Branch, operands: Sequence[Any]
) -> Any:
    if isinstance(pred, BatchedTensor):
        # Samples differ in their branch: both run, and each sample takes its own.
        first, second = true_fn(*operands), false_fn(*operands)
        pairs = zip(first, second, strict=True)
        return tuple(functions.where(pred, one, other) for one, other in pairs)
    if is_traced((pred, operands)):
        raise error("RL0310", NotImplementedError, op="cond", layer="batch", who="a traced vmap")
    return choose(pred, true_fn, false_fn, operands)
