"""Dropout: elements, features and channels set to zero, or to the saturation of SELU."""

from __future__ import annotations

import math
from typing import Any

from rushlight.arrays import sampling
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call
from rushlight.core.op import OpOverload
from rushlight.core.rng import default_generator
from rushlight.core.state import LOCAL
from rushlight.opset.creation.copy import preserved
from rushlight.opset.creation.create import empty, empty_like
from rushlight.opset.creation.random import (
    SEEDED,
    SEEDED_FUNCTION,
    drawn_in,
    element_strides,
)
from rushlight.opset.kinds import RANDOM, Spec
from rushlight.opset.registry import composite, find, op


def check_dropout(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


def zero_of(input: Any) -> Any:
    return call(find("zeros"), ((), input._dtype, input.layout, input.device, None))


def multiplied(input: Any, factor: Any, inplace: bool) -> Any:
    return input.mul_(factor) if inplace else input.mul(factor)


def kept(input: Any, p: float, by_feature: bool) -> Any:
    """1 where an element, or a channel of a sample, is kept, and 0 where it is dropped."""
    if by_feature and input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    shape = (*input.shape[:2], *(1,) * (input.dim() - 2)) if by_feature else tuple(input.shape)
    if LOCAL.state.transforms:
        # Whether noise varies along a batch is for its `vmap` to say, and not for the input.
        return empty(shape, dtype=input.dtype, device=input.device).bernoulli(1 - p)
    return (input.new_empty(shape) if by_feature else empty_like(input)).bernoulli_(1 - p)


def dropped(input: Any, p: float, train: bool, by_feature: bool, inplace: bool) -> Any:
    check_dropout(p)
    if p == 0 or not train or geometry.is_size(input.numel(), 0):
        return input
    if p == 1:
        return multiplied(input, zero_of(input), inplace)
    return multiplied(input, kept(input, p, by_feature).div_(1 - p), inplace)


# The negative saturation value of SELU, which alpha dropout puts in place of what it drops.
SELU_SATURATION = 1.7580993408473766


def alpha_dropped(input: Any, p: float, train: bool, by_feature: bool, inplace: bool) -> Any:
    check_dropout(p)
    if p == 0 or not train or geometry.is_size(input.numel(), 0):
        return input
    if p == 1:
        return multiplied(input, zero_of(input), inplace)
    noise = kept(input, p, by_feature)
    scale = 1.0 / math.sqrt((SELU_SATURATION * SELU_SATURATION * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(SELU_SATURATION * scale).add_(SELU_SATURATION * scale * p)
    return multiplied(input, noise.mul_(scale), inplace).add_(shift)


def define(name: str, body: Any, by_feature: bool, samples: Any) -> None:
    """A form of dropout and its in-place form."""
    for inplace in (False, True):
        first = "Tensor(a!) self" if inplace else "Tensor input"
        made = composite(
            f"{name}{'_' * inplace}({first}, float p, bool train) -> Tensor{'(a!)' * inplace}",
            **SEEDED_FUNCTION,
        )(lambda input, p, train, inplace=inplace: body(input, p, train, by_feature, inplace))
        made.samples = samples


def element_samples(make: Any) -> Any:
    yield make(2, 3), 0.5, True
    yield make.strided(2, 3), 0.2, False


def feature_samples(make: Any) -> Any:
    yield make(2, 3, 2), 0.5, True
    yield make(2, 3, 2), 0.5, False


define("dropout", dropped, False, element_samples)
define("feature_dropout", dropped, True, feature_samples)
define("alpha_dropout", alpha_dropped, False, element_samples)
define("feature_alpha_dropout", alpha_dropped, True, feature_samples)


def noise(generator: Any, shape: Any, dtype: Any, p: float) -> Any:
    return sampling.bernoulli(generator, p, shape, dtype)


native_dropout = op(
    "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    kind=RANDOM,
    batch="dropped",
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
    is_whole = input._dtype.category < dtypes.FLOAT
    if train is not False and is_whole and not geometry.is_size(input.numel(), 0):
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
    strides = geometry.like_strides(input.shape, element_strides(input))
    mask = drawn_in(noise, default_generator, input.shape, strides, xp.bool_, (1 - p,))
    scale = xp.asarray(1.0 / (1.0 - p)).astype(input.dtype)
    return input * mask * scale, mask


native_dropout_backward: OpOverload = op(
    "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
    batch="aligned",
    method=False,
    layout="shape",
    differentiable=["grad_output"],
    vjp=lambda grad, mask, scale: grad * mask * scale,
)


@native_dropout_backward.shape
def _(grad_output: Any, mask: Any, scale: float) -> Any:
    dtype = product_dtype(grad_output._dtype)
    return Spec(grad_output.shape, dtype, preserved(grad_output, None))


def product_dtype(dtype: Any) -> Any:
    """What a product with a float has."""
    return dtypes.get_default_dtype() if dtype.category < dtypes.FLOAT else dtype


@native_dropout_backward.kernel
def _(xp: Any, grad_output: Any, mask: Any, scale: float) -> Any:
    dtype = product_dtype(dtypes.from_numpy(grad_output.dtype)).np
    return (grad_output * mask * xp.asarray(scale).astype(dtype)).astype(dtype)


native_dropout.samples = element_samples
native_dropout_backward.samples = lambda make: ((make(2, 3), make.mask(2, 3), 2.0),)


def dropout_as_value(input: Any, p: float, train: bool) -> Any:
    check_dropout(p)
    return native_dropout(input, p, True)[0] if train and p != 0 else input.clone()


# torch: in graphs of ahead-of-time compilation the result is never the operand itself.
find("dropout").state({"functional_body": dropout_as_value})
find("dropout").errors = lambda make: [
    (RuntimeError, (make(3), 1.5, True)),
    (RuntimeError, (make(3), -0.1, True)),
]
find("feature_dropout").errors = lambda make: [(RuntimeError, (make(3), 0.5, True))]
find("alpha_dropout").errors = lambda make: [(RuntimeError, (make(3), 2.0, True))]
