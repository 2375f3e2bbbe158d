"""What the laws are stated about: samples of ops as functions of real tensors.

A subject's function takes the floating point tensors with a derivative, in float64, and answers a
tuple of float64 tensors; everything else about the sample stays fixed. A complex tensor counts as
two real ones, its parts, so that every law has the same words for complex ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.core import dtype as dtypes
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor, strides_of, values_of, wrap
from rushlight.opset import registry
from rushlight.opset.samples.maker import Sample, uniform
from tests.opset.test_gradients import OPS, cases_of, prepared

__all__ = ["OPS", "InPlace", "Subject", "filler", "name_of", "reversed_order", "subjects_of"]

# They read one triangle of a matrix: a function of Hermitian matrices alone.
HERMITIAN = (
    "_linalg_eigh", "cholesky", "linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh",
    "linalg_eigvalsh",
)  # fmt: skip
NO_DERIVATIVE = (
    "does not support automatic differentiation",
    "negative slope",
    "not implemented for",
    "non-zero size for non-batch dimensions",
)


def name_of(op: Any) -> str:
    return str(op.name().removeprefix("aten::"))


class InPlace:
    """An op's in-place form on a part of a larger tensor, which is the result."""

    def __init__(self, op: OpOverload) -> None:
        self.op = op
        self.twin = getattr(registry.packet(op.base_name + "_"), op._overloadname)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def __call__(self, first: Any, *rest: Any, **named: Any) -> Any:
        whole = torch.stack([first, first])
        self.twin(whole.select(0, 1), *rest, **named)
        return whole


def reads_one_triangle(op: Any, case: Sample) -> bool:
    if "hermitian" in op.argument_names:
        position = op.argument_names.index("hermitian")
        given = case.args[position] if position < len(case.args) else False
        return bool(case.kwargs.get("hermitian", given))
    return name_of(op) in HERMITIAN


class Subject:
    """A function of real tensors that one sample of an op makes, and the point it is taken at."""

    def __init__(self, op: Any, case: Sample, dtype: Any, whole: Any, slots: list[Any]) -> None:
        self.op = op
        self.case = case
        self.dtype = dtype
        is_hermitian = reads_one_triangle(op, case)
        fixed = [slot.detach() for slot in slots]
        chosen = [
            i
            for i, slot in enumerate(slots)
            if slot.requires_grad and slot.numel() and has_derivative(whole, fixed, i)
        ]
        pairs = [fixed[i].dtype.is_complex for i in chosen]
        self.inputs: list[Tensor] = []
        for i, is_pair in zip(chosen, pairs, strict=True):
            parts = (fixed[i].real, fixed[i].imag) if is_pair else (fixed[i],)
            self.inputs += [part.clone() if is_pair else part for part in parts]

        def function(*inputs: Any) -> tuple[Any, ...]:
            left = list(inputs)
            filled: list[Any] = list(fixed)
            for i, is_pair in zip(chosen, pairs, strict=True):
                value = left.pop(0)
                value = torch.complex(value, left.pop(0)) if is_pair else value
                filled[i] = (value + value.mH) / 2 if is_hermitian and value.dim() > 1 else value
            found: list[Any] = []
            for out in whole(*filled):
                found += [out.real, out.imag] if out.dtype.is_complex else [out]
            return tuple(found)

        self.function: Callable[..., tuple[Any, ...]] = function
        self.outputs = function(*self.inputs)
        # Writes of what varies to what is fixed are refused.
        is_writable = not isinstance(op, InPlace) or 0 in chosen
        self.is_usable = (
            bool(chosen) and is_writable and all(is_double(out) for out in self.outputs)
        )

    @property
    def size(self) -> int:
        return sum(value.numel() for value in self.inputs)

    def scalar(self, *inputs: Any) -> Any:
        """A scalar function: the results weighed with fixed numbers."""
        parts = [
            (out * filler(out, number)).sum() for number, out in enumerate(self.function(*inputs))
        ]
        return sum(parts[1:], parts[0])

    def tangents(self, seed: int = 0) -> tuple[Any, ...]:
        return tuple([filler(value, 100 + seed + i) for i, value in enumerate(self.inputs)])

    def cotangents(self, seed: int = 0) -> tuple[Any, ...]:
        return tuple([filler(value, 200 + seed + i) for i, value in enumerate(self.outputs)])


def is_double(value: Tensor) -> bool:
    return value.dtype is dtypes.float64 and bool(np.isfinite(values_of(value)).all())


def has_derivative(function: Any, values: list[Any], position: int) -> bool:
    """Whether results depend on an argument in a way that the op's record can differentiate."""
    point = values[position].clone().requires_grad_()
    outputs = function(*values[:position], point, *values[position + 1 :])
    roots = [out.abs().sum() for out in outputs if out.requires_grad]
    if not roots:
        return False
    try:
        torch.autograd.grad(sum(roots[1:], roots[0]), point, allow_unused=True)
    except Exception as error:
        # torch: some say so in words of their own.
        says_so = any(words in str(error) for words in NO_DERIVATIVE)
        if not says_so and getattr(error, "code", None) not in ("RL0603", "RL0611"):
            raise
        return False
    return True


def filler(like: Any, seed: int) -> Any:
    """Fixed numbers within [-1, 1) for a tensor's sizes."""
    shape = tuple(like.shape)
    count = int(np.prod(shape))
    return wrap((uniform(0x1A35 << 16 | seed, count) * 2 - 1).reshape(shape), dtypes.float64)


def reversed_order(value: Tensor) -> Tensor:
    """The same values in another order, with the same strides: a point that most ops take."""
    array = np.array(values_of(value))
    turned = array.reshape(-1)[::-1].copy().reshape(array.shape)
    made: Tensor = torch.empty_strided(value.shape, strides_of(value), dtype=value.dtype)
    return made.copy_(wrap(turned, value.dtype))


def subjects_of(op: OpOverload, limit: int, largest: int, in_place: bool) -> list[Subject]:
    """A few subjects: small ones spread over the samples, the smallest if none is small.

    With `in_place` they are of the form that writes, where there is one."""
    if in_place and op.options.get("inplace") and not op._schema.is_mutable:
        found = usable_subjects(InPlace(op), limit, largest)
        if found:
            return found
    return usable_subjects(op, limit, largest)


def usable_subjects(op: Any, limit: int, largest: int) -> list[Subject]:
    found = []
    for dtype, wanted in ((dtypes.float64, limit), (dtypes.complex128, max(limit // 2, 1))):
        made = []
        for case in cases_of(op, dtype, 10**6):
            try:
                whole, slots = prepared(op, dtype, case)
                whole(*slots)
            except Exception:
                continue  # refused for this dtype: the recorded results say whether rightly
            subject = Subject(op, case, dtype, whole, slots)
            if subject.is_usable:
                made.append(subject)
        made = [s for s in made if dtype is dtypes.float64 or len(s.inputs) > 1]
        small = [s for s in made if s.size <= largest] or sorted(made, key=lambda s: s.size)[:1]
        found += small[:: max(1, -(-len(small) // wanted))]
    return found
