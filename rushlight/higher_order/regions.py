"""Regions: functions that graphs keep apart, for what holds inside of them.

All but `strict_mode` have one rule for every layer: the function runs inside its region, and each
layer sees what it does. Graphs with calls of them come from other tracers than this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.checkpoint import checkpoint
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import enable_grad as enable_grad_mode
from rushlight.autograd.grad_mode import is_grad_enabled, no_grad, set_grad_enabled
from rushlight.base import pytree
from rushlight.core.hop import RULES, HigherOrderOperator
from rushlight.core.tensor import Tensor
from rushlight.higher_order.structured import Call, ControlFlowOp, Operands, filled, gradient_of
from rushlight.higher_order.subgraphs import reopened

__all__ = ["autograd_function_apply", "strict_mode", "strict_mode_op", "tag_activation_checkpoint"]
__all__ += ["Region", "wrap", "wrap_activation_checkpoint", "wrap_with_set_grad_enabled"]

Body = Callable[..., Any]


class Region(HigherOrderOperator):
    """An op whose rule for every layer is to run the function."""

    def __init__(self, name: str, run: Body) -> None:
        super().__init__(name, cacheable=True)
        self.run = run
        self.__doc__ = run.__doc__
        self.rules.update(dict.fromkeys(RULES, lambda layer, *args, **kw: run(*args, **kw)))
        self.rules.update(eager=run, autograd=run)

    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


def run_plainly(function: Body, *args: Any, **kwargs: Any) -> Any:
    """`wrap(function, *args)`: the function as it is."""
    return function(*args, **kwargs)


def run_with_grad_mode(enable_grad: bool, function: Body, *args: Any, **kwargs: Any) -> Any:
    """`wrap_with_set_grad_enabled(enable_grad, function, *args)`."""
    with enable_grad_mode() if enable_grad else no_grad():
        return function(*args, **kwargs)


CHECKPOINT_OPTIONS = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check")
CHECKPOINT_OPTIONS += ("debug",)


def run_checkpointed(function: Body, *args: Any, **kwargs: Any) -> Any:
    """`tag_activation_checkpoint(function, *args, **kwargs)`: the backward computes again what the
    function does; in a graph its nodes are marked so."""
    options = {name: kwargs[name] for name in kwargs if name in CHECKPOINT_OPTIONS}
    rest = {name: value for name, value in kwargs.items() if name not in options}
    options["use_reentrant"] = False
    return checkpoint(function, *args, **options, **rest)


def apply_function(
    fwd: Body,
    bwd: Body,
    *args: Any,
    args_tensor_mask: Sequence[bool] = (),
    non_differentiable_idx: Sequence[int] = (),
) -> Any:
    """`autograd_function_apply(fwd, bwd, *args, ...)`: a Function as two bodies. `fwd` takes None
    and the arguments, and gives results and what is kept; `bwd` takes None, gradients and that.
    Only the first arguments, one for each flag that is set, have gradients."""
    count = sum(args_tensor_mask) if args_tensor_mask else len(args)
    lifted = args[count:]

    class ApplyTemplate(Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            outputs, saved = fwd(None, *given, *lifted)
            ctx.others = [None if isinstance(value, Tensor) else value for value in saved]
            ctx.save_for_backward(*[v if isinstance(v, Tensor) else None for v in saved])
            if non_differentiable_idx:
                flat = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
                ctx.mark_non_differentiable(*[flat[n] for n in non_differentiable_idx])
            return outputs

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
            saved = [other if value is None else value for value, other in pairs]
            with set_grad_enabled(is_grad_enabled()):
                # A body may leave another mode than it found.
                return bwd(None, *grads, *saved)

    return ApplyTemplate.apply(*args[:count])


wrap = Region("wrap", run_plainly)
wrap_with_set_grad_enabled = Region("wrap_with_set_grad_enabled", run_with_grad_mode)
tag_activation_checkpoint = Region("tag_activation_checkpoint", run_checkpointed)
wrap_activation_checkpoint = Region("wrap_activation_checkpoint", run_checkpointed)
autograd_function_apply = Region("autograd_function_apply", apply_function)
# torch: where graphs name them.
autograd_function_apply.__module__ = "torch._functorch.autograd_function"
wrap_with_set_grad_enabled.__module__ = "torch._higher_order_ops.wrap"


# -- strict mode -----------------------------------------------------------------------------------


def strict_mode(callable: Body, operands: Any) -> Any:
    """`callable(*operands)`, kept as one op in graphs.

    >>> import rushlight as torch
    >>> from rushlight.higher_order.regions import strict_mode
    >>> strict_mode(lambda x, y: x + y, (torch.tensor(1), torch.tensor(2)))
    tensor(3)
    """
    leaves, structure = pytree.tree_flatten(tuple(operands))
    shape: list[Any] = []

    def flat(*given: Any) -> Any:
        result = callable(*pytree.tree_unflatten(list(given), structure))
        found, result_structure = pytree.tree_flatten(result)
        shape[:] = [result_structure]
        return tuple(found)

    result = strict_mode_op(flat, leaves)
    return pytree.tree_unflatten(list(result), shape[0])


class StrictModeOp(ControlFlowOp):
    """`strict_mode(callable, operands)`."""

    def compute(self, function: Body, operands: Operands) -> Any:
        return tuple(function(*operands))

    def infer(self, mode: Any, function: Body, operands: Operands) -> Any:
        with reopened(), mode:
            return tuple(function(*operands))

    def noted(self, recorder: Any, group: Operands) -> Any:
        return tuple(super().noted(recorder, group))

    def pullback(
        self, call: Call, operands: Operands, results: Operands, grads: Operands, needs: Operands
    ) -> Sequence[Any]:
        backward = gradient_of(call.functions[0], len(operands), needs)
        found = iter(self(backward, [*operands, *filled(results, grads)]))
        return [next(found) if need else None for need in needs]


strict_mode_op = StrictModeOp("strict_mode", ("strict_graph",))
