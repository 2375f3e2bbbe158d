"""Dropout: elements, features and channels set to zero, or to the saturation of SELU."""

from __future__ import annotations

import math
from typing import Any

from rushlight.arrays import sampling
from rushlight.core import dtype as dtypes
from rushlight.core.dispatch import call
from rushlight.core.op import OpOverload
from rushlight.core.rng import default_generator
from rushlight.opset.copy import preserved
from rushlight.opset.create import empty_like
from rushlight.opset.kinds import RANDOM, Spec
from rushlight.opset.random import SEEDED, SEEDED_FUNCTION
from rushlight.opset.registry import composite, find, op


def check_dropout(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


@composite("dropout(Tensor input, float p, bool train) -> Tensor", **SEEDED_FUNCTION)
def dropout(input: Any, p: float, train: bool) -> Any:
    check_dropout(p)
    if p == 0 or not train or input.numel() == 0:
        return input
    return input.mul(keep_mask(input, p, input.shape))


def zero_of(input: Any) -> Any:
    return call(find("zeros"), ((), input._dtype, input.layout, input.device, None))


def keep_mask(input: Any, p: float, shape: Any) -> Any:
    """What dropout multiplies by: 0 or the reciprocal of the chance to be kept."""
    if p == 1:
        return zero_of(input)
    like = tuple(shape) == tuple(input.shape)
    noise = empty_like(input) if like else input.new_empty(shape)
    return noise.bernoulli_(1 - p).div_(1 - p)


@composite("dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", **SEEDED_FUNCTION)
def dropout_(self: Any, p: float, train: bool) -> Any:
    check_dropout(p)
    if p == 0 or not train or self.numel() == 0:
        return self
    return self.mul_(keep_mask(self, p, self.shape))


def feature_shape(input: Any) -> tuple[Any, ...]:
    """One number for each channel of each sample."""
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*input.shape[:2], *(1,) * (input.dim() - 2))


@composite("feature_dropout(Tensor input, float p, bool train) -> Tensor", **SEEDED_FUNCTION)
def feature_dropout(input: Any, p: float, train: bool) -> Any:
    check_dropout(p)
    if p == 0 or not train or input.numel() == 0:
        return input
    return input.mul(keep_mask(input, p, feature_shape(input)))


# The negative saturation value of SELU, which alpha dropout puts in place of what it drops.
SELU_SATURATION = 1.7580993408473766


def alpha_dropped(input: Any, p: float, train: bool, shape: Any) -> Any:
    check_dropout(p)
    if p == 0 or not train or input.numel() == 0:
        return input
    if p == 1:
        return input.mul(zero_of(input))
    like = shape is None
    noise = empty_like(input) if like else input.new_empty(shape)
    noise.bernoulli_(1 - p)
    scale = 1.0 / math.sqrt((SELU_SATURATION * SELU_SATURATION * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(SELU_SATURATION * scale).add_(SELU_SATURATION * scale * p)
    return input.mul(noise.mul_(scale)).add_(shift)


@composite("alpha_dropout(Tensor input, float p, bool train) -> Tensor", **SEEDED_FUNCTION)
def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    return alpha_dropped(input, p, train, None)


@composite("feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", **SEEDED_FUNCTION)
def feature_alpha_dropout(input: Any, p: float, train: bool) -> Any:
    return alpha_dropped(input, p, train, feature_shape(input))


native_dropout = op(
    "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    kind=RANDOM,
    method=False,
    layout="shape",
    tags=SEEDED,
    non_differentiable=(1,),
    vjp=lambda grad, result1, p, train: native_dropout_backward(
        grad, result1, dropout_scale(p, train)
    ),
)


def dropout_scale(p: float, train: bool | None) -> float:
    if not train:
        return 1.0
    return 0.0 if p == 1 else 1.0 / (1.0 - p)


@native_dropout.shape
def _(input: Any, p: float, train: bool | None) -> Any:
    # torch: outside training any dtype passes; the noise is floating point.
    if train is not False and input.numel() and input._dtype.category < dtypes.FLOAT:
        name = input._dtype.scalar_type_name
        raise RuntimeError(f"result type Float can't be cast to the desired output type {name}")
    strides = preserved(input, None)
    return Spec(input.shape, input._dtype, strides), Spec(input.shape, dtypes.bool_, strides)


@native_dropout.kernel
def _(xp: Any, input: Any, p: float, train: bool | None) -> Any:
    if train is False or input.size == 0:
        return input.copy(), xp.ones(input.shape, xp.bool_)
    if p == 1:
        return xp.zeros(input.shape, input.dtype), xp.zeros(input.shape, xp.bool_)
    mask = sampling.bernoulli(default_generator, 1 - p, input.shape, xp.bool_)
    kept = xp.where(mask, input, xp.zeros((), input.dtype))
    scale = xp.asarray(1.0 / (1.0 - p)).astype(input.dtype)
    return kept * scale, mask


native_dropout_backward: OpOverload = op(
    "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
    method=False,
    layout="shape",
    differentiable=["grad_output"],
    vjp=lambda grad, mask, scale: grad * mask * scale,
)


@native_dropout_backward.shape
def _(grad_output: Any, mask: Any, scale: float) -> Any:
    kind = product_dtype(grad_output._dtype)
    return Spec(grad_output.shape, kind, preserved(grad_output, None))


def product_dtype(kind: Any) -> Any:
    """What a product with a float has."""
    return dtypes.get_default_dtype() if kind.category < dtypes.FLOAT else kind


@native_dropout_backward.kernel
def _(xp: Any, grad_output: Any, mask: Any, scale: float) -> Any:
    kind = product_dtype(dtypes.from_numpy(grad_output.dtype)).np
    return (grad_output * mask * xp.asarray(scale).astype(kind)).astype(kind)


for record in (dropout, dropout_, alpha_dropout, native_dropout):
    record.samples = lambda make: ((make(2, 3), 0.5, True), (make.strided(2, 3), 0.2, False))
for record in (feature_dropout, feature_alpha_dropout):
    record.samples = lambda make: ((make(2, 3, 2), 0.5, True), (make(2, 3, 2), 0.5, False))
native_dropout_backward.samples = lambda make: ((make(2, 3), make.mask(2, 3), 2.0),)
