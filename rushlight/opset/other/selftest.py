"""Ops that exist to test the engine: a derivative per layout, and a warning inside backward."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace
from rushlight.core.op import refuse
from rushlight.opset.kinds import Spec
from rushlight.opset.registry import composite, op, view
from rushlight.opset.rules import aten, linear_in

# Ops that this module hands out without their leading underscore.
NAMES = (
    "test_autograd_multiple_dispatch",
    "test_autograd_multiple_dispatch_view",
    "test_autograd_multiple_dispatch_view_copy",
    "test_warn_in_autograd",
)


full = op(
    "_test_autograd_multiple_dispatch.fullcoverage(Tensor self) -> Tensor",
    method=False,
    batch="straight",
    layout="like",
    kernel=lambda xp, self: self.copy(),
    shape=lambda self: Spec(self.shape, self._dtype),
    vjp=lambda grad: grad + 1,
    jvp="linear",
)
full.samples = lambda make: [(make(2, 3),)]


@composite("_test_autograd_multiple_dispatch.ntonly(Tensor self, bool b) -> Tensor", method=False)
def nested_only(self: Any, b: bool) -> Any:
    return self.clone()


nested_only.samples = lambda make: [(make(2, 3), True)]


def flat_view(self: Any) -> Any:
    from rushlight.core import geometry
    from rushlight.core.tensor import sizes_of, strides_of

    count = self.numel()
    steps = geometry.view_strides(sizes_of(self), strides_of(self), (count,))
    if steps is None:
        raise RuntimeError("the tensor cannot be flattened without a copy")
    return (count,), steps, self._offset


flat = view(
    "_test_autograd_multiple_dispatch_view(Tensor(a) self) -> Tensor(a)",
    method=False,
    shape=flat_view,
    vjp=lambda grad, self_shape: grad.reshape(self_shape),
)
flat.samples = lambda make: [(make(2, 3),)]

flat_copy = op(
    "_test_autograd_multiple_dispatch_view_copy(Tensor self) -> Tensor",
    method=False,
    batch=lambda level, op, self: self.reshape((-1,)).clone(),
    kernel=lambda xp, self: self.reshape(-1).copy(),
    shape=lambda self: Spec((self.numel(),), self._dtype),
    vjp=lambda grad, self_shape: grad.reshape(self_shape),
)
flat_copy.jvp = linear_in("self")
flat_copy.samples = lambda make: [(make(2, 3),)]


def warn(grad: Any) -> Any:
    import warnings

    warnings.warn("Warn from backward", stacklevel=2)
    return grad.clone()


warning = op(
    "_test_warn_in_autograd(Tensor self) -> Tensor",
    method=False,
    function=False,
    layout="like",
    kernel=lambda xp, self: self.copy(),
    shape=lambda self: Spec(self.shape, self._dtype),
    vjp=warn,
    samples=refuse("its backward warns on purpose"),
)


__getattr__, __dir__ = namespace(
    __name__, make=lambda name: getattr(aten, f"_{name}") if name in NAMES else None, names=NAMES
)
