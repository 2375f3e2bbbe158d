"""Batch norm as graphs have it: running statistics are arguments, results, or absent.

`native_batch_norm` writes to its running statistics without saying so. Functionalization replaces
it by one of these, which say what happens to them.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.history import check_inplace
from rushlight.core.op import OpOverload
from rushlight.core.state import LOCAL
from rushlight.opset.kinds import OPAQUE, Spec
from rushlight.opset.network.norm import native_batch_norm
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late

KERNEL = native_batch_norm.rules["kernel"]
SHAPE = native_batch_norm.rules["shape"]
FACTS: dict[str, Any] = {
    "kind": OPAQUE,
    "method": False,
    "out": False,
    "differentiable": ["input", "weight", "bias"],
    "layout": "shape",
    "batch": late("network.batched:batch_norm"),
}


def of_running(make: Any, *rest: Any) -> Any:
    """Samples with running statistics; `rest` follows them."""
    for shape in ((3, 2), (2, 2, 3), (2, 2, 1, 2)):
        stats = make(2, low=-1, high=1), make.positive(2)
        yield make(*shape), make(2), make(2), *stats, *rest, 0.1, 1e-5
    yield make(3, 2), None, None, make(2), make.positive(2), *rest, 0.1, 1e-5


# -- statistics as results -------------------------------------------------------------------------

legit_functional = op(
    "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, "
    "Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) "
    "-> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
    non_differentiable=(1, 2, 3, 4),
    function=False,
    lower="normalised_by_batch",
    **FACTS,
)


@legit_functional.shape
def _(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    three = SHAPE(input, weight, bias, running_mean, running_var, training, momentum, eps)
    kept = [Spec(stats.shape, stats._dtype) for stats in (running_mean, running_var)]
    return (*three, *kept)


@legit_functional.kernel
def _(
    xp: Any, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    mean, variance = running_mean.copy(), running_var.copy()
    three = KERNEL(xp, input, weight, bias, mean, variance, training, momentum, eps)
    return (*three, mean, variance)


@legit_functional.vjp
def _(
    grad: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, training: Any,
    eps: Any, result1: Any, result2: Any, needs: Any,
) -> Any:  # fmt: skip
    return aten.native_batch_norm_backward(
        grad, input, weight, running_mean, running_var, result1, result2, training, eps, list(needs)
    )


@legit_functional.samples
def _(make: Any) -> Any:
    yield from of_running(make, True)
    yield from of_running(make, False)


# -- statistics not used, or not there -------------------------------------------------------------

no_training = op(
    "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, "
    "Tensor running_mean, Tensor running_var, float momentum, float eps) "
    "-> (Tensor, Tensor, Tensor)",
    non_differentiable=(1, 2),
    shape=lambda input, weight, bias, mean, var, momentum, eps: SHAPE(
        input, weight, bias, mean, var, False, momentum, eps
    ),
    kernel=lambda xp, input, weight, bias, mean, var, momentum, eps: KERNEL(
        xp, input, weight, bias, mean, var, False, momentum, eps
    ),
    samples=of_running,
    function=False,
    lower="normalised_as_known",
    **FACTS,
)


@no_training.vjp
def _(
    grad: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, eps: Any,
    result1: Any, result2: Any, needs: Any,
) -> Any:  # fmt: skip
    return aten.native_batch_norm_backward(
        grad, input, weight, running_mean, running_var, result1, result2, False, eps, list(needs)
    )


@composite(
    "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, "
    "Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, float eps) "
    "-> (Tensor, Tensor, Tensor)",
    method=False,
    out=False,
    samples=lambda make: [*of_running(make, True), *of_running(make, False)],
)
def legit(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    for stats in (running_mean, running_var):
        check_inplace(stats, LOCAL.state.grad, False)
    return aten.native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )


no_stats = op(
    "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, "
    "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    non_differentiable=(1, 2),
    node_index=1,
    shape=lambda input, weight, bias, training, momentum, eps: SHAPE(
        input, weight, bias, None, None, training, momentum, eps
    ),
    kernel=lambda xp, input, weight, bias, training, momentum, eps: KERNEL(
        xp, input, weight, bias, None, None, training, momentum, eps
    ),
    samples=lambda make: [
        (make(3, 2), make(2), make(2), True, 0.1, 1e-5),
        (make.strided(3, 2), make(2), make(2), True, 0.1, 1e-3),
        (make(2, 2, 3), make(2), None, True, 0.1, 1e-5),
    ],
    **FACTS,
)


@no_stats.vjp
def _(
    grad: Any, input: Any, weight: Any, training: Any, eps: Any, result1: Any, result2: Any,
    needs: Any,
) -> Any:  # fmt: skip
    return aten.native_batch_norm_backward(
        grad, input, weight, None, None, result1, result2, training, eps, list(needs)
    )


# -- functionalization -----------------------------------------------------------------------------


def run_functionalized(mode: Any, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """The form of the call that a graph without hidden writes has."""
    input, weight, bias, running_mean, running_var, training, momentum, eps = args
    if running_mean is None or running_var is None:
        if training and running_mean is None and running_var is None:
            return mode.run(no_stats, (input, weight, bias, training, momentum, eps))
        return mode.run(op, args)
    if not training:
        return mode.run(
            no_training, (input, weight, bias, running_mean, running_var, momentum, eps)
        )
    results = mode.run(legit_functional, args)
    for stats, updated in zip((running_mean, running_var), results[3:], strict=True):
        mode.replace(stats, updated.functional_value)
    return tuple(results[:3])
